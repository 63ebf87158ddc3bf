from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import fake_stages
import pytest
from fake_stages import write_project
from stored_runs import row, side, write_run

from probe_flow.record.run_folder import StoredRun, read_run
from probe_flow.record.types.reading import Reader
from probe_flow.record.types.rows import RowRecord
from probe_flow.runs.row_table import row_table, worst_rows
from probe_flow.runs.view import Filter

LAST = "FAIL n2 (Fake) output 0, rank 0, graph 1, step 0 | 5 of 5 compared | out/run.json"


@pytest.fixture
def fakes(monkeypatch):
    monkeypatch.setattr("probe_flow.workflow.loading.loader.STAGES", fake_stages.STAGES)


@pytest.fixture
def run_folder(fakes, probe_flow, tmp_path):
    write_project(tmp_path, target="1 2 4 3 5", golden="1 2 3 3 3")
    probe_flow("run", "demo.yaml", "--output", "out")
    return tmp_path / "out"


def test_a_run_is_summed_up_as_it_was_at_its_end(run_folder, probe_flow):
    shown = probe_flow("show", "out")
    assert shown.code == 0
    first, second, *_ = shown.out.splitlines()
    assert first == "target fake dump `target.txt`, 5 tensors | golden fake dump `golden.txt`, 5 tensors"
    assert second == ""
    assert "The target first goes wrong at n2 (Fake)." in shown.out.splitlines()
    assert "  evidence   differs" in shown.out
    assert "  probe-flow show out --node n2 --rank 0 --graph 1 --step 0\n" in shown.out
    assert shown.last_line == LAST
    assert shown.err == ""


def test_the_next_step_of_a_run_is_a_command_that_works(run_folder, probe_flow):
    shown = probe_flow("show", "out", "--node", "n2")
    lines = shown.out.splitlines()
    assert shown.code == 0
    assert lines[0] == "n2 (Fake)  [target, rank 0, graph 1, step 0]"
    assert lines[1] == "  it is        row rule: fail"
    assert "  executed     after n1 (Fake), before n3 (Fake) (this dump does not tell who feeds whom)" in lines
    assert lines[-1] == LAST


def test_a_pattern_of_names_gives_rows(run_folder, probe_flow):
    shown = probe_flow("show", "out", "--node", "n[2]")
    lines = shown.out.splitlines()
    assert lines[0].split() == ["row", "rule", "dtype", "tensor,", "at", "rank", "0,", "graph", "1,", "step", "0"]
    assert lines[1].split()[0] == "fail"
    assert lines[1].endswith("  n2 (Fake) output 0")
    assert lines[-2] == "1 of 5 rows match"


@pytest.mark.parametrize(
    ("arguments", "nodes"),
    [
        (["--verdict", "fail"], ["n2", "n4"]),
        (["--node", "n[24]"], ["n2", "n4"]),
        (["--node", "n*", "--verdict", "pass"], ["n0", "n1", "n3"]),
        (["--role", "origin"], []),
        (["--comparison", "result", "--limit", "2"], ["n0", "n1"]),
        (["--verdict", "fail", "--limit", "0"], ["n2", "n4"]),
    ],
)
def test_filters_choose_rows(run_folder, probe_flow, arguments, nodes):
    found = probe_flow("show", "out", *arguments, "--format", "json").json
    assert [row["node"] for row in found["rows"]] == nodes
    assert found["total"] == 5
    assert found["verdict"] == "fail"


def test_json_without_a_filter_has_the_conclusions_and_the_worst_rows(run_folder, probe_flow):
    found = probe_flow("show", "out", "--format", "json").json
    assert found["first_divergence"]["node"] == "n2"
    assert found["worst"] == []  # these stages measure no distance
    assert "rows" not in found


def test_a_limit_is_told(run_folder, probe_flow):
    out = probe_flow("show", "out", "--verdict", "pass", "--limit", "1").out
    assert "3 of 5 rows match; the first 1 are shown, `--limit 0` shows all\n" in out


def test_quiet_leaves_only_the_last_line(run_folder, probe_flow):
    assert probe_flow("show", "out", "--quiet").out == f"{LAST}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["gone"], 2, "PF7110"),
        (["out", "--comparison", "reslt"], 2, "PF7114"),
        (["out", "--verdict", "bad"], 2, "unmatched_target"),
        (["out", "--limit", "-1"], 2, "--limit"),
    ],
)
def test_mistakes_exit_with_2(run_folder, probe_flow, arguments, code, told):
    done = probe_flow("show", *arguments)
    assert done.code == code
    assert told in done.err


