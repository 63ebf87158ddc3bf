"""What was measured of a pair: figures in tables that many pairs share, and what they are figures of."""

from __future__ import annotations

import enum
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, TypeAlias, TypeGuard

from msgspec import Struct

from probe_flow.records.figure_views import FigureRow
from probe_flow.records.figures import FigureTable, Integers, Numbers, StoredTable, Value
from probe_flow.records.pairs import Pair
from probe_flow.records.tensor import TensorRef
from probe_flow.records.tensor_data import Statistics


class Mode(enum.Enum):
    """What was compared: elements, recorded statistics, checksums, or plain values."""

    TENSOR = "tensor"
    STATISTICS = "statistics"
    CHECKSUM = "checksum"
    VALUE = "value"

    __hash__ = object.__hash__  # Enum's own is a call of Python, made for every look-up of a node or slot


class SideSummary(Struct, frozen=True, gc=False):
    """Statistics of one side of a pair, over its finite elements, with the non-finite ones counted."""

    statistics: Statistics
    checksum: str | None = None


Side: TypeAlias = SideSummary | TensorRef | None
"""What is known of one side of a measurement; a tensor stands for what its dump recorded of it."""

_STATISTICS = Statistics.__struct_fields__
_SIDES = ("target", "golden", "reference")
_NO_INDEX = -1
_NO_ERROR = 0, _NO_INDEX
_WIDE, _BEYOND = 2**31, 2**63
"""From where on counts take 64 bits, and no such number holds them."""


class MeasuredTable(FigureTable):
    """The figures of all measurements of one kind: metrics, then the statistics of each side.

    Args:
        mode: what was compared.
        backend: kernel that measured.
        metrics: ids of the metrics.
        sides: those with their statistics in the table.
        figures: the tables that this one belongs to.
    """

    __slots__ = ("_counts", "_errors", "_huge", "backend", "begins", "figures", "metrics", "mode")

    def __init__(
        self, mode: Mode, backend: str, metrics: tuple[str, ...], sides: tuple[str, ...], figures: Figures
    ) -> None:
        super().__init__(
            (*metrics, *(f"{side}.{name}" for side in sides for name in _STATISTICS)),
            figures.numbers and figures.numbers(),
        )
        self.mode, self.backend, self.metrics, self.figures = mode, backend, len(metrics), figures
        self.begins = {side: len(metrics) + len(_STATISTICS) * number for number, side in enumerate(sides)}
        self._counts: Integers = array("i")  # of each row: elements
        self._errors: Integers = array("i")  # mismatches, place of the largest error; nothing as long as none has any
        self._huge: dict[int, tuple[int, int, int]] = {}

    def count(self, elements: int, mismatches: int, worst: int) -> None:
        """Note the counts of the row that was added last; a dump may claim more elements than 64 bits hold."""
        found, number = (elements, mismatches, worst), len(self._counts)
        if max(found) >= _BEYOND:
            self._huge[number] = found
            found = 0, *_NO_ERROR
        self._widen(*found)
        self._counts.append(found[0])
        if found[1:] != _NO_ERROR and not self._errors:
            self._errors.extend(_NO_ERROR * number)
        if found[1:] != _NO_ERROR or self._errors:
            self._errors.extend(found[1:])

    def count_plain(self, elements: Sequence[int]) -> None:
        """Note the elements of the rows that were added last, which have no mismatch."""
        self._widen(*elements)
        self._counts.extend(elements)
        if self._errors:
            self._errors.extend(_NO_ERROR * len(elements))

    def _widen(self, *counts: int) -> None:
        """Have room for counts in 32 bits each, or in 64 where that is not enough."""
        if self._counts.typecode == "i" and max(counts, default=0) >= _WIDE:
            self._counts, self._errors = array("q", self._counts), array("q", self._errors)

    def counted(self, number: int, what: int) -> int:
        """Return one of the counts of a row."""
        if self._huge and number in self._huge:
            return self._huge[number][what]
        if not what:
            return self._counts[number]
        return self._errors[2 * number + what - 1] if self._errors else _NO_ERROR[what - 1]

    def elements(self, number: int) -> tuple[int, int]:
        """Return how many elements of a row were compared, and how many mismatch, in one call."""
        if self._huge and number in self._huge:
            return self._huge[number][:2]
        return self._counts[number], self._errors[2 * number] if self._errors else 0

    def stored(self) -> StoredMeasurements:
        """Return the table as a file has it; the numbers are its own."""
        figures, sides = super().stored(), tuple(self.begins)
        found = figures.names, figures.patterns, figures.numbers, figures.kinds, figures.aside
        counts = self._counts, self._errors, self._huge
        return StoredMeasurements(*found, self.mode, self.backend, self.metrics, sides, *counts)

    def take_counts(self, counts: Integers, errors: Integers, huge: Mapping[int, tuple[int, int, int]]) -> None:
        """Take over the counts of the rows from a file."""
        self._counts, self._errors, self._huge = counts, errors, dict(huge)


