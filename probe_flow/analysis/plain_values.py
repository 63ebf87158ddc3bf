"""Scalar arguments and None: how far apart two plain values are."""

from __future__ import annotations

import math

from probe_flow.records import Mode
from probe_flow.records.row import Row


def plain_gap(row: Row) -> float | None:
    """Return the relative difference of the two plain values of a row, None when it holds tensors.

    0 for equal values (NaN equals NaN, None equals None), |t - g| / max(|t|, |g|) when a float is among two numbers,
    inf for anything else that differs.
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
    numbers = [value for value in (target, golden) if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(numbers) < 2 or not any(isinstance(value, float) for value in numbers):
        return math.inf
    if not all(math.isfinite(value) for value in numbers):
        return 0.0 if numbers[0] == numbers[1] else math.inf
    largest = max(abs(value) for value in numbers)
    return float(abs(numbers[0] - numbers[1]) / largest) if largest else 0.0


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
