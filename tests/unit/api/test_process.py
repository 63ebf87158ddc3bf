"""A call leaves the process as it was, works in a thread and after a fork, and never shares a folder."""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import probe_flow as pf

from .conftest import FAULTY, WORKFLOW

GE, FX = FAULTY / "msprobe_ge_dump", FAULTY / "msprobe_fx_dump"
PATIENCE_S = 240
HEAVY = ("numpy", "h5py", "torch", "dask", "pydantic", "yaml", "msgspec")

FORKS = """
import os, sys
import probe_flow as pf
first = pf.compare(sys.argv[1], sys.argv[2])
child = os.fork()
if child == 0:
    again = pf.compare(sys.argv[1], sys.argv[2])
    os._exit(40 if again.origin.node == first.origin.node == "Gelu_1" and first.folder.is_dir() else 1)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) if first.folder.is_dir() else 2)
"""

STOPS = """
import os, signal, sys
import probe_flow as pf

class Stops:
    def __getattr__(self, name):
        def heard(*args, **kwargs):
            if not self.__dict__.get("sent"):
                self.__dict__["sent"] = True
                os.kill(os.getpid(), signal.SIGINT)
        return heard

before = signal.getsignal(signal.SIGINT)
try:
    pf.run(sys.argv[1], target=sys.argv[2], golden=sys.argv[3], output="out", progress=Stops())
except KeyboardInterrupt as stop:
    assert "resume=True" in str(stop), stop
else:
    sys.exit("it was not stopped")
assert signal.getsignal(signal.SIGINT) is before
run = pf.run(sys.argv[1], target=sys.argv[2], golden=sys.argv[3], output="out", resume=True)
print(run.origin.node)
"""


def state() -> dict[str, Any]:
    """Return what a call must not change."""
    root = logging.getLogger()
    return {
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "collector": (gc.get_threshold(), gc.isenabled(), gc.get_freeze_count()),
        "folder": Path.cwd(),
        "logging": (root.level, list(root.handlers), logging.root.manager.disable),
        "environment": dict(os.environ),
    }


def run_script(script: str, folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_a_call_leaves_the_process_as_it_was(in_folder: Path, scheduler: str) -> None:
    before = state()
    run = pf.run(WORKFLOW, target=GE, golden=FX, output="out", scheduler=scheduler, workers=2, cache=False)
    assert run.verdict == "fail"
    assert state() == before
    assert in_folder == Path.cwd()


def test_a_call_works_in_a_thread() -> None:
    found: list[pf.Run] = []
    thread = threading.Thread(target=lambda: found.append(pf.compare(GE, FX)))
    thread.start()
    thread.join(PATIENCE_S)
    assert [run.origin.node for run in found if run.origin] == ["Gelu_1"]


def test_a_call_works_after_a_fork_and_the_child_removes_nothing_of_the_parent(tmp_path: Path) -> None:
    done = run_script(FORKS, tmp_path, GE, FX)
    assert done.returncode == 40, done.stderr


def test_ctrl_c_is_a_keyboard_interrupt_and_the_run_goes_on(tmp_path: Path) -> None:
    done = run_script(STOPS, tmp_path, WORKFLOW, GE, FX)
    assert (done.returncode, done.stdout.strip()) == (0, "Gelu_1"), done.stderr


class SecondCall:
    """Calls again, on the folder of the run that it listens to."""

    def __init__(self) -> None:
        self.codes: list[str] = []

    def stage_started(self, name: str, uses: str) -> None:
        with pytest.raises(pf.ProbeFlowError) as caught:
            pf.run(WORKFLOW, target=GE, golden=FX, output="out")
        self.codes += [each.code for each in caught.value.diagnostics]

    def stage_advanced(self, name: str, done: int, total: int, unit: str = "bytes") -> None:
        """Do nothing."""

    def stage_ended(self, outcome: object) -> None:
        """Do nothing."""


def test_of_two_calls_on_one_folder_the_second_is_refused(in_folder: Path) -> None:
    second = SecondCall()
    first = pf.run(WORKFLOW, target=GE, golden=FX, output="out", progress=second)
    assert (first.verdict, first.folder) == ("fail", in_folder / "out")
    assert len(second.codes) == 5
    assert set(second.codes) <= {"PF6010", "PF6011", "PF6012", "PF6013"}


def test_importing_the_package_loads_nothing_heavy(tmp_path: Path) -> None:
    script = f"import sys, probe_flow; dir(probe_flow); print([name for name in {HEAVY!r} if name in sys.modules])"
    done = run_script(script, tmp_path)
    assert done.stdout.strip() == "[]", done.stderr
