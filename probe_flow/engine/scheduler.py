"""How batches run: the interface, the choice between the schedulers, and what a failing batch becomes."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeVar

from probe_flow.errors import Diagnostic, Span, UsageError, did_you_mean

Batch = TypeVar("Batch")
Result = TypeVar("Result")

SMALL_WORK_BYTES = 32 * 2**20
"""Below this total, starting workers costs more than it saves (measured: loading Dask alone takes 0.1 s)."""

WINDOW_PER_WORKER = 4
"""Batches in flight per worker: enough that no worker waits for the consumer, few enough to bound memory."""

AVAILABLE = ("auto", "sync", "threads")
LATER = ("processes", "distributed")


class BatchError(Exception):
    """A batch raised; the cause is chained.

    Args:
        index: position of the batch in the sequence given to `Scheduler.run`.
    """

    def __init__(self, index: int) -> None:
        super().__init__(f"batch {index} failed")
        self.index = index


class Scheduler(Protocol):
    """Runs a function over batches and streams the results back.

    ``run`` yields ``(index, result)`` as batches finish, in any order; largest batches start first, so that the
    tail is short. At most ``WINDOW_PER_WORKER * workers`` batches are between start and delivery. Closing the
    iterator stops submission and waits for the batches that run. An exception in a batch arrives as
    `BatchError`.
    """

    @property
    def name(self) -> str:
        """Name in workflow files."""
        ...

    @property
    def workers(self) -> int:
        """Batches that run at the same time."""
        ...

    def run(
        self, function: Callable[[Batch], Result], batches: Sequence[Batch], sizes: Sequence[int]
    ) -> Generator[tuple[int, Result], None, None]:
        """Run every batch; ``sizes`` are their bytes, for the order."""
        ...


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def make_scheduler(name: str, workers: int | None = None, *, span: Span | None = None) -> Scheduler:
    """Return the scheduler of that name.

    Args:
        name: ``auto``, ``sync`` or ``threads``.
        workers: threads to use; None = one per usable CPU. ``sync`` always has one.
        span: where the name was written.

    Raises:
        UsageError: PF2103 for a scheduler that this version does not have.
    """
    check_scheduler(name, span=span)
    from probe_flow.engine.sync import SyncScheduler

    if name == "sync":
        return SyncScheduler()
    from probe_flow.engine.threads import ThreadScheduler

    threads = ThreadScheduler(workers or usable_cpus())
    return threads if name == "threads" else AutoScheduler(SyncScheduler(), threads)


def check_scheduler(name: str, *, span: Span | None = None) -> None:
    """Raise PF2103 (UsageError) when this version has no scheduler of that name."""
    if name in AVAILABLE:
        return
    if name in LATER:
        message = f"scheduler `{name}` is not part of this version of probe_flow"
        hint = "use `threads`, which runs on all CPUs of this machine, or `auto`"
    else:
        message = f"unknown scheduler `{name}`"
        hint = did_you_mean(name, AVAILABLE) or "use one of: " + ", ".join(AVAILABLE)
    raise UsageError(Diagnostic("PF2103", message, span=span, label="not available", help=hint))


class AutoScheduler:
    """Runs small work in the calling thread, anything larger on the given scheduler."""

    name = "auto"

    def __init__(self, small: Scheduler, large: Scheduler) -> None:
        self._small = small
        self._large = large

    @property
    def workers(self) -> int:
        """Workers that large work gets."""
        return self._large.workers

    def choose(self, sizes: Sequence[int]) -> Scheduler:
        """Return the scheduler for batches of these bytes."""
        is_small = sum(sizes) < SMALL_WORK_BYTES or len(sizes) < 2 or self._large.workers < 2
        return self._small if is_small else self._large

    def run(
        self, function: Callable[[Batch], Result], batches: Sequence[Batch], sizes: Sequence[int]
    ) -> Generator[tuple[int, Result], None, None]:
        """Run every batch on the scheduler that fits their total size."""
        return self.choose(sizes).run(function, batches, sizes)


def largest_first(sizes: Sequence[int]) -> list[int]:
    """Return the indices by size, the largest first; equal sizes keep their order.

    >>> largest_first([1, 5, 5, 9])
    [3, 1, 2, 0]
    """
    return sorted(range(len(sizes)), key=lambda index: -sizes[index])
