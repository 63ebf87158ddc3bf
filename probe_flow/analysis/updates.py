"""What a parameter that an optimizer changed may be off by: its error of the step before, and that of the change."""

from __future__ import annotations

import math
from collections.abc import Sequence

from probe_flow.analysis.calls import Calls
from probe_flow.analysis.deviation import Deviation
from probe_flow.analysis.measured import MeasuredPair
from probe_flow.records import Statistics

UPDATE = 4.0
"""Largest change of a parameter's elements in a step, in changes of its extremes, mean and norm."""

_RECORDED = ("min", "max", "mean", "l2norm")


class Updates:
    """The parameters that were read so far, and how far their latest change may have taken each."""

    def __init__(self, rows: Sequence[MeasuredPair], deviations: Sequence[Deviation | None], calls: Calls) -> None:
        """``deviations`` of the rows, which the caller may go on to change."""
        self._rows = rows
        self._deviations = deviations
        self._calls = calls
        self._latest: dict[object, int] = {}

    def add(self, number: int) -> None:
        """Take note of a row that nothing in its step produced."""
        self._latest[self._identity(number)] = number

    def error(self, number: int, usual: float) -> float | None:
        """Return the error that a parameter may have, None where it was not compared in a step before.

        Args:
            number: its row.
            usual: relative error of a gradient that was not dumped.
        """
        before = self._latest.get(self._identity(number))
        error = self._deviations[before] if before is not None else None
        if before is None or error is None:
            return None
        change = self._change(before, number, max(1, error.count))
        return 2.0 * error.rms + UPDATE * change * self._gradient_error(before, usual)

    def _change(self, before: int, number: int, count: int) -> float:
        """Return the largest change of the golden's statistics, that of the norm for one of ``count`` elements."""
        sides = [self._golden(row) for row in (before, number)]
        changes = (
            abs(float(b) - float(a)) / (math.sqrt(count) if name == "l2norm" else 1.0)
            for name in _RECORDED
            if (a := getattr(sides[0], name)) is not None and (b := getattr(sides[1], name)) is not None
        )
        return max(changes, default=0.0)

    def _gradient_error(self, number: int, usual: float) -> float:
        """Return the relative error of a parameter's gradient, found by its module and size."""
        call = self._calls.of[number]
        assert call is not None
        modules = [call, call.container] if call.container is not None else [call]
        found = [
            gradient
            for module in modules
            if (owner := self._calls.gradients_of(module)) is not None
            for n in owner.written
            if (gradient := self._deviations[n]) is not None
        ]
        mine = self._deviations[number]
        like = [gradient for gradient in found if mine is not None and gradient.count == mine.count]
        return max((min(gradient.relative, 1e3) for gradient in like or found), default=usual)

    def _golden(self, number: int) -> Statistics:
        golden = self._rows[number].pair.golden
        assert golden is not None
        measurement = self._rows[number].measurement
        if golden.recorded is not None:
            return golden.recorded
        return measurement.golden.statistics if measurement and measurement.golden else Statistics()

    def _identity(self, number: int) -> object:
        key, slot = self._rows[number].node, self._rows[number].pair.shown.slot
        run = key.execution
        return run.rank, run.graph, key.name, key.call, slot
