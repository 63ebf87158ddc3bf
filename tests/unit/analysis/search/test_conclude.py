"""Findings and roles over small hand-made runs: what is blamed, in which order, and in which words."""

from __future__ import annotations

import math

import pytest
from comparison_rows import (
    IN,
    OUT,
    PARAM,
    argument,
    edge,
    golden_only,
    key,
    pairs_of,
    passes,
    row,
    statistics,
    statistics_measured,
    target_only,
    tensor,
    why,
)
from concluded_rows import U, chain, findings_of, names, roles_of
from msgspec.structs import replace

from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import (
    FindingKind,
    Flow,
    Group,
    Measurement,
    Mode,
    NodeKey,
    Pair,
    Phase,
    Relation,
    Role,
    Rule,
    SideSummary,
    Statistics,
    TensorKind,
)
from probe_flow.records.frameworks import PYTORCH, named
from probe_flow.records.row import Recomputed, Row


def test_a_fused_operator_is_blamed_with_its_parts():
    rows, pairs = chain(0.5 * U, 40 * U, 40 * U)
    nodes = {k: replace(n, originals=("Mul", "Add")) if k.name == "n1" else n for k, n in pairs.target.nodes.items()}
    (first, *_) = findings_of(rows, replace(pairs, target=replace(pairs.target, nodes=nodes)))
    assert first.node == key("n1")
    assert first.evidence.endswith("; fused of `Mul` + `Add`")


def test_a_clean_run_has_no_findings():
    rows, pairs = chain(0.5 * U, 0.9 * U, 1.4 * U)
    assert findings_of(rows, pairs) == ()
    assert set(roles_of(rows, pairs)) == {Role.CLEAN}


def test_a_jump_is_the_origin_and_what_follows_inherits():
    rows, pairs = chain(0.5 * U, 0.08, 0.08, 0.09)
    (finding,) = findings_of(rows, pairs)
    assert (finding.kind, finding.node.name, finding.slot.role) == (FindingKind.ORIGIN, "n1", OUT)
    assert finding.row == 3
    assert finding.fails
    assert finding.metrics["relative_euclidean_distance"] == 0.08
    clean, origin, inherited = Role.CLEAN, Role.ORIGIN, Role.INHERITED
    assert roles_of(rows, pairs) == [clean, clean, clean, origin, inherited, inherited, inherited, inherited]


def test_rows_say_how_much_of_their_error_is_explained():
    rows, pairs = chain(0.5 * U, 0.08, 0.08)
    rows[1] = replace(rows[1], measurement=None)
    shares = [verdict.excess for verdict in conclude(rows, pairs, passes(rows))[1]]
    origin = next(n for n, row in enumerate(rows) if row.node == key("n1") and row.is_produced)
    assert shares[origin] > 10
    assert shares[1] is None
    assert all(share < 1 for n, share in enumerate(shares) if n not in (1, origin))


def test_evidence_holds_the_figures():
    rows, pairs = chain(2.1e-4, 8.0e-2, 8.0e-2)
    (finding,) = findings_of(rows, pairs)
    # floor 2^-11 + 2^-24, input explains 1.2 x 2.1e-4: 8e-2 / 7.4e-4 = 108
    assert finding.evidence == (
        "inputs agree (2.1e-04, floor 4.9e-04), output differs (relative error 8.0e-02, 108 x what rounding and the "
        "inputs explain); 2 later tensors inherit it"
    )
    assert finding.severity == pytest.approx(108 / 2.5, rel=0.01)


def test_one_later_tensor_inherits():
    rows, pairs = chain(0.0, 0.08)
    rows.append(row("n2", IN, relative=0.08))
    pairs = pairs_of(rows, edges=[*pairs.target.edges, edge("n1", "n2")])
    assert findings_of(rows, pairs)[0].evidence.endswith("; 1 later tensor inherits it")


def test_few_wrong_elements_are_found_by_the_peak():
    rows, pairs = chain(0.5 * U, {"relative": 0.5 * U, "peak": 2.0})
    (finding,) = findings_of(rows, pairs)
    assert finding.node.name == "n1"
    assert ", single elements off by up to 2 among values up to 3, " in finding.evidence


def test_a_wrong_factor_is_found_by_the_gain():
    rows, pairs = chain(0.5 * U, {"relative": 1.1 * U, "gain": 3 * U}, count=1_000_000)
    (finding,) = findings_of(rows, pairs)
    assert "output differs (relative error 5.4e-04, scale off by +0.15%, " in finding.evidence


def test_an_amplifier_is_no_origin():
    # LayerNorm of a small spread: mean 3, spread 0.01 of size 1; a fault of 0.03 before it becomes 1.
    rows = [row("fault", IN), row("fault", relative=0.03), row("norm", IN, relative=0.03), row("norm", relative=0.9)]
    pairs = pairs_of(rows, {"norm": "LayerNorm"}, [edge("fault", "norm")])
    for place in (1, 2):
        steep = statistics(mean=0.9999, min=-3.0)
        rows[place] = row(
            rows[place].node, rows[place].pair.shown.slot.role,
            measurement=rows[place].measurement.of(
                rows[place].measurement.mode, rows[place].measurement.metrics,
                rows[place].measurement.target, rows[place].measurement.golden.__class__(steep), count=100,
            ),
        )  # fmt: skip
    found = findings_of(rows, pairs)
    assert names(found) == ["fault"]
    assert roles_of(rows, pairs)[3] is Role.INHERITED


