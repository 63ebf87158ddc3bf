"""What is handed on from call to call without being computed with: tensors that show again, gradients that add up.

A dump shows what a call gave and what the next one got, and nothing of what lies between. Mostly nothing does, so that
both are one tensor. Where several calls read one result, autograd adds up what they give back for it, and no dump has
that sum. Both are told by the golden: its two tensors are equal, or its sum comes out. Then the target's have to as
well, whatever error it has by then. Minimum, maximum, mean and norm of one tensor do not change by being handed on, and
the mean of a sum is the sum of the means.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, product

from msgspec.structs import replace

from probe_flow.analysis.flow.calls import GRADIENTS, Call, Calls
from probe_flow.analysis.flow.links import Given, Links
from probe_flow.analysis.narrowed import rounded_before
from probe_flow.analysis.number_types import UNIT
from probe_flow.analysis.statistics.joined_gradients import JoinedGradients
from probe_flow.analysis.statistics.moments import Moments, apart, differing, moments_of
from probe_flow.records import Execution, NodeKey, Phase, SlotRole
from probe_flow.records.row import ManyRows, Row

TELLING = 2.0**-10
"""Mean from which it tells sums apart, in what it is for elements of random signs: a gradient behind a softmax or a
layer norm has none, and any sum of such comes out."""

SAME = 2.0**-6
"""Part of the largest mean that a sum of the golden's may be off by to be the sum."""

MOST = 16
"""Ways to tell which gradient of a call is of which of its arguments that are tried."""

FEW = 8
"""Rows before its result among which a call's arguments are looked for."""

SLOPE = 0.01
"""That of a leaky relu where none is given (torch, MindSpore's ``mint``)."""

_FORWARD = Phase.FORWARD
"""Asked for each row: a member of an enumeration takes longer to find than most else."""

_RELU = frozenset(("relu", "leaky_relu"))
_SLOPE = frozenset(((1,), ("negative_slope",)))


