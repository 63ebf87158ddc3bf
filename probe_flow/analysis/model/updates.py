"""What a parameter that an optimizer changed may be off by: its error of the step before, and that of the change."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Call, Calls
from probe_flow.analysis.model.deviation import TINY, Deviation
from probe_flow.analysis.model.deviations import Deviations
from probe_flow.analysis.model.families import Family, families_of
from probe_flow.analysis.model.growth import Allowance
from probe_flow.analysis.number_types import common_share
from probe_flow.records import Execution, Phase, SlotRole, Statistics, TensorRef
from probe_flow.records.row import Row

UPDATE = 4.0
"""Largest change of a parameter's elements in a step, in changes of its extremes, mean and norm."""

DECIDED = 0.5
"""Error of an update, in its size, wherever the gradients differ at all: an optimizer that divides them by their own
size (Adam) turns the noise of elements that are zero in mathematics into whole steps."""

UNDECIDED = 3.0
"""The same for weights, in roots of the gradient's relative error ``r``: a share of about ``r`` of the elements is so
small that their signs are noise. Of vectors (biases) whole parts may be zero in mathematics."""

WHOLE = 2.0
"""How far one element of an updated parameter may be off, in changes: where its gradient is zero in mathematics, it
went the other way."""

STORED = 2.0
"""Largest error of a stored element, in half rounding steps (`UNIT`) of the largest value: one, and as much in
reserve."""

FOLLOWED = 2.0
"""Relative error of a running variance, in that of what it is the variance of."""

SMALL_STEP = 0.3
"""Change that a step of an optimizer makes at most in what a parameter's statistics say, in its size. Adam moves each
element by its learning rate: by a quarter of embeddings of size 0.02, where that is 0.005."""

LOST = 2.0**-24
"""Change of a parameter, in its size, that is lost where the golden stores it: a gradient that is zero in mathematics
moves it by less, and by what rounding left of that gradient where the target computes in 16 bits."""

_PRIMITIVE = "Primitive."

_RECORDED = ("min", "max", "mean", "l2norm")