def test_independent_faults_are_both_named_the_earlier_first():
    left, _ = chain(0.5 * U, 0.05)
    rows = [*left, row("m0", IN, mark=9.0), row("m0", relative=0.4, mark=9.0)]
    pairs = pairs_of(rows, edges=[edge("n0", "n1")])
    assert names(findings_of(rows, pairs)) == ["n1", "m0"]


def test_a_second_fault_downstream_of_the_first_is_named_too():
    rows, pairs = chain(0.5 * U, 0.01, 0.012, 0.9)
    assert names(findings_of(rows, pairs)) == ["n1", "n3"]


def test_what_comes_near_before_an_origin_is_a_suspect_that_fails_nothing():
    # 2.5 steps of rounding is the limit of the rms; the peaks are too small to count.
    rows, pairs = chain({"relative": 1.7 * U, "peak": 0.0}, {"relative": 0.5, "peak": 0.0})
    found = findings_of(rows, pairs)
    assert [(finding.kind, finding.node.name, finding.fails) for finding in found] == [
        (FindingKind.ORIGIN, "n1", True),
        (FindingKind.SUSPECT, "n0", False),
    ]
    assert "68% of what it takes" in found[1].evidence


@pytest.mark.parametrize(("steps", "is_named"), [(1.9, False), (2.1, True)])
def test_where_nothing_fails_a_suspect_must_come_nearer(steps, is_named):
    rows, pairs = chain({"relative": steps * U, "peak": 0.0})
    found = findings_of(rows, pairs)
    assert names(found, FindingKind.SUSPECT) == ["n0"] * is_named
    assert not any(finding.fails for finding in found)


def test_what_comes_near_behind_an_origin_is_its_echo():
    rows, pairs = chain({"relative": 0.5, "peak": 0.0})
    rows += [row("m0", IN, mark=9.0), row("m0", relative=1.7 * U, peak=0.0, mark=9.0)]
    pairs = pairs_of(rows, edges=[edge("nowhere", "n0", 9)])
    assert names(findings_of(rows, pairs), FindingKind.SUSPECT) == []


def test_strong_evidence_comes_before_weak_evidence_that_is_earlier():
    rows, pairs = chain(0.5 * U, 6.0 * U)
    rows += [row("m0", IN, mark=9.0), row("m0", relative=0.4, mark=9.0)]
    pairs = pairs_of(rows, edges=[edge("n0", "n1")])
    found = findings_of(rows, pairs)
    assert names(found) == ["m0", "n1"]
    assert found[1].severity < 2.0 <= found[0].severity


def test_weak_evidence_in_the_forward_pass_comes_before_strong_evidence_in_a_gradient():
    rows, pairs = chain(0.5 * U, 6.0 * U)
    gradient = NodeKey(key("m0").execution, "m0", 0, Phase.BACKWARD)
    rows += [row(gradient, IN, mark=9.0), row(gradient, relative=0.4, mark=9.0)]
    pairs = pairs_of(rows, {"m0": "Tanh"}, [edge("n0", "n1")])
    found = findings_of(rows, pairs)
    assert names(found) == ["n1", "m0"]
    assert found[0].severity < 2.0 <= found[1].severity


def statistics_of_tanh(relative, phase=Phase.FORWARD):
    """A node that reads what is right, and writes what is off in scale by so much, known by statistics only."""
    node = NodeKey(key("n").execution, "n", 0, phase)
    read = statistics(max=4.0, mean=0.1, l2norm=10.01)  # a norm in float32, so that the records hide nothing
    right, wrong = (statistics(mean=0.1, l2norm=10.0 * scale) for scale in (1.0, 1.0 + relative))
    return [
        row(node, IN, measurement=statistics_measured(read, read)),
        row(node, measurement=statistics_measured(wrong, right)),
    ]


def test_statistics_are_judged_more_sharply_in_the_forward_pass_than_in_gradients():
    for factor, is_forward, is_backward in ((1.2, False, False), (1.4, True, False), (8.0, True, True)):
        for phase, is_named in ((Phase.FORWARD, is_forward), (Phase.BACKWARD, is_backward)):
            rows = statistics_of_tanh(factor * U, phase)  # the floor of what reads the right values is U
            assert bool(names(findings_of(rows, pairs_of(rows, {"n": "Tanh"})))) is is_named, (factor, phase)


