"""Siblings whose order does not tell which correspond: found in another order, or of which any could be the partner."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from probe_flow.matching.shared.values import CLOSE, EQUAL, likeness
from probe_flow.matching.structure.align import MAX_CELLS, Aligner, Link
from probe_flow.matching.structure.likeness import value_likeness
from probe_flow.matching.structure.tree import Tree
from probe_flow.records import SlotRole

MOVED_LIKENESS = 0.8
"""Likeness from which siblings are paired although that crosses the order."""

CLEAR = 0.2
"""How much better values must speak for two pairs than for the crossed ones to decide between them."""


def in_another_order(
    aligner: Aligner, target: Sequence[int], golden: Sequence[int], links: Sequence[Link]
) -> list[Link]:
    """Return the links of two lists of siblings with those that cross the order, and a rival where nothing decides."""
    return _undecided(aligner, _exchanged(aligner, [*links, *_left_over(aligner, target, golden, links)]))


def _left_over(aligner: Aligner, target: Sequence[int], golden: Sequence[int], links: Sequence[Link]) -> list[Link]:
    """Link siblings without partner that are much alike."""
    linked = [{n for link in links for n in link.target}, {n for link in links for n in link.golden}]
    lone = [number for number in target if number not in linked[0]]
    free = [number for number in golden if number not in linked[1]]
    if not lone or not free or len(lone) * len(free) > MAX_CELLS:
        return []
    twosomes = [(aligner.likeness(one, other), one, other) for one in lone for other in free]
    found: dict[int, Link] = {}
    taken: set[int] = set()
    for alike, one, other in sorted(twosomes, key=lambda each: (-each[0], each[1], each[2])):
        if alike >= MOVED_LIKENESS and one not in found and other not in taken:
            found[one] = Link((one,), (other,), alike, is_moved=True)
            taken.add(other)
    return list(found.values())


def _exchanged(aligner: Aligner, links: list[Link]) -> list[Link]:
    """Exchange the partners of siblings of equal structure where their parameters say that the order differs.

    Both must find their own parameters at the other; siblings of equal name keep each other, so that a wrong weight is
    seen as one.
    """
    doubtful: dict[Hashable, list[int]] = {}
    for place, link in enumerate(links):
        if len(link.target) == len(link.golden) == 1:
            one, other = aligner.target.traits[link.target[0]], aligner.golden.traits[link.golden[0]]
            if one.signature == other.signature and one.telling and one.path != other.path:
                doubtful.setdefault(one.signature, []).append(place)
    for places in doubtful.values():
        if 1 < len(places) <= MAX_CELLS**0.5:
            _exchange(aligner, links, places)
    return links


def _exchange(aligner: Aligner, links: list[Link], places: Sequence[int]) -> None:
    unlike = [place for place in places if _values(aligner, links[place].target[0], links[place].golden[0]) < CLOSE]
    wanted: dict[int, int] = {}
    for place in unlike:
        fits = [to for to in unlike if _values(aligner, links[place].target[0], links[to].golden[0]) >= EQUAL]
        if len(fits) == 1:
            wanted[place] = fits[0]
    while wanted and set(wanted) != set(wanted.values()):  # only what goes round
        wanted = {place: to for place, to in wanted.items() if to in wanted and place in set(wanted.values())}
    partners = {place: links[to].golden for place, to in wanted.items()}
    for place, golden in partners.items():
        likeness = aligner.likeness(links[place].target[0], golden[0])
        links[place] = replace(links[place], golden=golden, likeness=likeness, is_moved=True)


def _values(aligner: Aligner, one: int, other: int) -> float:
    found = value_likeness(aligner.target.traits[one], aligner.golden.traits[other])
    return EQUAL if found is None else found


def _undecided(aligner: Aligner, links: list[Link]) -> list[Link]:
    """Give modules of one structure that read the same input a rival where neither names nor values tell them apart.

    Modules that read different inputs run one behind the other, so their order counts.
    """
    alike: dict[Hashable, list[int]] = {}
    for place, link in enumerate(links):
        if len(link.target) == len(link.golden) == 1 and link.rival is None:
            one, other = aligner.target.traits[link.target[0]], aligner.golden.traits[link.golden[0]]
            if one.is_module and one.signature == other.signature and _own_name(one.path) != _own_name(other.path):
                alike.setdefault(one.signature, []).append(place)
    marked = list(links)
    for places in alike.values():
        for place in places if 1 < len(places) <= MAX_CELLS**0.5 else ():
            rivals = (links[other] for other in places if other != place)
            rival = next((other for other in rivals if _is_open(aligner, links[place], other)), None)
            if rival is not None:
                marked[place] = replace(links[place], rival=rival.golden[0])
    return marked


def _own_name(path: str) -> str:
    return path.rpartition(".")[2]


def _is_open(aligner: Aligner, one: Link, other: Link) -> bool:
    """Say whether two pairs of siblings could be crossed as well."""
    (ours, theirs), (our_rival, their_rival) = (one.target[0], one.golden[0]), (other.target[0], other.golden[0])
    if not _read_the_same(aligner.target, ours, our_rival) or not _read_the_same(aligner.golden, theirs, their_rival):
        return False
    straight = _worth(aligner, ours, theirs) + _worth(aligner, our_rival, their_rival)
    crossed = _worth(aligner, ours, their_rival) + _worth(aligner, our_rival, theirs)
    return straight - crossed < CLEAR


def _read_the_same(tree: Tree, one: int, other: int) -> bool:
    first, second = (
        next((ref for ref in tree.traits[number].tensors if ref.slot.role is SlotRole.INPUT), None)
        for number in (one, other)
    )
    return first is not None and second is not None and likeness(first, second) == 1.0


def _worth(aligner: Aligner, one: int, other: int) -> float:
    found = value_likeness(aligner.target.traits[one], aligner.golden.traits[other])
    return 0.0 if found is None else found
