"""What became of every tensor, when a run is incomplete, and what the gate says."""

from __future__ import annotations

from itertools import product

import pytest
from comparison_rows import IN, golden_only, key, pairs_of, row, target_only, tensor, why
from msgspec.structs import replace

from probe_flow.analysis import coverage
from probe_flow.analysis.coverage import Required, caveats, cover, incompleteness
from probe_flow.analysis.policies.base import judge_all
from probe_flow.analysis.silent_operators import SilentOperator, silence_problems, silent_sides
from probe_flow.comparing.steps import gate_passes
from probe_flow.dumps.dump_json.unrecorded_calls import STACK
from probe_flow.errors import Diagnostic
from probe_flow.records import (
    CallFacts,
    Catalog,
    Coverage,
    Execution,
    Expectation,
    Finding,
    FindingKind,
    Measurement,
    Mode,
    Node,
    NodeKey,
    NodeKind,
    Pair,
    Phase,
    Reason,
    Rule,
    SideSummary,
    Slot,
    SlotRole,
    Statistics,
    Status,
    TensorKind,
    TensorRef,
    Verdict,
)
from probe_flow.records.row import Row
from probe_flow.records.tensor_data import TensorTables
from tests.support.rules import kind_of

SHAPES = Diagnostic("PF5102", "element counts differ")
BROKEN = Diagnostic("PF3101", "the file is too short")


class Everything:
    name = "everything passes"

    def judge(self, rows):
        return [Verdict(Status.PASS) for _ in rows]


def covered(rows, verdicts=None):
    return cover(pairs_of(rows), rows, verdicts or judge_all(rows, Everything()))


def unmeasured(failure=None, reason=None, **kinds):
    sides = [tensor("a", kind=kinds.get(side, TensorKind.TENSOR), dtype=side) for side in ("target", "golden")]
    return Row(Pair(*sides, "g", Rule("exact"), reason=reason)).with_aside(failure=failure)


@pytest.mark.parametrize(
    ("one", "fate"),
    [
        (row("a"), "compared"),
        (unmeasured(SHAPES), "missing"),
        # A note of a pair (dtypes differ, aligned by shape) does not excuse that it could not be measured.
        (unmeasured(SHAPES, why(expected=True)), "missing"),
        (unmeasured(BROKEN), "unreadable"),
        (unmeasured(Diagnostic("PF5103", "text"), target=TensorKind.OPAQUE, golden=TensorKind.OPAQUE), "expected"),
        (unmeasured(Diagnostic("PF5104", "kinds"), golden=TensorKind.OPAQUE), "missing"),
        (unmeasured(), "outside"),  # not selected by `only`
    ],
)
def test_two_sided_rows(one, fate):
    for side in covered([one]).values():
        assert (side.tensors, side.compared) == (1, int(fate == "compared"))
        assert side.expected == int(fate == "expected")
        assert side.outside == int(fate == "outside")
        assert side.missing == int(fate in ("missing", "unreadable"))
        assert side.unreadable == int(fate == "unreadable")


def test_one_sided_rows_follow_their_reason():
    rows = [
        target_only(tensor("a")), target_only(tensor("b"), expected=True), target_only(tensor("c", IN)),
        golden_only(tensor("d")), golden_only(tensor("e"), expected=True),
        target_only(tensor("f", kind=TensorKind.UNREADABLE), expected=True),
    ]  # fmt: skip
    found = covered(rows)
    assert found["target"] == Coverage(4, expected=1, missing=3, unreadable=1, outputs=3, outputs_missing=2)
    assert found["golden"] == Coverage(2, expected=1, missing=1, outputs=2, outputs_missing=1)
    assert found["target"].ratio == 0.0


def test_a_golden_tensor_that_is_used_twice_counts_once_by_its_best_use():
    golden = tensor("g")
    good = row("a")
    good = Row(Pair(good.pair.target, golden, "g", Rule("exact")), good.measurement)
    bad = Row(Pair(tensor("b"), golden, "g", Rule("edge"))).with_aside(failure=SHAPES)
    for rows in ([good, bad], [bad, good]):
        found = covered(rows)
        assert (found["golden"].tensors, found["golden"].compared, found["golden"].missing) == (1, 1, 0)
        assert (found["target"].compared, found["target"].missing) == (1, 1)


