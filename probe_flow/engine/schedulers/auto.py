"""The `auto` scheduler: from the bytes to read, the workers there are and what they compute to the fastest way."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from importlib.util import find_spec

from probe_flow.engine.schedulers.base import Batch, BatchError, BatchLost, Result, Scheduler, largest_first


class SyncScheduler:
    """Runs each batch when its result is asked for."""

    name = "sync"
    workers = 1
    warnings = ()

    def run(
        self, function: Callable[[Batch], Result], batches: Sequence[Batch], sizes: Sequence[int]
    ) -> Generator[tuple[int, Result], None, None]:
        """Yield ``(index, result)``, the largest batch first; only one batch is in memory at a time."""
        for index in largest_first(sizes):
            try:
                result = function(batches[index])
            except Exception as exc:
                raise BatchError(index) from exc
            yield index, result


SMALL_WORK_BYTES = 32 * 2**20
"""Below this total, starting workers costs more than it saves (measured: loading Dask alone takes 0.1 s)."""

LARGE_WORK_BYTES = 256 * 2**20
"""From this total on, processes earn their start with the numpy backend, whose threads hold each other up (measured:
two threads do 1.2 times the work of one, two processes 1.8 times)."""

HUGE_WORK_BYTES = 16 * 2**30
"""From this total on, processes earn their start even where threads hardly need the interpreter lock: they wait for it
a few microseconds at every block (measured when reducing to extremes: 0 to 30 % longer from 32 GiB on, even at 16)."""


def processes_above(backend: str) -> float:
    """Return the bytes above which comparing takes processes: never with numba, asked for or there to be chosen.

    Its threads meet at the lock rarely, and each process would load it again.
    """
    is_numba = backend == "numba" or (backend == "auto" and find_spec("numba") is not None)
    return math.inf if is_numba else LARGE_WORK_BYTES


def choose(total_bytes: int, *, threads: int, processes: int, above: float) -> str:
    """Return ``sync``, ``threads`` or ``processes``.

    Args:
        total_bytes: what is to be read, both sides.
        threads: worker threads that there may be.
        processes: worker processes that there may be.
        above: bytes above which processes are worth their start.
    """
    if total_bytes < SMALL_WORK_BYTES or threads < 2:
        return "sync"
    if total_bytes <= above or processes < 2:
        return "threads"
    return "processes"


class AutoScheduler:
    """Runs each call where its total size says.

    Args:
        sync: for small work.
        threads: for more.
        processes: for large work.
        processes_above: bytes above which work counts as large.
    """

    name = "auto"
    warnings = ()

    def __init__(self, sync: Scheduler, threads: Scheduler, processes: Scheduler, *, processes_above: float) -> None:
        self._by_name = {"sync": sync, "threads": threads, "processes": processes}
        self._above = processes_above

    @property
    def workers(self) -> int:
        """Workers that large work gets."""
        return self._by_name["threads"].workers

    def choose(self, sizes: Sequence[int]) -> Scheduler:
        """Return the scheduler for batches of these bytes."""
        if len(sizes) < 2:
            return self._by_name["sync"]
        threads, processes = self._by_name["threads"].workers, self._by_name["processes"].workers
        return self._by_name[choose(sum(sizes), threads=threads, processes=processes, above=self._above)]

    def run(
        self, function: Callable[[Batch], Result], batches: Sequence[Batch], sizes: Sequence[int]
    ) -> Generator[tuple[int, Result | BatchLost], None, None]:
        """Run every batch on the scheduler that fits their total size."""
        return self.choose(sizes).run(function, batches, sizes)
