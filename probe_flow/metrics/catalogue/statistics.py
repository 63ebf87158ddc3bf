"""Metrics of statistics mode: two sets of recorded statistics against each other, no tensor needed."""

from __future__ import annotations

import math

from probe_flow.metrics.sums.record import Value
from probe_flow.records import Statistics

COMPARED = ("max", "min", "mean", "l2norm")
"""The statistics that are compared."""

_METRICS = tuple((name, f"{name}_diff", f"{name}_diff_rel") for name in COMPARED)


def compare_statistics(target: Statistics, golden: Statistics) -> dict[str, Value]:
    """Return ``max_diff``, ``max_diff_rel`` and so on for max, min, mean and l2norm.

    ``*_diff`` is target - golden, exact between integers (bools count as 0 and 1); ``*_diff_rel`` is
    |difference / golden|, a plain ratio. Equal infinities differ by 0; NaN on either side gives NaN in both; an
    infinite difference keeps its sign and its ratio is inf; x/0 is inf, 0/0 is 0. A statistic that one side lacks gives
    None.
    """
    if _are_finite_floats(target) and _are_finite_floats(golden):
        return _of_floats(target, golden)
    values: dict[str, Value] = {}
    for name, metric, relative in _METRICS:
        left, right = getattr(target, name), getattr(golden, name)
        difference = _difference(left, right)
        values[metric] = difference
        values[relative] = _ratio(difference, right)
    return values


def _are_finite_floats(found: Statistics) -> bool:
    high, low, mean, norm = found.max, found.min, found.mean, found.l2norm
    if not (type(high) is type(low) is type(mean) is type(norm) is float):
        return False
    return (high + low + mean + norm) * 0.0 == 0.0  # False for numbers near the largest too, which costs time only


def _of_floats(target: Statistics, golden: Statistics) -> dict[str, Value]:
    """Return the same for finite floats, as nearly all are."""
    high, low, mean, norm = golden.max, golden.min, golden.mean, golden.l2norm
    assert high is not None
    assert low is not None
    assert mean is not None
    assert norm is not None
    # -0.0 - 0.0 is -0.0, which reads as a difference
    off_high, off_low = (target.max or 0.0) - high or 0.0, (target.min or 0.0) - low or 0.0
    off_mean, off_norm = (target.mean or 0.0) - mean or 0.0, (target.l2norm or 0.0) - norm or 0.0
    return {
        "max_diff": off_high,
        "max_diff_rel": off_high and (abs(off_high / high) if high else math.inf),
        "min_diff": off_low,
        "min_diff_rel": off_low and (abs(off_low / low) if low else math.inf),
        "mean_diff": off_mean,
        "mean_diff_rel": off_mean and (abs(off_mean / mean) if mean else math.inf),
        "l2norm_diff": off_norm,
        "l2norm_diff_rel": off_norm and (abs(off_norm / norm) if norm else math.inf),
    }


def _difference(target: Value, golden: Value) -> Value:
    if target.__class__ is float and golden.__class__ is float:
        return 0.0 if target == golden else target - golden
    if target is None or golden is None:
        return None
    if isinstance(target, int) and isinstance(golden, int):
        return int(target) - int(golden)
    left, right = _float(target), _float(golden)
    return 0.0 if left == right else left - right


def _ratio(difference: Value, golden: Value) -> Value:
    if difference is None or golden is None:
        return None
    if difference == 0:
        return 0.0
    numerator, denominator = abs(_float(difference)), abs(_float(golden))
    if math.isnan(numerator) or math.isinf(numerator):
        return numerator
    return numerator / denominator if denominator else math.inf


def _float(value: float) -> float:
    """Return a float; integers too large for one become infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