@pytest.mark.parametrize(("steps", "is_named"), [(3, False), (6, True)])
def test_extremes_of_kernels_that_round_to_either_neighbour_accuse_nobody(steps, is_named):
    read = statistics(max=1.5, mean=0.25, l2norm=5.01)  # a norm in float32
    right, wrong = (statistics(min=-1.0, max=1.0625 + n * 2.0**-7, mean=0.125, l2norm=4.0) for n in (0, steps))
    rows = [
        row("n", IN, measurement=statistics_measured(read, read), dtype="bfloat16"),
        row("n", measurement=statistics_measured(wrong, right), dtype="bfloat16"),
    ]
    assert bool(names(findings_of(rows, pairs_of(rows, {"n": "Tanh"})))) is is_named


@pytest.mark.parametrize(("steps", "is_named"), [(4.5, False), (4.9, True)])
def test_extremes_alone_name_what_is_off_at_them(steps, is_named):
    # 1.1 times 1.6 times (half the largest value, times the root of two, and twice the largest value) steps of U.
    read, right, wrong = (statistics(max=top, mean=None, l2norm=None) for top in (9.0, 4.0, 4.0 * (1.0 + steps * U)))
    rows = [
        row("n", IN, measurement=statistics_measured(read, read)),
        row("n", measurement=statistics_measured(wrong, right)),
    ]
    assert bool(names(findings_of(rows, pairs_of(rows, {"n": "Tanh"}, [edge("nowhere", "n", 9)])))) is is_named


def by_extremes(name, role, top, *, count=100, place=0):
    sides = (statistics(max=value, mean=None, l2norm=None) for value in (top, 4.0))
    return row(name, role, place, measurement=statistics_measured(*sides, count=count))


def test_what_extremes_do_not_clear_before_an_origin_is_told():
    # a and b feed c, which feeds d; d's largest value is off. b has two elements, which the extremes show in full.
    wrong = 4.0 * (1.0 + 40 * U)
    rows = [
        *(by_extremes("a", role, 4.0) for role in (IN, OUT)),
        *(by_extremes("b", role, 4.0, count=2) for role in (IN, OUT)),
        by_extremes("c", IN, 4.0),
        by_extremes("c", IN, 4.0, count=2, place=1),
        by_extremes("c", OUT, 4.0),
        by_extremes("d", IN, 4.0),
        by_extremes("d", OUT, wrong),
        by_extremes("aside", OUT, 4.0),
    ]
    edges = [edge("nowhere", "a", 9), edge("nowhere", "b", 9), edge("a", "c"), edge("b", "c", 0, 1), edge("c", "d")]
    origin, *suspects = findings_of(rows, pairs_of(rows, dict.fromkeys("abcd", "Tanh"), edges))
    assert (origin.kind, origin.node.name) == (FindingKind.ORIGIN, "d")
    assert origin.evidence.startswith("inputs agree in minimum and maximum, which does not clear `c`, `a` (")
    assert [(each.kind, each.node.name, each.fails) for each in suspects] == [
        (FindingKind.SUSPECT, "c", False),
        (FindingKind.SUSPECT, "a", False),
    ]
    assert suspects[0].evidence == (
        "`d.output.0` was computed from it, and its minimum and maximum, which agree, do not clear it"
    )


@pytest.mark.parametrize(("passed", "told"), [("view", ["a"]), (None, [])])
def test_an_input_behind_what_was_not_compared_does_not_clear_what_feeds_that(passed, told):
    # Fed directly, the input holds the tensor that a wrote, which had the right extremes there.
    rows = [
        *(by_extremes("a", role, 4.0) for role in (IN, OUT)),
        row("b", IN, measurement=statistics_measured(
            statistics(max=5.0, mean=None, l2norm=None),
            statistics(max=3.0 if passed else 4.0, mean=None, l2norm=None),
        )),
    ]  # fmt: skip
    edges = [edge("nowhere", "a", 9)]
    edges += [edge("a", passed), edge(passed, "b")] if passed else [edge("a", "b")]
    origin, *suspects = findings_of(rows, pairs_of(rows, dict.fromkeys("ab", "Tanh"), edges))
    assert (origin.node.name, str(origin.slot)) == ("b", "input.0")
    assert [each.node.name for each in suspects] == told
    assert origin.evidence.endswith("which does not clear `a`") is bool(told)


def test_extremes_of_an_input_of_the_network_do_not_clear_it():
    rows = [by_extremes("a", IN, 4.0), by_extremes("a", OUT, 4.0 * (1.0 + 40 * U))]
    (origin,) = findings_of(rows, pairs_of(rows, {"a": "Tanh"}, [edge("nowhere", "a", 9)]))
    assert origin.evidence.startswith("inputs agree in minimum and maximum, which does not clear them (")


def test_a_wrong_parameter_is_the_origin():
    rows = [row("fc", IN), row("fc", PARAM, "weight", relative=0.1, mark=1.0), row("fc", relative=0.1, mark=2.0)]
    pairs = pairs_of(rows, {"fc": "Linear"})
    (finding,) = findings_of(rows, pairs)
    assert finding.slot.role is PARAM
    assert finding.evidence.startswith("parameter differs (relative error 1.0e-01, ")
    assert "before the node has done anything" in finding.evidence
    assert roles_of(rows, pairs) == [Role.CLEAN, Role.ORIGIN, Role.INHERITED]


