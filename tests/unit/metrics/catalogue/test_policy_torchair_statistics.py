"""The TorchAir policy on reduced dumps: only some statistics, NaN alone, private operators."""

from __future__ import annotations

import math

import pytest
from comparison_rows import OUT, checksum_row, row

from probe_flow.analysis.policies.torchair import TorchairPolicy
from probe_flow.metrics.catalogue.statistics import compare_statistics
from probe_flow.records import Measurement, Mode, SideSummary, Statistics, Status

PASS, FAIL, NOT_COMPARABLE = Status.PASS, Status.FAIL, Status.NOT_COMPARABLE
NAN = math.nan


def compared(target, golden, **more):
    sides = Statistics(**target), Statistics(**golden)
    figures = compare_statistics(*sides)
    count = more.pop("count", 100)
    measured = Measurement.of(Mode.STATISTICS, figures, SideSummary(sides[0]), SideSummary(sides[1]), count=count)
    return row(measurement=measured, **more)


def judged(one):
    (verdict,) = TorchairPolicy().judge([one])
    return verdict


@pytest.mark.parametrize(
    ("target", "golden", "rules"),
    [
        ({"min": -1.0, "max": 2.0}, {"min": -1.0, "max": 2.0}, ()),
        ({"max": 2.0199}, {"max": 2.0}, ()), ({"max": 2.03}, {"max": 2.0}, ("max",)),
        ({"min": 1e-6, "max": 2.0}, {"min": 0.0, "max": 2.0}, ()),
        ({"min": 2e-6, "max": 2.0}, {"min": 0.0, "max": 2.0}, ("min",)),
        ({"min": -9.0, "max": 2.0}, {"max": 2.0, "mean": 5.0}, ()),
        ({"max": 2.0, "mean": NAN}, {"max": 2.0, "mean": NAN}, ()),
    ],
)  # fmt: skip
def test_the_statistics_that_both_sides_have_decide(target, golden, rules):
    verdict = judged(compared(target, golden))
    assert (verdict.status, verdict.rule_ids) == (FAIL if rules else PASS, rules)


def test_nan_alone_is_no_agreement():
    nan = {"min": NAN, "max": NAN}
    verdict = judged(compared(nan, nan))
    assert (verdict.status, verdict.rule_ids) == (NOT_COMPARABLE, ("nan",))
    assert judged(compared(nan, nan, count=0)).status is PASS


@pytest.mark.parametrize(
    ("dtypes", "gap", "status"),
    [
        (("float16", "float16"), 0.0, PASS), (("float16", "float16"), 1e-3, FAIL),
        (("float16", "float32"), 2.0**-11 * 4.0, PASS), (("float16", "float32"), 2.0**-9 * 4.0, FAIL),
        (("int32", "float32"), 0.9, PASS), (("int32", "float32"), 1.1, FAIL),
        (("", ""), 2.0**-9 * 4.0, PASS), (("", ""), 0.5, FAIL),
    ],
)  # fmt: skip
def test_a_private_operator_is_judged_by_its_extremes(dtypes, gap, status):
    one = compared({"min": -1.0, "max": 4.0 + gap}, {"min": -1.0, "max": 4.0}, rule="self", dtype=dtypes[0],
                   golden_dtype=dtypes[1])  # fmt: skip
    assert judged(one).status is status


def test_a_private_operator_without_extremes_does_not_pass():
    assert judged(compared({"mean": 1.0}, {"mean": 1.0}, rule="self")).status is FAIL


def test_a_private_operator_that_keeps_nan_passes():
    nan = {"min": NAN, "max": NAN}
    assert judged(compared(nan, nan, rule="self")).status is PASS


@pytest.mark.parametrize(("target", "status"), [("0a", PASS), ("0b", FAIL)])
def test_a_private_operator_may_be_judged_by_its_checksum(target, status):
    one = checksum_row("a", OUT, target, "0a")
    self_pair = type(one.pair)(one.pair.target, one.pair.golden, "g", "self")
    assert judged(type(one)(self_pair, one.measurement)).status is status
