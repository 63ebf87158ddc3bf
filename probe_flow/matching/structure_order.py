"""Siblings that correspond although they stand in another order on the two sides."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from probe_flow.matching.structure_align import MAX_CELLS, Aligner, Link
from probe_flow.matching.structure_likeness import value_likeness
from probe_flow.matching.structure_values import CLOSE, EQUAL

MOVED_LIKENESS = 0.8
"""Likeness from which siblings are paired although that crosses the order."""


def in_another_order(
    aligner: Aligner, target: Sequence[int], golden: Sequence[int], links: Sequence[Link]
) -> list[Link]:
    """Return the links of two lists of siblings with those that cross the order."""
    return _exchanged(aligner, [*links, *_left_over(aligner, target, golden, links)])


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
    for likeness, one, other in sorted(twosomes, key=lambda each: (-each[0], each[1], each[2])):
        if likeness >= MOVED_LIKENESS and one not in found and other not in taken:
            found[one] = Link((one,), (other,), likeness, is_moved=True)
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