def test_a_stale_input_is_the_origin_though_its_producer_is_right():
    rows = [row("a", relative=0.5 * U), row("b", IN, relative=0.5), row("b", relative=0.5)]
    pairs = pairs_of(rows, edges=[edge("a", "b")])
    (finding,) = findings_of(rows, pairs)
    assert (finding.node.name, finding.slot.role) == ("b", IN)
    assert finding.evidence.startswith("input differs")


def test_where_nan_begins_is_a_finding_and_what_follows_inherits():
    rows, pairs = chain(0.5 * U, {"relative": 0.5 * U, "nonfinite": 3}, {"relative": 0.7, "nonfinite": 50})
    found = findings_of(rows, pairs)
    assert names(found) == ["n1"]
    assert names(found, FindingKind.NONFINITE_ORIGIN) == ["n1"]
    assert "nan or inf at 3 positions" in found[0].evidence
    assert found[1].evidence.endswith("3 of 100 elements")
    assert roles_of(rows, pairs)[3:] == [Role.ORIGIN, Role.INHERITED, Role.INHERITED]


def test_a_tensor_that_is_nan_throughout_is_found():
    nothing = {"euclidean_distance": None, "max_abs_err": None, "cosine": None, "nonfinite": 100}
    rows, pairs = chain(0.5 * U, nothing, nothing)
    found = findings_of(rows, pairs)
    assert names(found) == ["n1"]
    assert names(found, FindingKind.NONFINITE_ORIGIN) == ["n1"]
    assert roles_of(rows, pairs)[-1] is Role.INHERITED


def test_nan_that_an_earlier_fault_causes_is_no_second_origin():
    # A zero divisor: the divisor is the origin of divergence, the quotient that of NaN.
    rows, pairs = chain(0.5 * U, 0.5, {"relative": 0.5, "nonfinite": 2}, {"relative": 0.5, "nonfinite": 2})
    found = findings_of(rows, pairs)
    assert names(found) == ["n1"]
    assert names(found, FindingKind.NONFINITE_ORIGIN) == ["n2"]


def test_finite_damage_behind_nan_is_inherited():
    # A maximum that skips NaN, or nan_to_num: finite, and wrong.
    rows, pairs = chain(0.5 * U, {"relative": 0.0, "nonfinite": 1}, 0.9, 0.9)
    assert names(findings_of(rows, pairs)) == ["n1"]
    assert roles_of(rows, pairs)[-1] is Role.INHERITED


def test_nan_of_unknown_ancestry_follows_the_first_nan():
    rows = [
        row("a", relative=0.0, nonfinite=1, mark=1.0), row("b", IN, relative=0.0, nonfinite=1, mark=2.0),
        row("b", relative=0.0, nonfinite=1, mark=3.0),
    ]  # fmt: skip
    found = findings_of(rows, pairs_of(rows))
    assert names(found) == ["a"]
    assert roles_of(rows, pairs_of(rows)) == [Role.ORIGIN, Role.INHERITED, Role.INHERITED]


def test_nan_in_statistics_mode_is_found():
    nan = Statistics(min=math.nan, max=math.nan, mean=math.nan, l2norm=math.nan)
    rows = [
        row("a", IN, measurement=statistics_measured(statistics(), statistics())),
        row("a", measurement=statistics_measured(nan, statistics(max=4.0), nonfinite=1)),
    ]
    found = findings_of(rows, pairs_of(rows))
    assert names(found, FindingKind.NONFINITE_ORIGIN) == ["a"]
    assert "in its recorded statistics" in found[-1].evidence


def test_equal_infinities_are_agreement():
    masked = statistics(min=-math.inf, mean=-math.inf, l2norm=math.inf)
    rows = [row("a", IN, measurement=statistics_measured(masked, masked)), row("a", relative=0.0)]
    assert findings_of(rows, pairs_of(rows)) == ()


def test_a_wrong_index_is_the_origin_and_what_is_gathered_inherits():
    rows = [
        row("gather", IN, 0), row("gather", IN, 1, relative=0.5, dtype="int64", peak=7.0, mark=1.0),
        row("gather", relative=1.2, peak=500.0, mark=2.0),
    ]  # fmt: skip
    pairs = pairs_of(rows, {"gather": "GatherV2"})
    (finding,) = findings_of(rows, pairs)
    assert finding.row == 1
    assert "where exact values are due" in finding.evidence
    assert "inf" not in finding.evidence
    assert roles_of(rows, pairs) == [Role.CLEAN, Role.ORIGIN, Role.INHERITED]


def test_an_argmax_on_rounded_inputs_may_flip():
    rows = [row("top", IN, relative=U), row("top", relative=0.9, dtype="int64", count=1, peak=900.0)]
    pairs = pairs_of(rows, {"top": "ArgMaxV2"})
    assert findings_of(rows, pairs) == ()
    exact = [row("top", IN), rows[1]]
    assert names(findings_of(exact, pairs_of(exact, {"top": "ArgMaxV2"}))) == ["top"]


