"""Run a plan: its stages in order, each failure kept apart, and a record of all of it in the run's folder."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from msgspec import Struct, structs
from msgspec.structs import replace

from probe_flow.engine.cache import PARTIAL, RunCache, collect_garbage, shared_store, tensor_store
from probe_flow.engine.run.events import FILE_BEGUN, Clock, EventLog, open_events
from probe_flow.engine.run.kept_comparisons import KeptStages
from probe_flow.engine.run.outcome import (
    StageOutcome,
    StageStatus,
    became,
    ended_by,
    exit_code,
    run_verdict,
    stopped,
    unforeseen,
)
from probe_flow.engine.run.output import (
    EVENTS_NAME,
    OWN_FILES,
    RECORD_NAME,
    RunFolder,
    open_run_folder,
    reopen_run_folder,
)
from probe_flow.engine.run.paths import located, locating
from probe_flow.engine.run.plan import Plan, PlannedStage
from probe_flow.engine.run.record import base_record, problem_facts, so_far, stage_list, with_summaries
from probe_flow.engine.run.results import Results, is_strict, nothing
from probe_flow.engine.run.signals import Signals
from probe_flow.engine.run.tasks import (
    BATCH_LOST,
    MEASURED_BY,
    Forks,
    Progress,
    ReadAhead,
    Silent,
    StageTasks,
    needs_workers,
)
from probe_flow.engine.schedulers.base import Scheduler
from probe_flow.engine.schedulers.choice import ahead, held
from probe_flow.errors import Diagnostic, ProbeFlowError, Severity, UsageError, WorkflowError, ran_out
from probe_flow.files.leftovers import remove_leftovers, remove_scratch
from probe_flow.files.small_files import SmallFiles
from probe_flow.files.whole_files import sync_folder
from probe_flow.record.conclusion import stage_gaps
from probe_flow.record.run_json import write_run_json
from probe_flow.record.types.run import RunRecord
from probe_flow.records import Catalog, Comparison
from probe_flow.stages.base import Kind
from probe_flow.stages.sizes import size_bytes
from probe_flow.work import Context, Settings
from probe_flow.workflow.model import options_for_run


class RunOutcome(Struct, frozen=True):
    """What a run left.

    Args:
        folder: where everything lies.
        record: what `run.json` says.
        exit_code: see `probe_flow.engine.run.outcome.exit_code`.
        stages: one per stage of the workflow.
        comparisons: results of the comparing stages, by name.
        diagnostics: warnings of the plan, what stages reported, and what ended stages.
        reported: of these, what stages reported.
    """

    folder: Path
    record: RunRecord
    exit_code: int
    stages: tuple[StageOutcome, ...]
    comparisons: Mapping[str, Comparison]
    diagnostics: tuple[Diagnostic, ...]
    reported: tuple[Diagnostic, ...] = ()


def execute(
    plan: Plan,
    *,
    scheduler: Scheduler,
    cwd: Path,
    output: Path | None = None,
    clock: Clock | None = None,
    progress: Progress | None = None,
    cache: Path | None = None,
    is_resumed: bool = False,
    keeps_going: bool = False,
    strict: Sequence[str] = (),
    resume_help: str = "",
) -> RunOutcome:
    """Run the plan and write its record.

    After a stage fails only reports of what was compared are still made, unless told to keep going: then only what
    depends on it is skipped.
    After a signal (Ctrl-C, SIGTERM, SIGHUP) the stage under way is ended and no further one begins. The record says so
    in either case.

    Args:
        plan: what to do.
        scheduler: runs the batches of the stages.
        cwd: working directory, for a relative or absent `output`.
        output: folder of the run; None = a new one below ``probe_flow_runs``.
        clock: time, for names and durations.
        progress: hears of every step.
        cache: folder of the cache between runs; None = nothing is kept between runs.
        is_resumed: continue the run in `output`, or the newest one of this workflow.
        keeps_going: after a failed stage, run those that do not depend on it.
        strict: codes of warnings that count as errors, ``x`` for any digit.
        resume_help: what continues the run after a signal; empty where that is `run` itself.

    Raises:
        UsageError: PF6010 to PF6013 when the output folder cannot be used, or warnings of the plan that count as
            errors; nothing ran then.
    """
    severe = [warning for warning in plan.warnings if is_strict(warning, strict)]
    if severe:
        raise WorkflowError([replace(each, severity=Severity.ERROR) for each in severe], plan.workflow.sources)
    clock = clock or Clock()
    name = plan.workflow.name

    def opened() -> RunFolder:
        if is_resumed:
            return reopen_run_folder(output, name, cwd=cwd)
        return open_run_folder(output, name, now=clock.now(), cwd=cwd)

    with Signals() as signals, opened() as folder:
        started = folder.started or clock.now().isoformat(timespec="seconds")
        record = base_record(plan, run_id=folder.run_id, started=started)
        # The record first: from now on the folder is ours, and what is to be deleted is known, whenever this is killed.
        known = tuple(dict.fromkeys((*OWN_FILES, *folder.previous)))
        write_run_json(structs.replace(record, artifacts=known), folder.path / RECORD_NAME)
        folder.clear()
        if folder.lock.was_left:
            remove_scratch()
            if cache is not None:
                remove_leftovers(cache)
        with open_events(folder.path / EVENTS_NAME, run_id=folder.run_id, clock=clock) as log:
            how = cache, keeps_going, strict, resume_help
            run = _Run(plan, folder, scheduler, clock, progress or Silent(), log, record, signals, *how)
            return run.to_end()


@dataclass(slots=True)
class _Run:
    """State of one run."""

    plan: Plan
    folder: RunFolder
    scheduler: Scheduler
    clock: Clock
    progress: Progress
    log: EventLog
    record: RunRecord
    signals: Signals
    cache_folder: Path | None = None
    keeps_going: bool = False
    strict: Sequence[str] = ()
    resume_help: str = ""
    lacks_compiled_code: Event = field(default_factory=Event)
    outcomes: list[StageOutcome] = field(default_factory=list)
    small_files: SmallFiles = field(default_factory=SmallFiles)
    results: Results = field(init=False)
    kept: KeptStages = field(init=False)
    cache: RunCache = field(init=False)
    _forks: Forks = field(init=False)
    _ahead: ReadAhead = field(init=False)
    _began: float = field(init=False)
    _start_ahead: Callable[[Sequence[str]], None] = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock.monotonic()
        self._forks = Forks(self.scheduler.workers, self.plan.executor.memory_bytes, self.log.emit)
        folder, selected = self.folder.path, self.plan.selected
        self.results = Results(selected, folder, self._announce, self._forks, strict=self.strict)
        self.cache = RunCache(
            shared=shared_store(self.cache_folder) if self.cache_folder else None,
            partial=self.folder.path / PARTIAL,
            key=self.plan.workflow.cache.key,
            report=lambda diagnostics: self._report("cache", diagnostics),
            made_by=(self.plan.workflow.name, self.folder.path.name),
        )
        self.kept = KeptStages(self.cache_folder, self.plan, self.cache)
        self._ahead = ReadAhead(self.plan, folder, self._forks, self.kept)

    def to_end(self) -> RunOutcome:
        """Run every stage that can run, then say what came of it."""
        self.log.emit("run.started", workflow=self.plan.workflow.name, stages=len(self.plan.selected))
        with ahead(self.scheduler) as self._start_ahead, closing(self.results), closing(self._ahead):
            for planned in self.plan.stages:
                if planned.stage.type.produces is not Kind.REPORT:
                    self._settle()
                outcome = self._skipped(planned) or self._run_stage(planned)
                self.outcomes.append(outcome)
                self.results.done_with(planned)
                self.progress.stage_ended(outcome)
                self._save()
            self._settle()
        return self._finish(stopped_by=self.signals.number)

    def _skipped(self, planned: PlannedStage) -> StageOutcome | None:
        """Return the outcome of a stage that does not run, None for one that does."""
        name, uses = planned.stage.name, planned.stage.type.uses
        if not planned.is_selected:
            return StageOutcome(name, uses, StageStatus.NOT_SELECTED, reason=planned.reason)
        if self.signals.number:
            return StageOutcome(name, uses, StageStatus.SKIPPED, reason="the run was interrupted before it began")
        ended = {outcome.name: outcome.status for outcome in self.outcomes}
        failed = [name for name, status in ended.items() if status is StageStatus.FAILED]
        lacking = [need for need in planned.needs if ended[need] is not StageStatus.DONE]
        if lacking:
            reason = f"it needs `{lacking[0]}`, which {became(ended[lacking[0]])}"
        elif failed and not self.keeps_going and planned.stage.type.produces is not Kind.REPORT:
            reason = f"stage `{failed[0]}` failed before it; `run --keep-going` runs what does not depend on that"
        else:
            return None
        self.log.emit("stage.skipped", stage=name, reason=reason)
        return StageOutcome(name, uses, StageStatus.SKIPPED, reason=reason)

    def _run_stage(self, planned: PlannedStage) -> StageOutcome:
        stage, began = planned.stage, self.clock.monotonic()
        emit = self._emit_for(stage.name)
        emit("stage.started", uses=stage.type.uses)
        self.progress.stage_started(stage.name, stage.type.uses)
        outcome = StageOutcome(stage.name, stage.type.uses, StageStatus.DONE)

        def work() -> None:
            found = self.kept.find(planned, lambda problem: self._report(stage.name, [problem]))
            if found is not None:
                emit(found.event, **found.fields)
            result = self.results.sharing(self._result_of(planned) if found is None else found.result)
            keep = partial(self.kept.keep, planned, result, self.results.stored_of, self.results.problems)
            self.results.add(planned, result, keep if found is None else nothing)

        outcome = replace(self._tried(outcome, work), wall_s=self.clock.monotonic() - began)
        emit("stage.ended", status=outcome.status.value, wall_s=round(outcome.wall_s, 6), reason=outcome.reason)
        return outcome

    def _settle(self) -> None:
        """Wait for records that are written while reports are; a stage whose records cannot be written failed."""
        for place, outcome in enumerate(self.outcomes):
            if outcome.name == self.results.writing:
                self.outcomes[place] = ended = self._tried(outcome, self.results.settle)
                if ended is not outcome:
                    self.log.emit("stage.ended", stage=ended.name, status=ended.status.value, reason=ended.reason)

    def _result_of(self, planned: PlannedStage) -> object:
        """Do the work of a stage; what a reader finds of small files is held."""
        options, does = options_for_run(planned.stage.options, self.folder.path), planned.stage.type
        filled = self.small_files.filled() if does.produces is Kind.CATALOG else nullcontext()
        with locating(options), filled, held(self.scheduler) as scheduler:
            context = partial(self._context, scheduler=scheduler)
            self._ahead.begin_after(planned, context)
            given = self.results.inputs_of(planned)
            result = self._ahead.result_of(planned) or does.run(options, given, context(planned))
        if not isinstance(result, Catalog):
            return result
        if needs_workers(self.plan, result):
            self._start_ahead(MEASURED_BY)
        return replace(result, problems=located(result.problems, options))

    def _tried(self, outcome: StageOutcome, work: Callable[[], None]) -> StageOutcome:
        """Do a stage's work, which signals end; return its outcome as it was, or how the work failed."""
        try:
            with self.signals.working():
                work()
        except KeyboardInterrupt:
            return replace(outcome, status=StageStatus.INTERRUPTED, reason="interrupted")
        except ProbeFlowError as exc:
            return ended_by(outcome, exc.diagnostics, is_wrong_input=isinstance(exc, UsageError))
        except Exception as exc:  # a stage of any origin: its failure must not take the record of the others along
            self.log.emit("stage.crashed", stage=outcome.name, traceback=traceback.format_exc())
            return ended_by(outcome, (ran_out(exc) or unforeseen(outcome.name, exc),))
        return outcome

    def _context(self, planned: PlannedStage, scheduler: Scheduler) -> Context:
        name, workflow = planned.stage.name, self.plan.workflow
        keeps_tensors, emit = workflow.cache.tensors != "never", self._emit_for(name)
        batches = StageTasks(name, scheduler, progress=self.progress, emit=emit)
        return Context(
            stage=name,
            output=self.folder.path,
            map=batches,
            emit=emit,
            report=lambda diagnostics: self._report(name, diagnostics),
            settings=Settings(
                io=workflow.io,
                metrics_backend=workflow.metrics_backend,
                tensors=tensor_store(self.cache_folder) if keeps_tensors and self.cache_folder else None,
                keeps_all_tensors=workflow.cache.tensors == "always",
                is_resumed=self.folder.is_resumed,
                memory_bytes=self.plan.executor.memory_bytes,
            ),
            facts=self.record,
            cache=self.cache.for_stage(forced=name in self.plan.forced),
            small_files=self.small_files,
            announce=self._announce,
            compile_later=self.lacks_compiled_code.set,
            consumed=planned.stage.inputs,
            place=planned.stage.place,
            isolate=partial(batches.isolated, self.plan.executor.memory_bytes),
            beside=self._forks,
            summary=self.results.summary_of,
        )

    def _compile_for_later_runs(self) -> None:
        from probe_flow.metrics.backends.warm_up import start

        if start(os.environ, memory_bytes=self.plan.executor.memory_bytes):
            self.log.emit("compiling.started")

    def _emit_for(self, stage: str) -> Callable[..., None]:
        def emit(event: str, **fields: Any) -> None:
            self.folder.lock.touch()
            if event == BATCH_LOST:
                self.kept.doubt(stage)
            self.log.emit(event, **{"stage": stage, **fields})

        return emit

    def _announce(self, path: Path) -> None:
        if path.is_relative_to(self.folder.path):
            self.log.emit(FILE_BEGUN, file=str(path.relative_to(self.folder.path)))

    def _report(self, stage: str, diagnostics: Iterable[Diagnostic]) -> None:
        for problem in self.results.report(stage, diagnostics):
            self.log.emit("stage.problem", stage=stage, code=problem.code, message=problem.message)

    def _finish(self, *, stopped_by: int) -> RunOutcome:
        results = self.results
        failed = [outcome for outcome in self.outcomes if outcome.status is StageStatus.FAILED]
        unfinished, incomplete = [*stage_gaps(stage_list(self.outcomes)).values()], results.incomplete()
        code = exit_code(
            stopped_by=stopped_by,
            wrong_input=any(outcome.is_wrong_input for outcome in failed),
            stage_failed=bool(failed),
            incomplete=bool(incomplete),
            gate_failed=bool(results.failed_gates()),
        )
        if stopped_by:
            self.results.report("run", [stopped(stopped_by, self.folder.path, self.resume_help)])
            unfinished.insert(0, f"the run was stopped by {signal.Signals(stopped_by).name}")
        wall_s = round(self.clock.monotonic() - self._began, 6)
        self.record = structs.replace(
            self.record,
            status="interrupted" if stopped_by else "ended",
            verdict=run_verdict(code, compared=bool(results.comparisons)),
            exit_code=code,
            incomplete=(*unfinished, *incomplete),
            timings=structs.replace(self.record.timings, wall_s=wall_s),
        )
        self._end_cache(interrupted=bool(stopped_by))
        self._save(whole=True)
        for folder in {self.folder.path, *((self.folder.path / name).parent for name in results.artifacts)}:
            sync_folder(folder)
        if self.lacks_compiled_code.is_set() and not stopped_by:  # now that it holds up nothing of this run
            self._compile_for_later_runs()
        self.log.emit("run.ended", status=self.record.status, verdict=self.record.verdict, exit_code=code)
        told = self._diagnostics(), tuple(results.problems)
        return RunOutcome(self.folder.path, self.record, code, tuple(self.outcomes), results.comparisons, *told)

    def _end_cache(self, *, interrupted: bool) -> None:
        self.record = structs.replace(self.record, cache=self.cache.facts())
        if not interrupted:
            self.cache.ended()
        limit = self.plan.workflow.cache.max_size
        if limit is not None and self.cache_folder is not None:
            collect_garbage(self.cache_folder, size_bytes(limit))

    def _diagnostics(self) -> tuple[Diagnostic, ...]:
        ended = [diagnostic for outcome in self.outcomes for diagnostic in outcome.diagnostics]
        return (*self.plan.warnings, *self.results.problems, *ended)

    def _save(self, *, whole: bool = False) -> None:
        """Write the record as it stands, so that a run that is killed never leaves an older verdict behind."""
        results = self.results
        self.record = structs.replace(
            with_summaries(self.record, results.summaries).with_reproductions(results.reproductions),
            stages=stage_list(self.outcomes),
            inputs=tuple(results.inputs),
            artifacts=(*OWN_FILES, *results.artifacts),
            problems=problem_facts(self._diagnostics()),
        )
        shown = self.record if whole else so_far(self.record, results.unwritten)
        write_run_json(shown, self.folder.path / RECORD_NAME)
