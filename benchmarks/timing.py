"""Measure commands and functions: wall and CPU time, peak memory, interleaved so that other load hits all alike."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

LAUNCHER = Path(__file__).with_name("launch.py")
TIMEOUT_S = 3600
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
MIB = 2**20


@dataclass(frozen=True)
class Usage:
    """What one run of a command took; CPU time and memory include the processes that it waited for."""

    wall_s: float
    cpu_s: float
    peak_rss_bytes: int


@dataclass(frozen=True)
class Spread:
    """Median, least and largest of several runs."""

    median: float
    least: float
    largest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


def run_command(
    command: Sequence[str], *, cwd: Path, variables: Mapping[str, str] = NO_VARIABLES, accepted: Container[int] = (0,)
) -> Usage:
    """Run a command to its end, with further environment variables.

    Compiled modules are cached, as they are for a user: an environment that forbids it would time the compiler.

    Raises:
        RuntimeError: it ended with an exit code that is not accepted.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment.update(variables)
    launched = [sys.executable, "-S", str(LAUNCHER), str(TIMEOUT_S), *command]
    done = subprocess.run(launched, cwd=cwd, env=environment, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    if found["exit_code"] not in accepted:
        raise RuntimeError(f"`{' '.join(command)}` ended with exit code {found['exit_code']}:\n{found['printed']}")
    return Usage(found["wall_s"], found["cpu_s"], found["peak_rss_bytes"])


def evict(*folders: Path) -> None:
    """Drop what the system keeps of the files in some folders, so that the next run reads them from the disk."""
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.fsync(file.fileno())  # only what is on the disk can be dropped
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def interleave(subjects: Mapping[str, Callable[[], Usage]], runs: int) -> dict[str, list[Usage]]:
    """Run every subject in turn, ``runs`` times, after one round that warms caches and is not counted."""
    found: dict[str, list[Usage]] = {name: [] for name in subjects}
    for number in range(runs + 1):
        for name, run in subjects.items():
            usage = run()
            if number:
                found[name].append(usage)
    return found


def ratios(of: Sequence[Usage], to: Sequence[Usage], figure: Callable[[Usage], float]) -> Spread:
    """Return how many times more the second took, from runs made one after the other."""
    return Spread.of([figure(other) / figure(one) for one, other in zip(of, to, strict=True)])


def thread_seconds(function: Callable[[], object]) -> float:
    """Return the CPU time of the calling thread, which other load disturbs least."""
    started = time.thread_time()
    function()
    return time.thread_time() - started
