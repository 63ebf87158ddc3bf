"""The policies rule by rule, at their borders."""

from __future__ import annotations

import math

import pytest
from comparison_rows import IN, OUT, argument, checksum_row, key, row, statistics, statistics_measured, tensor

from probe_flow.analysis.policies.base import judge_all
from probe_flow.analysis.policies.bounds import Bound, parse_bound
from probe_flow.analysis.policies.dump_json import DumpJsonPolicy
from probe_flow.analysis.policies.registry import POLICIES
from probe_flow.analysis.policies.rules import Rule, RulePolicy
from probe_flow.analysis.policies.torchair import TorchairPolicy
from probe_flow.errors import UsageError
from probe_flow.metrics.catalogue.statistics import compare_statistics
from probe_flow.records import Measurement, Mode, NodeKey, Pair, ReasonKind, SideSummary, Statistics, Status
from probe_flow.records.row import Row

PASS, WARNING, FAIL = Status.PASS, Status.WARNING, Status.FAIL


def judged(policy, one):
    (verdict,) = policy.judge([one])
    return verdict


def torchair(one):
    return judged(TorchairPolicy(), one)


def values(**metrics):
    golden = metrics.pop("golden", {})
    return row(measurement=Measurement.of(
        Mode.TENSOR, metrics, SideSummary(statistics()), SideSummary(statistics(**golden)), count=100,
    ))  # fmt: skip


def compared_statistics(target, golden, **more):
    measurement = Measurement.of(
        Mode.STATISTICS, compare_statistics(target, golden), SideSummary(target), SideSummary(golden), count=100, **more
    )
    return row(measurement=measurement)


@pytest.mark.parametrize(
    ("cosine", "worst", "status", "rules"),
    [
        (0.99, 0.0099, PASS, ()),
        (0.989999, 0.0099, FAIL, ("cosine",)),
        (0.99, 0.01, FAIL, ("max_relative_error",)),
        (0.5, 7.0, FAIL, ("cosine", "max_relative_error")),
        (1.0, 0.0, PASS, ()),
        (math.nan, 0.0, FAIL, ("cosine",)),
        (1.0, math.nan, FAIL, ("max_relative_error",)),
        (1.0, math.inf, FAIL, ("max_relative_error",)),
        (None, 0.0099, PASS, ()),
        (None, 0.01, FAIL, ("max_relative_error",)),
    ],
)
def test_torchair_rule_at_its_borders(cosine, worst, status, rules):
    verdict = torchair(values(cosine=cosine, max_rel_err_eps=worst))
    assert (verdict.status, verdict.rule_ids) == (status, rules)
    assert len(verdict.reasons) == len(rules)


def test_torchair_prefers_the_published_relative_error():
    assert torchair(values(cosine=1.0, max_rel_err_eps=0.0, max_rel_err=math.inf)).status is PASS
    assert torchair(values(cosine=1.0, max_rel_err=0.5)).status is FAIL
    assert torchair(values(cosine=1.0)).reasons == ("MaxRelativeErr is not computable, required below 0.01",)


def test_torchair_says_where_nan_differs():
    verdict = torchair(row(nonfinite=3, max_rel_err_eps=0.0))
    assert (verdict.status, verdict.rule_ids) == (FAIL, ("nonfinite",))
    assert verdict.reasons == ("nan/inf position differs in 3 of 100 elements",)


def test_torchair_passes_a_mask_of_infinities_on_both_sides():
    nothing = {"cosine": None, "max_rel_err_eps": None}
    assert torchair(values(**nothing, golden={"inf": 100})).status is PASS
    assert torchair(values(**nothing, golden={"inf": 99})).status is FAIL


@pytest.mark.parametrize(
    ("dtypes", "side"),
    [(("int8", "float32"), "target"), (("float16", "int8"), "golden"), (("int4", "bfloat16"), "target")],
)
def test_torchair_does_not_judge_a_quantised_side(dtypes, side):
    verdict = torchair(row(dtype=dtypes[0], golden_dtype=dtypes[1], max_rel_err_eps=0.5))
    assert verdict.status is Status.NOT_COMPARABLE
    assert side in verdict.reasons[0]