def test_a_tensor_of_which_no_pair_tells_is_missing():
    rows = [row("a")]
    pairs = pairs_of([*rows, target_only(tensor("forgotten"))])
    assert cover(pairs, rows, judge_all(rows, Everything()))["target"].missing == 1


def test_quantised_and_unjudged_rows_are_no_gap():
    rows = [row("a"), row("b")]
    found = covered(rows, [Verdict(Status.NOT_COMPARABLE), Verdict(Status.SKIPPED)])
    assert found["target"] == Coverage(2, expected=2, outputs=2)
    assert found["target"].ratio is None


def test_what_is_not_asked_for_is_counted_apart_and_lowers_nothing():
    outside = Reason(kind_of("filtered"), "not selected", Expectation.OUTSIDE)
    rows = [row("a"), Row(Pair(tensor("b"), None, "g", Rule("none"), reason=outside))]
    assert covered(rows)["target"] == Coverage(2, compared=1, outside=1, outputs=2, outputs_compared=1)
    assert causes(rows) == ()
    assert said(rows) == ("partly: 1 target tensor outside the question",)


def test_a_side_without_outputs_is_measured_by_its_inputs():
    rows = [row("a", IN), target_only(tensor("b", IN)), golden_only(tensor("c", IN))]
    assert covered(rows)["target"].ratio == 0.5
    assert causes(rows) == (
        "only 50% of the target's tensors were compared (1 of 2, required 90%)",
        "only 50% of the golden's tensors were compared (1 of 2, required 90%)",
    )


def ran(name, outputs=1):
    return SilentOperator(key(name), "Relu", outputs, "graph")


def test_outputs_of_operators_that_ran_count_as_missing_although_neither_side_has_them():
    rows = [row(name) for name in "abcd"]
    verdicts = judge_all(rows, Everything())
    found = cover(pairs_of(rows), rows, verdicts, {"target": [ran("e", 2), ran("f")], "golden": [ran("e")]})
    assert found["target"] == Coverage(4, compared=4, outputs=4, outputs_compared=4, outputs_silent=3)
    assert (found["target"].ratio, found["golden"].ratio) == (4 / 7, 4 / 5)
    assert incompleteness(rows, verdicts, found, required=Required()) == (
        "only 57% of the target's outputs were compared (4 of 7, required 90%; 3 of operators that ran are not in the "
        "dump)",
        "only 80% of the golden's outputs were compared (4 of 5, required 90%; 1 of operators that ran are not in the "
        "dump)",
    )
    assert caveats(pairs_of(rows), found, required=Required()) == (
        "partly: 3 target and 1 golden outputs of operators that ran not in the dump",
    )


@pytest.mark.parametrize("code", ["filtered", "outside_mapping"])
def test_where_a_part_is_asked_for_no_operator_is_silent(code):
    calls = Catalog(
        "golden",
        "pytorch",
        "statistics",
        "/golden",
        {},
        (),
        undumped=(lost_call("b"),),
        attrs={"format": "dump_json"},
    )
    left_out = Pair(
        tensor("c"), None, "g", Rule("none"), reason=Reason(kind_of(code), "not asked for", Expectation.OUTSIDE)
    )
    pairs = pairs_of([row("a")])
    pairs = replace(pairs, golden=calls)
    assert [each.node.name for each in silent_sides(pairs)["golden"]] == ["b"]
    assert silent_sides(replace(pairs, pairs=(*pairs.pairs, left_out))) == {}


def lost_call(name):
    return Node(
        NodeKey(Execution(), name, phase=Phase.FORWARD), "linear", facts=CallFacts(NodeKind.API, evidence=STACK)
    )


def test_silent_operators_are_named():
    pairs = pairs_of([row("a")])
    assert list(silence_problems({"target": [], "golden": ()}, pairs)) == []
    one, many = silence_problems({"target": [ran("x")], "golden": [ran(name) for name in "abcde"]}, pairs)
    assert one.message == "1 operator of the target ran and left no output in the dump: `x`"
    assert many.message == "5 operators of the golden ran and left no output in the dump: `a`, `b`, `c` and 2 more"
    assert many.fields["operators"] == list("abcde")
    assert many.notes == ("the graph text says that they ran",)


def test_a_run_that_compares_no_output_is_incomplete():
    rows = [row("a", IN), target_only(tensor("a"), expected=True)]
    assert causes(rows) == ("no output was compared, only what operators read",)
    assert causes(rows, coverage=0.0) == ()


