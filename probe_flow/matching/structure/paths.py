"""Modules of one class at one path of the tree, whatever the outermost part of the path is called.

A network stands in a wrapper of the training framework: `Cell.network.backbone.conv1.Conv2d` is
`Module.module.backbone.conv1.Conv2d`. The outermost part is what all paths of a side begin with; how much of it to
leave out on each side is what most paths then agree in.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from itertools import product

from probe_flow.matching.structure.phase_tree import PhaseTree

MAX_OUTERMOST = 4
"""Levels of wrappers around a network."""

Path = tuple[str, ...]


def same_places(
    target: PhaseTree, golden: PhaseTree, linked: tuple[Collection[int], Collection[int]]
) -> list[tuple[int, int]]:
    """Return the modules without partner that have one class and one path below the outermost part, call by call.

    Args:
        target, golden: the trees.
        linked: the nodes of either side that have a partner.
    """
    paths = [_paths(tree) for tree in (target, golden)]
    if not all(paths):
        return []
    cut = _outermost(paths[0].values(), paths[1].values())
    places = [
        {_place(tree, number, path[length:]): number for number, path in mine.items() if number not in taken}
        for tree, mine, length, taken in zip((target, golden), paths, cut, linked, strict=True)
    ]
    return [(number, places[1][place]) for place, number in places[0].items() if place in places[1]]


def _paths(tree: PhaseTree) -> dict[int, Path]:
    """Return the path of each module with its class, by node number."""
    return {
        number: (*tree.traits[number].path.split("."), tree.side.nodes[number].op_type)
        for number in tree.numbers
        if tree.is_module(number)
    }


def _place(tree: PhaseTree, number: int, path: Path) -> Hashable:
    return path, tree.side.nodes[number].key.call


def _outermost(target: Collection[Path], golden: Collection[Path]) -> tuple[int, int]:
    """Return how many levels to leave out on each side: those that leave most paths in common, and the fewest."""
    ours, theirs = (range(min(_shared(list(paths)), MAX_OUTERMOST) + 1) for paths in (target, golden))
    counts = {
        (one, other): len({path[one:] for path in target} & {path[other:] for path in golden})
        for one, other in product(ours, theirs)
    }
    return max(counts, key=lambda cut: (counts[cut], -sum(cut)))


def _shared(paths: Sequence[Path]) -> int:
    """Return how many segments all paths begin with, classes aside."""
    first, last = min(paths), max(paths)
    longest = min(len(path) for path in paths) - 1
    return next((at for at in range(longest) if first[at] != last[at]), longest)
