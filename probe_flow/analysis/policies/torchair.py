"""The TorchAir policy: the published PASS rule, row by row, to the letter.

Real data: PASS iff Cosine >= 0.99 and MaxRelativeErr < 0.01; where the cosine cannot be computed (scalars),
MaxRelativeErr alone decides. Statistics: every relative error <= 0.01, or the absolute difference <= 1e-6; those that
only one side has decide nothing. Checksums: equal. Plain values: numbers as statistics, others equal. The rule fails
most rows of a healthy fp16 model (elements near zero), so the run is judged by its gate, not by these rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from probe_flow.analysis.model.deviation import unknown_scale
from probe_flow.analysis.plain_values import plain_gap
from probe_flow.records import Measurement, Mode, Status, TensorRef, Verdict
from probe_flow.records.row import Row

COSINE_LIMIT = 0.99
MAX_RELATIVE_LIMIT = 0.01
STATISTIC_RELATIVE_LIMIT = 0.01
STATISTIC_ABSOLUTE_LIMIT = 1e-6
STATISTIC_NAMES = ("max", "min", "mean", "l2norm")

UNIT_ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
"""Half a step of the significand: the largest relative error of one rounding."""

SMALLEST_STEP = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}
"""Distance between neighbours below the normal range."""

COARSEST = "bfloat16"
"""What values of unknown dtype may have been rounded to."""


class TorchairPolicy:
    """The published PASS rule."""

    name = "torchair"
    needs = ("cosine", "max_rel_err_eps")

    def judge(self, rows: Sequence[Row]) -> Sequence[Verdict]:
        """Return one verdict per row; no rule of this policy relates rows to each other."""
        return [_judge_row(row) for row in rows]


def _judge_row(row: Row) -> Verdict:
    measurement = row.measurement
    assert measurement is not None
    if measurement.nonfinite_mismatch:
        return Verdict(Status.FAIL, ("nonfinite",), (nonfinite_text(measurement),))
    quantised = unknown_scale(row)
    if quantised:
        return Verdict(Status.NOT_COMPARABLE, ("quantised",), (quantised,))
    if measurement.mode is Mode.CHECKSUM:
        return _judge_checksum(measurement)
    if row.pair.rule.is_self:
        return _judge_self(row, measurement)
    gap = plain_gap(row)
    if gap is not None:
        return _judge_value(row, gap)
    if measurement.count == 0:
        return Verdict(Status.PASS, ("empty",), ("both sides are empty",))
    return _judge_statistics(measurement) if measurement.mode is Mode.STATISTICS else _judge_tensor(measurement)


def nonfinite_text(measurement: Measurement) -> str:
    """Say where NaN and infinities disagree."""
    if measurement.mode is Mode.STATISTICS:
        return "nan/inf in the recorded statistics of one side only"
    return f"nan/inf position differs in {measurement.nonfinite_mismatch} of {measurement.count} elements"


def _judge_value(row: Row, gap: float) -> Verdict:
    if gap <= STATISTIC_RELATIVE_LIMIT:
        return Verdict(Status.PASS)
    target, golden = row.pair.target, row.pair.golden
    assert target is not None
    assert golden is not None
    return Verdict(Status.FAIL, ("value",), (f"value is {target.value!r}, golden {golden.value!r}",))


def _judge_tensor(measurement: Measurement) -> Verdict:
    if holds_no_number(measurement):
        return Verdict(Status.PASS, ("no_finite_value",), ("both sides hold the same NaN and infinities only",))
    rules, reasons = [], []
    cosine = measurement.metrics.get("cosine")
    worst = measurement.metrics.get("max_rel_err_eps", measurement.metrics.get("max_rel_err"))
    if cosine is not None and not cosine >= COSINE_LIMIT:
        rules.append("cosine")
        reasons.append(f"Cosine {cosine:.6g} is below {COSINE_LIMIT}")
    if worst is None or not worst < MAX_RELATIVE_LIMIT:
        rules.append("max_relative_error")
        shown = "not computable" if worst is None else f"{worst:.6g}"
        reasons.append(f"MaxRelativeErr is {shown}, required below {MAX_RELATIVE_LIMIT}")
    return Verdict(Status.FAIL if rules else Status.PASS, tuple(rules), tuple(reasons))


def holds_no_number(measurement: Measurement) -> bool:
    """Tell whether every element is NaN or infinite (on both sides alike, since no position disagrees)."""
    if measurement.golden is None:
        return False
    statistics = measurement.golden.statistics
    return (statistics.nan or 0) + (statistics.inf or 0) == measurement.count


def _both_nan(measurement: Measurement, name: str) -> bool:
    sides = (measurement.target, measurement.golden)
    values = [getattr(side.statistics, name) for side in sides if side is not None]
    return len(values) == 2 and all(value is not None and math.isnan(value) for value in values)


def _judge_statistics(measurement: Measurement) -> Verdict:
    rules, reasons = [], []
    known = False
    for name in STATISTIC_NAMES:
        relative = measurement.metrics.get(f"{name}_diff_rel")
        absolute = measurement.metrics.get(f"{name}_diff")
        if relative is None or absolute is None or _both_nan(measurement, name):
            continue
        known = True
        if not (relative <= STATISTIC_RELATIVE_LIMIT or abs(absolute) <= STATISTIC_ABSOLUTE_LIMIT):
            rules.append(name)
            reasons.append(f"{name} differs by {relative:.6g} relative, allowed {STATISTIC_RELATIVE_LIMIT}")
    if not known:
        text = "every statistic is NaN on both sides, which says nothing of the other elements"
        return Verdict(Status.NOT_COMPARABLE, ("nan",), (text,))
    return Verdict(Status.FAIL if rules else Status.PASS, tuple(rules), tuple(reasons))


def _judge_checksum(measurement: Measurement) -> Verdict:
    if measurement.metrics.get("checksum_equal"):
        return Verdict(Status.PASS)
    return Verdict(Status.FAIL, ("checksum",), ("checksums differ",))


def _judge_self(row: Row, measurement: Measurement) -> Verdict:
    """Judge a private operator by its own input: TransData must not change values, Cast only round them."""
    target, source = row.pair.target, row.pair.golden
    assert target is not None
    assert source is not None
    if target.dtype == "bool" != source.dtype:
        text = "a cast to bool only keeps which elements are zero"
        return Verdict(Status.NOT_COMPARABLE, ("cast_to_bool",), (text,))
    allowed = 0.0
    if target.dtype != source.dtype or not target.dtype:
        allowed = _cast_allowance(target, source, measurement)
    worst = measurement.metrics.get("max_abs_err")
    if measurement.mode is Mode.STATISTICS:
        worst = _worst_extreme(measurement)
    if measurement.count == 0 or holds_no_number(measurement) or (worst is not None and worst <= allowed):
        return Verdict(Status.PASS)
    shown = "not computable" if worst is None else f"{worst:.6g}"
    return Verdict(
        Status.FAIL, ("self",), (f"output differs from its own input by up to {shown}, allowed {allowed:.3g}",)
    )


def _worst_extreme(measurement: Measurement) -> float | None:
    """Return the larger difference of the recorded extremes, None where neither is known; equal NaN differ by 0."""
    found = [
        0.0 if _both_nan(measurement, name) else abs(float(difference))
        for name in ("min", "max")
        if (difference := measurement.metrics.get(f"{name}_diff")) is not None
    ]
    return max(found, default=None)


def _cast_allowance(target: TensorRef, source: TensorRef, measurement: Measurement) -> float:
    dtypes = [tensor.dtype or COARSEST for tensor in (target, source)]
    unit = max(UNIT_ROUNDOFF.get(dtype, 0.0) for dtype in dtypes)
    step = max(SMALLEST_STEP.get(dtype, 0.0) for dtype in dtypes)
    statistics = measurement.golden.statistics if measurement.golden else None
    bounds = (statistics.min, statistics.max) if statistics else (None, None)
    largest = max((abs(float(bound)) for bound in bounds if bound is not None), default=0.0)
    if dtypes[0] not in UNIT_ROUNDOFF:
        return 1.0  # a cast to an integer may drop the fraction
    return unit * largest + step