def causes(rows, verdicts=None, unused=(), **required):
    verdicts = verdicts or judge_all(rows, Everything())
    return incompleteness(rows, verdicts, covered(rows, verdicts), required=Required(**required), unused=unused)


def said(rows, *, coverage=0.9, **more):
    return caveats(pairs_of(rows), covered(rows), required=Required(coverage=coverage), **more)


def test_a_complete_run():
    assert causes([row("a"), target_only(tensor("x"), expected=True)]) == ()


@pytest.mark.parametrize(("required", "complete"), [(0.0, True), (0.5, True), (0.500001, False), (1.0, False)])
def test_least_share_of_outputs_is_inclusive(required, complete):
    found = causes([row("a"), target_only(tensor("x"))], coverage=required)
    assert (found == ()) is complete
    if not complete:
        assert found[0].startswith("only 50% of the target's outputs were compared (1 of 2, required ")


def test_a_share_just_below_is_not_rounded_to_what_is_required():
    rows = [*(row(f"a{number}") for number in range(26)), *(target_only(tensor(f"x{number}")) for number in range(3))]
    assert causes(rows) == ("only 89.6% of the target's outputs were compared (26 of 29, required 90%)",)


def test_missing_inputs_do_not_count():
    assert causes([row("a"), *(target_only(tensor(f"x{n}", IN)) for n in range(9))]) == ()


def test_either_side_may_lack_outputs():
    found = causes([row("a"), golden_only(tensor("x")), golden_only(tensor("y"))])
    assert found == ("only 33% of the golden's outputs were compared (1 of 3, required 90%)",)


def test_what_could_not_be_measured_says_why():
    broken = Diagnostic("PF9002", "measuring `a` failed: MetricError: the metric `m` raised ValueError, at m.py:3")
    found = causes([row("a"), unmeasured(broken), unmeasured(broken), unmeasured(BROKEN)], coverage=0.1)
    assert found[:2] == (
        "1 selected tensor could not be read",
        f"2 selected tensors could not be measured: {broken.message}",
    )


def test_unreadable_tensors_make_a_run_incomplete():
    bad = target_only(tensor("f", kind=TensorKind.UNREADABLE), expected=True)
    assert causes([row("a"), bad], coverage=0.5) == ("1 selected tensor could not be read",)
    assert "2 selected tensors could not be read" in causes([row("a"), bad, unmeasured(BROKEN)])


def test_nothing_compared_is_incomplete_whatever_the_reasons():
    assert causes([]) == ("nothing was compared: no target tensor has a golden partner",)
    assert "nothing was compared: no target tensor has a golden partner" in causes(
        [target_only(tensor("a"), expected=True)]
    )
    nothing = "nothing was compared: no pair could be measured and judged"
    assert f"{nothing} (element counts differ)" in causes([unmeasured(SHAPES)])
    assert f"{nothing} (e.g. element counts differ)" in causes([unmeasured(BROKEN), *[unmeasured(SHAPES)] * 2])
    assert nothing in causes([unmeasured()])


def test_an_execution_of_both_sides_without_pair_is_named():
    second = [
        target_only(tensor(key("a", step=1)), expected=True),
        golden_only(tensor(key("b", step=1)), expected=True),
    ]
    assert causes([row("a"), *second]) == ("nothing of rank 0 graph 1 step 1 was compared, though both sides have it",)
    assert causes([row("a"), second[0]]) == ()


def test_an_execution_of_one_side_only_is_named_unless_a_part_is_meant():
    many = [row(f"n{n}") for n in range(20)]
    for alone, side, other in ((target_only, "target", "golden"), (golden_only, "golden", "target")):
        rows = [*many, alone(tensor(key("a", step=1)))]
        text = f"nothing of rank 0 graph 1 step 1 of the {side} was compared: the {other} has no such execution"
        assert causes(rows) == (text,)
        assert causes(rows, executions=False) == ()
        assert said(rows) == (f"partly: 1 {side} tensor missing",)


