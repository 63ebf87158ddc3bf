"""Records of many rows are written by a fork while reports are made: the same files, and the same ends."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_stages import STAGES
from msgspec.structs import replace

from benchmarks.same_files import differing
from probe_flow.engine.run import results, tasks
from probe_flow.engine.run.execute import RunOutcome, execute
from probe_flow.engine.run.kept_comparisons import KeptStages
from probe_flow.engine.run.plan import make_plan
from probe_flow.engine.schedulers.choice import make_scheduler
from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.files import forked
from probe_flow.files.atomic import atomic_text
from probe_flow.records import Catalog, Comparison

HERE = os.getpid()
EXTENDED = """\
  more: {uses: report.fake, comparison: result, file: more.csv}
"""


@pytest.fixture
def run(demo, tmp_path, monkeypatch) -> Callable[..., RunOutcome]:
    """Return a function that runs a workflow of fake stages in a folder of that name; rows are many from 3 on."""
    monkeypatch.setattr(tasks, "LEAST_FORKED_ROWS", 3)
    monkeypatch.setattr("probe_flow.record.row_index.LEAST_ROWS", 3)
    monkeypatch.setattr(forked, "usable_cpus", lambda: 2)
    monkeypatch.setattr(forked, "_resident_bytes", lambda: 2**26)  # a process of many tests holds more

    def run_demo(
        output: str = "out", *, scheduler: str = "auto", task: str = "statistics", **project: Any
    ) -> RunOutcome:
        plan = make_plan(demo(on_target=f"task: {task}", on_golden=f"task: {task}", **project))
        made = make_scheduler(scheduler, 2)
        return execute(plan, scheduler=made, cwd=tmp_path, output=Path(output), keeps_going=True)

    return run_demo


def processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[bool]]:
    """Return what tells, for each time that records were written, whether a fork did it."""
    written = tmp_path / "written.txt"
    write = results.write_comparison

    def noting(comparison: Any, path: Path) -> None:
        with written.open("a") as file:
            file.write(f"{os.getpid()}\n")
        write(comparison, path)

    monkeypatch.setattr(results, "write_comparison", noting)
    return lambda: [int(line) != HERE for line in written.read_text().split()]


def events_of(outcome: RunOutcome) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (outcome.folder / "events.jsonl").read_text().splitlines()]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_fork_leaves_the_same_files(run, tmp_path, monkeypatch):
    forks = processes(monkeypatch, tmp_path)
    alone, beside = run("out-of-one", scheduler="sync", target="1 2.5 3"), run("out-of-two", target="1 2.5 3")
    assert forks() == [False, True]
    assert differing(alone.folder, beside.folder) == []
    assert alone.record.artifacts == beside.record.artifacts
    assert alone.exit_code == beside.exit_code == 1
    assert names(beside.folder) == sorted(beside.record.artifacts)
    begun = [event["file"] for event in events_of(beside) if event["event"] == "file.begun"]
    assert begun == ["comparison.jsonl", "nodes.jsonl", "comparison.index", "comparison.msgpack"]


@pytest.mark.parametrize("project", [{"target": "1 2", "golden": "1 2"}, {"scheduler": "sync"}, {"task": "tensor"}])
def test_few_rows_tensors_and_a_run_without_workers_take_no_fork(run, tmp_path, monkeypatch, project):
    forks = processes(monkeypatch, tmp_path)
    run(**project)
    assert forks() == [False]


@pytest.mark.parametrize(
    ("project", "expected"),
    [
        ({}, [True, True, True]),
        ({"scheduler": "sync"}, [False, False, False]),
        ({"on_result": "trouble: defect"}, [True, True]),
        ({"task": "tensor"}, [False, False, False]),
    ],
)
def test_dumps_without_tensors_are_kept_for_other_runs_by_a_fork_while_they_are_compared(
    run, tmp_path, monkeypatch, project, expected
):
    kept, keep = tmp_path / "kept.txt", KeptStages.keep

    def noting(self, planned, result, *others):
        if isinstance(result, (Catalog, Comparison)):
            with kept.open("a") as file:
                file.write(f"{planned.stage.name} {os.getpid() != HERE}\n")
        keep(self, planned, result, *others)

    monkeypatch.setattr(KeptStages, "keep", noting)
    run(**project)
    found = dict(line.split() for line in kept.read_text().splitlines())
    assert found == dict(zip(("target", "golden", "result"), map(str, expected), strict=False))


def test_where_packages_add_something_nobody_may_find_records_missing(run, tmp_path, monkeypatch):
    forks = processes(monkeypatch, tmp_path)
    monkeypatch.setattr(tasks, "is_extended", lambda: True)
    run()
    assert forks() == [False]


def test_no_record_is_listed_before_it_is_there(run, monkeypatch):
    seen = []
    module = sys.modules["probe_flow.engine.run.execute"]  # the name here is that of its function
    save, write = module.write_run_json, results.write_nodes_jsonl

    def slowly(comparison, path):
        time.sleep(0.3)
        return write(comparison, path)

    def noting(record, path):
        seen.append([name for name in record.artifacts if not (path.parent / name).exists() and "run" not in name])
        save(record, path)

    monkeypatch.setattr(results, "write_nodes_jsonl", slowly)
    monkeypatch.setattr(module, "write_run_json", noting)
    outcome = run(more=EXTENDED)
    assert seen[1:] == [[]] * (len(seen) - 1)
    assert outcome.record.artifacts[2:] == (
        "comparison.jsonl",
        "nodes.jsonl",
        "comparison.index",
        "comparison.msgpack",
        "table.csv",
        "more.csv",
    )


def test_a_fork_that_is_killed_costs_nothing_but_time(run, monkeypatch):
    write = results.write_nodes_jsonl

    def killed(comparison, path):
        if os.getpid() != HERE:
            with atomic_text(path) as file:
                file.write("half")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
        return write(comparison, path)

    alone = run("out-of-one", scheduler="sync")
    monkeypatch.setattr(results, "write_nodes_jsonl", killed)
    beside = run("out-of-two")
    assert beside.exit_code == 0
    assert differing(alone.folder, beside.folder) == []
    lost = [event for event in events_of(beside) if event["event"] == "work.taken_over"]
    assert [event["why"] for event in lost] == ["it was ended by SIGKILL"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "[PF7001] `nodes.jsonl` cannot be written: No space"),
        (IncompleteError(Diagnostic("PF7001", "another disk is full")), "[PF7001] another disk is full"),
        (ZeroDivisionError("a defect"), "[PF6003] stage `result` stopped: ZeroDivisionError: a defect"),
    ],
)
def test_records_that_cannot_be_written_fail_their_stage(run, monkeypatch, error, reason):
    def refused(_comparison, path):
        with atomic_text(path) as file:
            file.write("half")
            raise error

    monkeypatch.setattr(results, "write_nodes_jsonl", refused)
    alone, beside = run("out-of-one", scheduler="sync"), run("out-of-two")
    for outcome in (alone, beside):
        stages = {stage.name: (stage.status.value, stage.reason) for stage in outcome.stages}
        assert stages["result"][0] == "failed"
        assert stages["result"][1].startswith(reason)
        assert (outcome.exit_code, outcome.record.verdict) == (3, "incomplete")
        assert outcome.record.counts == {}
        assert names(outcome.folder) == sorted(outcome.record.artifacts)
        assert "comparison.msgpack" not in outcome.record.artifacts
    assert [each.to_dict() for each in alone.diagnostics if each.path is None] == [
        each.to_dict() for each in beside.diagnostics if each.path is None
    ]
    ended = [(each["stage"], each["status"]) for each in events_of(beside) if each["event"] == "stage.ended"]
    assert ended[-1] == ("result", "failed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_fork_too(run, monkeypatch, tmp_path, number):
    def slowly(_comparison, path):
        with atomic_text(path) as file:
            file.write(str(os.getpid()))
            file.flush()
            (tmp_path / "begun").write_text(str(os.getpid()))
            time.sleep(60)

    def signalled(options, inputs, context):
        while not (tmp_path / "begun").exists():
            time.sleep(0.005)
        os.kill(os.getpid(), number)
        return []

    monkeypatch.setattr(results, "write_nodes_jsonl", slowly)
    monkeypatch.setitem(STAGES, "report.fake", replace(STAGES["report.fake"], run=signalled))
    outcome = run()
    assert outcome.exit_code == 128 + number
    assert {stage.name: stage.status.value for stage in outcome.stages}["result"] == "interrupted"
    assert names(outcome.folder) == sorted(outcome.record.artifacts)
    assert "nodes.jsonl" not in outcome.record.artifacts
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "begun").read_text()), 0)
