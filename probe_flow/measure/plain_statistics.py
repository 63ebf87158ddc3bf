"""Measures many pairs of recorded statistics at once, where all of these are finite floats, as nearly all are.

The formulas are those of `compare_statistics`, so that each figure is the same to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from probe_flow.metrics.catalogue.statistics import COMPARED, compare_statistics
from probe_flow.records import Figures, Measurement, Mode, Pair, Statistics, TensorKind
from probe_flow.records.figure_columns import RecordedColumns
from probe_flow.records.figures import AT_ONCE
from probe_flow.records.pairs import numbers_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

_LARGEST_COUNT = 2**62
"""Elements that a table holds as a number; a dump may claim any shape."""

_METRICS = tuple(compare_statistics(Statistics(), Statistics()))
_PLACES = [Statistics.__struct_fields__.index(name) for name in COMPARED]


def plain_measurements(
    pairs: Sequence[Pair], numbers: Sequence[int], figures: Figures
) -> Iterator[tuple[int, Measurement]]:
    """Yield the numbers of pairs of which finite statistics are all that is known, with what is measured of them.

    Args:
        pairs: all pairs.
        numbers: those to measure, which have both sides.
        figures: where the figures go.
    """
    columns = RecordedColumns()
    types: dict[tuple[int, int], int | None] = {}
    for begin in range(0, len(numbers), AT_ONCE):
        counts = {number: _count(pairs[number], types) or 0 for number in numbers[begin : begin + AT_ONCE]}
        some = [number for number, count in counts.items() if count]
        targets, goldens = [pairs[n].target for n in some], [pairs[n].golden for n in some]
        sides = [columns.of(side) for side in (targets, goldens)]
        is_plain = np.ones(len(some), dtype=bool)
        for cells in sides:
            is_plain &= cells.are_floats[:, _PLACES].all(axis=1)
            is_plain &= np.isfinite(cells.values[:, _PLACES]).all(axis=1)
        places = np.flatnonzero(is_plain)
        if not len(places):
            continue
        table = figures.table(Mode.STATISTICS, "", _METRICS, ())
        first = table.extend(_metrics(*(cells.values[places][:, _PLACES] for cells in sides)))
        table.count_plain([counts[some[place]] for place in places.tolist()])
        rows = numbers_for(pairs, first + len(places))
        for row, place in enumerate(places.tolist(), first):
            yield some[place], Measurement.of_recorded(table, rows[row], pairs[some[place]])


def _count(pair: Pair, types: dict[tuple[int, int], int | None]) -> int | None:
    """Return how many elements a pair has; None where there is more to say of it than its statistics."""
    target, golden = pair.target, pair.golden
    assert target is not None
    assert golden is not None
    key = id(target.traits), id(golden.traits)
    if key not in types:
        mine, other = target.type, golden.type
        is_plain = (
            mine.kind is other.kind is TensorKind.STATISTICS
            and mine.dtype == other.dtype
            and mine.logical_shape is not None
            and mine.logical_shape == other.logical_shape
            and mine.shape == other.shape
        )
        count = target.numel if is_plain else None
        types[key] = count if count is not None and count <= _LARGEST_COUNT else None
    return None if target.checksum and golden.checksum else types[key]


def _metrics(target: Floats, golden: Floats) -> Floats:
    with np.errstate(all="ignore"):
        difference = target - golden
        difference = np.where(difference == 0.0, 0.0, difference)  # -0.0 reads as a difference
        ratio = np.abs(difference / golden)
        relative = np.where(difference == 0.0, 0.0, np.where(golden == 0.0, np.inf, ratio))
    found: Floats = np.stack((difference, relative), axis=2).reshape(len(target), -1)
    return found
