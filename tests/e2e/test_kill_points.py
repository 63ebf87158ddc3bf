"""A sample of the points at which a run may be killed; `kill_points.py` by hand tries all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_points.py")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("scheduler", "sample"), [("sync", 9), ("threads", 3), ("processes", 3)])
def test_a_run_that_gets_a_signal_is_resumed_and_begun_anew_to_the_same_bytes(scheduler, sample):
    check(scheduler, sample)


@pytest.mark.timeout(1800)
def test_so_is_one_on_a_cluster_of_its_own():
    pytest.importorskip("distributed", reason="the extra `distributed` is not installed")
    check("distributed", 2)


def check(scheduler: str, sample: int) -> None:
    # In a process of its own: it forks, and the test's process may have threads.
    command = [sys.executable, str(SCRIPT), scheduler, str(sample)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1700)
    assert done.returncode == 0, done.stdout + done.stderr
