"""How a stage's batches reach the scheduler: errors become diagnostics, progress is told to whoever watches the run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from probe_flow.engine.run.outcome import StageOutcome
from probe_flow.engine.schedulers.base import RETRIES, Batch, BatchError, BatchLost, Result, Scheduler
from probe_flow.engine.schedulers.choice import LARGE_WORK_BYTES, AutoScheduler
from probe_flow.errors import Diagnostic, IncompleteError, ProbeFlowError, ran_out
from probe_flow.jobs import BYTES
from probe_flow.packages import is_extended

if TYPE_CHECKING:
    from probe_flow.engine.run.kept_comparisons import KeptStages
    from probe_flow.engine.run.plan import Plan, PlannedStage
    from probe_flow.records import Catalog
    from probe_flow.work import Begun, Context, Emit  # `probe-flow reduce` does without the library of options

BATCH_LOST = "batch.lost"
"""Event: what a batch would have found is not known."""

MEASURED_BY = ("probe_flow.measure.batches",)
"""What worker processes need that measure pairs."""

COMPARED = "compare"

COMPARED_BY = "probe_flow.comparing.steps"
"""What loads all that a comparison needs."""

LEAST_FORKED_ROWS = 5_000
"""Rows whose files take a fork to write: 0.2 s of one processor, the fork 0.02."""

PARSED = frozenset({"dump.torch", "dump.mindspore"})
"""Stages that read one large text a rank and hardly anything of other files."""

LEAST_PARSED_BYTES = 8 * 2**20
"""Of a dump; these take 0.2 s to parse, a fork 0.02 and handing back what it found a seventh of parsing."""

LEAST_FILE_BYTES = 2**20
"""Of a file, on average: a folder of many smaller ones holds tensors."""


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
        """Begin work."""
        if rows >= LEAST_FORKED_ROWS and self.is_able:
            return self.begin(work, folders=folders)
        from probe_flow.work import at_once

        return at_once(work, rows=rows, folders=folders)

    @property
    def is_able(self) -> bool:
        """Whether there can be a fork now; the stages of packages may look for files that are not there yet."""
        if self._workers < 2 or is_extended():
            return False
        from probe_flow.files.forked import can_fork

        return can_fork(self._memory_bytes)

    def begin(self, work: Callable[[], Result], *, folders: Iterable[Path] = ()) -> Begun[Result]:
        """Begin work in a fork."""
        from probe_flow.files.forked import Forked

        return Forked(work, folders=folders, lost=lambda why: self._emit("work.taken_over", why=why))


class ReadAhead:
    """Two large texts of dumps are parsed side by side: a fork reads the second while the run reads the first.

    The fork also hands over what it found, so it takes longer: the run loads meanwhile what comes next.

    Args:
        plan: of the run.
        folder: of the run.
        forks: begins them.
        kept: knows which dumps need not be read.
    """

    def __init__(self, plan: Plan, folder: Path, forks: Forks, kept: KeptStages) -> None:
        self._folder, self._forks, self._kept = folder, forks, kept
        self._next = {one.stage.name: other for one, other in pairwise(plan.selected) if _is_text(one, other)}
        self._compares = any(planned.stage.type.uses == COMPARED for planned in plan.selected)
        self._begun: dict[str, Begun[bytes]] = {}

    def begin_after(self, planned: PlannedStage, context: Callable[[PlannedStage], Context]) -> None:
        """Begin to read the dump that comes after that of a stage, which is now read, if that pays.

        Args:
            planned: the stage.
            context: returns what the engine gives a stage.
        """
        following = self._next.get(planned.stage.name)
        if following is not None and self._forks.is_able and not self._kept.may_have(following):
            work = partial(_read, following, self._folder, context(following), os.getpid())
            self._begun[following.stage.name] = self._forks.begin(work)

    def result_of(self, planned: PlannedStage) -> Catalog | None:
        """Return what a fork read for a stage, None where none was begun.

        Raises:
            ProbeFlowError: what reading raises.
        """
        begun = self._begun.pop(planned.stage.name, None)
        if begun is None:
            return None
        from probe_flow.record.stored.kept import catalog_of

        if self._compares:
            import_module(COMPARED_BY)
        return catalog_of(begun.result())

    def close(self) -> None:
        """End what nobody waits for."""
        for begun in self._begun.values():
            begun.stop()


def _is_text(*stages: PlannedStage) -> bool:
    """Whether these stages only read dumps that are large texts."""
    return all(
        planned.stage.type.uses in PARSED
        and planned.stage.type.foresee(planned.stage.options) is None
        and sum(size.size_bytes for size in planned.sizes) >= LEAST_PARSED_BYTES
        and all(size.size_bytes >= LEAST_FILE_BYTES * size.files for size in planned.sizes)
        for planned in stages
    )


def _read(planned: PlannedStage, folder: Path, context: Context, run: int) -> bytes:
    from msgspec.structs import replace

    from probe_flow.record.stored.writing import catalog_bytes
    from probe_flow.records import Catalog
    from probe_flow.workflow.model import options_for_run

    if os.getpid() != run:
        context = replace(context, map=_refuse, emit=_refuse, report=_refuse)
    catalog = planned.stage.type.run(options_for_run(planned.stage.options, folder), {}, context)
    assert isinstance(catalog, Catalog)
    return catalog_bytes(catalog)


def _refuse(*_: object, **__: object) -> None:
    """Fail, so that the run does the work: what a fork says reaches nobody."""
    raise RuntimeError("a stage that only reads says all in its catalog")


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

    def isolated(self, memory_bytes: int | None, workers: int, seconds: int | None, unit: str) -> StageTasks:
        """Return a map of the stage whose batches may end their process (`work.Isolate`)."""
        from probe_flow.engine.schedulers.processes import ProcessScheduler

        processes = ProcessScheduler(workers, memory_bytes=memory_bytes, batch_s=seconds, retries_slow=False)
        return StageTasks(self._stage, processes, progress=self._progress, emit=self._emit, unit=unit)

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
        lack = ran_out(cause) if cause is not None else None
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
