"""Measure the memory of a command and of all processes that it starts, together.

What `resource` reports is the largest single process. A forked writer shares most pages with the process that forked
it, so neither the largest nor the sum of all says what the machine must have. The proportional set size (PSS) does: the
kernel divides each shared page among those who share it. Pages of files, such as libraries, are shared with programs
that have nothing to do with the command too: of these the process with the most counts in full. Linux only.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.timing import NO_VARIABLES, TIMEOUT_S

INTERVAL_S = 0.02
"""Between two looks; a look at a large process takes longer than that."""


@dataclass(frozen=True)
class TreeMemory:
    """The most that was seen at once.

    Args:
        total_bytes: of all processes, shared pages once.
        largest_bytes: resident set size of the largest process.
        processes: how many there were at the time of the largest sum.
        looks: how often they were looked at.
        cpu_s: CPU time of all of them, the looks of this module not counted.
    """

    total_bytes: int
    largest_bytes: int
    processes: int
    looks: int
    cpu_s: float


def tree_memory(
    command: Sequence[str], *, cwd: Path, variables: Mapping[str, str] = NO_VARIABLES, accepted: Container[int] = (0,)
) -> TreeMemory:
    """Run a command to its end and return what it and its children took.

    Raises:
        RuntimeError: it ended with an exit code that is not accepted, or not within an hour.
    """
    total = largest = processes = looks = 0
    before = _children_cpu_s()
    child = subprocess.Popen(
        command, cwd=cwd, env={**os.environ, **variables}, stdout=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + TIMEOUT_S
    while child.poll() is None:
        if time.monotonic() > deadline:
            os.killpg(child.pid, signal.SIGKILL)
            raise RuntimeError(f"`{' '.join(command)}` did not end")
        sizes = [size for each in _tree(child.pid) if (size := _sizes(each)) is not None]
        seen = sum(share for _, share, _ in sizes) + max((of_files for _, _, of_files in sizes), default=0)
        if seen > total:
            total, processes = seen, len(sizes)
        largest = max([largest, *(resident for resident, _, _ in sizes)])
        looks += 1
        time.sleep(INTERVAL_S)
    if child.returncode not in accepted:
        raise RuntimeError(f"`{' '.join(command)}` ended with exit code {child.returncode}")
    return TreeMemory(total, largest, processes, looks, _children_cpu_s() - before)


def _children_cpu_s() -> float:
    """Return the CPU time of all children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tree(process: int) -> list[int]:
    """Return a process and its descendants; one that ends meanwhile has none."""
    found, left = [], [process]
    while left:
        current = left.pop()
        found.append(current)
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{current}/task").iterdir():
                left += map(int, (thread / "children").read_text("ascii").split())
    return found


def _sizes(process: int) -> tuple[int, int, int] | None:
    """Return the bytes that are resident, the share of those of no file, and those of files; None if it has ended."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text("ascii")
    except OSError:
        return None
    lines = (line.partition(":") for line in text.splitlines()[1:])
    size = {name: 1024 * int(rest.split()[0]) for name, _, rest in lines}
    if "Rss" not in size:
        return None
    return size["Rss"], size["Pss_Anon"] + size["Pss_Shmem"], size["Rss"] - size["Anonymous"]
