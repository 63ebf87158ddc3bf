"""Judge an output by two runs: the errors of one device against those of another, both against the same benchmark.

A figure that is not finite on both devices in the same way says nothing; on one of them only, it fails. Limits and
formulas are those of msprobe 26.2.0 (`api_precision_compare`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType

from probe_flow.apis.acc_check import Judgement, figures, judge, rounded
from probe_flow.apis.calls import UnusableError
from probe_flow.apis.figures import StandardFigures
from probe_flow.apis.side import Held, Result
from probe_flow.apis.standards import (
    Check,
    Standard,
    checks_alone,
    figure_names,
    is_judged,
    level_of,
    limits_of,
    standard_figures,
    standard_of,
    words_of,
)


@dataclass(frozen=True)
class RatioLimits:
    """By how much the errors of the target may exceed those of the golden device, in the benchmark standard."""

    rmse: float
    max_rel: float
    mean_rel: float
    small_ratio: float = 2.0
    error_balance: float = 2.0
    """Is shown and decides nothing."""


RATIO_LIMITS: Mapping[str, RatioLimits] = MappingProxyType(
    {"L0": RatioLimits(2.0, 10.0, 2.0), "L1": RatioLimits(1.5, 5.0, 1.5), "L2": RatioLimits(1.2, 2.0, 1.2)}
)
"""By level of the API. msprobe up to 1.2 (mstt) has those of L0 for every API."""

ULP_RATIO = 1.0
"""Limit of the ratio of two devices' shares of elements that are off by too many units."""


@dataclass(frozen=True)
class TwoRuns:
    """What a standard says of an output.

    Args:
        standard: that judged it.
        checks: its figures, or their ratios, held against limits.
        is_alone: whether one run was enough.
    """

    standard: Standard
    checks: tuple[Check, ...]
    is_alone: bool

    @property
    def is_right(self) -> bool:
        """Whether the output passes."""
        return all(check.holds for check in self.checks if check.decides)

    @property
    def message(self) -> str:
        """Why it does not pass, or what is odd about it."""
        return "; ".join(check.message for check in self.checks if check.message and check.decides)


def judge_two_runs(
    api: str, dtype: str, target: Mapping[str, float], golden: Mapping[str, float] | None
) -> TwoRuns | None:
    """Judge an output by the standard whose figures the target has; None if it has those of none.

    Args:
        api: without kind and number.
        dtype: canonical element type of the target's output.
        target: figures of the device under test, by their names in `StandardFigures`; one that is missing counts as 0.
        golden: those of the device that it is judged by; None where that has no such output.

    Raises:
        UnusableError: no standard judges the type, or the other device lacks what the standard needs.
    """
    if not is_judged(dtype):
        raise UnusableError(f"no standard judges {dtype}", is_expected=True)
    standard = _standard_with(target, api, dtype)
    if standard is None:
        return None
    if golden is None:
        raise UnusableError("the other device has no such output")
    alone = checks_alone(standard, StandardFigures(**target), dtype)
    if alone is not None:
        return TwoRuns(standard, alone, is_alone=True)
    if _standard_with(golden, api, dtype) is not standard:
        raise UnusableError(f"the other device has no figures of the {standard.value} standard")
    if standard is Standard.ULP:
        return TwoRuns(standard, (_ulp_check(target, golden, dtype),), is_alone=False)
    limits, least = RATIO_LIMITS[level_of(api)], limits_of(dtype).least_error
    checks = (
        _ratio_check(name, target.get(name, 0.0), golden.get(name, 0.0), least=least, limit=getattr(limits, name))
        for name in figure_names(standard)
    )
    return TwoRuns(standard, tuple(checks), is_alone=False)


def _standard_with(figures: Mapping[str, float], api: str, dtype: str) -> Standard | None:
    """Return the standard whose figures these are: it need not be the one that judges the API here."""
    found = figures.keys()
    if found & {"inf_nan_ratio", "rel_ratio", "abs_ratio"}:
        return Standard.ACCUMULATIVE if "error_balance" in found else Standard.ABSOLUTE
    if found & {"small_ratio", "rmse", "max_rel", "mean_rel"}:
        return Standard.BENCHMARK
    if "ulp_ratio" in found:
        return Standard.ULP
    if "error_rate" in found:
        return Standard.BINARY
    # Preliminary statuses have this figure too, whatever the standard.
    is_asked = "within_thousandth" in found and standard_of(api, dtype) is Standard.THOUSANDTH
    return Standard.THOUSANDTH if is_asked else None


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


def _ratio_check(name: str, target: float, golden: float, *, least: float, limit: float) -> Check:
    found = ratio(target, golden, least)
    holds = _agree(target, golden) and not found > limit
    message = _oddity(name, target, golden)
    if not holds and not message:
        message = f"{words_of(name)} is {found:.6g} times that of the other device, more than {limit:g}"
    return Check(name, found, holds, message, decides=name != "error_balance")


def _ulp_check(target: Mapping[str, float], golden: Mapping[str, float], dtype: str) -> Check:
    limits = limits_of(dtype)
    means, shares = ([run.get(name, 0.0) for run in (target, golden)] for name in ("mean_ulp", "ulp_ratio"))
    found = ratio(shares[0], shares[1], limits.least_error)
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


_TWO_RUNS = frozenset({Standard.BENCHMARK, Standard.ULP})


def judge_by_standard(
    api: str, max_abs_limit: float, tested: Result, benchmark: Result, other: Result | None
) -> Judgement:
    """Judge one result by the precision standard of its API, with torch in the recorded types as the other device.

    Standards that judge one run alone limit the error of the device itself, so that their benchmark is rounded to the
    type of the result first. Those that hold two runs against each other, benchmark and ulp, take it as it is. Where
    torch cannot run the call in the recorded types, its errors count as the least of the type. What no standard judges
    (float64, complex numbers, plain values) goes by cosine and absolute error.

    Args:
        api: name without kind and number.
        max_abs_limit: of what no standard judges.
        tested, benchmark: the results of both sides.
        other: what torch makes of the same in the recorded types; None where it cannot.
    """
    one, exact = tested.value, benchmark.value
    standard = standard_of(api, tested.dtype) if isinstance(one, Held) else None
    is_pair = isinstance(one, Held) and isinstance(exact, Held) and one.values.shape == exact.values.shape
    if standard is None or not is_pair:
        return judge(tested, benchmark, max_abs_limit)
    assert isinstance(one, Held)
    assert isinstance(exact, Held)
    near = rounded(exact, one.dtype)
    found = figures(one, near)
    if one.values.size == 0:
        return Judgement(is_right=True, figures=found)
    if found.unequal_nonfinite:
        words = f"{found.unequal_nonfinite} elements are NaN or infinite on one side only"
        return Judgement(is_right=False, figures=found, message=words)
    target = _named(standard_figures(standard, one, exact if standard in _TWO_RUNS else near))
    judged = judge_two_runs(api, one.dtype, target, _other_figures(standard, other, exact))
    assert judged is not None, "these are the figures of the standard"
    return Judgement(judged.is_right, found, "" if judged.is_right else f"{standard.value} standard: {judged.message}")


def _other_figures(standard: Standard, other: Result | None, exact: Held) -> dict[str, float]:
    value = None if other is None else other.value
    if standard in _TWO_RUNS and isinstance(value, Held) and value.values.shape == exact.values.shape:
        return _named(standard_figures(standard, value, exact))
    return dict.fromkeys(figure_names(standard), 0.0)


def _named(found: StandardFigures) -> dict[str, float]:
    return {name: value for name, value in asdict(found).items() if value is not None}
