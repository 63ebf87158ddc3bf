"""A comparison held against a baseline: what it accepts leaves the gate, what is worse stays."""

from __future__ import annotations

import math

import pytest
from comparison_rows import OUT, PARAM, SideSummary, checksum_row, pairs_of, row, statistics

from probe_flow.analysis.suppressions.baseline import of_finding, of_row, weigh
from probe_flow.comparing.steps import gate_passes
from probe_flow.records import (
    Baseline,
    Coverage,
    Deviant,
    Excuse,
    ExcuseKind,
    Finding,
    FindingKind,
    Measurement,
    Mode,
    Status,
    Verdict,
)

FAILING = Verdict(Status.FAIL)
PASSING = Verdict(Status.PASS)
ROWS = [row("a", OUT, relative=0.1), row("b", OUT, relative=0.02), row("c", PARAM, "weight", relative=0.0)]
PAIRS = pairs_of(ROWS)
COVERAGE = {"target": Coverage(tensors=3, compared=3), "golden": Coverage(tensors=3, compared=3)}


def known(name: str, figure: float | None, kind: str = "fail", slot: str = "output.0") -> Deviant:
    return Deviant(1, name, 0, "forward", "Relu", kind, slot, figure)


def origin(number: int, **more) -> Finding:
    return Finding(
        FindingKind.ORIGIN, ROWS[number].node, ROWS[number].pair.shown.slot, "differs", 3.0, row=number,
        metrics=ROWS[number].measurement.metrics, **more,
    )  # fmt: skip


def hold(
    *deviants, verdicts=(FAILING, FAILING, PASSING), findings=(), gate="findings", accepted_under=None, compared=None
):
    baseline = Baseline("w", "result", accepted_under or gate, "p", compared or {}, deviants, "b.yaml")
    return weigh(ROWS, PAIRS, verdicts, findings, baseline, gate=gate, tolerance=0.1, coverage=COVERAGE)


def test_under_findings_an_accepted_finding_fails_nothing_and_marks_its_row():
    found = hold(known("a", 0.1, "origin"), findings=(origin(0), origin(1)))
    assert [finding.fails for finding in found.findings] == [False, True]
    text = "accepted in the baseline with an error of 0.1"
    assert found.findings[0].evidence == f"differs; {text}"
    assert [verdict.excuse for verdict in found.verdicts] == [Excuse(ExcuseKind.ACCEPTED, text), None, None]
    assert not gate_passes("findings", found.findings, found.verdicts)
    assert [(problem.code, problem.tensor) for problem in found.problems] == [("PF7313", "b.output.0")]


def test_under_findings_failing_rows_are_no_matter():
    found = hold(known("a", 0.1, "origin"), findings=(origin(0),))
    assert gate_passes("findings", found.findings, found.verdicts)
    assert (found.use.accepted, found.use.worse, found.problems) == (1, (), ())


def test_under_all_pass_rows_are_held_and_a_finding_follows_its_row():
    found = hold(known("a", 0.1), known("b", 0.02), findings=(origin(0),), gate="all_pass")
    assert gate_passes("all_pass", found.findings, found.verdicts)
    assert [verdict.excuse is not None for verdict in found.verdicts] == [True, True, False]
    assert not found.findings[0].fails


@pytest.mark.parametrize(("accepted", "passes"), [(0.1, True), (0.0910, True), (0.0905, False), (None, False)])
def test_an_error_may_grow_by_the_tolerance(accepted, passes):
    found = hold(known("a", accepted), known("b", 0.02), gate="all_pass")
    assert gate_passes("all_pass", (), found.verdicts) is passes


def test_what_is_waived_is_neither_worse_nor_accepted_nor_better():
    waived = Verdict(Status.FAIL, excuse=Excuse(ExcuseKind.WAIVED, "waived"))
    found = hold(known("a", 0.001), known("b", 0.02), verdicts=(waived, FAILING, PASSING), gate="all_pass")
    assert (found.use.accepted, found.use.worse, found.use.better) == (1, (), ())
    assert found.verdicts[0] is waived


def test_a_row_with_new_nan_is_another_deviation_than_a_row_with_an_error():
    with_nan = row("a", OUT, measurement=Measurement.of(
        Mode.TENSOR, {"relative_euclidean_distance": 0.1}, SideSummary(statistics(nan=2, inf=1)),
        SideSummary(statistics(inf=4)), nonfinite_mismatch=3, count=100,
    ))  # fmt: skip
    deviant = of_row(with_nan, pairs_of([with_nan]))
    assert (deviant.kind, deviant.figure) == ("nonfinite", 5.0)


def test_a_differing_checksum_has_no_figure():
    different = checksum_row("a", OUT, "12", "34")
    deviant = of_row(different, pairs_of([different]))
    assert (deviant.kind, deviant.figure, deviant.slot) == ("fail", None, "output.0")


def test_where_nan_begins_counts_its_positions():
    finding = Finding(FindingKind.NONFINITE_ORIGIN, ROWS[0].node, ROWS[0].pair.shown.slot, "nan", 7.0, row=0)
    deviant = of_finding(finding, PAIRS)
    assert (deviant.kind, deviant.figure) == ("nonfinite_origin", 7.0)


def test_a_finding_about_the_whole_run_has_a_place_too():
    deviant = of_finding(Finding(FindingKind.DRIFT, None, None, "drifts", 2.0), PAIRS)
    assert (deviant.node, deviant.slot, deviant.figure, str(deviant)) == (None, "", None, "the whole run")


def test_names_come_from_the_target_with_their_type():
    deviant = of_row(ROWS[2], PAIRS)
    assert (deviant.graph, deviant.node, deviant.op_type, deviant.slot) == (1, "c", "Relu", "parameter.weight")


def test_another_gate_and_fewer_tensors_are_told():
    found = hold(accepted_under="all_pass", compared={"target": 4, "golden": 3})
    assert [problem.code for problem in found.problems] == ["PF7312", "PF7316"]
    assert found.problems[1].message.startswith("3 tensors of the target were compared, 4 when")


def test_what_is_gone_or_at_nodes_that_are_gone_is_told():
    found = hold(known("c", 0.5, "origin"), known("z", math.inf, "origin"))
    assert [(problem.code, problem.tensor) for problem in found.problems] == [
        ("PF7314", "c.output.0"), ("PF7315", "z.output.0"),
    ]  # fmt: skip


def test_of_many_changes_the_first_are_told_one_by_one():
    found = hold(*(known(f"z{number:03}", 0.1, "origin") for number in range(50)))
    assert len(found.problems) == 21
    assert found.problems[-1].message == "the same holds for 30 more deviations"