@pytest.mark.parametrize("policy", [TorchairPolicy(), POLICIES.find("offline")()])
def test_equal_values_need_no_scale(policy):
    same = {"cosine": 1.0, "max_rel_err_eps": 0.0, "max_abs_err": 0.0}
    assert judged(policy, row(dtype="int8", golden_dtype="float32", **same)).status is PASS
    other = {**same, "max_rel_err_eps": 0.001, "max_abs_err": 0.125}
    assert judged(policy, row(dtype="int8", golden_dtype="float32", **other)).status is Status.NOT_COMPARABLE
    mask = judged(policy, row(dtype="int8", golden_dtype="float32", nonfinite=1, **same))
    assert mask.status is FAIL


@pytest.mark.parametrize(
    ("target", "golden", "status"),
    [
        (statistics(), statistics(), PASS),
        (statistics(max=8.0), statistics(max=9.0), Status.NOT_COMPARABLE),
        (statistics(max=None), statistics(max=None), Status.NOT_COMPARABLE),
    ],
)
def test_equal_statistics_need_no_scale_where_they_have_the_extremes(target, golden, status):
    measurement = Measurement.of(
        Mode.STATISTICS, compare_statistics(target, golden), SideSummary(target), SideSummary(golden), count=100
    )
    one = row(dtype="int8", golden_dtype="float32", measurement=measurement)
    assert torchair(one).status is status


@pytest.mark.parametrize("dtypes", [("int8", "int8"), ("int32", "float32"), ("int8", "int32")])
def test_torchair_judges_other_integers(dtypes):
    assert torchair(row(dtype=dtypes[0], golden_dtype=dtypes[1], max_rel_err_eps=0.5)).status is FAIL


@pytest.mark.parametrize(
    ("dtypes", "worst", "status"),
    [
        (("float16", "float16"), 0.0, PASS),
        (("float16", "float16"), 1e-9, FAIL),
        (("float16", "float32"), 3 * 2.0**-11, PASS),
        (("float16", "float32"), 3 * 2.0**-11 * 1.01, FAIL),
        (("bfloat16", "float32"), 3 * 2.0**-8, PASS),
        (("int32", "float32"), 0.99, PASS),
        (("int32", "float32"), 1.5, FAIL),
        (("bool", "float32"), 4.0, Status.NOT_COMPARABLE),
        (("float16", "float16"), None, FAIL),
    ],
)
def test_torchair_judges_private_operators_by_their_input(dtypes, worst, status):
    one = row(rule="self", dtype=dtypes[0], golden_dtype=dtypes[1], max_abs_err=worst)
    assert torchair(one).status is status


@pytest.mark.parametrize(
    ("target", "golden", "rules"),
    [
        ({"l2norm": 10.1}, {}, ()),
        ({"l2norm": 10.11}, {}, ("l2norm",)),
        ({"mean": 1e-6}, {"mean": 0.0}, ()),
        ({"mean": 1.1e-6}, {"mean": 0.0}, ("mean",)),
        ({"max": 4.0, "min": -4.0}, {}, ("max", "min")),
        ({"max": None}, {}, ()),
        ({"max": math.inf}, {"max": math.inf}, ()),
        ({"max": math.nan}, {"max": math.nan}, ()),
        ({"mean": math.nan}, {"mean": 0.0}, ("mean",)),
    ],
)
def test_torchair_statistics(target, golden, rules):
    verdict = torchair(compared_statistics(statistics(**target), statistics(**golden)))
    assert (verdict.status, verdict.rule_ids) == (FAIL if rules else PASS, rules)


def test_torchair_nan_in_statistics_of_one_side():
    nan = statistics(max=math.nan)
    verdict = torchair(compared_statistics(nan, statistics(), nonfinite_mismatch=1))
    assert verdict.reasons == ("nan/inf in the recorded statistics of one side only",)


@pytest.mark.parametrize(("target", "status"), [("0a", PASS), ("0b", FAIL)])
@pytest.mark.parametrize("policy", [TorchairPolicy(), DumpJsonPolicy()], ids=lambda policy: policy.name)
def test_checksums_pass_only_when_equal(policy, target, status):
    assert judged(policy, checksum_row("a", OUT, target, "0a")).status is status


