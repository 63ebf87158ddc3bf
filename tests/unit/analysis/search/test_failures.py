"""Comparisons without a path of values: which nodes are findings, at which tensor, and what rows are called."""

from __future__ import annotations

import math

import pytest
from comparison_rows import IN, key, measured, pairs_of, row
from msgspec.structs import replace

from probe_flow.analysis.search.failures import conclude_each, conclude_in_time
from probe_flow.records import FindingKind, Role, Row, Status, Verdict
from probe_flow.records.row import ThirdSide


def verdicts(rows: list[Row], *failing: int) -> list[Verdict]:
    return [
        Verdict(Status.FAIL, ("cosine<0.99",), (f"cosine of row {number} is too small",))
        if number in failing
        else Verdict(Status.PASS)
        for number in range(len(rows))
    ]


def test_each_failing_node_is_a_finding_the_largest_error_first() -> None:
    rows = [row("a", relative=0.1), row("b"), row("c", relative=0.4), row("d", relative=0.2)]

    findings, roles = conclude_each(rows, pairs_of(rows), verdicts(rows, 0, 2, 3))

    assert [(each.node.name, each.row, each.severity) for each in findings if each.node] == [
        ("c", 2, pytest.approx(0.4)), ("d", 3, pytest.approx(0.2)), ("a", 0, pytest.approx(0.1)),
    ]  # fmt: skip
    assert {each.kind for each in findings} == {FindingKind.FAILURE}
    assert all(each.fails for each in findings)
    assert [each.role for each in roles] == [Role.UNKNOWN, Role.CLEAN, Role.UNKNOWN, Role.UNKNOWN]


def test_a_node_with_several_failing_tensors_is_one_finding_at_the_worst() -> None:
    rows = [row("a", IN, 0, relative=0.3), row("a", place=0, relative=0.1), row("a", place=1, relative=0.9)]

    (found,), _ = conclude_each(rows, pairs_of(rows), verdicts(rows, 0, 1, 2))

    assert (found.row, str(found.slot)) == (2, "output.1")
    assert found.evidence == "cosine of row 2 is too small; 2 more tensors of it fail"
    assert found.size == "relative error 9.0e-01"


def test_nan_of_one_side_is_worse_than_any_error() -> None:
    rows = [row("a", relative=1e3), row("b", relative=0.1, nonfinite=3)]

    findings, _ = conclude_each(rows, pairs_of(rows), verdicts(rows, 0, 1))

    assert [each.node.name for each in findings if each.node] == ["b", "a"]
    assert findings[0].severity == math.inf
    assert findings[0].size == "cosine<0.99"


def test_nothing_that_passes_is_a_finding_however_large_its_error() -> None:
    rows = [row("a", relative=10.0), row("b", relative=10.0)]
    assert conclude_each(rows, pairs_of(rows), verdicts(rows))[0] == ()


def test_in_time_the_first_failure_of_each_name_is_found_and_later_ones_inherit() -> None:
    rows = [
        row(key(name, step=step), relative=error)
        for step, name, error in [
            (2, "loss", 0.5), (2, "norm", 0.5), (1, "loss", 0.1), (1, "norm", 0.0), (0, "loss", 0.0), (3, "norm", 0.0),
        ]
    ]  # fmt: skip

    findings, roles = conclude_in_time(rows, pairs_of(rows), verdicts(rows, 0, 1, 2))

    assert [(each.node.name, each.node.execution.step) for each in findings if each.node] == [("loss", 1), ("norm", 2)]
    assert [each.role for each in roles] == [
        Role.INHERITED, Role.ORIGIN, Role.ORIGIN, Role.CLEAN, Role.CLEAN, Role.CLEAN,
    ]  # fmt: skip


def test_in_time_ranks_stand_for_themselves() -> None:
    rows = [row(key("loss", rank=rank, step=0), relative=0.1) for rank in (0, 1)]
    findings, _ = conclude_in_time(rows, pairs_of(rows), verdicts(rows, 0, 1))
    assert [each.node.execution.rank for each in findings if each.node] == [0, 1]


def with_reference(found: Row, *, target: float, golden: float, nonfinite: int = 0) -> Row:
    """The row with a reference from which its sides are off by these relative errors."""
    third = ThirdSide(measured(relative=target, nonfinite=nonfinite), measured(relative=golden))
    return replace(found, pair=found.pair.judged_by(found.pair.golden)).with_aside(third=third)


def test_a_reference_clears_a_failing_node_and_says_that_the_golden_is_off() -> None:
    rows = [
        with_reference(row("a", relative=0.3), target=0.0, golden=0.3),
        with_reference(row("b", relative=0.3), target=0.3, golden=0.0),
        with_reference(row("c", relative=0.3, nonfinite=2), target=0.0, golden=0.0, nonfinite=2),
    ]
    for conclude in (conclude_each, conclude_in_time):
        findings, roles = conclude(rows, pairs_of(rows), verdicts(rows, 0, 1, 2))

        assert {(each.kind, each.node.name, each.fails) for each in findings if each.node} == {
            (FindingKind.FAILURE, "b", True),
            (FindingKind.FAILURE, "c", True),
            (FindingKind.GOLDEN_ERROR, "a", False),
        }
        assert roles[0].role is Role.CLEAN


def test_equal_verdicts_are_one_object() -> None:
    rows = [row(f"n{number}") for number in range(4)]
    _, roles = conclude_each(rows, pairs_of(rows), verdicts(rows))
    assert len({id(each) for each in roles}) == 1