@pytest.mark.parametrize(("step", "named"), [(1, ["all_reduce"]), (0, ["all_reduce", "norm"])])
def test_weights_that_are_nan_in_the_step_behind_a_nan_inherit(step, named):
    """An optimizer that no dump shows wrote them. In the step of the NaN itself they came from elsewhere."""
    before, wrong, after = key("norm", step=0), key("all_reduce", step=0), key("norm", step=step)
    rows = [
        row(before, PARAM, "weight", mark=1.0), row(wrong, IN, mark=2.0), row(wrong, nonfinite=1, mark=3.0),
        row(after, PARAM, "bias", nonfinite=1, mark=4.0),
    ]  # fmt: skip
    pairs = pairs_of(rows, {"norm": "layer_norm", "all_reduce": "all_reduce"})
    found = [each for each in findings_of(rows, pairs) if each.kind is FindingKind.ORIGIN]
    assert [each.node.name for each in found] == named


def test_a_wrong_scalar_argument_is_the_origin():
    rows = [row("ln", IN, mark=1.0), argument("ln", 1e-5, 1e-3), row("ln", relative=0.8, mark=2.0)]
    (finding,) = findings_of(rows, pairs_of(rows, {"ln": "layer_norm"}))
    assert finding.row == 1
    assert finding.evidence.startswith("argument `input.1` is 1e-05, golden 0.001")
    assert roles_of(rows, pairs_of(rows)) == [Role.CLEAN, Role.ORIGIN, Role.INHERITED]


def test_an_argument_that_differs_in_many_calls_is_one_origin():
    """Epsilon of an optimizer: behind the first call with another one, errors of 100 % might explain the next."""
    rows = []
    for name in ("first", "next", "last"):
        rows += [row(name, IN, mark=float(len(name))), argument(name, 1e-3, 1e-8), row(name, relative=0.9, mark=7.0)]
    pairs = pairs_of(rows, dict.fromkeys(("first", "next", "last"), "add"))
    assert [finding.row for finding in findings_of(rows, pairs)] == [1]
    assert roles_of(rows, pairs)[4:6] == [Role.INHERITED, Role.INHERITED]


def test_what_another_factor_scales_inherits_though_the_golden_multiplies_by_one():
    """The golden's result has the statistics of what it was given, and is linked to it alone."""
    given, scaled = (statistics(min=-3.0 * each, max=3.0 * each, l2norm=10.0 * each) for each in (1.0, 1.02))
    same, off = statistics_measured(given, given), statistics_measured(scaled, given)
    rows = [
        row("mul", IN, 0, measurement=same, dtype="float32"),
        argument("mul", 1.02, 1.0),
        row("mul", measurement=off, dtype="float32"),
    ]
    found, _ = conclude(rows, pairs_of(rows, {"mul": "mul"}), passes(rows))
    assert [(each.node.name, each.slot.role) for each in found if each.fails] == [("mul", IN)]


@pytest.mark.parametrize(
    ("target", "golden"), [(1, 1), ("sum", "sum"), (math.nan, math.nan), (None, None), (0.1, 0.1 + 1e-9), (True, True)]
)
def test_equal_arguments_are_no_finding(target, golden):
    rows = [argument("f", target, golden), row("f")]
    assert findings_of(rows, pairs_of(rows)) == ()


def test_arguments_computed_behind_a_fault_are_no_origins():
    rows, pairs = chain(0.5 * U, 0.3)
    rows.append(argument("n2", 12, 14))
    pairs = pairs_of(rows, edges=pairs.target.edges)
    assert names(findings_of(rows, pairs)) == ["n1"]
    assert roles_of(rows, pairs)[-1] is Role.INHERITED


def test_a_cast_is_judged_by_its_own_input():
    good = row("cast", rule="self", relative=0.4 * U, golden_dtype="float32")
    bad = row("data", rule="self", relative=0.2)
    rows = [good, bad]
    pairs = pairs_of(rows, {"cast": "Cast", "data": "TransData"}, [edge("x", "cast"), edge("x", "data")])
    assert names(findings_of(rows, pairs)) == ["data"]
    # Also in a later step, whatever errors earlier ones had.
    later = [row(key("a", step=0), relative=0.3), row(key("data", step=1), rule="self", relative=0.2)]
    assert "data" in names(findings_of(later, pairs_of(later)))


def test_golden_only_rows_have_no_role_of_their_own():
    rows = [row("a"), golden_only(tensor("sub")), target_only(tensor("x"))]
    assert findings_of(rows, pairs_of(rows)) == ()
    assert roles_of(rows, pairs_of(rows)) == [Role.CLEAN, Role.UNKNOWN, Role.UNKNOWN]


def test_state_of_earlier_steps_may_carry_their_error():
    first = [row(key(f"a{n}", step=0), relative=8 * U) for n in range(4)]
    rows = [*first, row(key("cache", step=1), IN, relative=15 * U), row(key("cache", step=1), relative=15 * U)]
    # With earlier steps that carry such errors themselves (from step 0's inputs), a cache is no origin.
    edges = [edge(key("src", step=0), key(f"a{n}", step=0)) for n in range(4)]
    named = names(findings_of(rows, pairs_of(rows, edges=edges)))
    assert "cache" not in named
    stale = [*first, row(key("cache", step=1), IN, relative=0.9)]
    assert "cache" in names(findings_of(stale, pairs_of(stale, edges=edges)))


