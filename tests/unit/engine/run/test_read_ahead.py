"""The second of two large texts of dumps is read by a fork while the first is read: the same results and errors."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_stages
import pytest
from msgspec.structs import replace

from benchmarks.eager_dumps import write_statistics
from benchmarks.same_files import differing
from probe_flow.engine.run import tasks
from probe_flow.engine.run.execute import RunOutcome, execute
from probe_flow.engine.run.plan import make_plan
from probe_flow.engine.schedulers.choice import make_scheduler
from probe_flow.files import forked
from probe_flow.workflow.loading.loader import load_workflow

HERE = os.getpid()
WORKFLOW = """\
version: 1
name: real
stages:
  target: {{uses: dump.torch, path: {target}}}
  golden: {{uses: dump.torch, path: {golden}}}
  pairs: {{uses: match.name, target: target, golden: golden}}
  result: {{uses: compare, pairs: pairs, policy: dump_json}}
  report: {{uses: report, comparison: result, formats: [{{csv: dump_json}}, junit]}}
"""
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there are no forks")


@pytest.fixture
def large(monkeypatch) -> None:
    """All dumps are large."""
    monkeypatch.setattr(tasks, "LEAST_PARSED_BYTES", 1)
    monkeypatch.setattr(tasks, "LEAST_FILE_BYTES", 1)
    monkeypatch.setattr(forked, "usable_cpus", lambda: 2)
    monkeypatch.setattr(forked, "_resident_bytes", lambda: 2**26)  # a process of many tests holds more


@pytest.fixture
def run(demo, large, tmp_path, monkeypatch) -> Callable[..., RunOutcome]:
    """Return a function that runs a workflow of fake stages in a folder."""
    monkeypatch.setattr(tasks, "PARSED", {"dump.fake"})

    def run_demo(output: str, *, workers: int = 2, **project: Any) -> RunOutcome:
        plan = make_plan(demo(**project))
        made = make_scheduler("sync" if workers == 1 else "auto", workers)
        return execute(plan, scheduler=made, cwd=tmp_path, output=Path(output))

    return run_demo


@pytest.fixture
def readers(tmp_path, monkeypatch) -> Callable[[], list[tuple[str, bool]]]:
    """Return what tells which stage read a dump, and whether that was a fork, in the order in which they ended."""
    noted = tmp_path / "readers.txt"
    stage = fake_stages.STAGES["dump.fake"]

    def noting(options: Any, inputs: Any, context: Any) -> object:
        try:
            return stage.run(options, inputs, context)
        finally:
            with noted.open("a") as file:
                file.write(f"{context.stage} {os.getpid()}\n")

    monkeypatch.setitem(fake_stages.STAGES, "dump.fake", replace(stage, run=noting))

    def found() -> list[tuple[str, bool]]:
        lines = [line.split() for line in noted.read_text().splitlines()]
        noted.unlink()
        return [(name, int(process) != HERE) for name, process in lines]

    return found


def taken_over(outcome: RunOutcome) -> list[str]:
    events = [json.loads(line) for line in (outcome.folder / "events.jsonl").read_text().splitlines()]
    return [event["why"] for event in events if event["event"] == "work.taken_over"]


def test_a_fork_reads_the_second_dump_and_all_files_are_the_same(run, readers):
    alone = run("out-of-one", workers=1, target="1 2.5 3")
    assert readers() == [("target", False), ("golden", False)]
    beside = run("out-of-two", target="1 2.5 3")
    assert sorted(readers()) == [("golden", True), ("target", False)]
    assert taken_over(beside) == []
    assert alone.exit_code == beside.exit_code == 1
    assert [name for name in differing(alone.folder, beside.folder) if "comparison.msgpack" not in name] == []


def test_records_of_real_dumps_are_the_same_bytes(large, tmp_path, monkeypatch):
    pair = write_statistics(tmp_path, rows=40, drift=1e-4)
    path = tmp_path / "real.yaml"
    path.write_text(WORKFLOW.format(target=pair.target, golden=pair.golden))
    plan = make_plan(load_workflow(path, sets={}, env={}, cwd=tmp_path))
    alone = execute(plan, scheduler=make_scheduler("sync", 1), cwd=tmp_path, output=Path("out-of-one"))
    noted, read = tmp_path / "readers.txt", tasks._read
    monkeypatch.setattr(tasks, "_read", lambda *given: noted.write_text(str(os.getpid())) and read(*given))
    beside = execute(plan, scheduler=make_scheduler("auto", 2), cwd=tmp_path, output=Path("out-of-two"))
    assert noted.read_text() != str(HERE)
    assert differing(alone.folder, beside.folder) == []


@pytest.mark.parametrize(
    "least", [{"LEAST_PARSED_BYTES": 1000}, {"LEAST_FILE_BYTES": 1000}, {"PARSED": {"dump.torch"}}]
)
def test_small_dumps_many_files_and_other_stages_take_no_fork(run, readers, monkeypatch, least):
    for name, value in least.items():
        monkeypatch.setattr(tasks, name, value)
    run("out")
    assert readers() == [("target", False), ("golden", False)]


@pytest.mark.parametrize("trouble", ["usage", "incomplete", "defect", "warning", "error"])
def test_what_goes_wrong_in_a_fork_is_said_by_the_run(run, readers, trouble):
    alone = run("out-of-one", workers=1, on_golden=f"trouble: {trouble}")
    readers()
    beside = run("out-of-two", on_golden=f"trouble: {trouble}")
    assert sorted(readers()) == [("golden", False), ("golden", True), ("target", False)]
    assert taken_over(beside) == ["it failed"]
    assert [each.to_dict() for each in alone.diagnostics] == [each.to_dict() for each in beside.diagnostics]
    assert [replace(each, wall_s=0.0) for each in alone.stages] == [replace(each, wall_s=0.0) for each in beside.stages]
    assert alone.exit_code == beside.exit_code


def test_a_fork_that_is_killed_costs_nothing_but_time(run, monkeypatch):
    stage = fake_stages.STAGES["dump.fake"]

    def killed(options: Any, inputs: Any, context: Any) -> object:
        if os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGKILL)
        return stage.run(options, inputs, context)

    monkeypatch.setitem(fake_stages.STAGES, "dump.fake", replace(stage, run=killed))
    outcome = run("out")
    assert outcome.exit_code == 0
    assert taken_over(outcome) == ["it was ended by SIGKILL"]


def test_where_the_first_dump_fails_the_fork_is_ended(run, tmp_path, monkeypatch):
    stage = fake_stages.STAGES["dump.fake"]

    def waiting(options: Any, inputs: Any, context: Any) -> object:
        if os.getpid() != HERE:
            (tmp_path / "begun").write_text(str(os.getpid()))
            signal.pause()
        while not (tmp_path / "begun").exists():
            signal.sigtimedwait([], 0.005)
        return stage.run(options, inputs, context)

    monkeypatch.setitem(fake_stages.STAGES, "dump.fake", replace(stage, run=waiting))
    outcome = run("out", on_target="trouble: incomplete")
    assert outcome.exit_code == 3
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "begun").read_text()), 0)