class HandedOn:
    """Where what a call reads is what others gave, as it is or added up.

    Args:
        rows: all rows.
        calls: of them.
        links: where rows came from.
    """

    def __init__(self, rows: Sequence[Row], calls: Calls, links: Links) -> None:
        self._rows = rows
        self._calls = calls
        self.sums: Mapping[int, tuple[int, ...]] = dict(_sums(rows, calls, links))
        """Row of a gradient that reaches a call -> rows of those that add up to it."""
        self.whole = links if not self.sums else links.with_sums(self.sums, len(rows))
        """Where rows came from, what adds up included."""

    def parts(self, number: int) -> tuple[int, ...]:
        """Return the rows that a row shows again (one) or is the sum of; ``()`` where it is neither.

        Others that read the same tensor before are passed: what was done to what they got is no concern of this one.
        """
        if self._rows[number].is_produced or number in self.sums:
            return self.sums.get(number, ())
        found = number
        while not self._rows[found].is_produced and found not in self.whole.before and found not in self.sums:
            before = self.whole.producers.get(found, ())
            if len(before) != 1:
                break
            found = before[0]
        is_of_parameter = self._rows[found].node.name.endswith(GRADIENTS)  # which is handed to nobody
        return (found,) if found != number and found not in self.whole.before and not is_of_parameter else ()

    def _is_inside(self, found: int, number: int) -> bool:
        """Whether a row is of a call inside that of another, which got it first and is recorded when it is over."""
        inner, module = self._calls.of[found], self._calls.of[number]
        return inner is not None and any(each == module for each in inner.around())

    def through_gate(self, number: int) -> Given | None:
        """Return what a row is made of that a relu in place left to it; None where it is none, or of another kind."""
        gates = self.whole.before.get(number, ())
        given = self.whole.producers.get(number, ())
        if len(gates) != 1 or len(given) != 1 or gates[0].phase is not Phase.BACKWARD:
            return None
        forward = self._calls.by_key.get(replace(gates[0], phase=Phase.FORWARD))
        word = forward.node.op_type.strip("_").lower() if forward is not None and forward.node is not None else ""
        if forward is None or word not in _RELU or len(forward.written) != 1:
            return None
        return Given(given, forward.written[0], self._slope(forward) if word == "leaky_relu" else 0.0)

    @cached_property
    def _readers(self) -> Mapping[int, Sequence[int]]:
        return _Readers(self._rows)

    @cached_property
    def joined(self) -> JoinedGradients:
        """The gradients of what was put together."""
        return JoinedGradients(self._rows, self._calls, self._readers)

    def _slope(self, call: Call) -> float:
        """Return the slope of a leaky relu below zero, as the dump records it."""
        around = range(call.written[0], max(-1, call.written[0] - FEW), -1)
        sides = (self._rows[n].pair.target for n in around if self._rows[n].node == call.key)
        given = (each.value for each in sides if each is not None and each.slot.path in _SLOPE)
        return next((float(value) for value in given if isinstance(value, (int, float))), SLOPE)

    def gap(self, number: int) -> float:
        """Return how far what a call got is from what the others gave, in what rounding explains of it.

        It is the target's own contradiction, found by its statistics, and so it holds whatever error both have. Zero
        where nothing is known of it: where the golden has the same contradiction, a pair is a guess, or one of the
        calls is recorded as it left its tensors, in place.
        """
        parts = self.parts(number)
        gap = self._gap(number, parts, "target") if parts else None
        if gap is None or gap <= 1.0:
            return gap or 0.0
        golden, rows = self._gap(number, parts, "golden"), [self._rows[n] for n in (number, *parts)]
        if golden is None or golden > 1.0 or any(row.node.execution is not rows[0].node.execution for row in rows):
            return 0.0
        if any(row.pair.is_guess or row.pair.rule.is_self for row in rows):
            return 0.0
        return 0.0 if any(self._is_in_place(row.node) for row in rows) else gap

    def told(self, number: int) -> str:
        """Return how a row differs from what others gave, in words."""
        given = self.parts(number) or self.whole.producers.get(number, ())
        joined = None if given else self.joined.part(number)
        if joined is not None:
            return f"is not the part of `{self._rows[joined.rows[0]].pair.shown.id}` that it is in the golden"
        return _told(self._rows[number], [self._rows[n] for n in given])

    def _gap(self, number: int, parts: Sequence[int], side: str) -> float | None:
        """Return the gap of one side; None where its statistics tell nothing."""
        whole, *terms = (moments_of(self._rows[n], side) for n in (number, *parts))
        known = [each for each in terms if each is not None]
        if whole is None or len(known) < len(terms):
            return None
        if len(known) > 1:
            return _gap_of_sum(whole, known, self._cast(parts, side))
        (same,) = known
        if same.unit != whole.unit or same.count != whole.count or whole.is_two_valued:
            return None
        # What a call inside of a module got came from that, and may have been cast on the way.
        return apart(same, whole) if self._is_inside(parts[0], number) else apart(whole, same)

    def given(self, parts: tuple[int, ...]) -> Given:
        """Return what others gave, to be computed with."""
        return Given(parts, cast=self._cast(parts, "target"))

    def _cast(self, parts: Sequence[int], side: str) -> float:
        """Return the rounding of the narrower type that some of what adds up went through on its way; or 0.

        A layer that reads a residual in float32 as 16 bits hands its gradient back through that cast, where it may have
        been added up before: no dump shows that, but what the layer read is rounded.
        """
        cast = 0.0
        for number in parts:
            forward = self._calls.by_key.get(replace(self._rows[number].node, phase=Phase.FORWARD))
            for read in forward.read if forward is not None else ():
                found = moments_of(self._rows[read], side)
                if found is not None and found.count == self._rows[number].pair.shown.numel:
                    cast = max(cast, rounded_before((found.low, found.high), UNIT))
        return cast

    def _is_in_place(self, key: NodeKey) -> bool:
        """Whether the target alone shows one tensor at both ends of a call, or it is a collective.

        Collectors record what a call in place read before or after it, and sides may be of different collectors.
        """
        call = self._calls.by_key[key]
        if call.communicates:
            return True
        for read in call.read:
            for written in call.written:
                if self._rows[read].pair.shown.shape == self._rows[written].pair.shown.shape:
                    target, golden = (self._gap(read, (written,), side) for side in ("target", "golden"))
                    if target is not None and target <= 1.0 and (golden is None or golden > 1.0):
                        return True
        return False


def _gap_of_sum(whole: Moments, terms: Sequence[Moments], cast: float) -> float:
    known = (whole, *terms)
    rounded = whole.share * max(whole.unit, cast) * sum(each.size for each in known)
    explained = rounded + sum(each.mean_recorded for each in known)
    return abs(whole.mean - sum(each.mean for each in terms)) / explained if explained else 0.0


