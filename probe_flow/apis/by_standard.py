"""Judge a result by the precision standard of its API, with torch in the recorded types as the other device.

Limits and formulas are those of msprobe (`api_precision_standard.yaml`, `api_precision_compare`). Standards that judge
one run alone limit the error of the device itself, so that their benchmark is rounded to the type of the result first.
Those that hold two runs against each other, benchmark and ulp, take it as it is. Where torch cannot run the call in the
recorded types, its errors count as the least of the type.
"""

from __future__ import annotations

from dataclasses import asdict

from probe_flow.apis.acc_check import Judgement, figures, judge, rounded
from probe_flow.apis.figures import StandardFigures
from probe_flow.apis.side import Held, Result
from probe_flow.apis.standards import Standard, figure_names, standard_figures, standard_of
from probe_flow.apis.two_runs import judge_two_runs

_TWO_RUNS = frozenset({Standard.BENCHMARK, Standard.ULP})


def judge_by_standard(
    api: str, max_abs_limit: float, tested: Result, benchmark: Result, other: Result | None
) -> Judgement:
    """Judge one result; what no standard judges (float64, complex numbers, plain values) by cosine and absolute error.

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
