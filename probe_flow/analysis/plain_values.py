"""Scalar arguments and None: how far apart two plain values are."""

from __future__ import annotations

import math

from probe_flow.records import Mode
from probe_flow.records.row import Row

LARGEST = (2.0 - 2.0**-52) * 2.0**1023, (2.0 - 2.0**-23) * 2.0**127, (2.0 - 2.0**-7) * 2.0**127, 65504.0
"""Largest finite numbers of float64, float32, bfloat16 and float16 (IEEE 754; bfloat16 has 7 bits behind the point)."""

SMALLEST = 2.0**-1022, 2.0**-126, 2.0**-14
"""Smallest normal numbers of float64, of float32 and bfloat16, and of float16."""

STEP = 2.0**-52, 2.0**-23, 2.0**-7, 2.0**-10
"""Distances from 1 to the next number of float64, float32, bfloat16 and float16."""

SCORE = 256.0
"""Largest score that is looked for beside a limit that masks it, which is 65,504 at least."""

TYPE_LIMITS = {
    sign * value: sign * number
    for number, values in enumerate((LARGEST, SMALLEST, STEP), 1)
    for value in values
    for sign in (1, -1)
}
"""What programs ask of the type that they compute in (`finfo(x.dtype).min`) -> which question it answers."""


def is_limit(number: float) -> bool:
    """Return whether a number is the largest or least finite one of a type."""
    return abs(number) in LARGEST


def is_same_limit(target: float | None, golden: float | None) -> bool:
    """Return whether two numbers are the same limit of two types, or of one."""
    limit = TYPE_LIMITS.get(target) if target is not None else None
    return limit is not None and golden is not None and TYPE_LIMITS.get(golden) == limit


def masks_alike(target: float | None, golden: float | None) -> bool:
    """Return whether two extremes are the same limit of two types; a score added to it, a wide type absorbs."""
    if target is None or golden is None:
        return False
    limit = next((each for each in LARGEST if abs(abs(target) - each) <= SCORE), None)
    return is_same_limit(target if limit is None else math.copysign(limit, target), golden) and limit != abs(golden)


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