def test_unused_entries_make_a_run_incomplete_unless_a_part_is_meant():
    unused = [Diagnostic("PF4216", f"entry `{name}` matches nothing") for name in "abcd"]
    assert causes([row("a")], unused=unused[:1]) == (
        "1 mapping entry or option matches nothing: entry `a` matches nothing",
    )
    assert causes([row("a")], unused=unused) == (
        "4 mapping entries or options match nothing: entry `a` matches nothing; entry `b` matches nothing; entry `c` "
        "matches nothing; and 1 more",
    )
    assert causes([row("a")], unused=unused, entries=False) == ()


def recorded(*figures, mode=Mode.STATISTICS, count=4, **counts):
    """A row whose sides both have these figures: minimum, maximum, mean, norm."""
    side = SideSummary(Statistics(*figures, **counts))
    pair = Pair(tensor("a"), tensor("a"), "g", Rule("exact"))
    return Row(pair, Measurement.of(mode, {}, side, side, count=count))


@pytest.mark.parametrize("mode", [Mode.TENSOR, Mode.STATISTICS, Mode.CHECKSUM])
def test_tensors_without_elements_compare_nothing(mode):
    empty = recorded(mode=mode, count=0)
    assert causes([empty, empty]) == ("nothing was compared: no tensor that both sides have holds an element",)
    assert causes([empty, unmeasured(SHAPES)], coverage=0.1) == (
        "nothing was compared: no pair could be measured and judged (e.g. element counts differ)",
    )
    assert causes([empty, row("a")]) == ()


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("one", "nonfinite", "zero"),
    [
        (recorded(NAN, NAN, NAN, NAN), 1, 0),
        (recorded(INF, INF, INF, INF), 1, 0),
        (recorded(-INF, 3.0, -INF, INF), 0, 0),  # a mask: some elements are finite
        (recorded(mode=Mode.TENSOR, nan=4), 1, 0),  # elements were counted, none is finite
        (recorded(mode=Mode.TENSOR), 0, 0),
        (recorded(1.0, 2.0, 1.5, NAN), 0, 0),
        (recorded(0.0, 0.0, 0.0, 0.0), 0, 1),
        (recorded(0, 0), 0, 1),
        (recorded(0.0, 1.0, 0.5, 1.0), 0, 0),
    ],
)
def test_outputs_that_agree_and_say_nothing_are_counted(one, nonfinite, zero):
    for side in covered([one]).values():
        assert (side.outputs_nonfinite, side.outputs_zero) == (nonfinite, zero)


FIGURES = (NAN, INF, -INF, 0.0, -0.0, 1.5, None, 0, 3)


def test_outputs_that_say_nothing_are_counted_among_many_as_each_alone(monkeypatch):
    tables = TensorTables()
    rows = []
    for figures in product(FIGURES, repeat=2):
        sides = [
            TensorRef.of(
                key("a"), Slot(SlotRole.OUTPUT), TensorKind.STATISTICS, recorded=Statistics(*each), source="d/dump.json"
            ).stored_in(tables)
            for each in (2 * figures, 2 * figures[::-1])
        ]
        rows += [
            Row(Pair(*both, "g", Rule("exact")), Measurement.of(Mode.STATISTICS, {}, *both, count=4))
            for both in (sides, sides[::-1])
        ]
    alone = [covered([each])["target"] for each in rows]
    monkeypatch.setattr(coverage, "FEW", 1)
    monkeypatch.setattr(coverage, "AT_ONCE", 7)

    found = covered(rows)["target"]

    assert found.outputs_nonfinite == sum(each.outputs_nonfinite for each in alone) > 0
    assert found.outputs_zero == sum(each.outputs_zero for each in alone) > 0
    assert len([*coverage._that_may_say_nothing(rows)]) < len(rows)


def test_more_than_a_tenth_of_nan_or_half_of_zeros_on_both_sides_is_incomplete():
    right = [recorded(0.0, 1.0, 0.5, 1.0) for _ in range(9)]
    nan = recorded(NAN, NAN, NAN, NAN)
    zeros = [recorded(0.0, 0.0, 0.0, 0.0) for _ in range(10)]
    assert causes([*right, nan]) == ()
    assert said([*right, nan]) == ("1 of 10 outputs hold nothing finite on both sides",)
    assert causes([*right[1:], nan]) == (
        "1 of the 9 compared outputs are NaN or infinite everywhere on both sides (at most 10% may be): that they "
        "agree says nothing",
    )
    assert causes([*right, *zeros[1:]]) == ()
    assert said([*right, *zeros[1:]]) == ("9 of 18 outputs hold nothing but zero on both sides",)
    (cause,) = causes([*right, *zeros])
    assert cause.startswith("10 of the 19 compared outputs are zero everywhere on both sides")


