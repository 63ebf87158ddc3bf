"""A test that hangs ends, says where, and leaves no process: the settings of pyproject.toml, tried on such tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from processes_seen import is_alive

ROOT = Path(__file__).resolve().parents[2]

HANGING = """
import subprocess, sys, threading, time
from pathlib import Path
import pytest


@pytest.fixture
def child():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path("child").write_text(str(process.pid))
    yield
    process.kill()
    process.wait()


def wait_in_a_thread(lock):
    lock.acquire()


def test_one(child):
    lock = threading.Lock()
    lock.acquire()
    threading.Thread(target=wait_in_a_thread, args=[lock], daemon=True).start()
    while {swallows}:
        try:
            time.sleep(600)
        except BaseException:
            pass
    lock.acquire()


def test_two():
    pass
"""


def hung(folder: Path, *, swallows: bool, timeout_s: float, exit_s: float) -> str:
    """Run the two tests above in workers of xdist with our settings and shorter times; return what is said."""
    (folder / "test_it.py").write_text(HANGING.format(swallows=swallows))
    times = ["-o", f"timeout={timeout_s}", "-o", f"faulthandler_timeout={exit_s}"]
    options = ["-c", ROOT / "pyproject.toml", "--rootdir", folder, "-p", "no:cacheprovider", "-n", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *map(str, options), *times, "test_it.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    return done.stdout + done.stderr


def test_a_hanging_test_fails_with_the_stacks_of_all_threads_and_its_fixtures_end_what_they_began(tmp_path):
    said = hung(tmp_path, swallows=False, timeout_s=2, exit_s=600)
    assert "Failed: Timeout" in said
    assert "lock.acquire()" in said.partition("Stack of Thread-1")[2]
    assert not is_alive(int((tmp_path / "child").read_text()))


def test_a_test_that_cannot_fail_ends_its_process_with_the_stacks_of_all_threads(tmp_path):
    said = hung(tmp_path, swallows=True, timeout_s=1, exit_s=4)
    try:
        assert "in wait_in_a_thread" in said
        assert "in test_one" in said
        assert "crashed while running 'test_it.py::test_one'" in said
    finally:
        subprocess.run(["kill", "-9", (tmp_path / "child").read_text()], check=False)


@pytest.mark.timeout(30)
def test_a_test_may_declare_a_time_of_its_own(request):
    assert request.node.get_closest_marker("timeout").args == (30,)
    assert float(request.config.getini("timeout")) < float(request.config.getini("faulthandler_timeout"))


def test_a_test_in_the_background_of_a_shell_starts_commands_that_can_be_interrupted(tmp_path):
    ours = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    (tmp_path / "conftest.py").write_text(ours, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(
        "import signal, subprocess, sys\n"
        "def test_one():\n"
        "    child = 'import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(600)'\n"
        "    assert subprocess.run([sys.executable, '-c', child]).returncode == -signal.SIGINT\n"
    )
    pytest_here = f"{sys.executable} -m pytest -c {ROOT / 'pyproject.toml'} --rootdir {tmp_path} -p no:cacheprovider"
    done = subprocess.run(
        ["sh", "-c", f"trap '' INT HUP QUIT; {pytest_here} test_it.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout + done.stderr
