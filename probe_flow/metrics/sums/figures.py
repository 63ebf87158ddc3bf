"""The figures of an ordinary block, as the fast paths of both backends find them, and the record they make.

A block is ordinary when its values are finite real numbers whose squares neither overflow nor vanish in float64, and
its integers are exact there. Its sums need no scale, so its figures are plain numbers.
"""

from __future__ import annotations

from typing import NamedTuple

from probe_flow.metrics.sums.block_sums import Values
from probe_flow.metrics.sums.record import Accumulator, Errors, Record, Side, exponent_of
from probe_flow.metrics.sums.special import EXACT_LIMIT

Bounds = tuple[float, float]


class Figures(NamedTuple):
    """Figures of a block, their meaning as in `record.Errors`; counts and places may be floats.

    ``within_1e3`` and ``within_5e3`` include the zero misses.
    """

    target_total: float
    golden_total: float
    target_squares: float
    golden_squares: float
    dot: float
    golden_abs: float
    error_abs: float
    error_squares: float
    rel_sum: float
    within_1e3: float
    within_5e3: float
    unequal: float
    zero_misses: float
    target_low: float
    golden_low: float
    target_high: float
    golden_high: float
    max_abs: float
    max_rel: float
    max_abs_place: float
    max_rel_place: float
    zero_miss_place: float = -1.0
    zero_rel_sum: float = 0.0
    zero_rel_max: float = 0.0
    zero_within_1e3: float = 0.0
    zero_within_5e3: float = 0.0


def is_ordinary(values: Values, bounds: Bounds) -> bool:
    """Tell from minimum and maximum of real values, NaN if one of them is, whether they are ordinary."""
    largest = max(-bounds[0], bounds[1])
    return can_square(largest) and not (values.dtype.kind in "iu" and largest >= EXACT_LIMIT)


def can_square(largest: float) -> bool:
    """Tell whether values up to this size, NaN included, can be squared without a scale; zeros can."""
    return not largest or not exponent_of(largest)


def exponent_within(bounds: Bounds) -> int:
    """Return the power of two of values between minimum and maximum."""
    return exponent_of(max(-bounds[0], bounds[1]))


def ordinary_record(
    figures: Figures,
    count: int,
    start: int,
    bounds: tuple[Bounds, Bounds],
    accumulators: tuple[Accumulator, ...],
) -> Record:
    """Return the record of an ordinary block.

    Args:
        figures: of the block.
        count: elements, at least one.
        start: index of the first one in the tensor.
        bounds: minimum and maximum per side, in Python's type for the dtype.
        accumulators: what the run needs beyond that.
    """
    target_exponent, golden_exponent = exponent_within(bounds[0]), exponent_within(bounds[1])
    misses = int(figures.zero_misses)
    return Record(
        count,
        Side(count, 0, 0, 0, count, target_exponent, figures.target_total, figures.target_squares, *bounds[0]),
        Side(count, 0, 0, 0, count, golden_exponent, figures.golden_total, figures.golden_squares, *bounds[1]),
        Errors(
            count,
            0,
            int(figures.unequal),
            target_exponent,
            golden_exponent,
            exponent_of(figures.max_abs),
            figures.dot,
            figures.target_squares,
            figures.golden_squares,
            figures.golden_abs,
            figures.error_abs,
            figures.error_squares,
            figures.max_abs,
            start + int(figures.max_abs_place),
            figures.rel_sum,
            figures.max_rel,
            start + int(figures.max_rel_place),
            int(figures.within_1e3) - misses,
            int(figures.within_5e3) - misses,
            misses,
            start + int(figures.zero_miss_place) if misses else -1,
            figures.zero_rel_sum,
            figures.zero_rel_max,
            int(figures.zero_within_1e3),
            int(figures.zero_within_5e3),
        ),
        accumulators,
    )