def test_a_damaged_run_exits_with_3(run_folder, probe_flow):
    (run_folder / "comparison.jsonl").write_text("{")
    done = probe_flow("show", "out", "--verdict", "fail")
    assert done.code == 3
    assert "PF7113" in done.err


def test_a_run_that_was_killed_says_that_it_has_not_ended(run_folder, probe_flow):
    record = json.loads((run_folder / "run.json").read_text())
    (run_folder / "run.json").write_text(
        json.dumps(record | {"verdict": "incomplete", "exit_code": 3, "incomplete": ["the run has not ended"]})
    )
    shown = probe_flow("show", "out")
    assert shown.code == 0
    assert shown.last_line.startswith("INCOMPLETE ")
    assert "- the run has not ended" in shown.out


def data(number: int, **more: object) -> dict[str, object]:
    name = str(more.pop("node", f"op_{number}"))
    sides = {"target": side(f"op_{number}.output.0", dtype="float32"), "golden": side(f"op_{number}.output.0")}
    metrics = {"relative_euclidean_distance": number / 10}
    return {**row(number, name), "op_type": "Add", **sides, "metrics": metrics, **more}


def record(number: int, **more: object) -> RowRecord:
    return Reader(RowRecord).convert(data(number, **more))


def test_columns_are_aligned_for_wide_names_and_unused_ones_are_left_out():
    rows = [
        record(1),
        record(
            2,
            golden=side("op_3.output.0"),
            rank=1,
            node="\u6c49\u5b57\x1b[31m",
            metrics={"relative_euclidean_distance": "inf"},
        ),
    ]
    assert row_table(rows, has_reasons=False) == [
        "  tensor is  row rule  error  dtype            shape  where                    tensor",
        "  fine       pass        0.1  float32/float16  [2,3]  rank 0, graph 1, step 0  op_1 (Add) output 0",
        "  fine       pass        inf  float32/float16  [2,3]  rank 1, graph 1, step 0  "
        "\u6c49\u5b57\\x1b[31m (Add) output 0  <- op_3.output.0",
    ]


def test_a_place_that_all_rows_share_stands_in_the_header():
    rows = [record(1), record(2, golden=None, role="unknown", verdict="unmatched_target", reason="no\npartner")]
    assert row_table(rows, has_reasons=True) == [
        "  tensor is     row rule          error  dtype            shape  tensor, at rank 0, graph 1, step 0",
        "  fine          pass                0.1  float32/float16  [2,3]  op_1 (Add) output 0",
        "  not compared  unmatched target    0.2  float32          [2,3]  op_2 (Add) output 0",
        "      no\\npartner",
    ]


def test_the_names_of_entries_stand_in_brackets_where_they_are_others():
    rows = [record(1, call=2, name="op_1.2.forward"), record(2, golden=side("op_5.output.0"))]
    assert row_table(rows, has_reasons=False) == [
        "  tensor is  row rule  error  dtype            shape  where                            tensor [in the dump]",
        "  fine       pass        0.1  float32/float16  [2,3]  rank 0, graph 1, step 0, call 2  "
        "op_1 (Add) output 0 [op_1.2.forward]",
        "  fine       pass        0.2  float32/float16  [2,3]  rank 0, graph 1, step 0          "
        "op_2 (Add) output 0  <- op_5.output.0",
    ]


def test_no_rows_make_no_table():
    assert row_table([], has_reasons=True) == []


def written(folder: Path, rows: list[dict[str, object]]) -> StoredRun:
    return read_run(write_run(folder, rows, counts={}, comparisons={"result": {}}))


def test_the_worst_rows_rank_infinity_first_and_leave_out_nan_and_zero(tmp_path):
    values = [0.5, "nan", None, "inf", 0, 0.75, 0.5]
    rows = [data(number, metrics={"relative_euclidean_distance": value}) for number, value in enumerate(values)]
    assert [found.order for found in worst_rows([*written(tmp_path, rows).stored_rows()], limit=3)] == [3, 5, 0]


def test_a_name_with_brackets_matches_itself():
    assert Filter(node="a[0]").has_name("a[0]")
    assert not Filter(node="a[0]").has_name("b")


def test_rows_are_not_held_in_memory(tmp_path: Path) -> None:
    line = json.dumps(data(1)) + "\n"
    write_run(tmp_path, [], counts={}, comparisons={"result": {}})
    (tmp_path / "comparison.jsonl").write_text(line * 20_000)
    run = read_run(tmp_path)
    tracemalloc.start()
    try:
        assert len(worst_rows([*run.stored_rows()], limit=5)) == 5
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
