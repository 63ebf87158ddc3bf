"""How batches run: the interface of the schedulers, and what a batch becomes that fails or is lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, TypeVar

from probe_flow.engine.schedulers.limits import PROCESS_BYTES, fitting_workers, workers_within
from probe_flow.errors import Diagnostic, Span, UsageError, did_you_mean

if TYPE_CHECKING:
    from probe_flow.workflow.model.models import Trust

Batch = TypeVar("Batch")
Result = TypeVar("Result")

SCHEDULERS = ("auto", "sync", "threads", "processes", "distributed")

WINDOW_PER_WORKER = 4
"""Batches in flight per worker: enough that no worker waits for the consumer, few enough to bound memory."""

RETRIES = 1
"""How often a batch is tried again after its worker died: a second death is the batch's own doing."""


@dataclass(frozen=True, slots=True)
class BatchLost:
    """Stands in the place of a result when a batch ended its worker each time that it was tried.

    Args:
        reason: how the last worker ended, e.g. ``killed by SIGKILL``.
    """

    reason: str


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
    `BatchError`. A worker process that dies costs its batch only, which arrives as `BatchLost`.
    """

    @property
    def name(self) -> str:
        """Name in workflow files."""
        ...

    @property
    def workers(self) -> int:
        """Batches that run at the same time."""
        ...

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What is worth saying of it before it runs anything."""
        ...

    def run(
        self, function: Callable[[Batch], Result], batches: Sequence[Batch], sizes: Sequence[int]
    ) -> Generator[tuple[int, Result | BatchLost], None, None]:
        """Run every batch; ``sizes`` are their bytes, for the order."""
        ...


def largest_first(sizes: Sequence[int]) -> list[int]:
    """Return the indices by size, the largest first; equal sizes keep their order.

    >>> largest_first([1, 5, 5, 9])
    [3, 1, 2, 0]
    """
    return sorted(range(len(sizes)), key=lambda index: -sizes[index])


def check_scheduler(name: str, *, span: Span | None = None, is_own: bool = True) -> None:
    """Raise PF2103 (UsageError) for an unknown scheduler, PF6105 when a package that it needs is not there.

    Args:
        name: of the scheduler.
        span: where the name was written.
        is_own: whether ``distributed`` means a cluster of its own, and not one at an address.
    """
    if name not in SCHEDULERS:
        hint = did_you_mean(name, SCHEDULERS) or "use one of: " + ", ".join(SCHEDULERS)
        message = f"unknown scheduler `{name}`"
        raise UsageError(Diagnostic("PF2103", message, span=span, label="no such scheduler", help=hint))
    packages = {"distributed": ("distributed", "cryptography") if is_own else ("distributed",)}.get(name, ())
    lacking = [package for package in packages if find_spec(package) is None]
    if lacking:
        raise UsageError(
            Diagnostic(
                "PF6105",
                f"scheduler `{name}` needs the package `{lacking[0]}`, which is not installed",
                span=span,
                help="pip install probe-flow[distributed]; on one machine `processes` does without it",
            )
        )


def make_scheduler(
    name: str,
    workers: int | None = None,
    *,
    span: Span | None = None,
    address: str | None = None,
    trust: Trust | None = None,
    memory_bytes: int | None = None,
    processes_above: float = math.inf,
) -> Scheduler:
    """Return the scheduler of that name.

    Args:
        name: one of `SCHEDULERS`.
        workers: batches to run at the same time; None = one per usable CPU (or all workers of `address`). Fewer are
            used where `memory_bytes` asks for it. ``sync`` always has one.
        span: where the name was written.
        address: of a running Dask scheduler, for ``distributed``; it is asked at once who works there.
        trust: ``network`` for an address that is not ``tls://``.
        memory_bytes: memory for all workers together; None = that of the machine.
        processes_above: bytes above which ``auto`` takes processes instead of threads; never by default.

    Raises:
        UsageError: PF2103 for an unknown name, PF6105 without the package; PF6101, PF6102, PF6104, PF6108,
            PF6110, PF6111, PF6112 for an `address` that cannot be used; PF6107 when no worker fits into `memory_bytes`.
    """
    check_scheduler(name, span=span, is_own=address is None)
    if name == "distributed":
        if address is not None:
            from probe_flow.engine.schedulers.running_cluster import connect

            return connect(address, workers, trust=trust)
        from probe_flow.engine.schedulers.distributed import local_cluster

        return local_cluster(workers_within(name, workers, memory_bytes))
    from probe_flow.engine.schedulers.auto import SyncScheduler

    if name == "sync":
        return SyncScheduler()
    from probe_flow.engine.schedulers.auto import AutoScheduler
    from probe_flow.engine.schedulers.processes import ProcessScheduler
    from probe_flow.engine.schedulers.threads import ThreadScheduler

    if name == "processes":
        return ProcessScheduler(workers_within(name, workers, memory_bytes), memory_bytes=memory_bytes)
    threads = ThreadScheduler(workers_within("threads", workers, memory_bytes))
    if name == "threads":
        return threads
    count = fitting_workers(threads.workers, PROCESS_BYTES, memory_bytes)
    processes = ProcessScheduler(count, memory_bytes=memory_bytes)
    return AutoScheduler(SyncScheduler(), threads, processes, processes_above=processes_above)
