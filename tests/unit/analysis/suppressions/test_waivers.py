"""Waivers: what they cover, and what becomes of those that expired, are of no use, or do not reach."""

from __future__ import annotations

from datetime import date

import pytest
from comparison_rows import IN, OUT, pairs_of, row

from probe_flow.analysis.policies.bounds import parse_bound
from probe_flow.analysis.search.near_misses import left_open
from probe_flow.analysis.suppressions.waivers import Waiver, waive
from probe_flow.comparing.steps import gate_passes
from probe_flow.errors import Severity, Span
from probe_flow.records import ExcuseKind, Finding, FindingKind, Role, Status, Verdict, WaiverState

TODAY = date(2026, 6, 30)
FAILING = Verdict(Status.FAIL, ("r",), ("cosine is 0.5",), Role.ORIGIN)
PASSING = Verdict(Status.PASS)


def waiver(bound: str | None = None, expires: date = TODAY, **where: str) -> Waiver:
    bounds = {"relative_euclidean_distance": parse_bound(bound)} if bound else {}
    return Waiver(
        {name: (glob,) for name, glob in where.items()}, "known\n since May", "jane", expires, bounds, Span("w.yaml", 7)
    )


def run(rows, verdicts, *waivers, findings=(), types=None, today=TODAY):
    return waive(rows, pairs_of(rows, types), verdicts, findings, waivers, today=today)


def origin(rows, number, **more):
    return Finding(
        FindingKind.ORIGIN, rows[number].node, rows[number].pair.shown.slot, "output differs", 3.0, row=number,
        metrics=rows[number].measurement.metrics, **more,
    )  # fmt: skip


ROWS = [row("a", IN), row("a", OUT, relative=0.5), row("b", OUT, relative=0.01)]
VERDICTS = [PASSING, FAILING, FAILING]


def test_a_failing_row_keeps_its_verdict_and_role_and_says_why_it_does_not_count():
    found = run(ROWS, VERDICTS, waiver(node="a"))
    assert found.verdicts[0] is PASSING
    waived = found.verdicts[1]
    assert (waived.status, waived.role, waived.rule_ids) == (Status.FAIL, Role.ORIGIN, ("r",))
    assert waived.excuse.kind is ExcuseKind.WAIVED
    assert waived.reasons == ("cosine is 0.5", "waived until 2026-06-30 by jane: known since May")
    assert found.verdicts[2] is FAILING
    assert [(use.state, use.rows, use.findings) for use in found.uses] == [(WaiverState.USED, 1, 0)]
    assert found.problems == ()


@pytest.mark.parametrize(("node", "others", "is_open"), [("a", (), False), ("a", (2,), True), ("[ab]", (2,), False)])
def test_what_missing_calls_made_is_open_unless_all_of_it_is_waived(node, others, is_open):
    told = origin(ROWS, 1, fails=False, undecided="part", others=others)
    found = run(ROWS, [PASSING] * 3, waiver(node=node), findings=(told,))
    assert bool(left_open(found.findings)) is is_open
    assert (found.findings[0].excuse is None) is is_open


def test_all_pass_fails_on_what_is_not_waived():
    assert not gate_passes("all_pass", (), run(ROWS, VERDICTS, waiver(node="a")).verdicts)
    assert gate_passes("all_pass", (), run(ROWS, VERDICTS, waiver(node="[ab]")).verdicts)


def test_a_finding_at_a_waived_row_stays_with_its_evidence_and_fails_nothing():
    found = run(ROWS, VERDICTS, waiver(node="a"), findings=(origin(ROWS, 1), origin(ROWS, 2)))
    assert [finding.fails for finding in found.findings] == [False, True]
    assert found.findings[0].evidence == "output differs; waived until 2026-06-30 by jane: known since May"
    assert not gate_passes("findings", found.findings, found.verdicts)
    assert found.uses[0].findings == 1


def test_a_finding_that_fails_nothing_needs_no_waiver():
    found = run(ROWS, VERDICTS, waiver(node="b"), findings=(origin(ROWS, 1, fails=False),))
    assert found.findings[0].excuse is None