def _sums(rows: Sequence[Row], calls: Calls, links: Links) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the gradients that reach a call from several others, with what these gave back.

    All calls that read a result and have a gradient must have one of its size, and the golden's must add up.
    """
    open_rows = [
        n
        for call in calls
        if call.key.phase is Phase.BACKWARD
        for n in call.read
        if n not in links.producers and rows[n].pair.shown.slot.role is SlotRole.INPUT
    ]
    if not open_rows:
        return
    readers = _Readers(rows)
    for number in open_rows:
        key, slot = rows[number].node, rows[number].pair.shown.slot
        forward = replace(key, phase=Phase.FORWARD)
        given = [n for n in _written(calls, forward) if rows[n].pair.shown.slot.path == slot.path]
        whole = moments_of(rows[number], "golden")
        if len(given) != 1 or whole is None:
            continue
        choices = []
        for read in readers.get(given[0], ()):
            backward = calls.by_key.get(replace(rows[read].node, phase=Phase.BACKWARD))
            if backward is not None:
                choices.append(_of_argument(read, backward.written, rows, whole.count))
        if len(choices) < 2 or not all(choices):
            continue
        for parts in islice(product(*choices), MOST):
            if len(set(parts)) == len(parts) and _adds_up(whole, [moments_of(rows[n], "golden") for n in parts]):
                yield number, parts
                break


def _written(calls: Calls, key: NodeKey) -> tuple[int, ...]:
    call = calls.by_key.get(key)
    return call.written if call is not None else ()


def _of_argument(read: int, gradients: Sequence[int], rows: Sequence[Row], count: int) -> list[int]:
    """Return the gradients of a call that may be of the argument that a row is, the likeliest first."""
    like = [n for n in gradients if (known := rows[n].measurement) is not None and known.count == count]
    place = rows[read].pair.shown.slot.path
    return sorted(like, key=lambda n: rows[n].pair.shown.slot.path != place)


def _adds_up(whole: Moments, terms: Sequence[Moments | None]) -> bool:
    known = [each for each in terms if each is not None]
    if len(known) < len(terms):
        return False
    means = [abs(each.mean) for each in known]
    if max(means) < TELLING * max(each.size for each in known) / math.sqrt(whole.count):
        return False
    gap = abs(whole.mean - sum(each.mean for each in known))
    return gap <= SAME * max(means) and _gap_of_sum(whole, known, 0.0) <= 1.0


class _Readers(Mapping[int, Sequence[int]]):
    """Row of a forward result -> rows of the arguments that are that very tensor, by the golden's statistics.

    It takes 4 bytes a row: of a result the first that reads it, of that the next one.

    Args:
        rows: all rows.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._next = array("i", [_NO_ROW]) * len(rows)
        last: dict[object, int] = {}  # the latest result, or what reads it
        run: Execution | None = None
        for number, row in enumerate(rows):
            key, golden, measured = row.node, row.pair.golden, row.measurement
            if key.phase is not _FORWARD or golden is None or measured is None or measured.count < 2:
                continue
            known = measured.golden_statistics if golden.dtype in UNIT else None
            if known is None or known.l2norm is None:
                continue
            if key.execution is not run and isinstance(rows, ManyRows):
                last = last if run is not None and run.identity == key.execution.identity else {}
                run = key.execution
            identity = id(key.execution), golden.shape, known.min, known.max, known.l2norm
            is_produced, latest = row.is_produced, last.get(identity)
            if latest is not None and not is_produced:
                self._next[latest] = number
            if latest is not None or is_produced:
                last[identity] = number
        self._rows = rows

    def __getitem__(self, result: int) -> Sequence[int]:
        found, number = [], result if self._rows[result].is_produced else _NO_ROW
        while number != _NO_ROW and (number := self._next[number]) != _NO_ROW:
            found.append(number)
        if not found:
            raise KeyError(result)
        return found

    def __iter__(self) -> Iterator[int]:
        return (number for number, row in enumerate(self._rows) if self._next[number] != _NO_ROW and row.is_produced)

    def __len__(self) -> int:
        return sum(1 for _ in self)


_NO_ROW = -1


def _told(row: Row, parts: Sequence[Row]) -> str:
    """Return how something that a call read differs from what others gave, in words.

    An example: ``is not what `a.output.0` gave: minimum -3.1, there -2.9; in the golden both are one tensor``.
    """
    names = " and ".join(f"`{part.pair.shown.id}`" for part in parts)
    whole, *terms = (moments_of(each, "target") for each in (row, *parts))
    known = [each for each in terms if each is not None]
    if whole is None or len(known) < len(terms):
        return f"is not what {names} gave, as it is in the golden"
    if len(known) > 1:
        mean = sum(each.mean for each in known)
        return (
            f"is not the sum of {names}, as it is in the golden: its mean is {whole.mean:.4g}, theirs add up to "
            f"{mean:.4g}"
        )
    (same,) = known
    name, here, there = differing(whole, same)
    return f"is not what {names} gave, as it is in the golden: its {name} is {here:.4g}, there it is {there:.4g}"
