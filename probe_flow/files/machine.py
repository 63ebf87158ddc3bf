"""What this process may use of the machine: CPUs, memory, control groups.

psutil knows the machine and neither the limits of control groups nor that of address space; its import costs 0.05 s.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType

from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.files.opening import read_text

KILL_S = 10.0
"""Seconds that the system gets to end a killed process. One that hangs in a driver or a file system does not end: it is
left behind."""

START_BYTES = 160 * 2**20
THREAD_BYTES = 40 * 2**20
"""Address space that the interpreter with numpy and h5py takes, and each thread that OpenBLAS begins (measured: 98 MB
for numpy with one thread, 139 MB with two)."""

QUIET_LIBRARIES: Mapping[str, str] = MappingProxyType(
    {"OPENBLAS_THREAD_TIMEOUT": "4", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
)
"""Variables that a process of ours sets for libraries, where its user did not.

Threads of OpenBLAS sleep once they have nothing to do. By default each of them spins for 2^26 cycles, also when it is
made: 25 ms of CPU for each further core of the machine, at every start. And pydantic looks for plugins, which watch the
models of services, in every installed package, and loads them: 6 ms where 113 are installed and none is one.
"""

_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
_MOST_BLAS_THREADS = 64

_ROOT = Path("/")
_CPU_LIMITS = (("cpu", "sys/fs/cgroup/cpu"), ("cpu,cpuacct", "sys/fs/cgroup/cpu,cpuacct"))


def address_space() -> int | None:
    """Return the bytes of address space that this process may use in all (`ulimit -v`), None without a limit."""
    try:
        import resource
    except ImportError:  # no such limit on this system
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def address_space_needed(environment: Mapping[str, str]) -> int:
    """Return the bytes of address space that loading numpy and h5py takes.

    Args:
        environment: may say how many threads numpy's library of algebra begins.
    """
    told = next((environment[name] for name in _BLAS_THREADS if environment.get(name, "").isdigit()), None)
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return START_BYTES + THREAD_BYTES * min(int(told or count) or count, _MOST_BLAS_THREADS)


def check_address_space(environment: Mapping[str, str]) -> None:
    """Refuse to go on where numpy could not be loaded: its library of algebra ends the process with exit code 1 then.

    Raises:
        IncompleteError: PF7405.
    """
    limit, needed = address_space(), address_space_needed(environment)
    if limit is not None and limit < needed:
        raise IncompleteError(
            Diagnostic(
                "PF7405",
                f"this process may use {limit >> 20:,} MiB of address space, and needs {needed >> 20:,} MiB to begin",
                help="raise `ulimit -v`, or set OPENBLAS_NUM_THREADS=1: each thread of numpy's library reserves some",
            )
        )


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


def return_free_memory() -> None:
    """Give memory that is free inside the heap of C back to the system, where its library can (glibc).

    By itself it does so only at the end of the heap, where nearly always something is still in use: after 100,000 small
    pairs 63 MiB are free and resident. A call takes 2 ms (measured with 60 MiB in use).
    """
    with suppress(OSError, AttributeError):  # another C library
        _heap_trimmer()(0)


@cache
def _heap_trimmer() -> Callable[[int], int]:
    import ctypes

    found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    return found


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
        return read_text(path, encoding="ascii", errors="replace").strip()
    return ""


@contextmanager
def at_most(limit_bytes: int) -> Iterator[None]:
    """Let this process allocate so much more; what asks for more fails with MemoryError."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    used = _allocated()
    wanted = used + 2 * limit_bytes if used else resource.RLIM_INFINITY
    known = [each for each in (wanted, soft) if each != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(known) if known else soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _allocated() -> int:
    """Return the bytes of memory that this process has allocated; 0 where the system does not say."""
    try:
        text = read_text("/proc/self/status")
    except OSError:
        return 0
    found = next((line.split()[1] for line in text.splitlines() if line.startswith("VmData:")), "0")
    return int(found) * 1024