class Updates:
    """The parameters that were read so far, and how far their latest change may have taken each."""

    def __init__(self, rows: Sequence[Row], deviations: Deviations, calls: Calls) -> None:
        """``deviations`` of the rows, which the caller may go on to change."""
        self._rows = rows
        self._deviations = deviations
        self._calls = calls
        self._latest: dict[object, int] = {}
        self.gradients: dict[int, tuple[int, ...]] = {}
        """Row of a parameter that was changed -> rows of the gradients that it was changed by; ``()``: not dumped."""
        self._hidden: dict[int, float] = {}
        """The same row -> relative error that it is likely to have where statistics show less."""
        self._moves: dict[int | None, list[float]] = {}
        """Step -> how far its parameters moved so far, the least first."""

    def add(self, number: int) -> None:
        """Take note of a row that nothing in its step produced."""
        if self._rows[number].node.phase is Phase.FORWARD:
            self._latest[self.identity(number)] = number

    def error(self, number: int, usual: float, *, is_known: bool, wrote: int | None = None) -> float | None:
        """Return the error that a parameter may have, None where it was not compared in a step before.

        Args:
            number: its row.
            usual: relative error of a gradient that was not dumped.
            is_known: whether nothing made it; else it must look like a parameter, which a step changes by little, as
                it must where the dump does not say that it is one.
            wrote: row of the call that wrote it in the step before, where the dump has the optimizer's.
        """
        row = self._rows[number]
        if row.is_produced or row.node.phase is not Phase.FORWARD:
            return None
        before = self._latest.get(self.identity(number))
        error = self._deviations[before] if before is not None else None
        if before is None or error is None:
            return None
        change = self._change(before, number, max(1, error.count))
        is_parameter = self._is_held(row) or self._golden_ref(row).requires_grad is True
        if not (is_known and is_parameter) and change > SMALL_STEP * error.size:
            return None
        change = max(change, LOST * error.size)
        gradients = self.gradients_of(before)
        self.gradients[number] = gradients if wrote is None else (wrote, *gradients)
        written = self._deviations[wrote] if wrote is not None else None
        found = [each for n in gradients if (each := self._deviations[n]) is not None]
        gradient = max((min(max(each.relative, each.blind), 1e3) for each in found), default=usual)
        likely = max((min(each.likely / each.size, 1.0) for each in found if each.size), default=usual)
        # Where an optimizer keeps little but signs, a share of about `likely` of the elements is off by a whole step.
        signs = math.sqrt(likely) if self.is_weight(number) and not self._is_sum(wrote) else 0.0
        self._hidden[number] = min(1.0, change * max(UPDATE * likely, signs) / error.size) if error.size else 0.0
        decided = max(gradient, self._decided(number, max(gradient, likely)))
        one = WHOLE * change / math.sqrt(max(1, error.count)) if gradient else 0.0
        moved = UPDATE * self._at_least(change, number) * decided
        return 2.0 * error.rms + max(one, moved) if written is None else 2.0 * written.rms

    def _is_sum(self, wrote: int | None) -> bool:
        """Whether a parameter was written by a sum of it and its update, which keeps more of gradients than signs."""
        call = self._calls.of[wrote] if wrote is not None else None
        return call is not None and call.node is not None and Family.SUM in families_of(call.node.op_type)

    def is_trained(self, number: int) -> bool:
        """Return True for a parameter that an optimizer changes: one that needs a gradient.

        MindSpore records of no tensor whether it does; there it is one with a gradient of its own.
        """
        row, golden = self._rows[number], self._rows[number].pair.golden
        if row.is_produced or golden is None or row.node.phase is not Phase.FORWARD:
            return False
        return self._has_gradient(number) if golden.requires_grad is None else golden.requires_grad is True

    def _has_gradient(self, number: int) -> bool:
        """Return True if the dump has the gradient of what a call reads.

        Where fewer gradients have its shape than inputs, what a primitive reads first is data, and last is state.
        """
        call, tensor = self._calls.of[number], self._rows[number].pair.shown
        if call is None:
            return False
        if tensor.slot.role is SlotRole.PARAMETER:
            owner = self._calls.gradients_of(call)
            mine = owner.written if owner is not None else ()
            return any(self._rows[n].pair.shown.slot.path == tensor.slot.path for n in mine)
        backward = self._calls.by_key.get(replace(call.key, phase=Phase.BACKWARD))
        if backward is None:
            return False
        alike = [n for n in call.read if self._rows[n].pair.shown.shape == tensor.shape]
        given = sum(self._rows[n].pair.shown.shape == tensor.shape for n in backward.written)
        if given < len(alike):
            is_primitive = call.key.name.startswith(_PRIMITIVE)
            alike = [n for n in alike if is_primitive and self._rows[n].pair.shown.slot.path[:1] != (0,)]
        return number in alike[:given]

    def _at_least(self, change: float, number: int) -> float:
        """Return how far a parameter moved, of a vector at least as far as half of those before it in the step.

        Adam moves all elements by one rate. The few statistics of a vector may stay as they are for all that: its
        largest element sank, and another one rose to where it was.
        """
        moves = self._moves.setdefault(self._rows[number].node.execution.step, [])
        insort(moves, change)
        return change if self.is_weight(number) else max(change, moves[(len(moves) - 1) // 2])

    def _decided(self, number: int, gradient: float) -> float:
        """Return the error of an update whose optimizer keeps little but the signs of a gradient."""
        is_sure = self.is_weight(number) or not gradient
        return min(DECIDED, UNDECIDED * math.sqrt(gradient)) if is_sure else DECIDED

    def is_weight(self, number: int) -> bool:
        """Return True for a parameter of two axes or more."""
        return len(self._rows[number].pair.shown.shape or ()) > 1

    def kept(self, number: int) -> float:
        """Return the error that state may have which no gradient changes: what the calls read that wrote it.

        A running mean follows the means of what its norm reads, a running variance their squares, so that its relative
        error is twice that of these. What a cell has is recorded when it is over, what a call reads before it.
        """
        row, error, call = self._rows[number], self._deviations[number], self._calls.of[number]
        if error is None or call is None or not self._is_state(number):
            return 0.0
        own = call if row.pair.shown.slot.role is SlotRole.PARAMETER else None
        wrote = [each for each in (self._call_before(number), self._call_within(call), own) if each is not None]
        rows = (n for each in wrote for n in each.read if self._rows[n].pair.shown.slot.role is SlotRole.INPUT)
        read = [each for n in rows if (each := self._deviations[n]) is not None and n != number]
        return max(
            (max(each.likely, FOLLOWED * min(each.likely / each.size, 1.0) * error.size) for each in read if each.size),
            default=0.0,
        )

    def _is_state(self, number: int) -> bool:
        """Return True for what a call reads, changes, and computes no gradient of."""
        row, golden = self._rows[number], self._rows[number].pair.golden
        if row.is_produced or golden is None or golden.requires_grad is not None:
            return golden is not None and golden.requires_grad is False
        return self._is_held(row) and not self.is_trained(number)

    def _is_held(self, row: Row) -> bool:
        """Return True for a parameter or state by its place: of a cell, or what a primitive reads behind its data."""
        slot = row.pair.shown.slot
        return slot.role is SlotRole.PARAMETER or (row.node.name.startswith(_PRIMITIVE) and slot.path[:1] != (0,))

    def _call_within(self, call: Call) -> Call | None:
        """Return the call of the same name before it in its step."""
        return self._calls.by_key.get(replace(call.key, call=call.key.call - 1)) if call.key.call else None

    def _call_before(self, number: int) -> Call | None:
        """Return the same call of the step before."""
        key = self._rows[number].node
        run = key.execution
        if not run.step:
            return None
        before = self._runs.get((run.rank, run.graph, run.step - 1))
        return self._calls.by_key.get(replace(key, execution=before)) if before is not None else None

    @cached_property
    def _runs(self) -> dict[tuple[object, ...], Execution]:
        return {(run.rank, run.graph, run.step): run for run in self._calls.executions}

    def error_of(self, number: int) -> float:
        """Return the relative error of a changed parameter.

        It follows the data that the gradients were made of, so it does not average out in products with these.
        """
        row, error = self._rows[number], self._deviations[number]
        shown = min(error.relative, 1.0) if error is not None else 0.0
        return max(shown, self._hidden[number]) if row.is_by_statistics else shown

    def may_hide(self, number: int) -> bool:
        """Say whether a row is of a parameter that was changed, and whose statistics may agree though it does not."""
        row = self._rows[number]
        return bool(row.node.execution.step) and row.is_by_statistics and self.is_trained(number)

    def hand_on(self, number: int, before: int) -> None:
        """Take a row for the same parameter as one before, read again."""
        self.gradients[number] = self.gradients[before]
        self._hidden[number] = self._hidden[before]

    def noise(self, number: int, call: Call, output: Deviation) -> float:
        """Return the relative error that changed parameters leave in a result of which only statistics are known.

        A bias whose gradient is zero in mathematics (that of the keys of attention) moves by whole steps of Adam. One
        that stands beside a matrix of weights adds its error and scales nothing. What storage explains counts as none.

        Args:
            number: row of the result.
            call: that made it. A gradient is made of the weights that the forward call read, too.
            output: the result.
        """
        row = self._rows[number]
        if not self._hidden or not row.is_produced or not row.is_by_statistics:
            return 0.0
        saved = [n for n in call.forward if n in self._hidden and self._has_axes(n)] if call.is_gradient else []
        read = (*call.read, *saved)
        total, has_weight = 0.0, any(self._has_axes(n) for n in read)
        for n in read:
            hidden, deviation = self.error_of(n) if n in self._hidden else 0.0, self._deviations[n]
            if hidden and deviation is not None:
                is_bias = has_weight and not self._has_axes(n) and output.size > 0
                total += hidden * (min(1.0, deviation.size / output.size) if is_bias else 1.0)
        return total if total > output.unit else 0.0

    def _has_axes(self, number: int) -> bool:
        """Whether a row is of a matrix or more, and not of the first argument."""
        tensor = self._rows[number].pair.shown
        return len(tensor.shape or ()) > 1 and tensor.slot.path[:1] != (0,)

    def _change(self, before: int, number: int, count: int) -> float:
        """Return the largest change of the golden's statistics, that of the norm for one of ``count`` elements."""
        sides = [self._golden(row) for row in (before, number)]
        changes = (
            abs(float(b) - float(a)) / (math.sqrt(count) if name == "l2norm" else 1.0)
            for name in _RECORDED
            if (a := getattr(sides[0], name)) is not None and (b := getattr(sides[1], name)) is not None
        )
        return max(changes, default=0.0)

    def gradients_of(self, number: int) -> tuple[int, ...]:
        """Return the rows of a parameter's gradient: that of its module, else of the call that read it."""
        call, mine = self._calls.of[number], self._deviations[number]
        assert call is not None
        modules = [call, call.container] if call.container is not None else [call]
        owners = [owner for module in modules if (owner := self._calls.gradients_of(module)) is not None]
        found = [n for owner in owners for n in owner.written]
        like = [n for n in found if self._is_like(n, mine)]
        if not found and (backward := self._calls.by_key.get(replace(call.key, phase=Phase.BACKWARD))) is not None:
            like = [n for n in backward.written if self._is_like(n, mine)]
        return tuple(like or found)

    def _is_like(self, number: int, parameter: Deviation | None) -> bool:
        gradient = self._deviations[number]
        return gradient is not None and parameter is not None and gradient.count == parameter.count

    def _golden(self, number: int) -> Statistics:
        golden = self._golden_ref(self._rows[number])
        measurement = self._rows[number].measurement
        if golden.recorded is not None:
            return golden.recorded
        return measurement.golden.statistics if measurement and measurement.golden else Statistics()

    def _golden_ref(self, row: Row) -> TensorRef:
        golden = row.pair.golden
        assert golden is not None
        return golden

    def identity(self, number: int) -> object:
        """Return what a parameter has in common with itself in other steps."""
        key, slot = self._rows[number].node, self._rows[number].pair.shown.slot
        run = key.execution
        return run.rank, run.graph, key.name, key.call, slot


def of_source(allowed: Allowance, deviation: Deviation) -> Allowance:
    """Return the allowance of what nothing wrote, a parameter or an input of the network.

    No element of it is off by more than storage leaves: half a step of the largest value.
    """
    return replace(allowed, peak=min(allowed.peak, STORED * deviation.unit * deviation.top + deviation.step))


class Unseen(NamedTuple):
    """An error that came along a path which the dump does not show.

    Args:
        rms: as root mean square.
        turned: relative part of it that gates made which turned: a share ``turned**2`` of the size is there on one side
            only, and no more than that is a factor of the whole.
    """

    rms: float
    turned: float = 0.0


def with_unseen(allowed: Allowance, unseen: Unseen, deviation: Deviation, *, is_update: bool) -> Allowance:
    """Return an allowance with an error that came along a path which the dump does not show.

    What an update did wrong has no one sign, so that little of it is a factor of the whole parameter.
    """
    relative, error = unseen.rms / max(deviation.size, TINY), unseen.rms
    gain = relative - unseen.turned + unseen.turned**2
    return Allowance(
        allowed.floor,
        allowed.explained + error,
        allowed.peak + error * math.sqrt(deviation.count),
        allowed.gain + (relative * common_share(deviation.count) if is_update else gain),
        allowed.scale,
        allowed.offset + error,
    )
