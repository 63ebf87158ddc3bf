"""What this process may use of the machine, and how many workers fit into it: CPUs, memory, control groups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from probe_flow.errors import Diagnostic, UsageError

THREAD_BYTES = 16 * 2**20
"""Memory of a worker thread: 2.4 MB of buffers (measured), small files read whole, the records of a batch."""

PROCESS_BYTES = 64 * 2**20
"""Memory of a worker process: interpreter, numpy and buffers take 17 MB (measured), the rest as for a thread."""

_ROOT = Path("/")
_CPU_LIMITS = (("cpu", "sys/fs/cgroup/cpu"), ("cpu,cpuacct", "sys/fs/cgroup/cpu,cpuacct"))


def usable_cpus(root: Path = _ROOT) -> int:
    """Return the number of CPUs that this process may use, at least 1.

    Args:
        root: where the files of the system lie.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shares = [share for share in _cpu_shares(root) if share is not None]
    return max(1, min([count, *(-int(-share // 1) for share in shares)]))


def memory_of_machine(root: Path = _ROOT) -> int | None:
    """Return the bytes of memory that this process may use: those of the machine or of its control group.

    Args:
        root: where the files of the system lie.

    Returns:
        None where the system does not tell.
    """
    limits = [
        int(text)
        for group in _groups(root, "memory", "sys/fs/cgroup/memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := _text(group / name)).isdigit()
    ]
    lines = _text(root / "proc/meminfo").splitlines()
    limits.extend(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:"))
    return min(limits, default=None)


def fitting_workers(count: int, each_bytes: int, memory_bytes: int | None) -> int:
    """Return how many of ``count`` workers fit into the memory; 0 when not even one does."""
    return count if memory_bytes is None else min(count, memory_bytes // each_bytes)


def worker_bytes(scheduler: str) -> int:
    """Return the memory that one worker of a scheduler needs."""
    return PROCESS_BYTES if scheduler in ("processes", "distributed") else THREAD_BYTES


def workers_within(scheduler: str, asked: int | None, memory_bytes: int | None) -> int:
    """Return how many workers a scheduler of this machine gets.

    Args:
        scheduler: ``threads``, ``processes`` or ``distributed``.
        asked: what the user wants; None = one per usable CPU.
        memory_bytes: what the user allows; None = the machine's memory, where at least one worker always fits.

    Raises:
        UsageError: PF6107 when not even one worker fits into `memory_bytes`.
    """
    count, each = asked or usable_cpus(), worker_bytes(scheduler)
    if memory_bytes is None:
        return max(1, fitting_workers(count, each, memory_of_machine()))
    fitting = fitting_workers(count, each, memory_bytes)
    if not fitting:
        raise UsageError(
            Diagnostic(
                "PF6107",
                f"`memory_limit` is {memory_bytes / 2**20:.0f} MiB; one worker of `{scheduler}` needs {each >> 20} MiB",
                help="raise `executor.memory_limit`, or use `sync`",
            )
        )
    return fitting


def _cpu_shares(root: Path) -> Iterator[float | None]:
    for controller, mount in _CPU_LIMITS:
        for group in _groups(root, controller, mount):
            yield _share(*_text(group / "cpu.max").split()[:2])
            yield _share(_text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us"))


def _share(quota: str = "", period: str = "") -> float | None:
    """Return CPUs per period; None without a limit (``max`` or ``-1``)."""
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def _groups(root: Path, controller: str, mount: str) -> Iterator[Path]:
    """Yield the folders whose limits hold for this process: its control group and those around it, of both versions.

    Inside a container the path in ``/proc`` may be one of the host; the root of the mount is then the container's own.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        top = root / "sys/fs/cgroup" if not names else root / mount
        if names in ("", controller):
            group = top if ".." in path else top / path.lstrip("/")
            yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(top))


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="ascii", errors="replace").strip()
    return ""
