"""Roundings to 16 bits that the dump of a program does not show: before what it holds, or inside of a module.

Under autocast a program casts what its products read; a dump shows the wide tensors, and the narrow result alone.
Parameters and buffers of a model that is cast to 16 bits were rounded before anything was recorded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Call, Calls
from probe_flow.analysis.model.deviation import Deviation
from probe_flow.analysis.model.rounding import WITHIN_FRAMEWORK, are_bounds
from probe_flow.analysis.narrowed import rounded_before
from probe_flow.analysis.number_types import SIGNIFICANT_BITS, WIDE
from probe_flow.records import Execution, Pair
from probe_flow.records.row import Row

OPERANDS = 2
"""Wide tensors that such a call reads at least; what makes a narrow one of one may be a cast of the program."""

RECURRENT = re.compile(r"(?i)(gru|lstm|rnn)(_?cell)?")
"""Types of modules that compute many results inside, of which the dump holds the last ones."""


class HiddenCasts:
    """The roundings of each row.

    Args:
        rows: all rows.
        calls: of the rows.
    """

    def __init__(self, rows: Sequence[Row], calls: Calls) -> None:
        self._rows = rows
        self._calls = calls

    def behind(
        self, row: Row, call: Call, deviation: Deviation, sources: Sequence[int] | None, *, is_linked: bool
    ) -> Deviation:
        """Return the deviation of a row with the rounding that a cast left which its type does not show.

        What shows again what others gave (``is_linked``) was cast on its way, unless these were rounded as well.
        """
        if not self._coarsest:
            return deviation
        if not row.is_produced or is_linked:
            unit = self.before(row) if sources is not None else 0.0
            if unit and any(self.before(self._rows[n]) == unit for n in sources or ()):
                unit = 0.0
        else:
            is_recurrent = call.node is not None and RECURRENT.fullmatch(call.node.op_type) is not None
            unit = self.around(row) if is_recurrent else 0.0
        return replace(deviation, unit=unit) if unit > deviation.unit else deviation

    def before(self, row: Row) -> float:
        """Return the rounding of the 16-bit type that the target's values were in alone; 0.0 where none are of one.

        A cast of a parameter or an input of a network in 16 bits whose golden is in float32.
        """
        target = row.measurement.target if row.measurement is not None else None
        if target is None or not _is_wide(row):
            return 0.0
        extremes = target.statistics.min, target.statistics.max
        if are_bounds(extremes):
            return self._coarsest
        found = rounded_before(extremes, WITHIN_FRAMEWORK.unit)
        return found if found and self._coarsest else 0.0

    def around(self, row: Row) -> float:
        """Return the rounding of the 16-bit type that the execution of a wide row computes in; 0.0 without autocast."""
        return self._autocasts.get(row.node.execution, 0.0) if _is_wide(row) else 0.0

    @cached_property
    def _coarsest(self) -> float:
        """The rounding of the coarsest 16-bit type that the target has tensors of; 0.0 where it has none."""
        dtypes = {each.dtype for row in self._rows if (each := row.pair.target) is not None}
        return max((WITHIN_FRAMEWORK.unit[each] for each in dtypes.intersection(SIGNIFICANT_BITS)), default=0.0)

    @cached_property
    def _autocasts(self) -> dict[Execution, float]:
        """By execution that has calls which make narrow results of wide operands, where the golden's are wide."""
        found: dict[Execution, float] = {}
        for call in self._calls if self._coarsest else ():
            narrow = [pair.target.dtype for n in call.written if (pair := self._rows[n].pair).target and _is_cast(pair)]
            if not narrow or call.is_gradient:
                continue
            floats = [row for n in call.read if "float" in (row := self._rows[n]).pair.shown.dtype]
            if len(floats) >= OPERANDS and all(map(_is_wide, floats)):
                run = call.key.execution
                found[run] = max(found.get(run, 0.0), *(WITHIN_FRAMEWORK.unit[dtype] for dtype in narrow))
        return found


def _is_wide(row: Row) -> bool:
    return row.pair.target is not None and row.pair.target.dtype in WIDE


def _is_cast(pair: Pair) -> bool:
    """Whether the target has 16 bits where the golden has more."""
    target, golden = pair.target, pair.golden
    return target is not None and golden is not None and target.dtype in SIGNIFICANT_BITS and golden.dtype in WIDE
