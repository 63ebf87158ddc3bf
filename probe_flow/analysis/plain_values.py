"""Scalar arguments and None: how far apart two plain values are."""

from __future__ import annotations

import math

from probe_flow.masks import LIMITS, mask_of
from probe_flow.records import Mode, Statistics
from probe_flow.records.row import Row

SMALLEST = 2.0**-1022, 2.0**-126, 2.0**-14
"""Smallest normal numbers of float64, of float32 and bfloat16, and of float16."""

STEP = 2.0**-52, 2.0**-23, 2.0**-7, 2.0**-10
"""Distances from 1 to the next number of float64, float32, bfloat16 and float16."""

TYPE_LIMITS = {
    sign * value: sign * number
    for number, values in enumerate((LIMITS, SMALLEST, STEP), 1)
    for value in values
    for sign in (1, -1)
}
"""What programs ask of the type that they compute in (`finfo(x.dtype).min`) -> which question it answers."""


def is_same_limit(target: float | None, golden: float | None) -> bool:
    """Return whether two numbers are the same limit of two types, or of one."""
    limit = TYPE_LIMITS.get(target) if target is not None else None
    return limit is not None and golden is not None and TYPE_LIMITS.get(golden) == limit


BESIDE = 2.0**-9
"""Largest error that scores beside a power of ten leave, relative to it: both sides may have one of 2**-10."""


def is_masked(statistics: Statistics) -> bool:
    """Return whether an extreme is what scores are masked with."""
    return any(end is not None and mask_of(end) is not None for end in (statistics.min, statistics.max))


def is_mask_rounding(target: float | None, golden: float | None, peak: float) -> bool:
    """Return whether two extremes are one number that masks scores, and the largest error no more than is beside it."""
    masks = _masks_of(target, golden)
    return masks is not None and masks[0] == masks[1] and peak <= BESIDE * abs(masks[0])


def _masks_of(target: float | None, golden: float | None) -> tuple[float, float] | None:
    """Return the numbers that two extremes of one sign mask scores with (`masks`); None where one does not."""
    if target is None or golden is None or (target > 0.0) != (golden > 0.0):
        return None
    mine, other = mask_of(target), mask_of(golden)
    return None if mine is None or other is None else (mine, other)


def mask_otherwise(target: float | None, golden: float | None) -> bool:
    """Return whether two extremes mask scores with different numbers of one sign."""
    masks = _masks_of(target, golden)
    return masks is not None and masks[0] != masks[1]


def plain_gap(row: Row) -> float | None:
    """Return the relative difference of the two plain values of a row, None when it holds tensors.

    0 for equal values (NaN equals NaN, None equals None) and for the same limit of two types (what masks scores in
    bfloat16 is the least bfloat16), |t - g| / max(|t|, |g|) when a float is among two numbers, inf for anything else
    that differs.
    """
    if row.measurement is None or row.measurement.mode is not Mode.VALUE:
        return None
    if row.pair.target is None or row.pair.golden is None:
        return None
    return gap(row.pair.target.value, row.pair.golden.value)


def gap(target: object, golden: object) -> float:
    """Return the relative difference of two plain values, as in `plain_gap`."""
    if _is_nan(target) and _is_nan(golden):
        return 0.0
    if type(target) is type(golden) and target == golden:
        return 0.0
    numbers: list[float] = [
        value for value in (target, golden) if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    if len(numbers) < 2 or not any(isinstance(value, float) for value in numbers):
        return math.inf
    if not all(math.isfinite(value) for value in numbers):
        return 0.0 if numbers[0] == numbers[1] else math.inf
    if is_same_limit(*numbers):
        return 0.0
    largest = max(abs(value) for value in numbers)
    return float(abs(numbers[0] - numbers[1]) / largest) if largest else 0.0


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
