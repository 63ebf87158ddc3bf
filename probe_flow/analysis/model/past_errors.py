"""The errors that earlier outputs had: what state kept between steps, and what paths not shown, may carry.

Rounding to 16 bits is one that lasts. Mixed precision computes products in 16 bits and sums, norms and losses in
float32: each value of these is off by steps of 16 bits, while norm, mean and extremes agree to float32.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import defaultdict, deque
from collections.abc import Callable, Sequence

from probe_flow.analysis.model.deviation import Deviation, Deviations
from probe_flow.records import Execution, Mode
from probe_flow.records.row import Row

RECENT = 32
"""Outputs whose errors an unknown path may carry: what is computed is used soon, or came along a skip."""

HIDDEN_UNITS = 0.5
"""Rounding steps that a tensor of which only statistics are known may be off by beyond what they prove."""

FINE = 2.0**-16
"""Rounding of types that are wider than 16 bits is below this."""


class PastErrors:
    """Relative errors of outputs that were judged before; steps come one after the other.

    Executions are those of the rows, which outlive this.
    """

    def __init__(self) -> None:
        self._sorted: list[float] = []  # of steps that are over
        self._step = -1
        self._current: list[float] = []
        self._recent: dict[Execution, RecentErrors] = defaultdict(RecentErrors)
        self._by_object: dict[int, RecentErrors] = {}  # the same, since hashing an execution is slow

    def add(self, execution: Execution, error: float) -> None:
        """Take note of an output's error; the step never decreases."""
        self._recent_of(execution).add(error)
        if execution.step is not None:
            self._begin(execution.step)
            self._current.append(error)

    def recent(self, execution: Execution) -> float:
        """Return the largest error of the latest outputs of an execution."""
        return self._recent_of(execution).largest

    def usual_before(self, step: int) -> float:
        """Return the error that nine in ten outputs of steps before this one stay below: noise tensors left out."""
        self._begin(step)
        return self._sorted[int(0.9 * (len(self._sorted) - 1))] if self._sorted else 0.0

    def _begin(self, step: int) -> None:
        if step > self._step:
            for error in self._current:
                insort(self._sorted, error)
            self._step, self._current = step, []

    def _recent_of(self, execution: Execution) -> RecentErrors:
        found = self._by_object.get(id(execution))
        if found is None:
            found = self._by_object[id(execution)] = self._recent[execution]
        return found


class RecentErrors:
    """The largest relative error of the latest outputs of one execution, in constant time."""

    def __init__(self) -> None:
        self._span = RECENT
        self._count = 0
        self._falling: deque[tuple[int, float]] = deque()

    def add(self, error: float) -> None:
        """Take note of an output's error."""
        while self._falling and self._falling[-1][1] <= error:
            self._falling.pop()
        self._falling.append((self._count, error))
        self._count += 1
        if self._falling[0][0] <= self._count - 1 - self._span:
            self._falling.popleft()

    @property
    def largest(self) -> float:
        """The largest of them, 0 without any."""
        return self._falling[0][1] if self._falling else 0.0


class LostSteps:
    """The coarsest rounding, relative to their size, that the values of each row went through, in order of time.

    Rows of 16 bits have their own. What others came by is kept for those alone that came by any.
    """

    def __init__(self, rows: Sequence[Row], deviations: Deviations) -> None:
        self._rows = rows
        self._deviations = deviations
        self._units = PastErrors()
        self._came_by: dict[int, float] = {}
        self._is_any = False

    def add(self, number: int, deviation: Deviation, sources: Callable[[int], Sequence[int] | None]) -> None:
        """Take note of a judged row; ``sources`` gives the rows that one was made of."""
        row = self._rows[number]
        if row.measurement is None or row.measurement.mode is not Mode.STATISTICS:
            return
        if row.is_produced:
            self._units.add(row.node.execution, deviation.unit)
        if deviation.unit > FINE:
            self._is_any = True
        elif self._is_any and deviation.size > 0.0 and deviation.unit:
            shares = [self._share(each, deviation) for each in sources(number) or ()]
            if found := max(shares, default=0.0):
                self._came_by[number] = found

    def _share(self, source: int, output: Deviation) -> float:
        """Return the rounding of a source relative to an output: less of smaller values, of sums the root."""
        tensor = self._deviations[source]
        if tensor is None:
            return 0.0
        summed = math.sqrt(max(1.0, tensor.count / output.count))
        return self._of(source, tensor) * min(1.0, summed * tensor.size / output.size)

    def _of(self, number: int, tensor: Deviation) -> float:
        return tensor.unit if tensor.unit > FINE else self._came_by.get(number, 0.0)

    def hidden_in(self, number: int, tensor: Deviation, output: Deviation) -> float:
        """Return the relative error that an input of a wide output may hide; rounding of narrow ones covers it."""
        return 0.0 if output.unit > FINE else HIDDEN_UNITS * self._of(number, tensor)

    def around(self, execution: Execution, output: Deviation) -> float:
        """Return the same for what a gradient is made of, by the coarsest type that its execution was in of late."""
        return HIDDEN_UNITS * max(output.unit, self._units.recent(execution))
