"""How many workers fit into what this process may use of the machine."""

from __future__ import annotations

from probe_flow.errors import Diagnostic, UsageError
from probe_flow.files.machine import memory_of_machine, usable_cpus

THREAD_BYTES = 16 * 2**20
"""Memory of a worker thread: 2.4 MB of buffers (measured), small files read whole, the records of a batch."""

PROCESS_BYTES = 64 * 2**20
"""Memory of a worker process: interpreter, numpy and buffers take 17 MB (measured), the rest as for a thread."""


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
