"""Which role a picture shows for a tensor: by what the analysis found, never by the published verdict."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from html_data import payload
from msgspec.structs import replace
from report_builders import comparison, good_row, missing_golden, missing_target, origin, row, tensor
from stored_runs import row as stored_row

from probe_flow.analysis.coverage import cover
from probe_flow.engine.run.record import with_summaries
from probe_flow.record.jsonl import write_comparison_jsonl
from probe_flow.record.run_json import comparison_summary
from probe_flow.record.types.reading import Reader
from probe_flow.record.types.rows import RowRecord
from probe_flow.records import Excuse, ExcuseKind, FindingKind, Role, Row, Status, TensorKind
from probe_flow.reports.marks import LOOKS, Mark, RowMarks, StoredMarks, fill_of, is_missing, mark_of
from probe_flow.testing.run_records import run_record


def judged(order: int, status: Status, role: Role, *, excess: float | None = None, **more: Any) -> Row:
    found = good_row(order, f"Add_{order}", status=status, role=role, **more)
    return replace(found, verdict=replace(found.verdict, excess=excess))


def marks_of(*rows: Row, **more: Any) -> list[str]:
    found = comparison(*rows, **more)
    marks = RowMarks.of(found)
    one_by_one = list(map(marks.of_row, found.rows))
    assert list(marks.ranks(found.rows)) == [mark.rank for mark in one_by_one]
    return [mark.value for mark in one_by_one]


@pytest.mark.parametrize("status", [Status.PASS, Status.WARNING, Status.FAIL, Status.UNMATCHED_TARGET])
def test_the_role_counts_whatever_the_published_verdict(status: Status) -> None:
    assert mark_of("origin", status.value) is Mark.ORIGIN
    assert mark_of("inherited", status.value) is Mark.INHERITED


@pytest.mark.parametrize(
    ("role", "status", "gate", "found"),
    [
        ("clean", "pass", "findings", "fine"),
        ("clean", "warning", "findings", "fine"),
        ("clean", "fail", "findings", "fine"),
        ("clean", "fail", "all_pass", "over"),
        ("clean", "warning", "all_pass", "fine"),
        ("unknown", "fail", "findings", "over"),
        ("unknown", "warning", "findings", "over"),
        ("inherited", "fail", "all_pass", "inherited"),
    ],
)
def test_a_failing_row_that_is_clean_is_fine_unless_the_gate_counts_it(
    role: str, status: str, gate: str, found: str
) -> None:
    assert marks_of(judged(0, Status(status), Role(role)), gate=gate) == [found]


def test_a_row_where_nan_begins_is_wrong_though_it_inherits_and_drift_has_a_mark() -> None:
    rows = [judged(order, Status.FAIL, Role.INHERITED) for order in range(3)]
    found = replace(origin(1, "Add_1"), kind=FindingKind.NONFINITE_ORIGIN)
    assert marks_of(*rows, findings=(found,)) == ["inherited", "origin", "inherited"]
    assert marks_of(*rows[:2], findings=(replace(found, kind=FindingKind.DRIFT),)) == ["inherited", "drift"]


@pytest.mark.parametrize("kind", [FindingKind.SUSPECT, FindingKind.GOLDEN_ERROR, FindingKind.NOT_DETERMINISTIC])
def test_what_is_not_accused_is_not_marked_as_wrong(kind: FindingKind) -> None:
    found = replace(origin(0, "Add_0"), kind=kind, fails=False)
    assert marks_of(judged(0, Status.FAIL, Role.CLEAN), findings=(found,)) == ["fine"]


def test_an_origin_without_counterpart_has_the_excess_of_its_finding() -> None:
    rows = replace_role(missing_golden(0), Role.ORIGIN), judged(1, Status.PASS, Role.INHERITED, excess=0.5)
    found = comparison(*rows, findings=(replace(origin(0, "Mul_9"), severity=66.0),), gate_passed=False)
    marks = RowMarks.of(found)
    assert [marks.of_row(each) for each in rows] == [Mark.ORIGIN, Mark.INHERITED]
    assert [marks.excess(each.order, each.verdict.excess) for each in rows] == [66.0, 0.5]
    assert payload(found, run=run_record())["rows"]["excess"] == [66, 0.5]


def replace_role(found: Row, role: Role) -> Row:
    return replace(found, verdict=replace(found.verdict, role=role))


def unread(order: int) -> Row:
    sides = tensor(kind=TensorKind.UNREADABLE), tensor(side="golden")
    return row(order, target=sides[0], golden=sides[1], status=Status.ERROR, role=Role.UNKNOWN)


def opaque(order: int, *, both: bool) -> Row:
    golden = tensor(side="golden", kind=TensorKind.OPAQUE if both else TensorKind.TENSOR)
    status = Status.NOT_COMPARABLE
    return row(order, target=tensor(kind=TensorKind.OPAQUE), golden=golden, status=status, role=Role.UNKNOWN)


def test_missing_is_what_lowers_the_coverage() -> None:
    rows = [
        missing_golden(0, "a"),
        missing_golden(1, "b", expected=True),
        missing_target(2, "c"),
        unread(3),
        opaque(4, both=True),
        opaque(5, both=False),
        judged(6, Status.SKIPPED, Role.UNKNOWN),
        judged(7, Status.NOT_COMPARABLE, Role.UNKNOWN),
        judged(8, Status.FAIL, Role.CLEAN),
    ]
    for each in rows:  # a row is missing where the coverage, counted by the analysis, says so of its tensors
        found = comparison(each)
        measured = Row(each.pair, each.measurement)
        sides = cover(found.pairs, [measured], [each.verdict]).values()
        assert is_missing(each) == any(side.missing for side in sides), each
    assert Counter(marks_of(*rows)) == {"missing": 3, "gap": 5, "fine": 1}


@pytest.mark.parametrize(
    ("mark", "excess", "found"),
    [
        (Mark.FINE, None, "fine-1"),
        (Mark.FINE, 0.05, "fine-1"),
        (Mark.FINE, 0.9, "fine-3"),
        (Mark.FINE, 1.1, "fine-4"),
        (Mark.INHERITED, None, "inherited-1"),
        (Mark.INHERITED, 3e6, "inherited-3"),
        (Mark.ORIGIN, 1.2, "origin-1"),
        (Mark.ORIGIN, 10.2, "origin-3"),
        (Mark.ORIGIN, math.inf, "origin-3"),
        (Mark.ORIGIN, math.nan, "origin-3"),
        (Mark.ORIGIN, None, "origin-3"),
        (Mark.GAP, 5.0, "gap"),
    ],
)
def test_of_one_role_the_unexplained_error_gives_the_strength(mark: Mark, excess: float | None, found: str) -> None:
    assert fill_of(mark, excess) == found


def test_counts_for_people_are_by_role_and_say_what_is_missing_and_excused() -> None:
    waived = judged(2, Status.FAIL, Role.ORIGIN)
    waived = replace(waived, verdict=replace(waived.verdict, excuse=Excuse(ExcuseKind.WAIVED, "waived until 2027")))
    rows = [judged(0, Status.FAIL, Role.CLEAN), judged(1, Status.FAIL, Role.CLEAN), waived]
    rows += [missing_golden(3), missing_golden(4, expected=True)]
    assert payload(comparison(*rows), run=run_record())["summary"]["roles"] == [
        {"name": "origin", "count": 1, "excused": 1},
        {"name": "missing", "count": 1, "excused": 0},
        {"name": "fine", "count": 2, "excused": 0},
        {"name": "gap", "count": 1, "excused": 0},
    ]


def test_a_stored_run_is_marked_as_the_comparison_was(tmp_path: Path) -> None:
    rows = (
        judged(0, Status.FAIL, Role.CLEAN, excess=0.9),
        judged(1, Status.PASS, Role.ORIGIN, excess=math.inf),
        judged(2, Status.PASS, Role.INHERITED, excess=0.25),
        replace_role(missing_golden(3), Role.ORIGIN),
        judged(4, Status.FAIL, Role.UNKNOWN),
        unread(5),
        missing_golden(6, expected=True),
    )
    findings = (origin(1, "Add_1"), replace(origin(3, "Mul_9"), severity=66.0))
    found = comparison(*rows, findings=findings, gate_passed=False)
    write_comparison_jsonl(found, tmp_path / "comparison.jsonl")
    records = [Reader(RowRecord).read(line) for line in (tmp_path / "comparison.jsonl").read_bytes().splitlines()]
    record = with_summaries(run_record(), {"result": comparison_summary(found)})
    live = RowMarks.of(found)
    wanted = [(live.of_row(each), live.excess(each.order, each.verdict.excess)) for each in rows]
    assert [StoredMarks(record).of(each) for each in records] == wanted


def test_of_several_rows_the_most_important_counts_with_its_own_excess() -> None:
    rows = [stored(0, excess=9.0), stored(1, role="inherited", excess=0.5), stored(2)]
    marks = StoredMarks(run_record(comparisons={"result": {}}))
    assert marks.of_rows(rows) == (Mark.INHERITED, 0.5)
    assert marks.of_rows([]) is None
    assert marks.of(stored(3, role="origin", excess="inf")) == (Mark.ORIGIN, math.inf)


def stored(order: int, **more: Any) -> RowRecord:
    return Reader(RowRecord).convert(stored_row(order, "a", **more))


def test_every_mark_has_a_look() -> None:
    assert set(LOOKS) == set(Mark)
