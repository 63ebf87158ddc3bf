"""Which scheduler runs the batches: the one of a name, or for `auto` the fastest for the bytes and the workers.

It gets as many workers as fit into what this process may use of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from probe_flow.engine.schedulers.base import Batch, BatchError, BatchLost, Result, Scheduler, largest_first
from probe_flow.errors import Diagnostic, Span, UsageError, did_you_mean
from probe_flow.files.machine import memory_of_machine, usable_cpus

if TYPE_CHECKING:
    from probe_flow.engine.schedulers.processes import ProcessScheduler
    from probe_flow.workflow.model import Trust


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


SCHEDULERS = ("auto", "sync", "threads", "processes", "distributed")


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
"""From this total on, processes earn their start where numpy does the work, whose threads hold each other up (measured:
two threads do 1.2 times the work of one, two processes 1.8 times)."""


def choose(total_bytes: int, *, threads: int, processes: int, serial_bytes: int | None = None) -> str:
    """Return ``sync``, ``threads`` or ``processes``.

    Args:
        total_bytes: what is to be read, both sides.
        threads: worker threads that there may be.
        processes: worker processes that there may be.
        serial_bytes: of these bytes, what threads would do one after another; None = all.
    """
    if total_bytes < SMALL_WORK_BYTES or threads < 2:
        return "sync"
    if (total_bytes if serial_bytes is None else serial_bytes) <= LARGE_WORK_BYTES or processes < 2:
        return "threads"
    return "processes"


class AutoScheduler:
    """Runs each call where its total size says; what no call needs is never loaded.

    Args:
        threads: workers that larger work gets.
        processes: those of large work that threads would do one after another.
        memory_bytes: memory for all processes together; None = that of the machine.
    """

    name = "auto"
    warnings = ()

    def __init__(self, threads: int, processes: int, memory_bytes: int | None = None) -> None:
        self.workers = threads
        self._processes = processes
        self._memory_bytes = memory_bytes
        self._made: dict[str, Scheduler] = {}

    def of_large_work(self) -> Scheduler:
        """Return the scheduler of work that threads would do one after another."""
        return self._of("processes")

    def choose(self, sizes: Sequence[int], serial_bytes: int | None = None) -> Scheduler:
        """Return the scheduler for batches of these bytes; see `choose` for what is serial."""
        name = "sync"
        if len(sizes) > 1:
            name = choose(sum(sizes), threads=self.workers, processes=self._processes, serial_bytes=serial_bytes)
        return self._of(name)

    def _of(self, name: str) -> Scheduler:
        if name not in self._made:
            count = {"sync": 1, "threads": self.workers, "processes": self._processes}[name]
            self._made[name] = _of_this_machine(name, count, self._memory_bytes)
        return self._made[name]

    def run(
        self, function: Callable[[Batch], Result], batches: Sequence[Batch], sizes: Sequence[int]
    ) -> Generator[tuple[int, Result | BatchLost], None, None]:
        """Run every batch on the scheduler that fits their total size."""
        return self.choose(sizes).run(function, batches, sizes)


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


@contextmanager
def held(scheduler: Scheduler) -> Iterator[Scheduler]:
    """Give a scheduler that opens its cluster once for all that runs inside; one without a cluster as it is."""
    if scheduler.name != "distributed":
        yield scheduler
        return
    from probe_flow.engine.schedulers.distributed import DistributedScheduler, HeldCluster

    assert isinstance(scheduler, DistributedScheduler)
    cluster = HeldCluster(scheduler)
    try:
        yield cluster
    finally:
        cluster.close()


@contextmanager
def ahead(scheduler: Scheduler) -> Iterator[Callable[[Sequence[str]], None]]:
    """Give what starts worker processes before there is work for them; those that no work took are ended.

    It takes the modules that the work will need. Where large work goes to no processes of this machine it does nothing.
    """
    started: list[ProcessScheduler] = []

    def start(modules: Sequence[str]) -> None:
        processes = scheduler.of_large_work() if isinstance(scheduler, AutoScheduler) else scheduler
        if processes.name == "processes":
            from probe_flow.engine.schedulers.processes import ProcessScheduler

            assert isinstance(processes, ProcessScheduler)
            started.append(processes)
            processes.start_ahead(modules)

    try:
        yield start
    finally:
        for processes in started:
            processes.end_ahead()


def make_scheduler(
    name: str,
    workers: int | None = None,
    *,
    span: Span | None = None,
    address: str | None = None,
    trust: Trust | None = None,
    memory_bytes: int | None = None,
    batch_s: int | None = None,
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
        batch_s: seconds that a batch of ``processes`` may take; None = as long as its worker lives.

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
    if name == "auto":
        threads = workers_within("threads", workers, memory_bytes)
        return AutoScheduler(threads, fitting_workers(threads, PROCESS_BYTES, memory_bytes), memory_bytes)
    count = 1 if name == "sync" else workers_within(name, workers, memory_bytes)
    return _of_this_machine(name, count, memory_bytes, batch_s)


def _of_this_machine(name: str, workers: int, memory_bytes: int | None, batch_s: int | None = None) -> Scheduler:
    if name == "sync":
        return SyncScheduler()
    if name == "threads":
        from probe_flow.engine.schedulers.threads import ThreadScheduler

        return ThreadScheduler(workers)
    from probe_flow.engine.schedulers.processes import ProcessScheduler

    return ProcessScheduler(workers, memory_bytes=memory_bytes, batch_s=batch_s)
