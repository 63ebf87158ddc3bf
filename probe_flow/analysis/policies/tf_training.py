"""The policy of a TensorFlow training step: an output whose cosine is below 0.98 fails.

The bound is the one that the vendor's guide reads such comparisons by. Inputs are compared to see where an error begins
and never fail: what is wrong with one is wrong with the output that it is. Differences on purpose: what has no cosine,
a scalar or one side that is zero, is judged by its distance; NaN and infinities in other places fail; integers that
differ are a warning. A cosine is blind to a factor; the search for the origin is not, whatever this policy says of a
row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from probe_flow.analysis.model.deviation import unknown_scale
from probe_flow.analysis.policies.torchair import TorchairPolicy, holds_no_number, nonfinite_text
from probe_flow.records import Mode, SlotRole, Status, Verdict
from probe_flow.records.row import Row

COSINE_LIMIT = 0.98
DISTANCE_LIMIT = 0.2
"""Of what has no cosine, a scalar or a side that is zero: how far apart two vectors of equal length and of a cosine of
0.98 are, sqrt(2 - 2 cosine)."""


class TfTrainingPolicy:
    """Cosine of outputs >= 0.98."""

    name = "tf_training"
    needs = ("cosine", "relative_euclidean_distance", "unequal_count")

    def judge(self, rows: Sequence[Row]) -> Sequence[Verdict]:
        """Return one verdict per row; no rule of this policy relates rows to each other."""
        return [_judge_row(row) for row in rows]


def _judge_row(row: Row) -> Verdict:
    measurement, target = row.measurement, row.pair.target
    assert measurement is not None
    assert target is not None
    if measurement.mode is not Mode.TENSOR or row.pair.rule.is_self:
        return TorchairPolicy().judge([row])[0]
    failing = Status.FAIL if target.slot.role is SlotRole.OUTPUT else Status.WARNING
    if measurement.nonfinite_mismatch:
        return Verdict(failing, ("nonfinite",), (nonfinite_text(measurement),))
    quantised = unknown_scale(row)
    if quantised:
        return Verdict(Status.NOT_COMPARABLE, ("quantised",), (quantised,))
    if measurement.count == 0:
        return Verdict(Status.PASS, ("empty",), ("both sides are empty",))
    if holds_no_number(measurement):
        return Verdict(Status.PASS, ("no_finite_value",), ("both sides hold the same NaN and infinities only",))
    return _by_cosine(row, failing)


def _by_cosine(row: Row, failing: Status) -> Verdict:
    assert row.measurement is not None
    metrics = row.measurement.metrics
    cosine, distance, unequal = (metrics.get(name) for name in TfTrainingPolicy.needs)
    if cosine is not None and not math.isnan(cosine):
        if cosine < COSINE_LIMIT:
            return Verdict(failing, ("cosine",), (f"CosineSimilarity {cosine:.6g} is below {COSINE_LIMIT}",))
    elif distance is not None and not distance <= DISTANCE_LIMIT:
        text = f"there is no cosine, and RelativeEuclideanDistance {distance:.6g} is above {DISTANCE_LIMIT}"
        return Verdict(failing, ("relative_euclidean_distance",), (text,))
    target, golden = row.pair.target, row.pair.golden
    assert target is not None
    assert golden is not None
    if (
        unequal
        and target.dtype.startswith(("int", "uint", "bool"))
        and golden.dtype.startswith(("int", "uint", "bool"))
    ):
        text = f"{int(unequal)} of {row.measurement.count} {target.dtype} elements differ"
        return Verdict(Status.WARNING, ("unequal_count",), (text,))
    return Verdict(Status.PASS)