@pytest.mark.parametrize(
    ("target", "golden", "status"),
    [
        (None, None, PASS), ("sum", "sum", PASS), ("sum", "mean", FAIL), (True, False, FAIL), (3, 3, PASS),
        (3, 4, FAIL),
        (1.0, 1.009, PASS), (1.0, 1.02, FAIL), (math.nan, math.nan, PASS), (math.inf, 1.0, FAIL), (0.0, 0.0, PASS),
        (True, 1, FAIL), (2, 2.0, PASS),
    ],
)  # fmt: skip
def test_torchair_plain_values(target, golden, status):
    assert torchair(argument("f", target, golden)).status is status


def test_empty_tensors_pass():
    assert torchair(row(count=0, cosine=None, max_rel_err_eps=None)).rule_ids == ("empty",)
    assert torchair(row(measurement=statistics_measured(Statistics(), Statistics(), count=0))).status is PASS


# ---- dump_json


def api(name="Functional.linear"):
    return NodeKey(key("x").execution, name)


def norms(role, error, name="Functional.linear", place=0, dtype="float32", **more):
    measurement = Measurement.of(
        Mode.STATISTICS,
        {"l2norm_diff_rel": error},
        SideSummary(statistics()),
        SideSummary(statistics()),
        count=100,
        **more,
    )
    return row(api(name), role, place, measurement=measurement, dtype=dtype)


def dump_json(*rows):
    return [(verdict.status, verdict.rule_ids) for verdict in DumpJsonPolicy().judge(rows)]


@pytest.mark.parametrize(
    ("into", "out", "expected"),
    [
        (0.0999, 0.51, (FAIL, ("norm_jump",))),
        (0.0999, 0.5, (PASS, ())),
        (0.1, 5.0, (WARNING, ("norm_growth",))),
        (0.1, 0.9, (PASS, ())),
        (0.0, 0.11, (WARNING, ("norm_growth",))),
        (0.0, 0.1, (PASS, ())),
        (0.01, 0.101, (WARNING, ("norm_growth",))),
        (0.01, 0.1, (PASS, ())),
        (0.0001, 0.00099, (PASS, ())),  # below the floor of float32
        (0.0001, 0.0011, (WARNING, ("norm_growth",))),
        (None, math.nan, (PASS, ())),
        (0.0, math.inf, (FAIL, ("norm_jump",))),
        (math.inf, math.inf, (PASS, ())),
    ],
)
def test_dump_json_norms(into, out, expected):
    assert dump_json(norms(IN, into), norms(OUT, out)) == [(PASS, ()), expected]


@pytest.mark.parametrize(
    ("dtype", "status"), [("float16", PASS), ("bfloat16", PASS), ("float32", WARNING), ("int16", WARNING)]
)
def test_dump_json_floor_of_growth_depends_on_the_dtype(dtype, status):
    assert dump_json(norms(IN, 0.0005, dtype=dtype), norms(OUT, 0.009, dtype=dtype))[1][0] is status


def test_dump_json_growth_is_that_of_the_worst_output_and_shown_at_the_first():
    found = dump_json(norms(IN, 0.001), norms(OUT, 0.001), norms(OUT, 0.2, place=1))
    assert found[1:] == [(WARNING, ("norm_growth",)), (PASS, ())]
    found = dump_json(norms(IN, 0.001), norms(OUT, 0.001), norms(OUT, 0.7, place=1))
    assert found[2] == (FAIL, ("norm_jump",))


def test_dump_json_without_outputs_relates_nothing():
    assert dump_json(norms(IN, 0.9)) == [(PASS, ())]


def shares(role, share, cosine=1.0, place=0):
    measurement = Measurement.of(
        Mode.TENSOR, {"err_ratio_1e3": share, "cosine": cosine},
        SideSummary(statistics()), SideSummary(statistics()), count=100,
    )  # fmt: skip
    return row(api(), role, place, measurement=measurement)