def test_whatever_narrows_a_comparison_is_said():
    rows = [row("a")]
    assert said(rows) == ()
    assert said(rows, only="first", max_elements=1000, coverage=0.4) == (
        "partly: suspects of `first`; first 1,000 elements of each tensor",
        "coverage of 40% accepted",
    )


def test_executions_that_were_not_selected_are_no_gap():
    left_out = row(key("a", step=1))
    rows = [row("a"), Row(left_out.pair)]
    assert causes(rows) == ()


def finding(**more):
    return Finding(FindingKind.ORIGIN, None, None, "evidence", 1.0, **more)


@pytest.mark.parametrize(
    ("findings", "status", "by_findings", "by_rows"),
    [
        ([], Status.PASS, True, True),
        ([], Status.WARNING, True, True),
        ([], Status.FAIL, True, False),
        ([], Status.NOT_COMPARABLE, True, True),
        ([], Status.UNMATCHED_TARGET, True, True),
        ([finding()], Status.PASS, False, True),
        ([finding()], Status.FAIL, False, False),
        ([finding(fails=False)], Status.PASS, True, True),
        ([finding(fails=False), finding()], Status.WARNING, False, True),
    ],
)
def test_gates(findings, status, by_findings, by_rows):
    verdicts = [Verdict(Status.PASS), Verdict(status)]
    assert gate_passes("findings", findings, verdicts) is by_findings
    assert gate_passes("all_pass", findings, verdicts) is by_rows


@pytest.mark.parametrize(
    ("one", "status", "rule"),
    [
        (target_only(tensor("a")), Status.UNMATCHED_TARGET, "no_partner"),
        (golden_only(tensor("a")), Status.UNMATCHED_GOLDEN, "no_partner"),
        (golden_only(tensor("a", kind=TensorKind.UNREADABLE)), Status.ERROR, "unreadable"),
        (unmeasured(SHAPES), Status.NOT_COMPARABLE, "PF5102"),
        (unmeasured(Diagnostic("PF3103", "several parts")), Status.NOT_COMPARABLE, "PF3103"),
        (unmeasured(Diagnostic("PF3102", "no numbers")), Status.NOT_COMPARABLE, "PF3102"),
        (unmeasured(BROKEN), Status.ERROR, "PF3101"),
        (unmeasured(Diagnostic("PF9002", "defect")), Status.ERROR, "PF9002"),
    ],
)
def test_verdicts_that_need_no_policy(one, status, rule):
    (verdict,) = judge_all([one], Everything())
    assert (verdict.status, verdict.rule_ids) == (status, (rule,))
    assert replace(one, verdict=verdict).reasons


@pytest.mark.parametrize(
    ("expectation", "said"), [(Expectation.MISSING, "another batch"), (Expectation.EXPECTED, "element counts differ")]
)
def test_a_matcher_that_foresaw_a_failure_says_it(expectation, said):
    (verdict,) = judge_all([unmeasured(SHAPES, Reason(kind_of("shapes"), "another batch", expectation))], Everything())
    assert (verdict.status, verdict.reasons) == (Status.NOT_COMPARABLE, (said,))


def test_policies_see_the_measured_rows_of_one_node_at_a_time():
    seen = []

    class Spy(Everything):
        def judge(self, rows):
            seen.append([each.pair.shown.id for each in rows])
            return super().judge(rows)

    rows = [row("a", IN), row("a"), row("b", IN), target_only(tensor("b")), golden_only(tensor("a", SlotRole.BUFFER))]
    verdicts = judge_all(rows, Spy())
    assert seen == [["a.input.0", "a.output.0"], ["b.input.0"], []]
    assert [verdict.status for verdict in verdicts][:3] == [Status.PASS] * 3


def test_checksums_of_two_dtypes_are_named_as_the_cause_of_an_incomplete_run_only():
    hashes = Diagnostic("PF5117", "checksums of float16 and float32 values cannot be compared")
    found = causes([unmeasured(hashes), unmeasured(hashes)])
    assert "of 2 pairs only checksums of two dtypes are known" in found[-1]
    assert causes([*[row(name) for name in "abcdefghi"], unmeasured(hashes)]) == ()