@pytest.mark.parametrize(
    ("where", "covered"),
    [
        ({"node": "b", "direction": "output"}, [2]),
        ({"node": "*", "direction": "input"}, []),
        ({"op_type": "Soft*"}, [2]),
        ({"dtype": "float16"}, [1, 2]),
        ({"dtype": "float32"}, []),
    ],
)
def test_every_pattern_has_to_fit(where, covered):
    found = run(ROWS, VERDICTS, waiver(**where), types={"a": "Add", "b": "Softmax"})
    assert [number for number, verdict in enumerate(found.verdicts) if verdict.excuse] == covered


@pytest.mark.parametrize(("today", "state"), [(TODAY, WaiverState.USED), (date(2026, 7, 1), WaiverState.EXPIRED)])
def test_a_waiver_holds_to_the_end_of_its_last_day(today, state):
    found = run(ROWS, VERDICTS, waiver(node="a"), today=today)
    assert found.uses[0].state is state
    assert (found.verdicts[1].excuse is None) is (state is WaiverState.EXPIRED)


def test_an_expired_waiver_is_told_with_its_line_and_what_counts_again():
    (problem,) = run(ROWS, VERDICTS, waiver(node="[ab]"), today=date(2027, 1, 1)).problems
    assert (problem.code, problem.severity, problem.span.line) == ("PF7302", Severity.WARNING, 7)
    assert problem.message == (
        "the waiver of node [ab] by jane has expired on 2026-06-30; 2 failures that it matches count again"
    )


def test_a_bound_that_is_not_met_leaves_the_row_failing_and_is_told():
    found = run(ROWS, VERDICTS, waiver("< 0.1", node="[ab]"))
    assert [verdict.excuse is not None for verdict in found.verdicts] == [False, False, True]
    assert (found.uses[0].state, found.uses[0].rows, found.uses[0].exceeded) == (WaiverState.EXCEEDED, 1, 1)
    (problem,) = found.problems
    assert problem.code == "PF7303"
    assert "`relative_euclidean_distance < 0.1`" in problem.message
    assert "`a.output.0`" in problem.help


def test_no_bound_holds_where_nan_stands_that_the_golden_does_not_have():
    rows = [row("a", OUT, relative=0.0, nonfinite=3)]
    assert run(rows, [FAILING], waiver("< 0.1", node="a")).uses[0].state is WaiverState.EXCEEDED
    assert run(rows, [FAILING], waiver(node="a")).uses[0].state is WaiverState.USED


def test_the_first_waiver_that_covers_a_row_counts_and_a_narrower_one_before_it_is_not_exceeded():
    found = run(ROWS, VERDICTS, waiver("< 0.1", node="*"), waiver("< 1", node="a"))
    assert [verdict.excuse is not None for verdict in found.verdicts] == [False, True, True]
    assert [(use.state, use.rows, use.exceeded) for use in found.uses] == [
        (WaiverState.USED, 1, 0), (WaiverState.USED, 1, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("waivers", "told"),
    [
        ([waiver(node="conv_22")], "matches no tensor of this run"),
        ([waiver(node="a", direction="input")], "none of the 1 tensor that it matches fails"),
        ([waiver(node="a"), waiver(node="a*")], "a waiver before it covers what it matches"),
    ],
)
def test_a_waiver_of_no_use_is_told_with_the_reason(waivers, told):
    found = run(ROWS, VERDICTS, *waivers)
    assert found.uses[-1].state is WaiverState.UNUSED
    assert found.problems[-1].code == "PF7301"
    assert told in found.problems[-1].message


def test_a_misspelt_node_gets_a_suggestion():
    rows = [row("Softmax_3", OUT, relative=0.5)]
    (problem,) = run(rows, [FAILING], waiver(node="Sotfmax_3")).problems
    assert problem.help == "did you mean `Softmax_3`?"


def test_without_waivers_nothing_changes():
    found = run(ROWS, VERDICTS, findings=(origin(ROWS, 1),))
    assert found.verdicts == VERDICTS
    assert found.findings[0].fails
    assert (found.uses, found.problems) == ((), ())
