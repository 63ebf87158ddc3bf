"""Formulas of the tensor metrics: from the folded record of a pair to one number each.

Every function returns None when the metric cannot be computed (no position is finite on both sides); NaN and infinities
are results. Nothing here reads a tensor. Metrics that need an accumulator have their formulas there.
"""

from __future__ import annotations

import math

from probe_flow.metrics.sums.record import EPS32, Errors, Record, Side, Value, power


def _errors(record: Record) -> Errors | None:
    errors = record.errors
    return errors if errors is not None and errors.compared else None


def cosine(record: Record) -> Value:
    """Return the cosine of the angle between the tensors, in [-1, 1]; both zero gives 1, one zero NaN."""
    errors = _errors(record)
    if errors is None or record.numel == 1:
        return None
    return _cosine(errors, one_zero=math.nan)


def cosine_or_zero(record: Record) -> Value:
    """Return the cosine, for single elements too; one zero side gives 0."""
    errors = _errors(record)
    return None if errors is None else _cosine(errors, one_zero=0.0)


def _cosine(errors: Errors, *, one_zero: float) -> float:
    target, golden = math.sqrt(errors.target_squares), math.sqrt(errors.golden_squares)
    if target == 0.0 and golden == 0.0:
        return 1.0
    if target == 0.0 or golden == 0.0:
        return one_zero
    lengths = errors.target_squares if errors.target_squares == errors.golden_squares else target * golden
    return max(-1.0, min(1.0, errors.dot / lengths))  # so equal tensors have exactly 1


def euclidean_distance(record: Record) -> Value:
    """Return the L2 norm of target - golden."""
    errors = _errors(record)
    return None if errors is None else power(math.sqrt(errors.error_squares), errors.error_exponent)


def relative_euclidean_distance(record: Record) -> Value:
    """Return the L2 norm of the error over that of the golden tensor; 0/0 gives 0, x/0 inf."""
    errors = _errors(record)
    if errors is None:
        return None
    if errors.golden_squares == 0.0:
        return math.inf if errors.error_squares else 0.0
    ratio = math.sqrt(errors.error_squares) / math.sqrt(errors.golden_squares)
    return power(ratio, errors.error_exponent - errors.golden_exponent)


def relative_euclidean_distance_or_zero(record: Record) -> Value:
    """Return the same, but 0 where the golden norm is at most `EPS32`."""
    errors = _errors(record)
    if errors is None:
        return None
    norm = power(math.sqrt(errors.golden_squares), errors.golden_exponent)
    return 0.0 if norm <= EPS32 else relative_euclidean_distance(record)


def max_abs_err(record: Record) -> Value:
    """Return the largest |target - golden|; an exact int between integers beyond 2**53."""
    errors = _errors(record)
    return None if errors is None else errors.max_abs


def mean_abs_err(record: Record) -> Value:
    """Return the mean of |target - golden|."""
    errors = _errors(record)
    return None if errors is None else power(errors.error_abs / errors.compared, errors.error_exponent)


def rmse(record: Record) -> Value:
    """Return the root of the mean squared error."""
    errors = _errors(record)
    if errors is None:
        return None
    return power(math.sqrt(errors.error_squares / errors.compared), errors.error_exponent)


def max_rel_err(record: Record) -> Value:
    """Return the largest |target - golden| / |golden|; x/0 is inf, 0/0 is 0."""
    errors = _errors(record)
    if errors is None:
        return None
    return math.inf if errors.zero_misses else errors.max_rel


def mean_rel_err(record: Record) -> Value:
    """Return the mean of |target - golden| / |golden|; inf as soon as one golden zero is missed."""
    errors = _errors(record)
    if errors is None:
        return None
    return math.inf if errors.zero_misses else errors.rel_sum / errors.compared


def err_ratio_1e3(record: Record) -> Value:
    """Return the share of elements with a relative error below 0.001."""
    errors = _errors(record)
    return None if errors is None else errors.within_1e3 / errors.compared


def err_ratio_5e3(record: Record) -> Value:
    """Return the share of elements with a relative error below 0.005."""
    errors = _errors(record)
    return None if errors is None else errors.within_5e3 / errors.compared


def max_rel_err_eps(record: Record) -> Value:
    """Return the largest relative error, where a missed golden zero counts as |target| / eps."""
    errors = _errors(record)
    return None if errors is None else max(errors.max_rel, errors.zero_rel_max)


def mean_rel_err_eps(record: Record) -> Value:
    """Return the mean relative error, where a missed golden zero counts as |target| / eps."""
    errors = _errors(record)
    return None if errors is None else (errors.rel_sum + errors.zero_rel_sum) / errors.compared


def err_ratio_1e3_eps(record: Record) -> Value:
    """Return the share below 0.001, where a missed golden zero counts as |target| / eps."""
    errors = _errors(record)
    return None if errors is None else (errors.within_1e3 + errors.zero_within_1e3) / errors.compared


def err_ratio_5e3_eps(record: Record) -> Value:
    """Return the share below 0.005, where a missed golden zero counts as |target| / eps."""
    errors = _errors(record)
    return None if errors is None else (errors.within_5e3 + errors.zero_within_5e3) / errors.compared


def unequal_count(record: Record) -> Value:
    """Return how many positions hold different values; agreeing NaN and infinities are equal. 0 for no elements."""
    return None if record.errors is None else record.errors.unequal


def unequal_ratio(record: Record) -> Value:
    """Return the share of positions that hold different values, NaN and infinities as in `unequal_count`."""
    return None if record.errors is None or not record.numel else record.errors.unequal / record.numel


def mean_of(side: Side | None) -> float | None:
    """Return the mean of the finite values of a side."""
    return None if side is None or not side.values else power(side.total / side.values, side.exponent)


def l2norm_of(side: Side | None) -> float | None:
    """Return the L2 norm of the finite values of a side."""
    return None if side is None or not side.values else power(math.sqrt(side.squares), side.exponent)


def mean_target(record: Record) -> Value:
    """Return the mean of the target's finite values."""
    return mean_of(record.target)


def mean_golden(record: Record) -> Value:
    """Return the mean of the golden tensor's finite values."""
    return mean_of(record.golden)
