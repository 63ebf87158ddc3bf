from __future__ import annotations

import fake_stages
import pytest
from fake_stages import write_project


@pytest.fixture(autouse=True)
def fakes(monkeypatch):
    monkeypatch.setattr("probe_flow.workflow.loading.loader.STAGES", fake_stages.STAGES)


def test_plan_shows_stages_in_order_with_reasons_sizes_and_scheduler(probe_flow, tmp_path, monkeypatch):
    monkeypatch.setenv("PROBE_FLOW_CACHE", str(tmp_path / "cache"))
    write_project(tmp_path)
    done = probe_flow("plan", "demo.yaml", "--workers", "2")
    assert done.code == 0
    assert done.out.splitlines() == [
        "demo",
        "",
        "  run   target  dump.fake     needed by `pairs`",
        "                path: target.txt (1 file, 5 bytes)",
        "  run   golden  dump.fake     needed by `pairs`",
        "                path: golden.txt (1 file, 5 bytes)",
        "  run   pairs   match.fake    needed by `result` <- target, golden",
        "  run   result  compare.fake  needed by `table` <- pairs",
        "  run   table   report.fake   its result is what the run is for <- result",
        "",
        "5 of 5 stages run, 10 bytes below their input paths",
        "scheduler: auto, 2 workers (below 32 MB in all: batches run one after another)",
        f"cache: nothing is kept in {tmp_path / 'cache'} yet",
    ]


def test_plan_writes_nothing(probe_flow, tmp_path):
    write_project(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    probe_flow("plan", "demo.yaml")
    probe_flow("plan", "demo.yaml", "--format", "json")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_plan_for_programs(probe_flow, tmp_path):
    write_project(tmp_path)
    record = probe_flow("plan", "demo.yaml", "--only", "target", "--format", "json").json
    assert record["workflow"]["name"] == "demo"
    assert record["size_bytes"] == 5
    assert [(stage["name"], stage["kind"], stage["runs"]) for stage in record["stages"]] == [
        ("target", "catalog", True),
        ("golden", "catalog", False),
        ("pairs", "pairs", False),
        ("result", "comparison", False),
        ("table", "report", False),
    ]
    assert record["stages"][2]["inputs"] == {"target": ["target"], "golden": ["golden"]}
    assert record["stages"][0]["paths"] == [
        {"option": "path", "path": str(tmp_path / "target.txt"), "files": 1, "size_bytes": 5, "complete": True}
    ]


def test_plan_marks_what_is_left_out(probe_flow, tmp_path):
    write_project(tmp_path)
    out = probe_flow("plan", "demo.yaml", "--until", "pairs").out
    assert "  skip  result" in out
    assert "3 of 5 stages run" in out


def test_plan_with_a_missing_path_exits_with_2(probe_flow, tmp_path):
    write_project(tmp_path)
    done = probe_flow("plan", "demo.yaml", "--set", "target=gone.txt")
    assert done.code == 2
    assert "PF2101" in done.err


def test_a_dry_run_is_the_plan_and_runs_nothing(fakes, probe_flow, tmp_path):
    write_project(tmp_path)
    dry = probe_flow("run", "demo.yaml", "--dry-run", "--only", "target")
    assert dry == probe_flow("plan", "demo.yaml", "--only", "target")
    assert dry.code == 0
    assert not (tmp_path / "probe_flow_runs").exists()
    assert probe_flow("run", "demo.yaml", "--dry-run", "--format", "json").json["stages"]


def test_a_plan_is_drawn_as_mermaid_and_dot_with_what_does_not_run_dashed(fakes, probe_flow, tmp_path):
    write_project(tmp_path)
    drawn = probe_flow("plan", "demo.yaml", "--format", "mermaid", "--until", "result").out.splitlines()
    assert drawn[0] == "flowchart LR"
    names = {line.split('"')[1].partition("<br/>")[0]: line.split("[")[0].strip() for line in drawn if '["' in line}
    assert f"  {names['result']} --> {names['table']}" in drawn
    assert drawn[-1] == f"  class {names['table']} left"
    graph = probe_flow("plan", "demo.yaml", "--format", "dot", "--until", "result").out
    assert '"result" -> "table";' in graph
    dashed = [line for line in graph.splitlines() if "dashed" in line]
    assert [line.split('"')[1] for line in dashed] == ["table"]


def test_names_that_a_picture_could_misread_are_spelled_out(fakes, probe_flow, tmp_path):
    path = write_project(tmp_path)
    path.write_text(path.read_text().replace("name: demo", "name: demo.v1-x"))
    assert probe_flow("plan", "demo.yaml", "--format", "dot").out.startswith('digraph "demo.v1-x" {')
