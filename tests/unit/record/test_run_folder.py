from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from report_builders import comparison, good_row, missing_golden, origin

from probe_flow.engine.run.record import with_summaries
from probe_flow.errors import IncompleteError, ProbeFlowError, UsageError
from probe_flow.record import line_file
from probe_flow.record.jsonl import write_comparison_jsonl, write_nodes_jsonl
from probe_flow.record.run_folder import read_run
from probe_flow.record.run_json import comparison_summary, plain
from probe_flow.records import Comparison, Role, Status
from probe_flow.testing.run_records import run_data, run_record


def diverging() -> Comparison:
    rows = (good_row(0), good_row(1, "MatMul_2", status=Status.FAIL, role=Role.ORIGIN), missing_golden(2))
    return comparison(*rows, findings=(origin(1, "MatMul_2"),), gate_passed=False)


def write_run(folder: Path, *names: str, **more: Any) -> Path:
    """Leave the folder of a run with these comparisons, as the engine leaves it."""
    given = diverging()
    record = run_record(verdict="fail", exit_code=1, versions={"probe_flow": "0.1.0"})
    data = plain(with_summaries(record, dict.fromkeys(names, comparison_summary(given))))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({**data, **more}, indent=1))
    for name in names:
        write_comparison_jsonl(given, (folder if len(names) == 1 else folder / name) / "comparison.jsonl")
    return folder


def refused(path: Path) -> ProbeFlowError:
    with pytest.raises(ProbeFlowError) as caught:
        list(read_run(path).rows())
    return caught.value


def test_a_run_is_read_with_its_rows_in_order(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, "result"))
    assert run.record.verdict == "fail"
    assert [(row.order, row.node, row.role.value) for row in run.rows()] == [
        (0, "Add_1", "clean"),
        (1, "MatMul_2", "origin"),
        (2, "Mul_9", "clean"),
    ]


def test_the_record_itself_and_the_folder_above_name_the_run_too(tmp_path: Path) -> None:
    write_run(tmp_path / "probe_flow", "result")
    assert read_run(tmp_path).folder == tmp_path / "probe_flow"
    assert read_run(tmp_path / "probe_flow" / "run.json").folder == tmp_path / "probe_flow"


def test_rows_of_several_comparisons_name_their_stage(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, "one", "two"))
    assert [row.comparison for row in run.rows()] == ["one"] * 3 + ["two"] * 3
    assert [row.comparison for row in run.rows(comparison="two")] == ["two"] * 3


def test_the_only_one_of_several_comparisons_that_ended_is_found_in_its_folder(tmp_path: Path) -> None:
    write_run(tmp_path, "result", artifacts=["run.json", "result/comparison.jsonl"])
    (tmp_path / "result").mkdir()
    (tmp_path / "comparison.jsonl").rename(tmp_path / "result" / "comparison.jsonl")
    assert len([*read_run(tmp_path).rows()]) == 3


def test_an_unknown_comparison_names_the_known_ones(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, "result"))
    with pytest.raises(UsageError) as caught:
        list(run.rows(comparison="reslt"))
    assert caught.value.diagnostic.code == "PF7114"
    assert "`result`" in (caught.value.diagnostic.help or "")


def test_a_run_that_compared_nothing_has_no_rows(tmp_path: Path) -> None:
    assert list(read_run(write_run(tmp_path)).rows()) == []


@pytest.mark.parametrize("name", ["gone", "empty", "file.txt", "other"])
def test_a_place_without_a_run_is_a_usage_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("{}")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text('{"schema": "something/1"}')
    error = refused(tmp_path / name)
    assert isinstance(error, UsageError)
    assert error.diagnostic.code == "PF7110"


@pytest.mark.parametrize(("schema", "age"), [("probe_flow.run/3", "newer"), ("probe_flow.run/0", "older")])
def test_another_version_of_the_record_is_told_apart(tmp_path: Path, schema: str, age: str) -> None:
    error = refused(write_run(tmp_path, schema=schema))
    assert error.diagnostic.code == "PF7112"
    assert f"the {age} format `{schema}`, written by probe_flow 0.1.0" in error.diagnostic.message


