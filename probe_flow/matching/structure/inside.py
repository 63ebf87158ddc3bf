"""Pairing of two call trees from the root down, looking inside modules that only one side has.

Siblings under paired modules are aligned. Where a stretch of siblings fits badly, its modules are replaced by what they
hold, on either side or both, and the spelling that fits best is kept: that undoes an extra wrapper, a `Sequential`, a
module that the other side has inlined.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from probe_flow.matching.alike.values import CLOSE, EQUAL, likeness
from probe_flow.matching.structure.align import MAX_CELLS, Aligner, Link
from probe_flow.matching.structure.likeness import STRONG, value_likeness
from probe_flow.matching.structure.phase_tree import PhaseTree
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


def _read_the_same(tree: PhaseTree, one: int, other: int) -> bool:
    first, second = (
        next((ref for ref in tree.traits[number].tensors if ref.slot.role is SlotRole.INPUT), None)
        for number in (one, other)
    )
    return first is not None and second is not None and likeness(first, second) == 1.0


def _worth(aligner: Aligner, one: int, other: int) -> float:
    found = value_likeness(aligner.target.traits[one], aligner.golden.traits[other])
    return 0.0 if found is None else found


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
    target: PhaseTree,
    golden: PhaseTree,
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


def _held(tree: PhaseTree, number: int, linked: Collection[int]) -> list[int]:
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


def _expanded(
    tree: PhaseTree, numbers: Sequence[int], only: set[int] | None, linked: Collection[int]
) -> list[list[int]]:
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