@pytest.mark.parametrize(
    ("into", "out", "expected"),
    [
        ((0.91, 1.0), (0.09, 1.0), (FAIL, ("thousandth",))),
        ((0.9, 1.0), (0.09, 1.0), (PASS, ())),
        ((0.91, 1.0), (0.1, 1.0), (PASS, ())),
        ((0.5, 0.95), (0.5, 0.84), (WARNING, ("cosine_drop",))),
        ((0.5, 0.95), (0.5, 0.86), (PASS, ())),
        ((0.5, 0.9), (0.5, 0.1), (PASS, ())),
        ((None, None), (None, None), (PASS, ())),
        ((1.0, 1.0), (0.0, 0.0), (FAIL, ("thousandth",))),
    ],
)
def test_dump_json_tensors(into, out, expected):
    assert dump_json(shares(IN, *into), shares(OUT, *out)) == [(PASS, ()), expected]


@pytest.mark.parametrize(
    ("target", "golden", "status"),
    [(2, 2, PASS), (2, 3, FAIL), ("a", "b", FAIL), (math.nan, math.nan, PASS), (None, None, PASS)],
)
def test_dump_json_arguments(target, golden, status):
    assert dump_json(argument(api(), target, golden)) == [(status, ("scalar",) if status is FAIL else ())]


def test_dump_json_shapes():
    one, other = (tensor(api(), shape=shape) for shape in ((2, 50), (50, 2)))
    found = judged(DumpJsonPolicy(), Row(Pair(one, other, "g", Rule("exact")), row().measurement))
    assert (found.rule_ids, found.reasons) == (("shape",), ("shape is (2, 50), golden (50, 2)",))
    reason = ReasonKind("axes_joined", is_reshaped=True).expected("the same elements")
    joined = Pair(one, other, "g", Rule("exact"), reason=reason)
    assert judged(DumpJsonPolicy(), Row(joined, row().measurement)).status is PASS
    unknown = tensor(api(), shape=None)
    assert judged(DumpJsonPolicy(), Row(Pair(one, unknown, "g", Rule("exact")), row().measurement)).status is PASS


@pytest.mark.parametrize(
    ("target", "golden", "rules"),
    [(True, False, ("requires_grad",)), (True, True, ()), (None, True, ()), (True, None, ()), (None, None, ())],
)
def test_dump_json_warns_of_another_requires_grad_where_both_recorded_it(target, golden, rules):
    sides = [tensor(requires_grad=grad) for grad in (target, golden)]
    found = judged(DumpJsonPolicy(), Row(Pair(*sides, "g", Rule("exact")), row().measurement))
    assert (found.status, found.rule_ids) == (Status.WARNING if rules else PASS, rules)


@pytest.mark.parametrize(
    ("target", "golden", "rules"),
    [
        ("bfloat16", "float32", ()),
        ("int32", "int64", ()),
        ("int64", "float32", ("dtype",)),
        ("bool", "uint8", ("dtype",)),
        ("float8_e4m3fn", "complex64", ("dtype",)),
    ],
)
def test_dump_json_warns_of_another_kind_of_dtype_not_of_another_width(target, golden, rules):
    found = judged(DumpJsonPolicy(), row(dtype=target, golden_dtype=golden))
    assert (found.status, found.rule_ids) == (Status.WARNING if rules else PASS, rules)


def test_dump_json_nan_of_either_side_fails():
    assert dump_json(norms(OUT, 0.0, nonfinite_mismatch=1)) == [(FAIL, ("nonfinite",))]
    assert dump_json(row(api(), nonfinite=2)) == [(FAIL, ("nonfinite",))]


def test_dump_json_leaves_out_apis_of_undefined_contents():
    assert dump_json(norms(OUT, 9.0, "Torch.empty")) == [(Status.SKIPPED, ("unjudged_api",))]
    assert dump_json(norms(OUT, 9.0, "Torch.empty_like2")) == [(FAIL, ("norm_jump",))]
    assert dump_json(norms(OUT, 9.0, "empty")) == [(FAIL, ("norm_jump",))]


