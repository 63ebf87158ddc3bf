"""The policy of offline models, threshold by threshold."""

from __future__ import annotations

import math

import pytest
from comparison_rows import row, statistics

from probe_flow.analysis.policies.offline import OfflinePolicy
from probe_flow.analysis.policies.registry import POLICIES
from probe_flow.metrics.catalogue.registry import find_metric
from probe_flow.metrics.catalogue.statistics import compare_statistics
from probe_flow.records import Measurement, Mode, SideSummary, Statistics, Status

PASS, WARNING, FAIL = Status.PASS, Status.WARNING, Status.FAIL
GOOD = {
    "cosine": 1.0, "relative_euclidean_distance": 0.0, "kl_minmax": 0.0, "rmse": 0.0, "mean_rel_err_masked": 0.0,
    "unequal_count": 0,
}  # fmt: skip


def judged(one):
    (verdict,) = OfflinePolicy().judge([one])
    return verdict


def measured(count=100, nonfinite=0, golden=None, dtype="float16", golden_dtype="float32", rule="exact", **metrics):
    sides = SideSummary(statistics()), SideSummary(golden or statistics())
    measurement = Measurement.of(Mode.TENSOR, {**GOOD, **metrics}, *sides, nonfinite_mismatch=nonfinite, count=count)
    return row(measurement=measurement, dtype=dtype, golden_dtype=golden_dtype, rule=rule)


@pytest.mark.parametrize(
    ("metrics", "status", "rules"),
    [
        ({}, PASS, ()),
        ({"cosine": 0.99}, PASS, ()),
        ({"cosine": 0.9899}, FAIL, ("cosine",)),
        ({"relative_euclidean_distance": 0.05}, PASS, ()),
        ({"relative_euclidean_distance": 0.0501}, FAIL, ("relative_euclidean_distance",)),
        ({"relative_euclidean_distance": math.inf, "cosine": math.nan}, FAIL, ("relative_euclidean_distance",)),
        ({"rmse": 1.0}, PASS, ()),
        ({"rmse": 1.0001}, FAIL, ("rmse",)),
        ({"mean_rel_err_masked": 1.0}, PASS, ()),
        ({"mean_rel_err_masked": 1.0001}, FAIL, ("mean_rel_err_masked",)),
        ({"mean_rel_err_masked": math.nan}, PASS, ()),
        ({"kl_minmax": 0.005}, PASS, ()),
        ({"kl_minmax": 0.0051}, WARNING, ("kl_minmax",)),
        ({"kl_minmax": 0.0051, "cosine": 0.5}, FAIL, ("cosine", "kl_minmax")),
        ({"cosine": None}, PASS, ()),
    ],
)
def test_every_threshold_at_its_border(metrics, status, rules):
    verdict = judged(measured(**metrics))
    assert (verdict.status, verdict.rule_ids) == (status, rules)
    assert len(verdict.reasons) == len(rules)


def test_reasons_name_the_metric_its_value_and_the_limit():
    verdict = judged(measured(cosine=0.5, rmse=2.0))
    assert verdict.reasons == ("CosineSimilarity 0.5 is below 0.99", "RootMeanSquareError 2 is above 1.0")


@pytest.mark.parametrize(
    ("dtypes", "status"),
    [
        (("int64", "int64"), WARNING), (("int32", "int64"), WARNING), (("bool", "bool"), WARNING),
        (("int8", "int8"), PASS), (("int32", "float32"), PASS), (("float16", "float16"), PASS),
    ],
)  # fmt: skip
def test_integers_that_differ_are_told_whatever_the_relative_error(dtypes, status):
    verdict = judged(measured(dtype=dtypes[0], golden_dtype=dtypes[1], unequal_count=3))
    assert verdict.status is status
    if status is WARNING:
        assert verdict.reasons == (f"3 of 100 {dtypes[0]} elements differ",)


def test_nan_and_infinities_in_other_places_fail():
    verdict = judged(measured(nonfinite=2))
    assert (verdict.status, verdict.rule_ids) == (FAIL, ("nonfinite",))


def test_what_holds_nothing_to_judge():
    nothing = dict.fromkeys(GOOD)
    assert judged(measured(count=0, **nothing)).rule_ids == ("empty",)
    assert judged(measured(count=4, golden=statistics(nan=3, inf=1), **nothing)).rule_ids == ("no_finite_value",)
    assert judged(measured(dtype="int8", golden_dtype="float32")).status is Status.NOT_COMPARABLE


def test_other_modes_and_operators_judged_by_their_input_follow_the_torchair_rules():
    sides = Statistics(max=1.0, min=0.0, mean=0.5, l2norm=2.0), Statistics(max=1.0, min=0.0, mean=0.5, l2norm=3.0)
    recorded = Measurement.of(
        Mode.STATISTICS, compare_statistics(*sides), SideSummary(sides[0]), SideSummary(sides[1]), count=9
    )
    assert judged(row(measurement=recorded)).rule_ids == ("l2norm",)
    assert judged(measured(rule="self", max_abs_err=0.5, dtype="float32")).rule_ids == ("self",)


def test_it_is_registered_and_asks_for_metrics_that_exist():
    policy = POLICIES.find("offline")()
    assert policy.name == "offline"
    assert [find_metric(metric).id for metric in policy.needs] == list(policy.needs)