class StoredMeasurements(StoredTable, frozen=True, gc=False, eq=False):
    """A table of measurements as a file has it.

    Args:
        mode, backend, sides: as `Figures.table` has them.
        metrics: how many of the columns are metrics.
        counts: elements of each row, of 32 bits each where that is enough for all.
        errors: of each row how many elements mismatch, and the place of the largest error; empty where none has any.
        huge: counts beyond 64 bits, by the number of the row.
    """

    mode: Mode
    backend: str
    metrics: int
    sides: tuple[str, ...]
    counts: Integers
    errors: Integers
    huge: Mapping[int, tuple[int, int, int]]

    def restored(self) -> FigureTable:
        """Return the table.

        Raises:
            ValueError: the parts are not those of one table.
        """
        table = Figures().table(self.mode, self.backend, self.names[: self.metrics], self.sides)
        if table.names != self.names or not {*self.sides} <= {*_SIDES}:
            raise ValueError("a table of measurements has other columns than metrics and sides")
        self.fill(table)
        codes = self.counts.typecode + self.errors.typecode
        if len(self.counts) != len(table) or len(self.errors) not in (0, 2 * len(table)) or codes not in ("ii", "qq"):
            raise ValueError("a table of measurements has not as many counts as rows")
        if any(not 0 <= number < len(table) for number in self.huge):
            raise ValueError("a count is of no row")
        table.take_counts(self.counts, self.errors, self.huge)
        return table


class Figures:
    """Where the figures of many measurements are: one table for all that have the same metrics and sides.

    Args:
        numbers: makes what holds the numbers of a table; None = memory.
    """

    def __init__(self, numbers: Callable[[], Numbers] | None = None) -> None:
        self.numbers = numbers
        self._tables: dict[tuple[Mode, str, tuple[str, ...], tuple[str, ...]], MeasuredTable] = {}

    def table(self, mode: Mode, backend: str, metrics: tuple[str, ...], sides: tuple[str, ...]) -> MeasuredTable:
        """Return the table of measurements of one kind."""
        key = mode, backend, metrics, sides
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = MeasuredTable(*key, self)
        return found


class Given(Struct, frozen=True, gc=False):
    """What is known of the sides of a measurement that are not in its table."""

    target: Side = None
    golden: Side = None
    reference: Side = None


_NOT_GIVEN = Given()
"""The same object for all measurements with both sides in the table."""