@pytest.mark.parametrize("kept", [0, 1, 40, 300])
def test_a_record_that_was_cut_off_is_unreadable(tmp_path: Path, kept: int) -> None:
    record = write_run(tmp_path, "result") / "run.json"
    record.write_bytes(record.read_bytes()[:kept])
    error = refused(tmp_path)
    assert isinstance(error, IncompleteError)
    assert error.diagnostic.code == "PF7111"


@pytest.mark.parametrize("text", ["[]", "\xff", "{" * 100_000, '{"schema": "probe_flow.run/1", "verdict": null}'])
def test_a_record_that_is_none_is_unreadable(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_bytes(text.encode("latin-1"))
    assert refused(tmp_path).diagnostic.code == "PF7111"


def test_missing_rows_are_an_error_when_something_was_compared(tmp_path: Path) -> None:
    (write_run(tmp_path, "result") / "comparison.jsonl").unlink()
    assert refused(tmp_path).diagnostic.code == "PF7113"


def test_rows_that_were_cut_off_name_the_line(tmp_path: Path) -> None:
    rows = write_run(tmp_path, "result") / "comparison.jsonl"
    rows.write_bytes(rows.read_bytes()[:-20])
    assert "ends in the middle of line 3" in refused(tmp_path).diagnostic.message


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_rows_that_were_cut_off_at_the_end_of_a_line_are_missed(tmp_path: Path, kept: int) -> None:
    rows = write_run(tmp_path, "result") / "comparison.jsonl"
    rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[:kept]))
    error = refused(tmp_path)
    assert error.diagnostic.code == "PF7113"
    assert f"it has {kept} records, the run had 3" in error.diagnostic.message


@pytest.mark.parametrize("kept", [0, 1])
def test_nodes_that_were_cut_off_at_the_end_of_a_line_are_missed(tmp_path: Path, kept: int) -> None:
    folder = write_run(tmp_path, "result")
    write_nodes_jsonl(diverging(), folder / "nodes.jsonl")
    lines = (folder / "nodes.jsonl").read_bytes().splitlines(keepends=True)
    assert len(list(read_run(folder).nodes())) == len(lines)
    (folder / "nodes.jsonl").write_bytes(b"".join(lines[:kept]))
    with pytest.raises(IncompleteError, match=f"it has {kept} records, the run had {len(lines)}") as caught:
        list(read_run(folder).nodes())
    assert caught.value.diagnostic.code == "PF7204"


def test_nodes_of_a_run_that_did_not_count_them_are_read(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "result")
    write_nodes_jsonl(diverging(), folder / "nodes.jsonl")
    record = json.loads((folder / "run.json").read_text())
    del record["comparisons"]["result"]["nodes"]
    (folder / "run.json").write_text(json.dumps(record))
    assert list(read_run(folder).nodes())


def test_rows_are_missed_in_the_comparison_that_lacks_them(tmp_path: Path) -> None:
    rows = write_run(tmp_path, "one", "two") / "two" / "comparison.jsonl"
    rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[:2]))
    run = read_run(tmp_path)
    assert len(list(run.rows(comparison="one"))) == 3
    assert "the run had 3" in refused(tmp_path).diagnostic.message


def test_records_that_count_no_rows_are_read_all_the_same(tmp_path: Path) -> None:
    uncounted = run_data(comparisons={"result": {}})["comparisons"]
    run = read_run(write_run(tmp_path, "result", comparisons=uncounted))
    assert len(list(run.rows())) == 3


@pytest.mark.parametrize("line", ["[]", "nonsense", "{}", '{"node": 3, "verdict": "pass"}', "[" * 100_000])
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str) -> None:
    rows = write_run(tmp_path, "result") / "comparison.jsonl"
    rows.write_text(rows.read_text().splitlines()[0] + "\n" + line + "\n")
    error = refused(tmp_path)
    assert error.diagnostic.code == "PF7113"
    assert "line 2 is no record" in error.diagnostic.message


def test_a_file_without_line_ends_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_file, "MAX_LINE_BYTES", 1000)
    rows = write_run(tmp_path, "result") / "comparison.jsonl"
    rows.write_text(json.dumps({"node": "x" * 5000, "verdict": "pass"}) + "\n")
    assert "longer than" in refused(tmp_path).diagnostic.message
