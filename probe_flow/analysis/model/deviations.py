"""The deviations of all rows of a run, by number.

Those of recorded statistics are found many rows at once where all of these are finite floats, as nearly all are. The
formulas and the order of their operations are those of `deviation_of`, so that each figure is the same to the bit.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from operator import attrgetter
from struct import Struct as Packing
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from probe_flow.analysis.model.deviation import Deviation, deviation_of, quantised_side
from probe_flow.analysis.model.rounding import UNLOST, Rounding, storage
from probe_flow.analysis.narrowed import PLAIN_BITS, PLAIN_INTEGER
from probe_flow.analysis.number_types import HALF_RANGE, SIGNIFICANT_BITS, WIDE
from probe_flow.masks import LEAST
from probe_flow.records import Mode, Value
from probe_flow.records.figure_columns import RecordedColumns
from probe_flow.records.figures import AT_ONCE, FEW, MANY, Numbers
from probe_flow.records.row import Row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Flags: TypeAlias = NDArray[np.bool_]
    Whole: TypeAlias = NDArray[np.int64]

_STATISTICS = 4
"""Extremes, mean and norm: the first fields of `Statistics`."""

_MEAN = 2
"""The place of the mean among them."""

_BEYOND = 12
"""Stands for more bits of a significand than any of the narrow types has."""

_NONE = -1
_OWN = (*Deviation.__struct_fields__[:7], "least")
_COMMON = Deviation.__struct_fields__[10:]
_UNIT = _COMMON.index("unit")
_own: Callable[[Deviation], tuple[Value, ...]] = attrgetter(*_OWN)
_common: Callable[[Deviation], tuple[Any, ...]] = attrgetter(*_COMMON)
_PACKING = Packing(f"{len(_OWN)}d")


class Deviations:
    """The deviations of rows, by number: what differs from row to row in a table, what many share once.

    The counts are those of the measurement.
    """

    def __init__(self, rows: Sequence[Row], rounding: Rounding) -> None:
        self._rows = rows
        self._figures: list[Numbers] = []  # of so many rows each
        self._rows_at_once = AT_ONCE
        self._kinds = array("i", [_NONE]) * len(rows)
        known: dict[tuple[Any, ...], int] = {}
        plain, put = _Plain(rounding, known) if len(rows) >= FEW else None, _put_of(len(rows))
        for begin in range(0, len(rows), AT_ONCE):
            some = rows[begin : begin + AT_ONCE]
            figures = array("d", bytes(_PACKING.size * len(some)))
            if plain is not None:
                self._place(begin, figures, *plain.of(some))
            for number, row in enumerate(some, begin):
                if self._kinds[number] == _NONE and (found := deviation_of(row, rounding)) is not None:
                    _PACKING.pack_into(figures, _PACKING.size * (number - begin), *_own(found))
                    self._kinds[number] = known.setdefault(_common(found), len(known))
            self._figures.append(put(figures))
        self._shared: tuple[tuple[Any, ...], ...] = tuple(known)
        self._others: dict[int, Deviation] = {}

    def _place(self, begin: int, figures: array[float], places: Whole, found: Floats, kinds: Whole) -> None:
        np.frombuffer(figures, dtype=np.float64).reshape(-1, len(_OWN))[places] = found
        np.frombuffer(self._kinds, dtype=np.intc)[places + begin] = kinds

    def __getitem__(self, number: int) -> Deviation | None:
        kind = self._kinds[number]
        if kind == _NONE:
            return None
        if self._others and number in self._others:
            return self._others[number]
        block, place = divmod(number, self._rows_at_once)
        figures, begin = self._figures[block], len(_OWN) * place
        rms, peak, gain, offset, size, top, spread, least = (
            _PACKING.unpack_from(figures, _PACKING.size * place)
            if isinstance(figures, array)
            else figures[begin : begin + len(_OWN)]
        )
        measured = self._rows[number].measurement
        assert measured is not None, "what has a deviation was measured"
        count, nonfinite = measured.table.elements(measured.number)
        return Deviation(
            rms, peak, gain, offset, size, top, spread, count, nonfinite, least, *self._shared[kind]
        )  # fmt: skip

    def is_known(self, number: int) -> bool:
        """Return True if a row has a deviation."""
        return self._kinds[number] != _NONE

    def unit(self, number: int) -> float:
        """Return the `Deviation.unit` of a row, without the rest; 0 where it has no deviation."""
        kind = self._kinds[number]
        return 0.0 if kind == _NONE else self._shared[kind][_UNIT]

    def put(self, number: int, deviation: Deviation) -> None:
        """Have a row stand for another deviation than that of all its elements."""
        self._others[number] = deviation

    def forget(self, number: int) -> None:
        """Take a row for one that was not measured."""
        self._kinds[number] = _NONE


def _put_of(count: int) -> Callable[[Numbers], Numbers]:
    """Return what puts figures away, if so many rows have some."""
    if count < MANY:
        return lambda numbers: numbers
    from probe_flow.files.filed_numbers import NumberFile

    return NumberFile().put


class _Types(NamedTuple):
    """What the types of both sides say of a pair.

    Args:
        bits: of the significand of the narrower type, where both sides are of 16 bits; else 0.
        plain, first, second: the number of what their deviations have in common: plainly; where both norms are records
            of 16 bits, or wide values were rounded to the first of `SIGNIFICANT_BITS`; to the second one.
    """

    bits: int
    plain: int
    first: int
    second: int


class _Plain:
    """Finds the deviations of neighbouring rows.

    Args:
        rounding: what needs no fault.
        known: what deviations have in common, numbered; it grows.
    """

    def __init__(self, rounding: Rounding, known: dict[tuple[Any, ...], int]) -> None:
        self._rounding = rounding
        self._known = known
        self._columns = RecordedColumns()
        self._types: dict[tuple[int, int], _Types | None] = {}

    def of(self, rows: Sequence[Row]) -> tuple[Whole, Floats, Whole]:
        """Return places of rows, their figures (`_OWN`) and the numbers of what they share.

        Of other rows nothing is said.
        """
        chosen = [(place, types) for place, row in enumerate(rows) if (types := self._types_of(row)) is not None]
        places = np.array([place for place, _ in chosen], dtype=np.int64)
        own = self._columns.of([rows[place].pair.target for place, _ in chosen])
        other = self._columns.of([rows[place].pair.golden for place, _ in chosen])
        ends = other.values[:, :2]  # those of masked scores are for `deviation_of`
        is_plain = (np.abs(ends) < LEAST).all(axis=1) | (ends == own.values[:, :2]).all(axis=1)
        is_plain &= other.are_none[:, _STATISTICS:].all(axis=1)
        for cells in (own, other):
            is_plain &= cells.are_floats[:, :_STATISTICS].all(axis=1)
            is_plain &= np.isfinite(cells.values[:, :_STATISTICS]).all(axis=1)
        places = places[is_plain]
        target, golden = own.values[is_plain, :_STATISTICS], other.values[is_plain, :_STATISTICS]
        told = np.array([each for _, each in chosen], dtype=np.int64).reshape(-1, 4)[is_plain]
        counts = np.array([_count(rows[place]) for place in places.tolist()], dtype=np.float64)
        with np.errstate(all="ignore"):
            if self._rounding.summed:
                target, golden = _with_norms_of_one_number(target, counts), _with_norms_of_one_number(golden, counts)
            figures = _figures(_nearest(target, golden, told[:, 0]), golden, counts, self._rounding.summed)
            before = _rounded_before(np.concatenate((golden[:, :2], target[:, :2]), axis=1))
            is_open = _are_records(target[:, -1], told[:, 0]) & _are_records(golden[:, -1], told[:, 0])
        which = np.where(told[:, 0] > 0, is_open, before)
        return places, figures, told[np.arange(len(told)), 1 + which]

    def _types_of(self, row: Row) -> _Types | None:
        """Return what the types of a row say; None where it is for `deviation_of`."""
        measured, pair = row.measurement, row.pair
        target, golden = pair.target, pair.golden
        if measured is None or target is None or golden is None or pair.rule.is_self:
            return None
        if measured.given.target is not target or measured.given.golden is not golden:
            return None
        if measured.table.mode is not Mode.STATISTICS or not measured.count:
            return None
        key = id(target.traits), id(golden.traits)
        if key not in self._types:
            self._types[key] = self._new_types(row) if quantised_side(row) is None else None
        return self._types[key]

    def _new_types(self, row: Row) -> _Types:
        target, golden = row.pair.target, row.pair.golden
        assert target is not None
        assert golden is not None
        dtypes = target.dtype, golden.dtype
        unit, step = storage(row.pair, Mode.STATISTICS, self._rounding)
        bits = min(SIGNIFICANT_BITS.get(dtype, 0) for dtype in dtypes)
        errors = [(unit, 0.0)] * 3
        if bits:
            errors[1] = unit, max(self._rounding.unit[dtype] for dtype in dtypes)
        elif all(dtype in WIDE for dtype in dtypes):
            errors[1:] = [(max(unit, self._rounding.unit[dtype]), 0.0) for dtype in SIGNIFICANT_BITS]
        known, systematic, summed = self._known, self._rounding.systematic, self._rounding.summed
        kinds = [(unit, step, systematic, False, blind, summed) for unit, blind in errors]
        numbers = [known.setdefault(each, len(known)) for each in kinds]
        return _Types(bits, *numbers)


def _count(row: Row) -> int:
    measured = row.measurement
    assert measured is not None
    return measured.count


def _with_norms_of_one_number(values: Floats, counts: Floats) -> Floats:
    """Return statistics with the norms that elements have which are all one number, where they are."""
    low, high, _, norm = values.T
    found: Floats = values.copy()
    found[:, 3] = np.where((low == high) & (norm != 0.0), np.abs(low) * np.sqrt(counts), norm)
    return found


def _figures(target: Floats, golden: Floats, counts: Floats, summed: float) -> Floats:
    low, high, mean, norm = golden.T
    root = np.sqrt(counts)
    top = np.maximum(np.abs(low), np.abs(high))
    size = np.abs(norm) / root
    variance = size * size - mean * mean
    spread = np.sqrt(np.where(variance > 0.0, variance, 0.0))
    least = np.where((low > 0.0) | (high < 0.0), np.maximum(low, -high), 0.0)
    down, up, offset, norms = (target - golden).T
    if summed:
        lost = np.maximum(summed * counts - UNLOST, 0.0)
        rest = np.abs(norms) - lost * np.abs(norm)
        norms = np.copysign(np.where(rest > 0.0, rest, 0.0), norms)
    peak, norms = np.maximum(np.abs(up), np.abs(down)), norms / root
    proven = np.maximum(np.maximum(np.abs(norms), np.abs(offset)), peak / root)
    gain = np.where((size != 0.0) & (norm != 0.0), norms / size, 0.0)
    return np.stack((proven, peak, gain, offset, size, top, spread, least), axis=1)


def _nearest(target: Floats, golden: Floats, bits: Whole) -> Floats:
    """Return what each number may stand for: `nearest_record` where both types are of 16 bits, else of the mean."""
    is_narrow = bits > 0
    found: Floats = target.copy()
    found[:, _MEAN] = np.where(is_narrow, target[:, _MEAN], _means_as_recorded(target[:, _MEAN], golden[:, _MEAN]))
    if not is_narrow.any():
        return found
    mine, other = target[is_narrow], golden[is_narrow]
    least = np.zeros((len(mine), _STATISTICS), dtype=np.int64)
    least[:, :2] = bits[is_narrow, None]
    used = np.maximum(np.maximum(least, _bits(mine)), _bits(other))
    narrowest, widest = sorted(SIGNIFICANT_BITS.values())
    held = np.where(used <= narrowest, narrowest, widest)
    step = np.ldexp(1.0, np.frexp(np.maximum(np.abs(mine), np.abs(other)))[1] - held)
    away = mine - other
    rest = np.abs(away) - step
    near: Floats = other + np.copysign(np.where(rest > 0.0, rest, 0.0), away)
    is_record = (used <= widest) & (mine != 0.0) & (other != 0.0) & (mine != other)
    found[is_narrow] = np.where(is_record, near, mine)
    return found


def _means_as_recorded(target: Floats, golden: Floats) -> Floats:
    """Return `mean_as_recorded` of each mean."""
    bits = np.full(len(target), SIGNIFICANT_BITS["float16"])
    step = np.ldexp(1.0, np.frexp(np.maximum(np.abs(target), np.abs(golden)))[1] - bits)
    away = target - golden
    rest = np.abs(away) - step
    near = golden + np.copysign(np.where(rest > 0.0, rest, 0.0), away)
    is_rounded = (_are_records(target, bits) != _are_records(golden, bits)) & (target != 0.0) & (golden != 0.0)
    return np.where(is_rounded, near, target)


def _rounded_before(extremes: Floats) -> Whole:
    """Return for each row which narrow type all its extremes were rounded to: 0 none, 1 bfloat16, 2 float16."""
    used = _bits(extremes)
    sizes = np.abs(extremes)
    tells = ((used > PLAIN_BITS) & ~((sizes < PLAIN_INTEGER) & (extremes == np.rint(extremes)))).any(axis=1)
    most = used.max(axis=1, initial=0)
    fits = ((extremes == 0.0) | ((sizes >= HALF_RANGE[0]) & (sizes <= HALF_RANGE[1]))).all(axis=1)
    is_half = (most <= SIGNIFICANT_BITS["float16"]) & fits
    return np.where(~tells, 0, np.where(most <= SIGNIFICANT_BITS["bfloat16"], 1, np.where(is_half, 2, 0)))


def _bits(values: Floats) -> Whole:
    """Return how many bits each significand uses, from its first to its last one that is set."""
    whole = np.frexp(values)[0] * 2048.0
    is_whole = whole == np.rint(whole)
    number = np.abs(np.where(is_whole, whole, 0.0)).astype(np.int64)
    used = np.frexp(number)[1] - np.frexp(number & -number)[1] + 1
    return np.where(is_whole, np.where(number > 0, used, 0), _BEYOND)


def _are_records(values: Floats, bits: Whole) -> Flags:
    """Return `is_record` of each number."""
    shown = np.ldexp(np.frexp(values)[0], bits)
    return np.asarray(shown == np.rint(shown))
