"""Ctrl-C and kill -9 of the command: nothing of it stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import fake_stages
import pytest
from processes_seen import is_alive, wait_until

from probe_flow.files.leftovers import remove_leftovers

TESTS = Path(fake_stages.__file__).parent

PROGRAM = """\
import sys

import fake_stages
import probe_flow.workflow.loading.loader
import scheduler_jobs

if __name__ == "__main__":
    probe_flow.workflow.loading.loader.STAGES = fake_stages.STAGES
    fake_stages.square_difference = scheduler_jobs.write_pid_here_and_wait
    from probe_flow.cli.main import main

    sys.exit(main(["run", "demo.yaml", "--scheduler", sys.argv[1], "--workers", "2", "--output", "out"]))
"""


@pytest.fixture
def running(tmp_path, request):
    """Start a run whose batches never end, and wait until two of them run; give the process and the workers' pids."""
    scheduler = request.param
    if scheduler == "distributed":
        pytest.importorskip("distributed", reason="the extra `distributed` is not installed")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    fake_stages.write_project(tmp_path, target="1 2 3 4 5", golden="1 2 3 4 5")
    (tmp_path / "program.py").write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, "program.py", scheduler],
        cwd=tmp_path,
        env={
            **os.environ,
            "TMPDIR": str(scratch),
            "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parents[1]}",
            "PROBE_FLOW_CACHE": str(tmp_path / "cache"),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until(lambda: process.poll() is not None or len(list(tmp_path.glob("worker-*"))) == 2)
        pids = [int(path.name.partition("-")[2]) for path in tmp_path.glob("worker-*")]
        assert len(pids) == 2, process.communicate(timeout=300)
        yield process, pids
    finally:
        if is_alive(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=300)


BOTH = pytest.mark.parametrize("running", ["processes", "distributed"], indirect=True)


@BOTH
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_with_a_record_and_leaves_no_process(running, tmp_path, number):
    process, pids = running
    os.killpg(process.pid, number)  # as a terminal or a service manager does: to every process of the command
    _, err = process.communicate(timeout=300)
    code = 128 + number
    assert process.returncode == code, err
    assert not any(is_alive(pid) for pid in pids)
    assert "Traceback" not in err
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (record["status"], record["exit_code"], record["verdict"]) == ("interrupted", code, "incomplete")
    assert record["incomplete"][0] == f"the run was stopped by {signal.Signals(number).name}"
    (told,) = [problem for problem in record["problems"] if problem["code"] == "PF6014"]
    assert f"--resume --output {tmp_path / 'out'}" in told["help"]
    assert "PF6014" in err
    last = json.loads((tmp_path / "out" / "events.jsonl").read_text().splitlines()[-1])
    assert (last["event"], last["status"], last["exit_code"]) == ("run.ended", "interrupted", code)
    assert list((tmp_path / "scratch").iterdir()) == []


@BOTH
def test_workers_end_when_the_command_is_killed_and_what_they_left_is_removed(running, tmp_path):
    process, pids = running
    process.kill()
    process.wait(timeout=300)
    wait_until(lambda: not any(is_alive(pid) for pid in pids))
    remove_leftovers(tmp_path / "scratch", goes_below=False)  # as the next run does
    assert list((tmp_path / "scratch").iterdir()) == []