def test_an_unmatched_operator_is_named_when_it_wrote_the_wrong_tensor():
    recorded = Statistics(min=-1.0, max=2.0, mean=0.1, l2norm=5.0)
    written = tensor("extra", recorded=recorded, kind=TensorKind.STATISTICS)
    read = row("b", IN, relative=0.5)
    read = type(read)(
        type(read.pair)(
            tensor("b", IN, recorded=recorded, kind=TensorKind.STATISTICS), read.pair.golden, "g", Rule("exact")
        ),
        read.measurement,
    )
    rows = [row("a", mark=1.0), target_only(written), read, row("b", relative=0.5, mark=5.0)]
    (finding,) = findings_of(rows, pairs_of(rows))
    assert (finding.node.name, finding.row) == ("extra", 1)
    assert finding.evidence.startswith("has no counterpart in the golden and wrote `b.input.0`: input differs")
    assert roles_of(rows, pairs_of(rows)) == [Role.CLEAN, Role.ORIGIN, Role.INHERITED, Role.INHERITED]


@pytest.mark.parametrize(
    ("own", "named"),
    [
        (Recomputed("rms", 1e-7, 1e-6, 0.1), "matmul"),
        (None, "bias"),
        (Recomputed("rms", 0.5, 1e-6, 5e5, golden=0.1), "bias"),
    ],
    ids=["makes it of its inputs", "nobody knows", "wrong by itself"],
)
def test_what_the_golden_makes_in_one_call_is_the_fault_of_the_first_where_the_last_is_right(own, named):
    recorded = Statistics(min=-1.0, max=2.0, mean=0.1, l2norm=5.0)
    product = target_only(tensor("matmul", recorded=recorded, kind=TensorKind.STATISTICS))
    given = target_only(tensor("bias", IN, recorded=recorded, kind=TensorKind.STATISTICS))
    rows = [
        row("matmul", IN, relative=1e-7, dtype="float32", mark=1.0), product, given,
        row("bias", IN, 1, relative=0.0, dtype="float32", mark=2.0),
        row("bias", relative=0.5, dtype="float32", mark=3.0).with_aside(recomputed=own),
    ]  # fmt: skip
    (finding,) = findings_of(rows, pairs_of(rows))
    assert finding.node.name == named
    lone = "has no counterpart in the golden, and `bias.output.0` is made of it: "
    assert finding.evidence.startswith(lone) is (named == "matmul")


