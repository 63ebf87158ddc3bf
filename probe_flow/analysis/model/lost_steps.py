"""What rounding to 16 bits left in values that are in a wider type since: statistics show a part of it only.

Mixed precision computes products in 16 bits and sums, norms and losses in float32: each value of these is off by steps
of 16 bits, while norm, mean and extremes agree to float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from probe_flow.analysis.model.deviation import Deviation, Deviations
from probe_flow.analysis.model.growth import FINE
from probe_flow.analysis.model.past_errors import HIDDEN_UNITS, LatestErrors
from probe_flow.records import Execution
from probe_flow.records.row import Row


class LostSteps:
    """The coarsest rounding, relative to their size, that the values of each row went through, in order of time.

    Rows of 16 bits have their own. What others came by is kept for those alone that came by any.
    """

    def __init__(self, rows: Sequence[Row], deviations: Deviations) -> None:
        self._rows = rows
        self._deviations = deviations
        self._units = LatestErrors()
        self._came_by: dict[int, float] = {}
        self._is_any = False

    def add(self, number: int, deviation: Deviation, sources: Callable[[int], Sequence[int] | None]) -> None:
        """Take note of a judged row; ``sources`` gives the rows that one was made of."""
        row = self._rows[number]
        if not row.is_by_statistics:
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
        lost = self._of(source, self._deviations.unit(source))
        tensor = self._deviations[source] if lost else None
        if tensor is None:
            return 0.0
        summed = math.sqrt(max(1.0, tensor.count / output.count))
        return lost * min(1.0, summed * tensor.size / output.size)

    def _of(self, number: int, unit: float) -> float:
        return unit if unit > FINE else self._came_by.get(number, 0.0)

    def hidden_in(self, number: int, tensor: Deviation, output: Deviation) -> float:
        """Return the relative error that an input of a wide output may hide; rounding of narrow ones covers it."""
        return 0.0 if output.unit > FINE else HIDDEN_UNITS * self._of(number, tensor.unit)

    def around(self, execution: Execution, output: Deviation) -> float:
        """Return the same for what a gradient is made of, by the coarsest type that its execution was in of late."""
        return HIDDEN_UNITS * max(output.unit, self._units.largest(execution))
