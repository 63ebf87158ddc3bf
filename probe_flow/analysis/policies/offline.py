"""The policy of offline models: five thresholds of which a row must meet each.

Cosine >= 0.99, RelativeEuclideanDistance <= 0.05, RootMeanSquareError <= 1.0, MeanRelativeError <= 1.0 (over golden
values beyond 2^-52) and KullbackLeiblerDivergence <= 0.005, as the vendor's tools publish them. Differences on
purpose: the divergence sees neither scale nor shift, and alone never fails a row, but warns; a cosine that does not
exist (one side all zero) decides nothing, and does not excuse the row either; NaN and infinities in other places fail;
integers and bools that differ are a warning at least, since small relative errors say nothing of indices and masks.
Recorded statistics, checksums, plain values and operators judged by their own input follow the TorchAir rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from probe_flow.analysis.model.deviation import unknown_scale
from probe_flow.analysis.plain_values import plain_gap
from probe_flow.analysis.policies.torchair import TorchairPolicy, holds_no_number, nonfinite_text
from probe_flow.records import Mode, Status, Verdict
from probe_flow.records.row import Row

COSINE_LIMIT = 0.99
RELATIVE_DISTANCE_LIMIT = 0.05
DIVERGENCE_LIMIT = 0.005
RMSE_LIMIT = 1.0
MEAN_RELATIVE_LIMIT = 1.0

_CEILINGS = (
    ("relative_euclidean_distance", "RelativeEuclideanDistance", RELATIVE_DISTANCE_LIMIT),
    ("rmse", "RootMeanSquareError", RMSE_LIMIT),
    ("mean_rel_err_masked", "MeanRelativeError", MEAN_RELATIVE_LIMIT),
)
_DIVERGENCE = ("kl_minmax", "KullbackLeiblerDivergence", DIVERGENCE_LIMIT)

_EXACT = frozenset({"bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (16, 32, 64))})
"""Indices, counts and masks; integers of 8 bits and less are quantised values, where one step is rounding."""

_Missed = tuple[str, str]


class OfflinePolicy:
    """The published thresholds of the offline comparison."""

    name = "offline"
    needs = ("cosine", "unequal_count", _DIVERGENCE[0], *(metric for metric, _, _ in _CEILINGS))

    def judge(self, rows: Sequence[Row]) -> Sequence[Verdict]:
        """Return one verdict per row; no rule of this policy relates rows to each other."""
        return [_judge_row(row) for row in rows]


def _judge_row(row: Row) -> Verdict:
    measurement = row.measurement
    assert measurement is not None
    if measurement.mode is not Mode.TENSOR or row.pair.rule.is_self or plain_gap(row) is not None:
        return TorchairPolicy().judge([row])[0]
    if measurement.nonfinite_mismatch:
        return Verdict(Status.FAIL, ("nonfinite",), (nonfinite_text(measurement),))
    quantised = unknown_scale(row)
    if quantised:
        return Verdict(Status.NOT_COMPARABLE, ("quantised",), (quantised,))
    if measurement.count == 0:
        return Verdict(Status.PASS, ("empty",), ("both sides are empty",))
    if holds_no_number(measurement):
        return Verdict(Status.PASS, ("no_finite_value",), ("both sides hold the same NaN and infinities only",))
    failures, warnings = _failures(row), _warnings(row)
    if failures:
        return _verdict(Status.FAIL, [*failures, *warnings])
    return _verdict(Status.WARNING, warnings) if warnings else Verdict(Status.PASS)


def _verdict(status: Status, missed: Sequence[_Missed]) -> Verdict:
    return Verdict(status, tuple(rule for rule, _ in missed), tuple(text for _, text in missed))


def _failures(row: Row) -> list[_Missed]:
    cosine = _metric(row, "cosine")
    missed = []
    if cosine is not None and cosine < COSINE_LIMIT:
        missed.append(("cosine", f"CosineSimilarity {cosine:.6g} is below {COSINE_LIMIT}"))
    return missed + [text for ceiling in _CEILINGS if (text := _above(row, *ceiling)) is not None]


def _warnings(row: Row) -> list[_Missed]:
    return [text for text in (_above(row, *_DIVERGENCE), _differing_integers(row)) if text is not None]


def _above(row: Row, metric: str, name: str, limit: float) -> _Missed | None:
    value = _metric(row, metric)
    return None if value is None or value <= limit else (metric, f"{name} {value:.6g} is above {limit}")


def _differing_integers(row: Row) -> _Missed | None:
    target, golden, measurement = row.pair.target, row.pair.golden, row.measurement
    assert target is not None
    assert golden is not None
    assert measurement is not None
    unequal = _metric(row, "unequal_count")
    if not unequal or not _EXACT.issuperset((target.dtype, golden.dtype)):
        return None
    return "unequal_count", f"{int(unequal)} of {measurement.count} {target.dtype} elements differ"


def _metric(row: Row, metric: str) -> float | None:
    """Return a value that can decide something."""
    assert row.measurement is not None
    value = row.measurement.metrics.get(metric)
    return None if value is None or math.isnan(value) else float(value)
