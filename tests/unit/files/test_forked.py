from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.files import forked
from probe_flow.files.atomic import atomic_text
from probe_flow.files.forked import Forked, can_fork

ROOT = Path(__file__).resolve().parents[3]
HERE = os.getpid()


def in_the_fork(act: Callable[[], object]) -> Callable[[], int]:
    """Return work that tells its process, and does something else before where that is a fork."""

    def work() -> int:
        if os.getpid() != HERE:
            act()
        return os.getpid()

    return work


def has_ended(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_fork_does_the_work_with_all_that_is_in_memory():
    values = [*range(1000)]
    begun = Forked(lambda: (sum(values), os.getpid()))
    values.clear()  # too late for the fork
    found, process = begun.result()
    assert found == 499_500
    assert process != HERE
    with pytest.raises(ChildProcessError):
        os.waitpid(process, os.WNOHANG)  # it is not left for anybody to wait for


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "it was ended by SIGKILL"),
        (lambda: os._exit(0), "it failed"),
        (lambda: 1 / 0, "it failed"),
        (lambda: sys.exit(0), "it failed"),
    ],
)
def test_what_a_fork_does_not_do_is_done_here(act, why):
    told: list[str] = []
    assert Forked(in_the_fork(act), lost=told.append).result() == HERE
    assert told == [why]


def test_an_error_is_raised_here_as_the_work_raises_it():
    error = IncompleteError(Diagnostic("PF7001", "the disk is full"))

    def work() -> None:
        raise error

    with pytest.raises(IncompleteError) as caught:
        Forked(work).result()
    assert caught.value is error


def test_where_no_process_can_be_made_the_work_is_done_here(monkeypatch):
    def none() -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", none)
    told: list[str] = []
    assert Forked(os.getpid, lost=told.append).result() == HERE
    assert told == ["there is no fork: Resource temporarily unavailable"]


def test_a_fork_that_waits_for_ever_is_ended_and_its_work_done_here(monkeypatch):
    monkeypatch.setattr(forked, "IDLE_S", 0.2)
    lock = threading.Lock()
    told: list[str] = []
    with lock:  # as a thread may hold one, which in the fork nobody gives back
        begun = Forked(in_the_fork(lock.acquire), lost=told.append)
        process = begun._process
        assert begun.result() == HERE
    assert has_ended(process)
    assert told == ["it did nothing for 0 s"]


def test_a_fork_that_computes_is_waited_for(monkeypatch):
    monkeypatch.setattr(forked, "IDLE_S", 0.0)
    monkeypatch.setattr(forked, "_LOOK_MS", 100)

    def busy() -> None:
        end = time.process_time() + 0.5
        while time.process_time() < end:
            sum(range(1000))

    assert Forked(in_the_fork(busy)).result() != HERE


def test_a_fork_that_is_stopped_leaves_no_half_file(tmp_path):
    def write() -> None:
        with atomic_text(tmp_path / "file.txt") as file:
            file.write("half")
            file.flush()
            time.sleep(60)

    begun = Forked(write, folders=[tmp_path])
    process = begun._process
    while not [*tmp_path.iterdir()]:
        time.sleep(0.005)
    began = time.monotonic()
    begun.stop()
    assert has_ended(process)
    assert [*tmp_path.iterdir()] == []
    assert time.monotonic() - began < forked.KILL_S
    begun.stop()  # again: nothing happens


def test_a_fork_that_was_killed_leaves_no_half_file(tmp_path):
    def write() -> str:
        with atomic_text(tmp_path / "file.txt") as file:
            file.write("whole")
            file.flush()
            if os.getpid() != HERE:
                os.kill(os.getpid(), signal.SIGKILL)
        return "written"

    assert Forked(write, folders=[tmp_path]).result() == "written"
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]
    assert (tmp_path / "file.txt").read_text() == "whole"


def test_an_interrupt_while_it_is_waited_for_ends_the_fork():
    begun = Forked(lambda: time.sleep(60))
    process = begun._process
    timer = threading.Timer(0.1, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        begun.result()
    timer.join()
    assert has_ended(process)


def test_ctrl_c_of_a_terminal_reaches_all_and_does_not_end_the_fork():
    def interrupted() -> str:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGHUP)
        return "whole"

    assert Forked(in_the_fork(interrupted)).result() != HERE


def test_what_was_buffered_and_what_happens_at_the_end_is_not_done_twice(tmp_path):
    program = (
        "import atexit, sys\n"
        "from probe_flow.files.forked import Forked\n"
        "atexit.register(print, 'the end')\n"
        "sys.stdout.write('buffered, ')\n"
        "Forked(lambda: None).result()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("buffered, the end\n", "")


def test_a_fork_ends_with_the_process_that_made_it(tmp_path):
    program = (
        "import os, signal, time\n"
        "from probe_flow.files.forked import Forked\n"
        "begun = Forked(lambda: time.sleep(60))\n"
        "print(begun._process, flush=True)\n"
        "time.sleep(0.5)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    end = time.monotonic() + 20
    while not has_ended(int(done.stdout)) and time.monotonic() < end:
        time.sleep(0.01)
    assert has_ended(int(done.stdout))


def test_warnings_of_threads_do_not_reach_users(monkeypatch):
    fork = os.fork

    def warning() -> int:
        warnings.warn("use of fork() may lead to deadlocks in the child", DeprecationWarning, stacklevel=2)
        return fork()

    monkeypatch.setattr(os, "fork", warning)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Forked(os.getpid).result() != HERE


def test_the_collector_is_as_it_was():
    assert gc.get_freeze_count() == 0
    begun = Forked(lambda: gc.isenabled())
    assert gc.get_freeze_count() > 0
    assert begun.result() is False
    assert gc.get_freeze_count() == 0
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("platform", "cpus", "times", "expected"),
    [("linux", 2, 5, True), ("linux", 1, 5, False), ("linux", 2, 3, False), ("darwin", 2, 5, False)],
)
def test_a_fork_needs_a_processor_and_memory_of_its_own(monkeypatch, platform, cpus, times, expected):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(forked, "usable_cpus", lambda: cpus)
    monkeypatch.setattr(forked, "_resident_bytes", lambda: 100)
    monkeypatch.setattr(forked, "memory_of_machine", lambda: times * 100)
    assert can_fork() is expected
    monkeypatch.setattr(forked, "memory_of_machine", lambda: None)
    assert can_fork(times * 100) is expected
    monkeypatch.setattr(forked, "_resident_bytes", lambda: forked.MOST_BYTES + 1)
    assert not can_fork()


def test_memory_is_that_of_this_process():
    before = forked._resident_bytes()
    held = bytearray(b"x") * (64 << 20)
    assert 60 << 20 < forked._resident_bytes() - before < 200 << 20
    assert len(held) == 64 << 20
