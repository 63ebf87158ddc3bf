"""The heat map of a run as text."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import stored_runs

from probe_flow.record.row_index import RowIndex
from probe_flow.record.stored_rows import add_records
from probe_flow.record.types.rows import RowRecord
from probe_flow.record.types.run import RunRecord
from probe_flow.runs.heat_map import MAX_LINES, HeatText
from probe_flow.testing.run_records import run_record


def row(
    node: str, verdict: str = "pass", role: str = "clean", *, rank: int = 0, step: int = 0, order: int = 0, **more: Any
) -> RowRecord:
    data = stored_runs.row(order, node, verdict=verdict, role=role, rank=rank, step=step, **more)
    return msgspec.convert(data, RowRecord)


def lines_of(rows: list[RowRecord], width: int = 80, record: RunRecord | None = None) -> list[str]:
    heat = HeatText(record or run_record(comparisons={"result": {}}))
    for comparison in dict.fromkeys(row.comparison for row in rows):
        index = RowIndex()
        add_records(index, [row for row in rows if row.comparison == comparison])
        heat.add(comparison, index)
    return heat.lines(width=width)


def execution(rank: int, *, wrong: int | None = None, count: int = 6, step: int = 0) -> list[Any]:
    verdicts = [("pass", "clean")] * count
    if wrong is not None:
        verdicts[wrong:] = [("fail", "origin")] + [("fail", "inherited")] * (count - wrong - 1)
    return [row(f"Add_{place}", *each, rank=rank, step=step) for place, each in enumerate(verdicts)]


def test_one_execution_has_no_map() -> None:
    assert lines_of(execution(0, wrong=2)) == []
    assert lines_of([]) == []


def test_each_execution_is_a_line_with_the_origin_in_it() -> None:
    assert lines_of([*execution(0), *execution(1, wrong=2)]) == [
        "  rank 0 graph 1 step 0  ......",
        "  rank 1 graph 1 step 0  ..#---",
        "  # wrong here, - carries it on, . fine",
    ]


def test_a_node_counts_once_by_its_worst_tensor() -> None:
    rows = [row("Add"), row("Add", "fail", "unknown"), row("Mul", "warning"), row("Add", rank=1)]
    assert lines_of(rows)[0] == "  rank 0 graph 1 step 0  x."
    assert lines_of(rows)[-1] == "  x over its limit, . fine"


def test_what_carries_an_error_on_outweighs_what_misses_the_row_rule() -> None:
    rows = [row("Add", "fail"), row("Add", "pass", "inherited"), row("Mul", "fail"), row("Add", rank=1)]
    assert lines_of(rows)[0] == "  rank 0 graph 1 step 0  -."
    assert lines_of(rows)[-1] == "  - carries it on, . fine"


@pytest.mark.parametrize("verdict", ["pass", "unmatched_target"])
def test_an_origin_is_shown_whatever_its_verdict(verdict: str) -> None:
    rows = [row("Add", verdict, "origin"), row("Mul", "fail", "inherited"), row("Add", rank=1)]
    assert lines_of(rows)[0] == "  rank 0 graph 1 step 0  #-"


def test_a_row_that_fails_a_gate_on_all_rows_and_one_that_a_finding_names_are_marked() -> None:
    rows = [row("Add", "fail", order=0), row("Mul", "fail", order=1), row("Sub", order=2), row("Add", rank=1, order=3)]
    findings = [{"kind": "drift", "row": 2, "severity": 2.0, "fails": True}]
    record = run_record(findings=findings, comparisons={"result": {"gate": {"name": "all_pass"}}})
    assert lines_of(rows, record=record)[0] == "  rank 0 graph 1 step 0  xx%"
    assert lines_of(rows, record=record)[-1] == "  % drifted, x over its limit, . fine"


def test_what_was_not_compared_stays_empty() -> None:
    rows = [row("Add", "unmatched_target"), row("Mul"), row("Cast", "error"), row("Add", rank=1)]
    assert lines_of(rows)[0] == "  rank 0 graph 1 step 0   .!"


def test_a_long_execution_is_squeezed_to_the_width_without_losing_the_origin() -> None:
    lines = lines_of([*execution(0, count=1000), *execution(1, wrong=999, count=1000)], width=60)
    assert max(map(len, lines)) == 60
    assert lines[1].endswith(".#")


def test_of_many_executions_the_worst_are_shown_in_order() -> None:
    rows = [each for rank in range(64) for each in execution(rank, wrong=3 if rank in (40, 63) else None)]
    rows += [row(f"Add_{place}", "fail", rank=64) for place in range(6)]  # misses limits, as healthy runs do
    assert [line.split()[:2] for line in lines_of(rows)] == [
        ["rank", "40"],
        ["rank", "63"],
        ["and", "63"],
        ["#", "wrong"],
    ]
    assert lines_of(rows)[2] == "  and 63 more executions that fared no worse"


def test_of_more_bad_executions_than_lines_the_worst_are_shown() -> None:
    rows = [each for rank in range(40) for each in execution(rank, wrong=5 if rank % 2 else None)]
    rows += [row("Add", "warning", rank=40)]
    lines = lines_of(rows)
    assert len(lines) == MAX_LINES + 2
    assert all("#" in line for line in lines[:MAX_LINES])
    assert lines[-2] == "  and 25 more executions that fared no worse"


def test_of_many_healthy_executions_the_first_are_shown() -> None:
    lines = lines_of([each for rank in range(40) for each in execution(rank)])
    assert [line.split()[1] for line in lines[:MAX_LINES]] == [str(rank) for rank in range(MAX_LINES)]


def test_names_of_comparisons_are_shown_safely() -> None:
    rows = [row("Add", comparison="a\x1b[31m"), row("Add", comparison="b")]
    record = run_record(comparisons={"a\x1b[31m": {}, "b": {}})
    assert lines_of(rows, record=record)[0] == "  a\\x1b[31m rank 0 graph 1 step 0  ."
