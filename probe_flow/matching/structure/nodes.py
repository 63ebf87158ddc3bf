"""Which nodes of two executions correspond by structure: forwards as trees, everything else through its forward."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.matching.name.side import Side
from probe_flow.matching.structure.align import MAX_CELLS_UNCUT, Aligner, Link
from probe_flow.matching.structure.inside import pair_trees
from probe_flow.matching.structure.likeness import STRONG
from probe_flow.matching.structure.paths import same_places
from probe_flow.matching.structure.phase_tree import PhaseTree, is_module
from probe_flow.records import Phase
from probe_flow.relations.call_tree import ROOT

LEFT_OVER = 0.8
"""Likeness from which calls whose callers do not correspond are paired, between neighbours that do."""

SAME_NAME = 0.95
"""Likeness of two nodes of which only the name is known."""


class NodeLinks(Struct):
    """The links of two executions, by node number of either side; the trees they were found in."""

    links: list[Link] = field(default_factory=list)
    of_target: dict[int, Link] = field(default_factory=dict)
    of_golden: dict[int, Link] = field(default_factory=dict)
    trees: dict[Phase, tuple[PhaseTree, PhaseTree]] = field(default_factory=dict)

    def add(self, links: Iterable[Link]) -> None:
        """Record links of nodes that have none yet."""
        for link in links:
            if any(n in self.of_target for n in link.target) or any(n in self.of_golden for n in link.golden):
                continue
            self.links.append(link)
            self.of_target.update(dict.fromkeys(link.target, link))
            self.of_golden.update(dict.fromkeys(link.golden, link))

    def golden_of(self, number: int) -> int | None:
        """Return the only counterpart of a target node."""
        link = self.of_target.get(number)
        return link.golden[0] if link is not None and len(link.golden) == len(link.target) == 1 else None

    def module_names(self, target: Side, golden: Side) -> dict[str, str]:
        """Return name of each paired target module -> name of the golden module that most of its calls have."""
        votes: dict[str, Counter[str]] = {}
        for link in self.links:
            one, other = target.nodes[link.target[0]], golden.nodes[link.golden[0]]
            if is_module(one) and is_module(other):
                votes.setdefault(one.key.name, Counter())[other.key.name] += 1
        return {name: counts.most_common(1)[0][0] for name, counts in votes.items()}


def link_nodes(target: Side, golden: Side) -> NodeLinks:
    """Link the nodes of two executions."""
    found = NodeLinks()
    interned: dict[Hashable, int] = {}
    forwards = [
        [n for n in side.numbers(Phase.FORWARD) if n not in side.repeats and n not in lone]
        for side, lone in ((target, target.lone_updates(golden)), (golden, golden.lone_updates(target)))
    ]
    _link_phase(found, Phase.FORWARD, (target, golden), forwards, interned)
    _link_repeats(found, target, golden)
    orphans = _link_backwards(found, target, golden)
    _link_phase(found, Phase.BACKWARD, (target, golden), orphans, interned)
    _link_gradients(found, target, golden)
    return found


def _link_phase(
    found: NodeLinks,
    phase: Phase,
    sides: tuple[Side, Side],
    numbers: Sequence[Sequence[int]],
    interned: dict[Hashable, int],
) -> None:
    """Link what is called in one phase as two trees."""
    are_trees = all(side.calls.has_callers for side in sides)
    trees = [
        PhaseTree(side, mine, knows_callers=are_trees, interned=interned)
        for side, mine in zip(sides, numbers, strict=True)
    ]
    found.trees[phase] = trees[0], trees[1]
    if all(numbers):
        found.add(pair_trees(trees[0], trees[1], [(ROOT, ROOT)]))
        _link_same_places(found, trees[0], trees[1])
        _link_left_over(found, trees[0], trees[1])


def _link_same_places(found: NodeLinks, target: PhaseTree, golden: PhaseTree) -> None:
    """Link modules that are left over although class and path are the same, and then what they hold."""
    aligner = Aligner(target, golden)
    twosomes = same_places(target, golden, (found.of_target, found.of_golden))
    for one, other in twosomes:
        likeness = max(STRONG, aligner.likeness(one, other))
        found.add([Link((one,), (other,), likeness, is_same_place=True)])
    found.add(pair_trees(target, golden, twosomes, (found.of_target, found.of_golden)))


def _link_left_over(found: NodeLinks, target: PhaseTree, golden: PhaseTree) -> None:
    """Link calls that are left over on both sides between the same neighbours, whatever their callers are."""
    anchors = _increasing(
        [
            (number, link.golden[0])
            for number in target.numbers
            if (link := found.of_target.get(number)) is not None and link.target[0] == number
        ]
    )
    lone = [
        [number for number in tree.numbers if number not in linked]
        for tree, linked in ((target, found.of_target), (golden, found.of_golden))
    ]
    if not all(lone):
        return
    places = [[pair[0] for pair in anchors], [pair[1] for pair in anchors]]
    stretches: dict[int, tuple[list[int], list[int]]] = {}
    for which, numbers in enumerate(lone):
        for number in numbers:
            stretches.setdefault(bisect_left(places[which], number), ([], []))[which].append(number)
    aligner = Aligner(target, golden)
    for mine, theirs in stretches.values():
        if mine and theirs and len(mine) * len(theirs) <= MAX_CELLS_UNCUT:
            links = aligner.align(mine, theirs)
            found.add(replace(link, is_moved=True) for link in links if link.likeness >= LEFT_OVER)


def _increasing(twosomes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return a longest part of twosomes, in the order of their first elements, whose second elements increase."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for place, (_, second) in enumerate(twosomes):
        at = bisect_left(ends, second)
        before.append(last[at - 1] if at else ROOT)
        if at == len(ends):
            ends.append(second)
            last.append(place)
        else:
            ends[at], last[at] = second, place
    chain: list[tuple[int, int]] = []
    place = last[-1] if last else ROOT
    while place != ROOT:
        chain.append(twosomes[place])
        place = before[place]
    return chain[::-1]


def _link_repeats(found: NodeLinks, target: Side, golden: Side) -> None:
    """Link recomputed forwards where both sides recompute."""
    again: dict[int, list[int]] = {}
    for number, first in golden.repeats.items():
        again.setdefault(first, []).append(number)
    for number, first in target.repeats.items():
        partner = found.golden_of(first)
        candidates = again.get(partner) if partner is not None else None
        if candidates:
            found.add([_following(found.of_target[first], (number,), (candidates.pop(0),))])


def _following(link: Link, target: tuple[int, ...], golden: tuple[int, ...]) -> Link:
    """Return the link of nodes that correspond because others do."""
    return replace(link, target=target, golden=golden, through=link.through or link)


def _link_backwards(found: NodeLinks, target: Side, golden: Side) -> list[list[int]]:
    """Link backward calls through their forwards; return those of each side whose forward was not dumped."""
    owned: list[dict[int, list[int]]] = [{}, {}]
    orphans: list[list[int]] = [[], []]
    for which, side in enumerate((target, golden)):
        for number in (n for n, node in enumerate(side.nodes) if node.key.phase is Phase.BACKWARD):
            forward = side.forward_of(number)
            if forward is None:
                orphans[which].append(number)
            else:
                owned[which].setdefault(side.repeats.get(forward, forward), []).append(number)
    for link in list(found.links):
        mine, theirs = (
            [owned[which].get(number, []) for number in numbers]
            for which, numbers in enumerate((link.target, link.golden))
        )
        if len(mine) == len(theirs) == 1:
            twosomes = zip(mine[0], theirs[0], strict=False)
            found.add(_following(link, (one,), (other,)) for one, other in twosomes)
            continue
        first = [tuple(sorted(calls[0] for calls in side if calls)) for side in (mine, theirs)]
        if all(first):
            found.add([_following(link, first[0], first[1])])
    if not all(any(node.key.phase is Phase.FORWARD for node in side.nodes) for side in (target, golden)):
        return [[n for calls in mine.values() for n in calls] + lost for mine, lost in zip(owned, orphans, strict=True)]
    return orphans


def _link_gradients(found: NodeLinks, target: Side, golden: Side) -> None:
    """Link gradients of parameters through their modules, by number of the gradient computation; the rest by name."""
    names = found.module_names(target, golden)
    mine, theirs = (_without_direction(side) for side in (target, golden))
    strength = {target.nodes[link.target[0]].key.name: link for link in reversed(found.links)}
    for name, numbers in mine.items():
        by_call = {golden.nodes[n].key.call: n for n in theirs.get(names.get(name, name), ())}
        for number in numbers:
            other = by_call.get(target.nodes[number].key.call)
            if other is None and len(numbers) == len(by_call):
                other = list(by_call.values())[numbers.index(number)]
            if other is not None:
                like = strength.get(name)
                pair = (number,), (other,)
                found.add([_following(like, *pair) if like is not None else Link(*pair, SAME_NAME)])


def _without_direction(side: Side) -> dict[str, list[int]]:
    """Return the nodes that have no direction by the module that they belong to, or by their own name."""
    held: dict[str, list[int]] = {}
    for number in side.numbers(Phase.NONE):
        held.setdefault(side.nodes[number].key.name.removesuffix(".parameters_grad"), []).append(number)
    return held
