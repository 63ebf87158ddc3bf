"""Pairing of two call trees from the root down, looking inside modules that only one side has.

Siblings under paired modules are aligned. Where a stretch of siblings fits badly, its modules are replaced by what they
hold, on either side or both, and the spelling that fits best is kept: that undoes an extra wrapper, a `Sequential`, a
module that the other side has inlined.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from probe_flow.matching.structure.align import Aligner, Link
from probe_flow.matching.structure.likeness import STRONG
from probe_flow.matching.structure.order import in_another_order
from probe_flow.matching.structure.tree import Tree

MAX_LEVELS = 4
"""Levels of modules that are looked through at once."""

MAX_LOOKED_AT = 60_000
"""Twosomes that are weighed to find the best spelling of one stretch, the shortest spellings first."""

MAX_ROUNDS = 8
"""Stretches within stretches."""

OF_ONE_SIZE = 0.6
"""Share of the larger module's nodes from which a smaller one is taken for the same without looking inside."""

_GAIN = 1e-6


def pair_trees(
    target: Tree,
    golden: Tree,
    callers: Iterable[tuple[int, int]],
    linked: tuple[Collection[int], Collection[int]] = ((), ()),
) -> list[Link]:
    """Return the links of what corresponding callers hold, from there down.

    Args:
        target, golden: the trees.
        callers: nodes that correspond; `ROOT` for the outermost ones' caller.
        linked: nodes of either side that have a partner already.
    """
    inside = _Inside(Aligner(target, golden), linked)
    links: list[Link] = []
    due = list(callers)
    while due:
        one, other = due.pop()
        found = inside.resolve(_held(target, one, linked[0]), _held(golden, other, linked[1]))
        links += found
        due += [
            (link.target[0], link.golden[0])
            for link in found
            if target.traits[link.target[0]].is_module and golden.traits[link.golden[0]].is_module
        ]
    return links


def _held(tree: Tree, number: int, linked: Collection[int]) -> list[int]:
    """Return what a module holds that has no partner already."""
    return [child for child in tree.children.get(number, ()) if child not in linked]


class _Inside:
    def __init__(self, aligner: Aligner, linked: tuple[Collection[int], Collection[int]]) -> None:
        self.aligner = aligner
        self.linked = linked

    def resolve(self, target: Sequence[int], golden: Sequence[int], rounds: int = MAX_ROUNDS) -> list[Link]:
        """Return the links of two lists of siblings, modules of badly fitting stretches looked into."""
        links = self.aligner.align(target, golden)
        is_settled = len(links) == len(target) == len(golden) and all(self._is_strong(link) for link in links)
        if rounds == 0 or is_settled:
            return in_another_order(self.aligner, target, golden, links)
        result: list[Link] = []
        for mine, theirs, weak in self._stretches(target, golden, links):
            if len(weak) == 1 and self._is_strong(weak[0]):
                result += weak
                continue
            better = self._looked_into(mine, theirs, weak)
            result += weak if better is None else self.resolve(*better, rounds - 1)
        return in_another_order(self.aligner, target, golden, result)

    def _is_strong(self, link: Link) -> bool:
        weights = [
            sum(tree.traits[number].weight for number in numbers)
            for tree, numbers in ((self.aligner.target, link.target), (self.aligner.golden, link.golden))
        ]
        return link.likeness >= STRONG and min(weights) >= OF_ONE_SIZE * max(weights)

    def _stretches(
        self, target: Sequence[int], golden: Sequence[int], links: Sequence[Link]
    ) -> Iterator[tuple[Sequence[int], Sequence[int], list[Link]]]:
        """Yield strong links by themselves, and the stretches between them with their weak links."""
        row = column = 0
        weak: list[Link] = []
        for link in links:
            if not self._is_strong(link):
                weak.append(link)
                continue
            row_at, column_at = target.index(link.target[0], row), golden.index(link.golden[0], column)
            yield target[row:row_at], golden[column:column_at], weak
            row, column, weak = row_at + len(link.target), column_at + len(link.golden), []
            yield link.target, link.golden, [link]
        yield target[row:], golden[column:], weak

    def _looked_into(
        self, target: Sequence[int], golden: Sequence[int], links: Sequence[Link]
    ) -> tuple[list[int], list[int]] | None:
        """Return the spelling of a stretch, modules replaced by what they hold, that fits better than it stands."""
        if not target or not golden:
            return None
        best = sum(self.aligner.gain(link) for link in links) + _GAIN
        found: tuple[list[int], list[int]] | None = None
        alone = [
            set(target).difference(*(link.target for link in links)),
            set(golden).difference(*(link.golden for link in links)),
        ]
        sides = (self.aligner.target, self.aligner.golden)
        spellings = [
            [list(numbers), *_expanded(tree, numbers, only, linked), *_expanded(tree, numbers, None, linked)]
            for tree, numbers, only, linked in zip(sides, (target, golden), alone, self.linked, strict=True)
        ]
        choices = sorted(
            (len(mine) * len(theirs), first, second)
            for first, mine in enumerate(spellings[0])
            for second, theirs in enumerate(spellings[1])
            if first or second
        )
        budget = MAX_LOOKED_AT
        for cells, first, second in choices:
            if cells > budget:
                break
            budget -= cells
            mine, theirs = spellings[0][first], spellings[1][second]
            total = sum(self.aligner.gain(link) for link in self.aligner.align(mine, theirs))
            if total > best:
                best, found = total + _GAIN, (mine, theirs)
        return found


def _expanded(tree: Tree, numbers: Sequence[int], only: set[int] | None, linked: Collection[int]) -> list[list[int]]:
    """Return a list of siblings with modules replaced by what they hold, one more level each time."""
    found: list[list[int]] = []
    now, due = list(numbers), only
    for _ in range(MAX_LEVELS):
        below: list[int] = []
        opened: set[int] = set()
        for number in now:
            children = _held(tree, number, linked) if due is None or number in due else None
            if children:
                below += children
                opened.update(children)
            else:
                below.append(number)
        if not opened:
            break
        found.append(below)
        now, due = below, None if only is None else opened
    return found
