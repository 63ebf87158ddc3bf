"""Which calls of two executions correspond: forwards through their callers, backwards through their forwards.

Call numbers alone do not tell: one extra call of an API shifts all later numbers, and since backward calls come in
reverse order, it shifts the backward numbers the other way round. So forwards are paired from the outermost caller
inwards, each caller's calls of one name against those of its counterpart; recomputed forwards are set aside first; and
a backward call belongs to the forward of the same number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from msgspec import Struct, field

from probe_flow.matching.name.side import Scope, Side
from probe_flow.matching.shared.alignment import align
from probe_flow.records import Phase
from probe_flow.relations.call_tree import left_out

FILTERED = 2
"""Names with gaps in their numbers from which a dump is of a part of the calls: then the numbers of all are right."""

MAX_ROUNDS = 20
"""Rounds of pairing callers whose own callers have no counterpart, before their calls are aligned by name."""

_NO_COUNTERPART = object()


class CallPairs(Struct):
    """Target node number -> golden node number, and back."""

    golden_of: dict[int, int] = field(default_factory=dict)
    target_of: dict[int, int] = field(default_factory=dict)

    def add(self, pairs: Iterable[tuple[int, int]]) -> int:
        """Record pairs; return how many."""
        before = len(self.golden_of)
        for target, golden in pairs:
            self.golden_of[target] = golden
            self.target_of[golden] = target
        return len(self.golden_of) - before


def pair_calls(target: Side, golden: Side) -> CallPairs:
    """Pair the nodes of two executions."""
    pairs = CallPairs()
    forwards = (target.numbers(Phase.FORWARD), golden.numbers(Phase.FORWARD))
    firsts = [
        [number for number in numbers if number not in side.repeats and number not in lone]
        for side, numbers, lone in zip(
            (target, golden), forwards, (target.lone_updates(golden), golden.lone_updates(target)), strict=True
        )
    ]
    _Matching(target, golden, pairs, (firsts[0], firsts[1])).pair()
    _pair_repeats(target, golden, pairs)
    _pair_backwards(target, golden, pairs, forwards)
    _pair_plain(target, golden, pairs)
    return pairs


def _pair_repeats(target: Side, golden: Side, pairs: CallPairs) -> None:
    """Pair recomputed forwards where both sides recompute."""
    again: dict[int, list[int]] = {}
    for number, first in golden.repeats.items():
        again.setdefault(first, []).append(number)
    found = []
    for number, first in target.repeats.items():
        candidates = again.get(pairs.golden_of.get(first, -1))
        if candidates:
            found.append((number, candidates.pop(0)))
    pairs.add(found)


def _pair_backwards(
    target: Side, golden: Side, pairs: CallPairs, forwards: tuple[Sequence[int], Sequence[int]]
) -> None:
    """Pair backward calls whose forward was dumped through it, the others like forwards."""
    sides = (target, golden)
    backwards = [side.numbers(Phase.BACKWARD) for side in sides]
    if not all(backwards):
        return
    owners = [_owners(side, numbers) for side, numbers in zip(sides, forwards, strict=True)]
    shared = {target.names[n] for n in owners[0].values()} & {golden.names[n] for n in owners[1].values()}
    orphans: list[list[int]] = [[], []]
    owned: list[list[tuple[int, int]]] = [[], []]
    for which, side in enumerate(sides):
        for number in backwards[which]:
            key = side.nodes[number].key
            forward = owners[which].get((key.name, key.call)) if side.names[number] in shared else None
            if forward is None:
                orphans[which].append(number)
            else:
                owned[which].append((number, forward))
    due: dict[int, list[int]] = {}
    for number, forward in owned[1]:
        due.setdefault(forward, []).append(number)
    candidates = ((number, due.get(pairs.golden_of.get(forward, -1))) for number, forward in owned[0])
    pairs.add([(number, several.pop(0)) for number, several in candidates if several])
    _Matching(target, golden, pairs, (orphans[0], orphans[1])).pair()


def _owners(side: Side, forwards: Sequence[int]) -> dict[tuple[str, int], int]:
    """Return name and call -> the forward that owns a backward call of that number; a repeat counts as its first."""
    return {
        (side.nodes[number].key.name, side.nodes[number].key.call): side.repeats.get(number, number)
        for number in forwards
    }


def _pair_plain(target: Side, golden: Side, pairs: CallPairs) -> None:
    """Pair what has no direction (gradients of parameters) by name and number."""
    by_key = {(golden.names[n], golden.nodes[n].key.call): n for n in golden.numbers(Phase.NONE)}
    twosomes = ((n, by_key.pop((target.names[n], target.nodes[n].key.call), None)) for n in target.numbers(Phase.NONE))
    pairs.add((number, partner) for number, partner in twosomes if partner is not None)


class _Matching:
    """Pairing of calls of one direction, from the outermost callers inwards.

    Args:
        target, golden: the sides.
        pairs: gets what is found.
        calls: node numbers of the calls of both sides, each in the order of call numbers.
    """

    def __init__(
        self, target: Side, golden: Side, pairs: CallPairs, calls: tuple[Sequence[int], Sequence[int]]
    ) -> None:
        self.target = target
        self.golden = golden
        self.pairs = pairs
        self.calls = calls
        # Where one side does not know callers, or knows them in another way, they tell nothing.
        self.has_callers = target.records_callers == golden.records_callers and all(
            side.scopes.count(None) < len(side.scopes) for side in (target, golden)
        )
        self.signatures = [
            (target.full_signature, golden.full_signature),
            (target.shape_signature, golden.shape_signature),
            (target.neighbour_signature, golden.neighbour_signature),
        ]

    def pair(self) -> None:
        """Pair the calls."""
        if not all(self.calls):
            return
        if not self.has_callers:
            self._pair_alike()
            return
        calling = []
        for side, numbers in zip((self.target, self.golden), self.calls, strict=True):
            callers = {scope for scope in side.scopes if isinstance(scope, int)}
            calling.append([number for number in numbers if number in callers])
        for _ in range(MAX_ROUNDS):
            self._pair_alike()
            if not self._pair_leftovers(calling[0], calling[1]):
                break
        self._pair_leftovers(*self.calls)

    def _pair_alike(self) -> None:
        """Pair the calls whose caller is paired (or is nothing, on both sides), from the outermost inwards."""
        found = 1
        while found:
            mine = [number for number in self.calls[0] if number not in self.pairs.golden_of]
            theirs = [number for number in self.calls[1] if number not in self.pairs.target_of]
            found = self._pair_within_callers(mine, theirs) if mine and theirs else 0

    @cached_property
    def _first_numbers(self) -> dict[str, int]:
        """The names of which a side lacks the first calls: a filtered dump, whose numbers are to be trusted."""
        first: dict[str, int] = {}
        for side, numbers in zip((self.target, self.golden), self.calls, strict=True):
            own: dict[str, int] = {}
            for number in numbers:
                own.setdefault(side.nodes[number].key.name, side.nodes[number].key.call)
            mine: dict[str, int] = {}
            for number in numbers:
                call = own[side.nodes[number].key.name]
                mine[side.names[number]] = min(call, mine.get(side.names[number], call))
            for name, call in mine.items():
                first[name] = max(call, first.get(name, 0))
        return first

    def _is_filtered(self, name: str) -> bool:
        """Whether a side lacks calls of a name that it counted, so that the numbers are to be trusted."""
        return self._first_numbers.get(name, 0) > 0 or name in self._with_gaps or len(self._with_gaps) >= FILTERED

    @cached_property
    def _with_gaps(self) -> frozenset[str]:
        """The names of which one side lacks calls, before the last of its own, that the other has."""
        target, golden = _recorded(self.target), _recorded(self.golden)
        shared = ((name, mine, golden[name]) for name, mine in target.items() if name in golden)
        return frozenset(name for name, mine, theirs in shared if left_out(mine) & theirs or left_out(theirs) & mine)

    def _pair_within_callers(self, target_calls: Sequence[int], golden_calls: Sequence[int]) -> int:
        """Pair the unpaired calls whose caller is paired, one round; return how many were found."""
        theirs: dict[tuple[str, object], list[int]] = {}
        for number in golden_calls:
            scope = self.golden.scopes[number] if self.has_callers else None
            theirs.setdefault((self.golden.names[number], scope), []).append(number)
        mine: dict[tuple[str, object], list[int]] = {}
        for number in target_calls:
            counterpart = self._counterpart(self.target.scopes[number])
            mine.setdefault((self.target.names[number], counterpart), []).append(number)
        found = 0
        twosomes: list[tuple[int, int]] = []
        for key, numbers in mine.items():
            others = theirs.get(key)
            if others is None:
                continue
            if len(numbers) == len(others) == 1:
                twosomes.append((numbers[0], others[0]))
            else:
                found += self._pair_list(key[0], numbers, others)
        return found + self.pairs.add(twosomes)

    def _counterpart(self, scope: Scope) -> object:
        if not self.has_callers:
            return None
        return self.pairs.golden_of.get(scope, _NO_COUNTERPART) if isinstance(scope, int) else scope

    def _pair_list(self, name: str, target: Sequence[int], golden: Sequence[int]) -> int:
        if len(target) != len(golden) and self._is_filtered(name):
            by_call = {self.golden.nodes[number].key.call: number for number in golden}
            same = ((number, by_call.pop(self.target.nodes[number].key.call, None)) for number in target)
            return self.pairs.add((number, partner) for number, partner in same if partner is not None)
        return self.pairs.add(align(_in_order(self.target, target), _in_order(self.golden, golden), self.signatures))

    def _pair_leftovers(self, target_calls: Sequence[int], golden_calls: Sequence[int]) -> int:
        """Pair calls of one name where the caller of at least one side has no counterpart (renamed, or not dumped).

        Calls whose callers both have counterparts, but different ones, are never paired.
        """
        if not self.has_callers:
            return 0
        theirs: dict[str, list[int]] = {}
        for number in golden_calls:
            if number not in self.pairs.target_of:
                theirs.setdefault(self.golden.names[number], []).append(number)
        mine: dict[str, list[int]] = {}
        for number in target_calls:
            name = self.target.names[number]
            if number not in self.pairs.golden_of and name in theirs:
                mine.setdefault(name, []).append(number)
        found = 0
        for name, numbers in mine.items():
            lost = [number for number in numbers if self._is_lost(self.target, number, self.pairs.golden_of)]
            found += self._pair_list(name, lost, theirs[name])
            rest = [number for number in numbers if number not in self.pairs.golden_of]
            open_there = [
                number
                for number in theirs[name]
                if number not in self.pairs.target_of and self._is_lost(self.golden, number, self.pairs.target_of)
            ]
            found += self._pair_list(name, rest, open_there)
        return found

    def _is_lost(self, side: Side, number: int, paired: dict[int, int]) -> bool:
        """Say whether a call's caller has no counterpart on the other side."""
        scope = side.scopes[number]
        if isinstance(scope, int):
            return scope not in paired
        other = self.golden if side is self.target else self.target
        return scope is not None and scope not in other.scopes


def _recorded(side: Side) -> dict[str, set[int]]:
    """Return the numbers of all calls of each name, of whichever direction; none where several APIs share the name."""
    found: dict[str, set[int]] = {}
    own: dict[str, set[str]] = {}
    for name, node in zip(side.names, side.nodes, strict=True):
        found.setdefault(name, set()).add(node.key.call)
        own.setdefault(name, set()).add(node.key.name)
    return {name: numbers for name, numbers in found.items() if len(own[name]) == 1}


def _in_order(side: Side, numbers: Sequence[int]) -> Sequence[int]:
    """Return calls in the order of the dump where a mapping gave several APIs one name: their numbers do not tell."""
    if len(numbers) > 1 and len({side.nodes[number].key.name for number in numbers}) > 1:
        return sorted(numbers)
    return numbers
