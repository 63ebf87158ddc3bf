"""Columns of figures, many rows at once: arrays in place of a call for each row."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from probe_flow.records.figures import FigureTable, Numbers, Value
from probe_flow.records.measurement import MeasuredTable, Measurement, Side, SideSummary
from probe_flow.records.row import Row
from probe_flow.records.tensor import TensorRef
from probe_flow.records.tensor_data import Statistics, TensorTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Flags: TypeAlias = NDArray[np.bool_]
    Places: TypeAlias = NDArray[np.intp]

_FLOATS, _WHOLE, _NONE = "fzu", "i0", "n"
_CONSTANTS = {"z": 0.0, "u": 1.0, "0": 0.0}
_WIDTH = len(Statistics.__struct_fields__)


class Cells(Struct, frozen=True):
    """Values of some columns, row by row.

    Args:
        values: those that are numbers; of others any number.
        are_floats: which are floats.
        are_whole: which are integers that a float holds exactly.
        are_none: which are None. What is nothing of these is to be asked of the row itself.
    """

    values: Floats
    are_floats: Flags
    are_whole: Flags
    are_none: Flags

    @classmethod
    def unsaid(cls, *shape: int) -> Cells:
        """Return cells of which nothing is said yet."""
        return cls(np.zeros(shape), *(np.zeros(shape, dtype=bool) for _ in range(3)))

    @property
    def are_said(self) -> Flags:
        """Which of them there is nothing to ask of."""
        return self.are_floats | self.are_whole | self.are_none

    def put(self, places: Places, cells: Cells) -> None:
        """Say of the rows at some places what other cells say; these have the first columns."""
        width = cells.values.shape[1:]
        at = (places, slice(width[0])) if width else places
        for mine, others in zip(astuple(self), astuple(cells), strict=True):
            mine[at] = others

    def ask(self, are_asked: Flags) -> None:
        """Say nothing of some rows."""
        for each in (self.are_floats, self.are_whole, self.are_none):
            each[are_asked] = False

    def column(self, place: int) -> Cells:
        """Return one column."""
        return Cells(*(each[:, place] for each in astuple(self)))

    def listed(self, other: Callable[[int], Value]) -> list[Value]:
        """Return the values of one column; ``other`` gives those that are to be asked of, by their places."""
        if self.are_none.all():
            return [None] * len(self.values)
        if self.are_whole.all():
            return list(self.values.astype(np.int64).tolist())
        found: list[Value] = self.values.tolist()
        if not self.are_floats.all():
            for place in np.flatnonzero(self.are_whole).tolist():
                found[place] = int(self.values[place])
            for place in np.flatnonzero(self.are_none).tolist():
                found[place] = None
            for place in np.flatnonzero(~self.are_said).tolist():
                found[place] = other(place)
        return found


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
        kinds = (_FLOATS, _WHOLE, _NONE)
        self._are = [
            np.array([[each in kind for each in some] for some in letters], dtype=bool).reshape(shape) for kind in kinds
        ]
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
            places = np.minimum(first[:, None] + self._slots[kinds], len(stored.numbers) - 1)
            values = np.where(np.isnan(values), _taken(stored.numbers, places), values)
        found = Cells(values, *(each[kinds] for each in self._are))
        if stored.aside:
            found.ask(np.array([row in stored.aside for row in rows.tolist()], dtype=bool))
        return found


def _taken(numbers: Numbers, places: Places) -> Floats:
    """Return the numbers at some places; of those that are elsewhere than in memory, what lies between is read."""
    if not places.size:
        return np.zeros(places.shape)
    begin = 0
    if not isinstance(numbers, array):
        begin = int(places.min())
        numbers = numbers[begin : int(places.max()) + 1]
    return np.frombuffer(numbers, dtype=np.float64)[places - begin]


def _stored(pattern: str) -> int:
    """Return how many numbers the table has for columns of these kinds."""
    return sum(letter not in "nzu0" for letter in pattern)


class _Tables:
    """Columns of tables, found once for each."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], tuple[FigureTable, FigureColumns]] = {}

    def columns(self, table: FigureTable, begin: int, end: int) -> FigureColumns:
        """Return some columns of a table."""
        key = id(table), begin, end
        if key not in self._known:
            self._known[key] = table, FigureColumns(table, begin, end)
        return self._known[key][1]


