"""How a stage's batches reach the scheduler: errors become diagnostics, progress is told to whoever watches the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from probe_flow.engine.run.outcome import StageOutcome
from probe_flow.engine.schedulers.base import RETRIES, Batch, BatchError, BatchLost, Result, Scheduler
from probe_flow.engine.schedulers.choice import LARGE_WORK_BYTES, AutoScheduler
from probe_flow.errors import Diagnostic, IncompleteError, ProbeFlowError, out_of_memory
from probe_flow.jobs import BYTES
from probe_flow.packages import is_extended

if TYPE_CHECKING:
    from probe_flow.engine.run.plan import Plan
    from probe_flow.records import Catalog
    from probe_flow.work import Begun, Emit  # without the library of options, which `probe-flow reduce` does without

BATCH_LOST = "batch.lost"
"""Event: what a batch would have found is not known."""

MEASURED_BY = ("probe_flow.measure.batches",)
"""What worker processes need that measure pairs."""

COMPARED = "compare"

LEAST_FORKED_ROWS = 5_000
"""Rows whose files take a fork to write: 0.2 s of one processor, the fork 0.02."""


def needs_workers(plan: Plan, dump: Catalog) -> bool:
    """Return True if worker processes will have much to do with a dump that was just read for the first time.

    They take 0.3 s to start, each on a processor that waits else until the pairs are known.
    """
    if not plan.executor.uses_processes or dump.task != "tensor":
        return False
    if not any(planned.stage.type.uses == COMPARED for planned in plan.selected):
        return False
    total = 0
    for tensor in dump.tensors:
        total += tensor.nbytes
        if total > LARGE_WORK_BYTES:
            return True
    return False


class Forks:
    """Begins work in forks of the run (`work.Beside`), where there is enough of it and nobody else can see that.

    Args:
        workers: that the run may have at once; of one there are no forks.
        memory_bytes: that the run may take; None = that of the machine.
        emit: is told of work that a fork did not do.
    """

    def __init__(self, workers: int, memory_bytes: int | None, emit: Callable[..., None]) -> None:
        self._workers, self._memory_bytes, self._emit = workers, memory_bytes, emit

    def __call__(self, work: Callable[[], Result], *, rows: int, folders: Iterable[Path] = ()) -> Begun[Result]:
        """Begin work; the stages of packages may look for files that are not there yet, so with them it is done now."""
        if self._workers > 1 and rows >= LEAST_FORKED_ROWS and not is_extended():
            from probe_flow.files.forked import Forked, can_fork

            if can_fork(self._memory_bytes):
                return Forked(work, folders=folders, lost=lambda why: self._emit("work.taken_over", why=why))
        from probe_flow.work import at_once

        return at_once(work, rows=rows, folders=folders)


class StageTasks:
    """The `TaskMap` of one stage.

    Args:
        stage: name of the stage.
        scheduler: runs the batches.
        progress: hears of every finished batch.
        emit: writes one event per call and one per finished batch.
        unit: what sizes count; bytes by default.
    """

    def __init__(self, stage: str, scheduler: Scheduler, *, progress: Progress, emit: Emit, unit: str = BYTES) -> None:
        self._stage = stage
        self._scheduler = scheduler
        self._progress = progress
        self._emit = emit
        self._unit = unit

    def __call__(
        self,
        function: Callable[[Batch], Result],
        batches: Sequence[Batch],
        *,
        sizes: Sequence[int],
        lost: Callable[[Batch, Diagnostic], Result] | None = None,
        serial_bytes: int | None = None,
    ) -> Iterator[tuple[int, Result]]:
        """Yield ``(index, result)`` in any order.

        Args:
            function: runs one batch, maybe in another process.
            batches: its arguments.
            sizes: their bytes.
            lost: makes the result of a batch that ended its worker whenever it was tried (PF6106).
            serial_bytes: of the sizes, what threads would do one after another; None = all.

        Raises:
            IncompleteError: PF6002 when a batch raises, the diagnostics of its own error follow; PF6106 when one is
                lost and there is no `lost`.
            ValueError: `sizes` does not give one size per batch.
        """
        if len(sizes) != len(batches):
            raise ValueError(f"{len(batches)} batches have {len(sizes)} sizes")
        total, done = sum(sizes), 0
        scheduler = self._scheduler
        if isinstance(scheduler, AutoScheduler):
            scheduler = scheduler.choose(sizes, serial_bytes)
        self._emit("tasks.started", batches=len(batches), total_bytes=total, scheduler=scheduler.name)
        try:
            with closing(scheduler.run(function, batches, sizes)) as results:
                for index, result in results:
                    if isinstance(result, BatchLost):
                        result = self._lost(result, index, batches, lost)
                    done += sizes[index]
                    self._emit("batch.done", batch=index, size_bytes=sizes[index], done_bytes=done)
                    self._progress.stage_advanced(self._stage, done, total, self._unit)
                    yield index, result
        except BatchError as exc:
            raise self._failure(exc, len(batches)) from exc.__cause__

    def _lost(
        self,
        found: BatchLost,
        index: int,
        batches: Sequence[Batch],
        lost: Callable[[Batch, Diagnostic], Result] | None,
    ) -> Result:
        diagnostic = Diagnostic(
            "PF6106",
            f"batch {index + 1} of {len(batches)} of stage `{self._stage}` ended its worker {RETRIES + 1} times: "
            f"{found.reason}",
            stage=self._stage,
            help=_next_step(found.reason),
        )
        self._emit(BATCH_LOST, batch=index, reason=found.reason)
        if lost is None:
            raise IncompleteError(diagnostic)
        return lost(batches[index], diagnostic)

    def _failure(self, error: BatchError, count: int) -> IncompleteError:
        cause = error.__cause__
        own = cause.diagnostics if isinstance(cause, ProbeFlowError) else ()
        lack = out_of_memory(cause) if cause is not None else None
        diagnostic = Diagnostic(
            "PF6002",
            f"batch {error.index + 1} of {count} of stage `{self._stage}` failed: {type(cause).__name__}: {cause}",
            stage=self._stage,
            help="the other batches were stopped; run again once the cause is gone",
        )
        return IncompleteError((diagnostic, *((lack,) if lack else own)))


def _next_step(reason: str) -> str:
    if "SIGKILL" in reason:
        return "the system ends processes when memory runs out: use fewer `--workers`, or set `executor.memory_limit`"
    if "SIGBUS" in reason:
        return "a file became shorter while it was read: run again when nothing writes to the dump, or set `io: read`"
    if "took longer" in reason:
        return "look at the disk, or raise `executor.batch_timeout`; its rows are errors"
    return "run again with `--scheduler sync` to see the error itself"


class Progress(Protocol):
    """Receives the steps of a run, all in the thread that runs it."""

    def stage_started(self, name: str, uses: str) -> None:
        """A stage begins."""
        ...

    def stage_advanced(self, name: str, done: int, total: int, unit: str = BYTES) -> None:
        """A batch of the stage is done; bytes count both sides of the pairs."""
        ...

    def stage_ended(self, outcome: StageOutcome) -> None:
        """A stage ended, in whatever way, or will not run."""
        ...


class Silent:
    """Tells nobody."""

    def stage_started(self, name: str, uses: str) -> None:
        """Do nothing."""

    def stage_advanced(self, name: str, done: int, total: int, unit: str = BYTES) -> None:
        """Do nothing."""

    def stage_ended(self, outcome: StageOutcome) -> None:
        """Do nothing."""
