"""How the work of a plan is spread: which scheduler, how many workers, and why. Decided without loading any of them."""

from __future__ import annotations

from importlib.util import find_spec

from msgspec import Struct

from probe_flow.engine.schedulers.base import Scheduler
from probe_flow.engine.schedulers.choice import (
    LARGE_WORK_BYTES,
    SMALL_WORK_BYTES,
    check_scheduler,
    choose,
    fitting_workers,
    make_scheduler,
    worker_bytes,
    workers_within,
)
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.files.machine import usable_cpus
from probe_flow.stages.sizes import size_bytes
from probe_flow.workflow.model import Trust, Workflow

_MIB = 2**20


class Executor(Struct, frozen=True):
    """How the work is spread.

    Args:
        scheduler: a name of `probe_flow.engine.schedulers.choice.SCHEDULERS`.
        workers: batches at the same time; None = as many as the cluster at `address` has threads.
        reason: the choice in words.
        address: of a running Dask scheduler.
        memory_bytes: memory for all workers together; None = that of the machine.
        trust: ``network`` for an address that is not ``tls://``.
        batch_s: seconds that a batch may take; None = as long as its worker lives.
        uses_processes: whether worker processes of this machine measure large work, whatever its dtypes.
    """

    scheduler: str
    workers: int | None
    reason: str
    address: str | None = None
    memory_bytes: int | None = None
    trust: Trust | None = None
    batch_s: int | None = None
    uses_processes: bool = False

    def open(self) -> Scheduler:
        """Return the scheduler; one at an address is connected to for a moment, to see who works there.

        Raises:
            UsageError: see `make_scheduler`.
        """
        return make_scheduler(
            self.scheduler,
            self.workers,
            address=self.address,
            trust=self.trust,
            memory_bytes=self.memory_bytes,
            batch_s=self.batch_s,
        )


def plan_executor(workflow: Workflow, total_bytes: int, *, scheduler: str | None, workers: int | None) -> Executor:
    """Return how the work of a workflow is spread.

    Args:
        workflow: with its settings.
        total_bytes: below all input paths.
        scheduler: in place of the workflow's own.
        workers: in place of the workflow's own.

    Raises:
        UsageError: PF2103, PF6105 for the scheduler; PF5116 for a metrics backend whose package is not installed;
            PF6107 for a memory limit below what one worker needs.
    """
    settings = workflow.executor
    name = scheduler or settings.scheduler
    check_scheduler(name, is_own=settings.address is None)
    asked = workers or settings.workers
    memory = size_bytes(settings.memory_limit) if settings.memory_limit else None
    backend = workflow.metrics_backend
    if settings.batch_timeout is not None and name != "processes":
        raise UsageError(_no_end(name))
    has_numba = find_spec("numba") is not None
    if backend == "numba" and not has_numba:
        raise UsageError(_no_numba())
    if name == "sync":
        return Executor(name, 1, "as asked for", None, memory)
    if name == "distributed" and settings.address is not None:
        reason = f"as asked for, at {settings.address}"
        return Executor(name, asked, reason, settings.address, memory, settings.trust)
    if name == "auto":
        may_compile = backend != "numpy" and has_numba
        found, count, reason = _choice(asked, memory, total_bytes, may_compile=may_compile)
        is_certain = found == "processes" and not may_compile
        return Executor(name, count, reason, None, memory, uses_processes=is_certain)
    count = workers_within(name, asked, memory)
    reason = "as asked for" + _shortage(count, asked, memory)
    is_processes = name == "processes"
    return Executor(name, count, reason, None, memory, batch_s=settings.batch_timeout, uses_processes=is_processes)


def _no_end(scheduler: str) -> Diagnostic:
    return Diagnostic(
        "PF6114",
        f"the workflow has an `executor.batch_timeout`, and the scheduler `{scheduler}` cannot end a batch",
        help="leave `--scheduler` out, or name `processes`",
    )


def _no_numba() -> Diagnostic:
    return Diagnostic(
        "PF5116",
        "the metrics backend `numba` needs the package numba, which is not installed",
        help="pip install 'probe-flow[accel]', or ask for the backend `auto` or `numpy`",
    )


def _choice(asked: int | None, memory: int | None, total_bytes: int, *, may_compile: bool) -> tuple[str, int, str]:
    """Return the scheduler that `auto` takes, its workers, and in words what it does with work of this size."""
    threads = workers_within("threads", asked, memory)
    processes = fitting_workers(threads, worker_bytes("processes"), memory)
    small, large = SMALL_WORK_BYTES // _MIB, LARGE_WORK_BYTES // _MIB
    found = choose(total_bytes, threads=threads, processes=processes)
    if found == "processes":
        others = f", {threads} threads for what compiled code measures" if may_compile else ""
        what = f"above {large} MB in all: {processes} processes{others}"
        return found, processes, what + _shortage(processes, asked, memory)
    if found == "threads":
        is_large = total_bytes > LARGE_WORK_BYTES
        why = "no memory for two processes" if is_large else f"{small} to {large} MB in all"
        return found, threads, f"{why}: {threads} threads" + _shortage(threads, asked, memory)
    why = f"below {small} MB in all" if total_bytes < SMALL_WORK_BYTES else "one worker"
    return found, threads, f"{why}: batches run one after another"


def _shortage(count: int, asked: int | None, memory: int | None) -> str:
    """Return in words that memory allows fewer workers than there could be."""
    wanted = asked or usable_cpus()
    if count >= wanted:
        return ""
    limit = "this machine's memory" if memory is None else f"the memory_limit of {memory / _MIB:.0f} MiB"
    return f"; {limit} has room for {count} of {wanted} workers"