def test_dump_json_collectives_are_judged_by_their_outputs_alone():
    name = "Distributed._all_gather_base"
    rows = [
        norms(IN, 0.0, name),
        argument(api(name), 1, 2),
        norms(OUT, 9.0, name),
        norms(OUT, 0.0, name, 1, nonfinite_mismatch=1),
    ]
    skipped = (Status.SKIPPED, ("unjudged_input",))
    assert dump_json(*rows) == [skipped, skipped, (PASS, ()), (FAIL, ("nonfinite",))]


# ---- own rules


def rules(*given, op_types=None):
    return RulePolicy(given, op_types or {})


COSINE = {"cosine": Bound(">=", 0.999)}


def test_the_first_rule_that_fits_judges():
    loose, strict = Rule({"node": ("Mul*",)}, {"cosine": Bound(">", 0.5)}), Rule({}, COSINE)
    policy = rules(loose, strict)
    assert judged(policy, row("Mul_1", cosine=0.9)).status is PASS
    assert judged(policy, row("Add_1", cosine=0.9)).status is FAIL
    assert judged(rules(strict, loose), row("Mul_1", cosine=0.9)).status is FAIL


@pytest.mark.parametrize(
    ("where", "fits"),
    [
        ({}, True), ({"node": ("Mul*", "Add*")}, True), ({"node": ("mul*",)}, False), ({"op_type": ("MatMul*",)}, True),
        ({"op_type": ("Mat",)}, False), ({"direction": ("output",)}, True), ({"direction": ("in*",)}, False),
        ({"dtype": ("float*",)}, True), ({"dtype": ("float16",), "node": ("Sub*",)}, False),
    ],
)  # fmt: skip
def test_where_needs_every_key_and_one_pattern_of_each(where, fits):
    policy = rules(Rule(where, COSINE), op_types={key("Add_1"): "MatMulV2"})
    assert (judged(policy, row("Add_1", cosine=1.0)).status is PASS) is fits


def test_a_row_that_no_rule_fits_is_skipped_and_says_so():
    verdict = judged(rules(Rule({"node": ("x",)}, COSINE)), row("a"))
    assert (verdict.status, verdict.rule_ids) == (Status.SKIPPED, ("no_rule",))


def test_warnings_are_what_misses_pass_but_meets_warn():
    rule = Rule({}, COSINE, {"cosine": Bound(">=", 0.9)})
    found = [judged(rules(rule), row(cosine=value)) for value in (0.9995, 0.95, 0.5)]
    assert [verdict.status for verdict in found] == [PASS, WARNING, FAIL]
    assert found[1].reasons == ("cosine is 0.95, required >= 0.999",)
    assert found[1].rule_ids == ("cosine>=0.999",)


def test_every_bound_must_hold_and_a_missing_metric_holds_none():
    rule = Rule({}, {**COSINE, "max_abs_err": Bound("<", 1.0)})
    verdict = judged(rules(rule), row(cosine=0.5, max_abs_err=None))
    assert verdict.status is FAIL
    assert verdict.reasons == ("cosine is 0.5, required >= 0.999", "max_abs_err is not computable, required < 1")


def test_own_rules_judge_plain_values_by_equality_unless_they_speak_of_them():
    policy = rules(Rule({}, COSINE))
    assert judged(policy, argument("f", None, None)).status is PASS
    assert judged(policy, argument("f", 1, 1)).status is PASS
    assert judged(policy, argument("f", 1, 2)).reasons == ("value is 1, golden 2",)


def test_own_rules_say_which_metrics_they_need():
    rule = Rule({}, COSINE, {"rmse": Bound("<", 1.0)})
    assert rules(rule, rule).needs == ("cosine", "rmse")


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        (">= 0.99", Bound(">=", 0.99)), ("<1e-3", Bound("<", 1e-3)), (" == 1 ", Bound("==", 1.0)),
        ("!=0", Bound("!=", 0.0)),
        ("> -2.5E+3", Bound(">", -2500.0)), ("<= .5", Bound("<=", 0.5)), ("< inf", Bound("<", math.inf)),
        ("> 1.", Bound(">", 1.0)),
    ],
)  # fmt: skip
def test_bounds(text, bound):
    assert parse_bound(text) == bound


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0.99",
        ">=",
        "=> 1",
        "= 1",
        "< 1e",
        "< 1 2",
        "<< 1",
        "< nan",
        "< 0x1",
        "< 1e-3 and > 0",
        "≥ 1",
        "< 1,5",
        "<\n",
    ],
)
def test_texts_that_state_no_bound(text):
    assert parse_bound(text) is None


