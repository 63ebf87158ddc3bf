"""What is known of the values of one side of many rows, figure by figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from probe_flow.records.figure_columns import Cells, RecordedColumns
from probe_flow.records.figures import Value
from probe_flow.records.measurement import Measurement, SideSummary
from probe_flow.records.row import Row
from probe_flow.records.tensor import TensorRef
from probe_flow.records.tensor_data import Statistics

if TYPE_CHECKING:
    from collections.abc import Callable

FIGURES = Statistics.__struct_fields__
_NO_STATISTICS = Statistics()


def statistics_of(tensor: TensorRef | None, summary: SideSummary | None) -> Statistics:
    """Return what is known of a side's values: measured, else recorded in the dump, else nothing."""
    if summary is not None:
        return summary.statistics
    return tensor.recorded if tensor is not None and tensor.recorded is not None else _NO_STATISTICS


class SideFigures(Struct, frozen=True):
    """Figures of one side of some rows, in the order of `FIGURES`.

    Args:
        cells: those that dumps recorded in tables.
        others: what is known of rows of which these say nothing, by their places.
    """

    cells: Cells
    others: Mapping[int, Statistics]

    def other(self, column: int, place: int) -> Value:
        """Return a figure of a row that is no float."""
        known = self.others.get(place)
        return None if known is None else getattr(known, FIGURES[column])

    def values(self, column: int) -> list[Value]:
        """Return one figure of all rows."""
        are_floats = self.cells.are_floats[:, column]
        if not are_floats.any():
            found: list[Value] = [None] * len(are_floats)
            for place in self.others:
                found[place] = self.other(column, place)
            return found
        found = self.cells.values[:, column].tolist()
        for place in np.flatnonzero(~are_floats).tolist():
            found[place] = self.other(column, place)
        return found


class SideColumns:
    """Reads one side of rows: ``target``, ``golden`` or ``reference``."""

    def __init__(self, side: str) -> None:
        self._tensor_of: Callable[[Row], TensorRef | None] = attrgetter(f"pair.{side}")
        self._given_of: Callable[[Measurement], object] = attrgetter(f"given_{side}")
        self._summary_of: Callable[[Measurement], SideSummary | None] = attrgetter(side)
        self._recorded = RecordedColumns()

    def tensors(self, rows: Sequence[Row]) -> list[TensorRef | None]:
        """Return the tensor of each row."""
        return list(map(self._tensor_of, rows))

    def summary(self, row: Row) -> SideSummary | None:
        """Return what was measured of a row's side."""
        return None if row.measurement is None else self._summary_of(row.measurement)

    def figures(self, rows: Sequence[Row]) -> SideFigures:
        """Return what is known of the side's values: measured, else recorded in the dump, else nothing."""
        tensors = self.tensors(rows)
        own = [tensor if self._is_own(row, tensor) else None for row, tensor in zip(rows, tensors, strict=True)]
        cells = self._recorded.of(own)
        is_said = (cells.are_floats | cells.are_none).all(axis=1)
        cells.are_floats[~is_said] = False
        others = np.flatnonzero(~is_said).tolist()
        return SideFigures(cells, {place: statistics_of(tensors[place], self.summary(rows[place])) for place in others})

    def _is_own(self, row: Row, tensor: TensorRef | None) -> bool:
        """Whether what is known of a row's side is what its tensor has recorded."""
        return row.measurement is None or self._given_of(row.measurement) is tensor