class RecordedColumns:
    """What dumps recorded of tensors, in the order of the fields of `Statistics`."""

    def __init__(self) -> None:
        self._tables = _Tables()

    def of(self, tensors: Sequence[TensorRef | None]) -> Cells:
        """Return the statistics of some tensors; of those whose data are in no table nothing is said."""
        found = Cells.unsaid(len(tensors), _WIDTH)
        groups: dict[int, tuple[FigureTable, list[int], list[int]]] = {}
        data: object = None
        group: tuple[FigureTable, list[int], list[int]] | None = None
        for place, tensor in enumerate(tensors):
            if tensor is None:
                continue
            if tensor.data is not data:  # neighbours mostly share a table
                data, group = tensor.data, None
                if isinstance(data, TensorTable) and data.figures is not None:
                    group = groups.setdefault(id(data), (data.figures, [], []))
            if group is not None:
                group[1].append(place)
                group[2].append(tensor.number)
        for table, places, rows in groups.values():
            at = np.array(places)
            found.put(at, self._tables.columns(table, 0, table.width).of(np.array(rows, dtype=np.intp)))
            found.are_none[at, table.width :] = True
        return found


class MetricGroup(NamedTuple):
    """Metrics of measurements that have the same ones.

    Args:
        names: of the metrics.
        places: of the measurements.
        columns: the values of each metric.
    """

    names: Sequence[str]
    places: Sequence[int]
    columns: Sequence[Sequence[Value]]


class MeasuredColumns:
    """What was measured of pairs: metrics, and figures of their sides."""

    def __init__(self) -> None:
        self._tables = _Tables()

    def metrics(self, measured: Sequence[Measurement | None]) -> Iterator[MetricGroup]:
        """Yield the metrics of measurements, those of each table together."""
        for table, places, rows in _by_table(enumerate(measured)):
            cells = self._tables.columns(table, 0, table.metrics).of(rows)
            columns = [_values(table, at, rows, cells.column(at)) for at in range(table.metrics)]
            yield MetricGroup(table.names[: table.metrics], places, columns)

    def put_side(self, side: str, measured: Iterable[tuple[int, Measurement]], cells: Cells) -> None:
        """Say what the tables have of one side of measurements, which come with their places."""
        for table, places, rows in _by_table(measured):
            begin = table.begins.get(side)
            if begin is not None:
                cells.put(np.array(places), self._tables.columns(table, begin, begin + _WIDTH).of(rows))


def _values(table: FigureTable, column: int, rows: Places, cells: Cells) -> list[Value]:
    return cells.listed(lambda place: table.value(int(rows[place]), column))


def _by_table(
    measured: Iterable[tuple[int, Measurement | None]],
) -> Iterator[tuple[MeasuredTable, list[int], Places]]:
    """Yield the places of measurements and their rows in a table, those of each table together."""
    groups: dict[int, tuple[MeasuredTable, list[int], list[int]]] = {}
    for place, each in measured:
        if each is not None:
            table = each.table
            if id(table) not in groups:
                groups[id(table)] = table, [], []
            _, places, rows = groups[id(table)]
            places.append(place)
            rows.append(each.number)
    for table, places, rows in groups.values():
        yield table, places, np.array(rows, dtype=np.intp)