@pytest.mark.parametrize("value", [None, math.nan])
@pytest.mark.parametrize("symbol", ["<", ">", "<=", ">=", "==", "!="])
def test_missing_and_nan_meet_no_bound(symbol, value):
    assert not Bound(symbol, 1.0).holds(value)


def test_bounds_hold_at_their_limit_or_not():
    found = {symbol: Bound(symbol, 1.0).holds(1) for symbol in ("<", ">", "<=", ">=", "==", "!=")}
    assert found == {"<": False, ">": False, "<=": True, ">=": True, "==": True, "!=": False}
    assert Bound("==", 1.0).holds(True)
    assert Bound(">", 1e300).holds(math.inf)


# ---- registry


def test_our_policies_are_there_by_name():
    assert {"torchair", "dump_json"} <= set(POLICIES)
    assert POLICIES.find("torchair")().name == "torchair"
    assert POLICIES.find("dump_json")().name == "dump_json"


def test_an_unknown_policy_is_an_error_with_a_suggestion():
    with pytest.raises(UsageError) as caught:
        POLICIES.find("torchiar")
    assert caught.value.diagnostic.code == "PF5001"
    assert caught.value.diagnostic.help == "did you mean `torchair`?"
    with pytest.raises(UsageError) as caught:
        POLICIES.find("zzz")
    assert caught.value.diagnostic.help == "policies: torchair, offline, tf_training, dump_json, precheck"


class Lenient:
    name = "lenient"
    needs = ()

    def judge(self, rows):
        return []


class Needy(Lenient):
    needs = ("cosine", "no_such_metric")


def test_a_policy_of_a_package_that_needs_what_is_not_there_is_named(site):
    site.announce("acme", "probe_flow.policies", f"needy = {__name__}:Needy")
    with pytest.raises(UsageError, match="in its `needs`: there is no metric `no_such_metric`") as caught:
        POLICIES.find("needy")
    assert caught.value.diagnostic.code == "PF5002"


class Raising(Lenient):
    def judge(self, rows):
        raise ValueError("no such node")


class Wordy(Lenient):
    def judge(self, rows):
        return ["fine" for _ in rows]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("Lenient", "of 1 rows of a node its `judge` gave 0 verdicts (nothing)"),
        ("Wordy", "of 1 rows of a node its `judge` gave 1 verdicts (str)"),
        ("Raising", "its `judge` raised ValueError: no such node, at test_policies.py:"),
    ],
)
def test_what_a_policy_of_a_package_does_wrong_is_said_with_its_name(site, kind, why):
    site.announce("acme", "probe_flow.policies", f"odd = {__name__}:{kind}")
    with pytest.raises(UsageError) as caught:
        judge_all([row("a")], POLICIES.find("odd")())
    assert caught.value.diagnostic.code == "PF5002"
    assert f"the policy `odd` cannot be used: {why}" in caught.value.diagnostic.message
    assert "of the package `acme`" in caught.value.diagnostic.notes[0]


def test_a_package_adds_a_policy(site):
    site.announce("acme", "probe_flow.policies", f"lenient = {__name__}:Lenient")
    assert POLICIES.find("lenient")().name == "lenient"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("builtins:dict", "gives no policy"),
        ("math:pi", "it is no function or class"),
        ("builtins:int", "gives no policy"),
    ],
)
def test_a_package_that_gives_no_policy_is_named(site, value, reason):
    site.announce("acme", "probe_flow.policies", f"odd = {value}")
    with pytest.raises(UsageError, match=reason) as caught:
        POLICIES.find("odd")
    assert caught.value.diagnostic.code == "PF5002"
    assert caught.value.diagnostic.notes == (
        f"entry point `odd = {value}` (probe_flow.policies) of the package `acme`",
    )
