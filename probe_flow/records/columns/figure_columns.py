"""Columns of figures, many rows at once: arrays in place of a call for each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from msgspec import Struct

from probe_flow.records.figures import FigureTable, Value
from probe_flow.records.measurement import Measurement, SideSummary
from probe_flow.records.row import Row
from probe_flow.records.tensor import TensorRef
from probe_flow.records.tensor_data import Statistics, TensorTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Flags: TypeAlias = NDArray[np.bool_]
    Places: TypeAlias = NDArray[np.intp]

_FLOATS, _NONE = "fzu", "n"
_CONSTANTS = {"z": 0.0, "u": 1.0}
_WIDTH = len(Statistics.__struct_fields__)


class Cells(Struct, frozen=True):
    """Values of some columns, row by row.

    Args:
        values: those that are floats; of others any number.
        are_floats: which are.
        are_none: which are None. What is neither is to be asked of the row itself.
    """

    values: Floats
    are_floats: Flags
    are_none: Flags


class FigureColumns:
    """Some neighbouring columns of a table, to which no rows are added any more.

    Args:
        table: the table.
        begin, end: the columns.
    """

    def __init__(self, table: FigureTable, begin: int, end: int) -> None:
        self._stored = stored = table.stored()
        self._firsts = table.firsts
        letters = [pattern[begin:end] for pattern in stored.patterns]
        slots = [[_stored(pattern[:place]) for place in range(begin, end)] for pattern in stored.patterns]
        shape = len(letters), end - begin
        self._slots = np.array(slots, dtype=np.intp).reshape(shape)
        self._are_floats = np.array([[each in _FLOATS for each in some] for some in letters], dtype=bool).reshape(shape)
        self._are_none = np.array([[each == _NONE for each in some] for some in letters], dtype=bool).reshape(shape)
        # NaN where the table has a number: what is measured is another one there
        constants = [[_CONSTANTS.get(each, np.nan) for each in some] for some in letters]
        self._constants = np.array(constants, dtype=np.float64).reshape(shape)
        self._widths = [_stored(pattern) for pattern in stored.patterns]

    def of(self, rows: Places) -> Cells:
        """Return the cells of some rows."""
        stored, begins = self._stored, self._firsts
        kinds = np.frombuffer(stored.kinds, dtype=stored.kinds.typecode)[rows]
        values = self._constants[kinds]
        if len(stored.numbers):
            if begins is None:
                first = rows * self._widths[0]
            else:
                first = np.frombuffer(begins, dtype=begins.typecode)[rows].astype(np.intp)
            places = first[:, None] + self._slots[kinds]
            numbers = np.frombuffer(stored.numbers, dtype=np.float64)
            values = np.where(np.isnan(values), numbers[np.minimum(places, len(numbers) - 1)], values)
        are_floats, are_none = self._are_floats[kinds], self._are_none[kinds]
        if stored.aside:
            is_aside = np.array([row in stored.aside for row in rows.tolist()], dtype=bool)
            are_floats[is_aside] = are_none[is_aside] = False
        return Cells(values, are_floats, are_none)


def _stored(pattern: str) -> int:
    """Return how many numbers the table has for columns of these kinds."""
    return sum(letter not in "nzu0" for letter in pattern)


class RecordedColumns:
    """What dumps recorded of tensors, in the order of the fields of `Statistics`."""

    def __init__(self) -> None:
        self._tables: dict[int, tuple[TensorTable, FigureColumns | None]] = {}

    def of(self, tensors: Sequence[TensorRef | None]) -> Cells:
        """Return the statistics of some tensors; of those whose data are in no table nothing is said."""
        shape = len(tensors), _WIDTH
        found = Cells(np.zeros(shape), np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool))
        groups: dict[int, list[int]] = {}
        tables: dict[int, TensorTable] = {}
        for place, tensor in enumerate(tensors):
            data = None if tensor is None else tensor.data
            if isinstance(data, TensorTable):
                key = id(data)
                if key not in groups:
                    groups[key], tables[key] = [], data
                groups[key].append(place)
        for key, places in groups.items():
            columns = self._columns(tables[key])
            if columns is None:
                continue
            cells = columns.of(np.array([tensors[place].number for place in places], dtype=np.intp))  # type: ignore[union-attr]
            at, width = np.array(places, dtype=np.intp), cells.values.shape[1]
            found.values[at, :width] = cells.values
            found.are_floats[at, :width] = cells.are_floats
            found.are_none[at, :width] = cells.are_none
            found.are_none[at, width:] = True
        return found

    def _columns(self, table: TensorTable) -> FigureColumns | None:
        known = self._tables.get(id(table))
        if known is None:
            figures = table.figures
            known = self._tables[id(table)] = table, FigureColumns(figures, 0, figures.width) if figures else None
        return known[1]


class MetricColumns:
    """Metrics of measurements, one metric of many of them at once.

    Args:
        measured: the measurements, None for none.
    """

    def __init__(self, measured: Sequence[Measurement | None]) -> None:
        self._measured = measured
        tables: dict[int, int] = {}
        self._tables: list[Measurement] = []
        """A measurement of each table."""
        self._of = np.full(len(measured), _NO_TABLE, dtype=np.intc)
        self._rows = np.zeros(len(measured), dtype=np.intp)
        for place, each in enumerate(measured):
            if each is not None:
                number = tables.setdefault(id(each.table), len(tables))
                if number == len(self._tables):
                    self._tables.append(each)
                self._of[place], self._rows[place] = number, each.number
        self._columns: dict[tuple[int, str], FigureColumns | None] = {}

    def of(self, name: str, begin: int, end: int) -> Cells:
        """Return one metric of neighbouring measurements; None where there is none of that name, or no measurement."""
        tables, rows = self._of[begin:end], self._rows[begin:end]
        found = Cells(np.zeros(len(rows)), np.zeros(len(rows), dtype=bool), np.ones(len(rows), dtype=bool))
        for number in {*tables.tolist()}:
            columns = None if number == _NO_TABLE else self._columns_of(number, name)
            if columns is not None:
                places = np.flatnonzero(tables == number)
                cells = columns.of(rows[places])
                found.values[places] = cells.values[:, 0]
                found.are_floats[places] = cells.are_floats[:, 0]
                found.are_none[places] = cells.are_none[:, 0]
        return found

    def _columns_of(self, number: int, name: str) -> FigureColumns | None:
        key = number, name
        if key not in self._columns:
            table = self._tables[number].table
            at = table.places.get(name, table.metrics)
            self._columns[key] = FigureColumns(table, at, at + 1) if at < table.metrics else None
        return self._columns[key]

    def metric(self, name: str, place: int) -> Value:
        """Return one metric of one of them."""
        measured = self._measured[place]
        return None if measured is None else measured.metric(name)


_NO_TABLE = -1


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

    def beyond_dump(self, row: Row) -> SideSummary | None:
        """Return what was measured of a row's side; None where that is what its tensor has recorded."""
        return None if self._is_own(row, self._tensor_of(row)) else self.summary(row)

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