class MetricColumns:
    """Metrics of rows, one metric of many of them at once.

    Args:
        rows: the rows, measured or not.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._all = rows
        tables: dict[int, int] = {}
        self._tables: list[Measurement] = []
        """A measurement of each table."""
        self._of = np.full(len(rows), _NO_TABLE, dtype=np.intc)
        self._rows = np.zeros(len(rows), dtype=np.intc)
        for place, row in enumerate(rows):
            if (each := row.measurement) is not None:
                number = tables.setdefault(id(each.table), len(tables))
                if number == len(self._tables):
                    self._tables.append(each)
                self._of[place], self._rows[place] = number, each.number
        self._kept = _Tables()

    def of(self, name: str, begin: int, end: int) -> Cells:
        """Return one metric of neighbouring rows; None where there is none of that name, or no measurement."""
        tables, rows = self._of[begin:end], self._rows[begin:end].astype(np.intp)
        found = Cells.unsaid(len(rows))
        found.are_none[:] = True
        for number in {*tables.tolist()}:
            columns = None if number == _NO_TABLE else self._columns_of(number, name)
            if columns is not None:
                places = np.flatnonzero(tables == number)
                found.put(places, columns.of(rows[places]).column(0))
        return found

    def _columns_of(self, number: int, name: str) -> FigureColumns | None:
        table = self._tables[number].table
        at = table.places.get(name, table.metrics)
        return self._kept.columns(table, at, at + 1) if at < table.metrics else None

    def metric(self, name: str, place: int) -> Value:
        """Return one metric of one of them."""
        measured = self._all[place].measurement
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
        cells: those that are in tables.
        others: what is known of rows of which these say nothing, by their places.
    """

    cells: Cells
    others: Mapping[int, Statistics]

    def other(self, column: int, place: int) -> Value:
        """Return a figure of a row of which the tables say nothing."""
        return cast("Value", getattr(self.others[place], FIGURES[column]))

    def values(self, column: int) -> list[Value]:
        """Return one figure of all rows."""
        return self.cells.column(column).listed(partial(self.other, column))


def _recorded_checksums(tensors: Sequence[TensorRef | None]) -> list[str | None]:
    """Return the checksums that dumps recorded; a table without any is not asked for each row."""
    found: list[str | None] = []
    data: object = None
    has_some = False
    for tensor in tensors:
        if tensor is not None and tensor.data is not data:  # neighbours mostly share a table
            data = tensor.data
            has_some = not isinstance(data, TensorTable) or bool(data.checksums)
        found.append(tensor.checksum if has_some and tensor is not None else None)
    return found


class SideColumns:
    """Reads one side of rows: ``target``, ``golden`` or ``reference``."""

    def __init__(self, side: str) -> None:
        self._side = side
        self._tensor_of: Callable[[Row], TensorRef | None] = attrgetter(f"pair.{side}")
        self._given_of: Callable[[Measurement], Side] = attrgetter(f"given.{side}")
        self._summary_of: Callable[[Measurement], SideSummary | None] = attrgetter(side)
        self._recorded, self._measured = RecordedColumns(), MeasuredColumns()

    def tensors(self, rows: Sequence[Row]) -> list[TensorRef | None]:
        """Return the tensor of each row."""
        return list(map(self._tensor_of, rows))

    def checksums(self, rows: Sequence[Row]) -> list[str | None]:
        """Return the checksum of each row's side: measured, else recorded in the dump."""
        tensors = self.tensors(rows)
        recorded = _recorded_checksums(tensors)
        for place, (given, tensor) in enumerate(zip(self._givens(rows, tensors), tensors, strict=True)):
            if given is not tensor and given is not None and given.checksum is not None:
                recorded[place] = given.checksum
        return recorded

    def figures(self, rows: Sequence[Row]) -> SideFigures:
        """Return what is known of the side's values: measured, else recorded in the dump, else nothing."""
        tensors = self.tensors(rows)
        givens = self._givens(rows, tensors)
        own = [tensor if given is tensor else None for tensor, given in zip(tensors, givens, strict=True)]
        cells = self._recorded.of(own)
        absent = [place for place, given in enumerate(givens) if given is None]
        cells.are_none[[place for place in absent if tensors[place] is None]] = True
        measured = [(place, found) for place in absent if (found := rows[place].measurement) is not None]
        self._measured.put_side(self._side, measured, cells)
        is_asked = np.asarray(~cells.are_said.all(axis=1))
        cells.ask(is_asked)
        others = {place: self._known(rows[place], tensors[place]) for place in np.flatnonzero(is_asked).tolist()}
        return SideFigures(cells, others)

    def _givens(self, rows: Sequence[Row], tensors: Sequence[TensorRef | None]) -> list[Side]:
        """Return what is known of each row's side beyond tables of measurements: its tensor, a summary, or nothing."""
        given_of = self._given_of
        return [
            tensor if (found := row.measurement) is None else given_of(found)
            for row, tensor in zip(rows, tensors, strict=True)
        ]

    def _known(self, row: Row, tensor: TensorRef | None) -> Statistics:
        return statistics_of(tensor, None if row.measurement is None else self._summary_of(row.measurement))