@pytest.mark.parametrize(("error", "gain", "due"), [(0.1, -0.005, []), (0.14, 0.1, ["pool_grad"])])
def test_the_gradient_of_a_pooling_may_go_elsewhere_near_ties_and_not_change_its_scale(error, gain, due):
    count, edges = 4096, [edge("start", "pool_grad", 2)]
    rows = [
        row("start", relative=0.08, mark=9.0, count=count // 4),
        row("pool_grad", IN, 0, relative=U, mark=1.0, count=count),
        row("pool_grad", IN, 1, relative=U, mark=2.0, count=count // 4),
        row("pool_grad", IN, 2, relative=0.08, mark=9.0, count=count // 4),
        row("pool_grad", relative=error, gain=gain, peak=2.0, mark=3.0, count=count),
    ]
    found = findings_of(rows, pairs_of(rows, {"pool_grad": "MaxPoolGrad", "start": "Mul"}, edges))
    assert [name for name in names(found) if name != "start"] == due


def test_statistics_mode_names_the_same_origin():
    def of(norm, place):
        return statistics_measured(statistics(l2norm=norm, max=3.0 + place), statistics(max=3.0 + place))

    rows = [
        row("a", IN, measurement=of(10.0, 0)), row("a", measurement=of(10.001, 1)),
        row("b", IN, measurement=of(10.001, 1)), row("b", measurement=of(13.0, 2)),
        row("c", IN, measurement=of(13.0, 2)), row("c", measurement=of(13.0, 3)),
    ]  # fmt: skip
    pairs = pairs_of(rows)
    found = findings_of(rows, pairs)
    assert names(found) == ["b"]
    assert roles_of(rows, pairs)[4:] == [Role.INHERITED, Role.INHERITED]


def test_a_tensor_without_a_file_is_named_once_whoever_reads_it():
    first, second = row("norm", IN, relative=0.1, mark=1.0), row("add", IN, relative=0.1, mark=1.0)
    second = replace(second, pair=replace(second.pair, golden=first.pair.golden))
    rows = [row("source", mark=3.0), first, row("norm", relative=0.1, mark=2.0), second, row("add", relative=0.1)]
    pairs = pairs_of(rows, {"norm": "RmsNorm", "add": "Add"}, [edge("source", "norm"), edge("source", "add")])
    assert names(findings_of(rows, pairs)) == ["norm"]
    right = [*rows[:1], replace(first, measurement=row(mark=1.0).measurement), row("norm", mark=2.0), *rows[3:]]
    assert names(findings_of(right, pairs)) == ["add"]  # the first reading says that it was right


def test_a_module_is_not_blamed_for_what_is_wrong_inside():
    rows = [
        row("fc", IN, mark=1.0), row("fc", relative=0.1, mark=2.0), row("layer", IN, mark=1.0),
        row("layer", relative=0.03, mark=3.0), row("head", IN, relative=0.03, mark=3.0),
    ]  # fmt: skip
    pairs = pairs_of(rows)
    nodes = {
        name: replace(node, parent="layer" if name.name == "fc" else None) for name, node in pairs.target.nodes.items()
    }
    nested = replace(pairs, target=replace(pairs.target, nodes=nodes))
    assert names(findings_of(rows, nested)) == ["fc"]
    assert roles_of(rows, nested) == [Role.CLEAN, Role.ORIGIN, Role.CLEAN, Role.INHERITED, Role.INHERITED]
    assert names(findings_of(rows, pairs)) == ["fc", "layer"]


@pytest.mark.parametrize(("op_type", "blamed"), [("mul", ["fault"]), ("linear", ["fault"]), ("add", ["fault", "op"])])
def test_gradients_carry_the_errors_of_what_the_forward_pass_saved(op_type, blamed):
    backward = NodeKey(key("op").execution, "op", phase=Phase.BACKWARD)
    rows = [
        row("fault", IN, mark=1.0), row("fault", relative=0.2, mark=2.0), row("op", IN, relative=0.2, mark=2.0),
        row("op", relative=0.2, mark=3.0), row(backward, IN, mark=4.0), row(backward, relative=0.2, mark=5.0),
    ]  # fmt: skip
    pairs = pairs_of(rows, {"op": op_type})
    assert names(findings_of(rows, pairs)) == blamed
    if blamed == ["fault"]:
        assert roles_of(rows, pairs)[5] is Role.INHERITED
    # A fault of the gradient alone is still one.
    right = [*rows[:1], row("fault", mark=2.0), row("op", IN, mark=2.0), row("op", mark=3.0), *rows[4:]]
    assert names(findings_of(right, pairs_of(right, {"op": op_type}))) == ["op"]


@pytest.mark.parametrize("relation", [Relation.MANY_TO_ONE, Relation.ONE_TO_ONE], ids=["group", "alone"])
def test_a_bias_is_not_blamed_for_the_product_that_was_not_compared(relation):
    # A fault before, a product inside a group, and the addition of a bias whose data input has no counterpart.
    rows = [
        row("fault", IN, relative=0.0, mark=1.0), row("fault", relative=0.01, mark=2.0),
        row("mm", IN, 0, relative=0.01, mark=2.0), row("mm", IN, 1, mark=3.0), target_only(tensor("mm"), expected=True),
        target_only(tensor("bias", IN, 0), expected=True), row("bias", IN, 1, mark=4.0),
        row("bias", relative=0.012, mark=5.0),
    ]  # fmt: skip
    group = Group("g", relation, (key("mm"), key("bias")), (key("linear"),))
    pairs = replace(pairs_of(rows, {"mm": "MatMul", "bias": "BiasAdd"}), groups=(group,))
    assert names(findings_of(rows, pairs)) == ["fault"]
    assert roles_of(rows, pairs)[-1] is Role.INHERITED


def test_evidence_does_not_say_that_inputs_agree_when_one_was_not_compared():
    rows = [target_only(tensor("bias", IN, 0)), row("bias", IN, 1, mark=4.0), row("bias", relative=0.08, mark=5.0)]
    (finding,) = findings_of(rows, pairs_of(rows, {"bias": "BiasAdd"}))
    assert finding.evidence.startswith("not all inputs were compared (floor 4.9e-04), output differs ")


def test_evidence_says_that_no_input_was_compared():
    (finding,) = findings_of(rows := [row("a", relative=0.08)], pairs_of(rows))
    assert finding.evidence.startswith("no input was compared (floor 4.9e-04), output differs ")


@pytest.mark.parametrize(
    ("frameworks", "is_blamed"),
    [
        (("mindspore", "pytorch"), False),
        (("mindtorch", "pytorch"), False),
        (("pytorch", "mindspore"), False),
        (("mindtorch", "mindspore"), True),
        (("pytorch", "pytorch"), True),
        (("torchair_ge", "torchair_fx"), True),
    ],
)
def test_the_default_epsilon_of_another_framework_is_no_fault(frameworks, is_blamed):
    # 1e-5 instead of 1e-7 scales a tensor of variance 1 by 5e-6; many elements leave no noise to hide it in.
    rows = [
        row("norm", IN, dtype="float32", count=10**6, mark=1.0),
        row("norm", relative=5e-6, gain=-5e-6, dtype="float32", count=10**6),
    ]
    pairs = pairs_of(rows, {"norm": "LayerNorm"})
    sides = [
        replace(side, framework=named(name))
        for side, name in zip((pairs.target, pairs.golden), frameworks, strict=True)
    ]
    found = findings_of(rows, replace(pairs, target=sides[0], golden=sides[1]))
    assert names(found) == (["norm"] if is_blamed else [])


def test_a_fault_across_frameworks_is_still_named():
    rows = [row("norm", IN, dtype="float32", mark=1.0), row("norm", relative=1e-4, dtype="float32")]
    pairs = pairs_of(rows, {"norm": "LayerNorm"}, framework="mindspore")
    pairs = replace(pairs, golden=replace(pairs.golden, framework=PYTORCH))
    assert names(findings_of(rows, pairs)) == ["norm"]


def not_comparable(name, shapes, role=OUT):
    target, golden = (tensor(name, role, shape=shape) for shape in shapes)
    return Row(Pair(target, golden, "g", Rule("exact"), reason=why(expected=False)))


def behind_what_was_not_compared(shapes):
    """`a` is right; `b` reads it and was not compared; `c` and `d` read `b` and are wrong."""
    rows = [
        row("a", relative=0.5 * U),
        not_comparable("b", shapes),
        not_comparable("c", shapes, IN),
        row("c", relative=40 * U),
        not_comparable("d", shapes, IN),
        row("d", relative=60 * U),
        row("e", IN, relative=60 * U),
        row("e", relative=60 * U),
    ]
    return rows, pairs_of(rows, edges=[edge("a", "b"), edge("b", "c"), edge("b", "d"), edge("d", "e")])


def test_an_output_of_another_size_is_the_origin_of_what_is_wrong_behind_it_and_named_once():
    rows, pairs = behind_what_was_not_compared(((4, 4), (4, 5)))
    (finding,) = findings_of(rows, pairs)
    assert (finding.node.name, finding.slot.role, finding.row) == ("b", OUT, 1)
    head = "has another shape than the golden ([4, 4], golden [4, 5]); behind it, at `c.output.0`: "
    assert finding.evidence.startswith(f"{head}what was compared before `b.output.0` agrees (2.4e-04, floor ")
    assert "inputs agree" not in finding.evidence
    roles = roles_of(rows, pairs)
    assert roles[1] is Role.ORIGIN
    assert [roles[n] for n in (3, 5, 6, 7)] == [Role.INHERITED] * 4


def test_evidence_says_that_what_lies_between_was_not_compared_where_its_size_is_right():
    rows, pairs = behind_what_was_not_compared(((4, 5), (5, 4)))
    (finding, _) = findings_of(rows, pairs)
    assert (finding.node.name, finding.slot.role) == ("c", OUT)
    assert finding.evidence.startswith("what was compared before `b.output.0` agrees (2.4e-04, floor ")


def test_an_output_of_another_size_accuses_nobody_where_all_behind_it_is_right():
    rows = [row("a", relative=0.5 * U), not_comparable("b", ((4,), (5,))), row("c", relative=0.5 * U)]
    assert not findings_of(rows, pairs_of(rows, edges=[edge("a", "b"), edge("b", "c")]))


def test_operators_of_an_offline_model_without_edges_excuse_each_other_by_nothing():
    same = [row(f"n{n}", relative=error) for n, error in enumerate((U, 0.5, U, 2.0, 3 * U))]
    rows = [row(f"n{n}", relative=error, mark=float(n)) for n, error in enumerate((U, 0.5, U, 0.9, 3 * U))]
    for each in (same, rows):
        found = findings_of(each, pairs_of(each, flow=Flow.GRAPH))
        assert [finding.node.name for finding in found] == ["n1", "n3"]
        assert all("no edge is known" in finding.evidence for finding in found)
    by_order = findings_of(rows, pairs_of(rows, framework="pytorch"))
    assert [finding.node.name for finding in by_order] == ["n1"]


@pytest.mark.parametrize(
    ("others", "words"), [((), "(error 5.0e-06 where the golden is zero, floor"), ((U,), "(4.9e-04, error 5.0e-06")]
)
def test_inputs_of_zeros_agree_by_their_error_and_not_by_infinity(others, words):
    # A difference of equal values is zero in the golden and rounding on the device; what reads it doubles it.
    zeros = statistics(min=0.0, max=0.0, mean=0.0, l2norm=0.0)
    figures = {"cosine": None, "euclidean_distance": 5e-5, "relative_euclidean_distance": math.inf, "max_abs_err": 5e-6}
    nearly = Measurement.of(Mode.TENSOR, figures, SideSummary(statistics()), SideSummary(zeros), count=100)
    rows = [row("sub", IN, relative=U), row("sub", measurement=nearly), row("a", IN, measurement=nearly)]
    rows += [row("a", IN, place, relative=error) for place, error in enumerate(others, start=1)]
    rows.append(row("a", relative=0.5))
    edges = [edge("x", "sub"), edge("sub", "a"), edge("x", "a", 1)]
    (finding,) = findings_of(rows, pairs_of(rows, {"sub": "Sub", "a": "Add"}, edges))
    assert finding.evidence.startswith(f"inputs agree {words}")
