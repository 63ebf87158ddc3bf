"""The `auto` scheduler: from the bytes to read, the workers there are and the metrics backend to the fastest way."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from importlib.util import find_spec

from probe_flow.engine.scheduler import Batch, BatchLost, Result, Scheduler

SMALL_WORK_BYTES = 32 * 2**20
"""Below this total, starting workers costs more than it saves (measured: loading Dask alone takes 0.1 s)."""

LARGE_WORK_BYTES = 256 * 2**20
"""From this total on, processes earn their start with the numpy backend, whose threads hold each other up (measured:
two threads do 1.2 times the work of one, two processes 1.8 times)."""


def runs_unlocked(backend: str) -> bool:
    """Return whether large work runs outside the interpreter lock: with numba, asked for or there to be chosen."""
    return backend == "numba" or (backend == "auto" and find_spec("numba") is not None)


def choose(total_bytes: int, *, threads: int, processes: int, backend: str) -> str:
    """Return ``sync``, ``threads`` or ``processes``.

    Args:
        total_bytes: what is to be read, both sides.
        threads: worker threads that there may be.
        processes: worker processes that there may be.
        backend: ``auto``, ``numpy`` or ``numba``.
    """
    if total_bytes < SMALL_WORK_BYTES or threads < 2:
        return "sync"
    if total_bytes <= LARGE_WORK_BYTES or processes < 2 or runs_unlocked(backend):
        return "threads"
    return "processes"


class AutoScheduler:
    """Runs each call where its total size says.

    Args:
        sync: for small work.
        threads: for more, and for backends that run outside the interpreter lock.
        processes: for large work.
        backend: what computes the metrics.
    """

    name = "auto"
    warnings = ()

    def __init__(self, sync: Scheduler, threads: Scheduler, processes: Scheduler, *, backend: str = "auto") -> None:
        self._by_name = {"sync": sync, "threads": threads, "processes": processes}
        self._backend = backend

    @property
    def workers(self) -> int:
        """Workers that large work gets."""
        return self._by_name["threads"].workers

    def choose(self, sizes: Sequence[int]) -> Scheduler:
        """Return the scheduler for batches of these bytes."""
        if len(sizes) < 2:
            return self._by_name["sync"]
        threads, processes = self._by_name["threads"].workers, self._by_name["processes"].workers
        return self._by_name[choose(sum(sizes), threads=threads, processes=processes, backend=self._backend)]

    def run(
        self, function: Callable[[Batch], Result], batches: Sequence[Batch], sizes: Sequence[int]
    ) -> Generator[tuple[int, Result | BatchLost], None, None]:
        """Run every batch on the scheduler that fits their total size."""
        return self.choose(sizes).run(function, batches, sizes)