class Measurement(Struct, frozen=True, gc=False, eq=False):
    """What was measured of one pair: a row of a table, made by `of`.

    Args:
        table, number: where its figures are.
        notes: what is worth saying about the measurement (``shape differs``, ``broadcast``).
        given: what is known of sides that are not in the table; the pair itself where its dumps recorded all of it.
    """

    table: MeasuredTable
    number: int
    notes: tuple[str, ...] = ()
    given: Given | Pair = _NOT_GIVEN

    @classmethod
    def of(
        cls,
        mode: Mode,
        metrics: Mapping[str, Value],
        target: Side = None,
        golden: Side = None,
        *,
        nonfinite_mismatch: int = 0,
        worst_index: int | None = None,
        count: int = 0,
        backend: str = "",
        notes: tuple[str, ...] = (),
        reference: Side = None,
        figures: Figures | None = None,
    ) -> Measurement:
        """Store what was measured.

        Args:
            mode: what was compared.
            metrics: metric id -> value; None = not computable, NaN and infinities are values.
            target, golden: per-side statistics (None when that side could not be read).
            nonfinite_mismatch: positions where NaN or infinities disagree between the sides (kind and sign);
                for statistics 1 when what was recorded shows that some do.
            worst_index: flat logical index of the largest absolute error, None when there is none.
            count: elements compared.
            backend: kernel that measured, e.g. ``numpy``; empty outside tensor mode.
            notes: what is worth saying about the measurement.
            reference: statistics of the third side, where there is one that was measured.
            figures: where the figures go, together with those of other pairs.
        """
        given = target, golden, reference
        values = list(metrics.values())
        sides: tuple[str, ...] = ()
        if any(side.__class__ is SideSummary for side in given):
            sides = tuple(word for word, side in zip(_SIDES, given, strict=True) if _is_figures(side))
            values += chain.from_iterable(_six(side.statistics) for side in given if _is_figures(side))
            target, golden, reference = (None if _is_figures(side) else side for side in given)
        table = (figures or Figures()).table(mode, backend, tuple(metrics), sides)
        number = table.add(values)
        table.count(count, nonfinite_mismatch, _NO_INDEX if worst_index is None else worst_index)
        is_given = target is not None or golden is not None or reference is not None
        return cls(table, number, notes, Given(target, golden, reference) if is_given else _NOT_GIVEN)

    @classmethod
    def of_recorded(cls, table: MeasuredTable, number: int, pair: Pair) -> Measurement:
        """Return what is in a table of a pair, of whose sides the dumps recorded all that is known."""
        is_judged = pair.reference is not None  # that is no side of this measurement
        return cls(table, number, (), Given(pair.target, pair.golden) if is_judged else pair)

    def with_metrics(self, metrics: Mapping[str, Value], *, reference: Side = None) -> Measurement:
        """Return the same measurement with further metrics, and with a third side where one is given."""
        return Measurement.of(
            self.mode,
            {**self.metrics, **metrics},
            self.target,
            self.golden,
            nonfinite_mismatch=self.nonfinite_mismatch,
            worst_index=self.worst_index,
            count=self.count,
            backend=self.backend,
            notes=self.notes,
            reference=reference or self.reference,
            figures=self.table.figures,
        )

    @property
    def mode(self) -> Mode:
        """What was compared."""
        return self.table.mode

    @property
    def backend(self) -> str:
        """Kernel that measured, e.g. ``numpy``; empty outside tensor mode."""
        return self.table.backend

    @property
    def metrics(self) -> FigureRow:
        """Metric id -> value; None = not computable, NaN and infinities are values."""
        return FigureRow(self.table, self.number, self.table.metrics)

    def metric(self, name: str) -> Value:
        """Return one of the metrics, without a view of all; None where there is none of that name."""
        table = self.table
        place = table.places.get(name, table.metrics)
        return table.value(self.number, place) if place < table.metrics else None

    def first_metric(self, names: Iterable[str]) -> Value:
        """Return the first of these metrics that was asked for, None also where it could not be computed."""
        table = self.table
        for name in names:
            place = table.places.get(name, table.metrics)
            if place < table.metrics:
                return table.value(self.number, place)
        return None

    @property
    def count(self) -> int:
        """Elements compared."""
        return self.table.counted(self.number, 0)

    @property
    def nonfinite_mismatch(self) -> int:
        """Positions where NaN or infinities disagree between the sides."""
        return self.table.counted(self.number, 1)

    @property
    def worst_index(self) -> int | None:
        """Flat logical index of the largest absolute error, None when there is none."""
        found = self.table.counted(self.number, 2)
        return None if found == _NO_INDEX else found

    @property
    def target(self) -> SideSummary | None:
        """Statistics of the target; None when it could not be read."""
        return self._side("target", self.given.target)

    @property
    def golden(self) -> SideSummary | None:
        """Statistics of the golden."""
        return self._side("golden", self.given.golden)

    @property
    def reference(self) -> SideSummary | None:
        """Statistics of the third side, where there is one that was measured."""
        return self._side("reference", self.given.reference)

    @property
    def target_statistics(self) -> Statistics | None:
        """The statistics of `target`, where its checksum is not asked for."""
        return self._statistics("target", self.given.target)

    @property
    def golden_statistics(self) -> Statistics | None:
        """The statistics of `golden`."""
        return self._statistics("golden", self.given.golden)

    def _side(self, side: str, given: Side) -> SideSummary | None:
        if isinstance(given, SideSummary):
            return given
        statistics = self._statistics(side, given)
        return None if statistics is None else SideSummary(statistics, None if given is None else given.checksum)

    def _statistics(self, side: str, given: Side) -> Statistics | None:
        if isinstance(given, TensorRef):
            return given.recorded or _NOTHING
        if given is not None:
            return given.statistics
        begin = self.table.begins.get(side)
        if begin is None:
            return None
        figures: Sequence[Any] = self.table.part(self.number, begin, begin + len(_STATISTICS))
        return Statistics(*figures)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Measurement) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash((self.mode, self.count, self.worst_index))

    def _facts(self) -> tuple[object, ...]:
        sides = self.target, self.golden, self.reference
        facts = self.mode, self.backend, self.notes, self.nonfinite_mismatch, self.worst_index, self.count
        return *facts, dict(self.metrics), *sides

    def __repr__(self) -> str:
        return f"Measurement{self._facts()}"


_NOTHING = Statistics()
_six = attrgetter(*_STATISTICS)


def _is_figures(side: Side) -> TypeGuard[SideSummary]:
    return side.__class__ is SideSummary and side.checksum is None
