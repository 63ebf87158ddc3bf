"""Which processes are alive, from /proc."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def children(pid: int) -> list[int]:
    """Return the pids of the processes that a process started and that have not been waited for."""
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in _text(task / "children").split()]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the thread ended between listing and reading
        return ""


def command_line(pid: int) -> str:
    """Return the arguments of a process; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def wait_until(condition: Callable[[], bool], *, timeout_s: float = 300) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)
