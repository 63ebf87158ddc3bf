"""Standards that compare two devices: the errors of one against those of the other, both against the same benchmark.

A figure that is not finite on both devices in the same way says nothing; on one of them only, it fails. Limits and
formulas are those of msprobe 26.2.0 (`api_precision_compare`).
"""

from __future__ import annotations

import math

from probe_flow.apis.figures import StandardFigures
from probe_flow.apis.standards import (
    RATIO_LIMITS,
    ULP_RATIO,
    Check,
    Standard,
    checks_alone,
    figure_names,
    is_eight_bits,
    level_of,
    limits_of,
    words_of,
)


def needs_golden(standard: Standard, dtype: str) -> bool:
    """Return True for standards that cannot judge an output of a type without another device's figures."""
    return standard is Standard.BENCHMARK or (standard is Standard.ULP and not is_eight_bits(dtype))


def checks_of_two(
    standard: Standard, target: StandardFigures, golden: StandardFigures, *, api: str, dtype: str
) -> tuple[Check, ...]:
    """Hold the figures of the target against those of the golden device, or alone where their standard needs no other.

    Args:
        standard: that the figures are of.
        target, golden: figures of the two devices; one that is missing counts as 0.
        api: without kind and number.
        dtype: canonical element type of the target's output.
    """
    if standard is Standard.BENCHMARK:
        limits, least = RATIO_LIMITS[level_of(api)], limits_of(dtype).least_error
        return tuple(
            _ratio_check(name, getattr(target, name), getattr(golden, name), least, getattr(limits, name))
            for name in figure_names(Standard.BENCHMARK)
        )
    alone = checks_alone(standard, target, dtype)
    return (_ulp_check(target, golden, dtype),) if alone is None else alone


def ratio(target: float, golden: float, least: float) -> float:
    """Return the ratio of two errors; NaN where one of them is not finite.

    >>> ratio(0.5, 0.25, 0.1), ratio(0.5, 0.0, 0.1)
    (2.0, 5.0)
    """
    if not (math.isfinite(target) and math.isfinite(golden)):
        return math.nan
    return abs(target) / max(abs(golden), least)


def _agree(target: float, golden: float) -> bool:
    """Return True unless one is not finite and the other is not that too."""
    if math.isfinite(target) and math.isfinite(golden):
        return True
    return target == golden or (math.isnan(target) and math.isnan(golden))


def _oddity(name: str, target: float, golden: float) -> str:
    if math.isfinite(target) and math.isfinite(golden):
        return ""
    if _agree(target, golden):
        return f"{words_of(name)} is {target:g} on both devices"
    return f"{words_of(name)} is {target:g}, and {golden:g} on the other device"


def _ratio_check(name: str, target: float | None, golden: float | None, least: float, limit: float) -> Check:
    one, other = target or 0.0, golden or 0.0
    found = ratio(one, other, least)
    holds = _agree(one, other) and not found > limit
    message = _oddity(name, one, other)
    if not holds and not message:
        message = f"{words_of(name)} is {found:.6g} times that of the other device, more than {limit:g}"
    return Check(name, found, holds, message, decides=name != "error_balance")


def _ulp_check(target: StandardFigures, golden: StandardFigures, dtype: str) -> Check:
    limits = limits_of(dtype)
    means = (target.mean_ulp or 0.0, golden.mean_ulp or 0.0)
    shares = (target.ulp_ratio or 0.0, golden.ulp_ratio or 0.0)
    found = ratio(*shares, limits.least_error)
    agree = _agree(*means) and _agree(*shares)
    is_small = shares[0] < limits.ulp_ratio or (limits.mean_ulp is not None and means[0] < limits.mean_ulp)
    holds = agree and (is_small or found < ULP_RATIO)
    if holds or not agree:
        odd = (_oddity("mean_ulp", *means), _oddity("ulp_ratio", *shares))
        return Check("ulp_ratio", found, holds, "; ".join(filter(None, odd)))
    why = f"{words_of('ulp_ratio')}, {shares[0]:.6g}, is not below {limits.ulp_ratio:g}"
    if limits.mean_ulp is not None:
        why += f", {words_of('mean_ulp')}, {means[0]:.6g}, not below {limits.mean_ulp:g}"
    why += f", nor the ratio of that share to the other device's, {found:.6g}, below {ULP_RATIO:g}"
    return Check("ulp_ratio", found, holds, why)
