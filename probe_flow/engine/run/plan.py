"""The plan: which stages run, in which order and why, over how much data. Made without Dask and without numpy."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.engine.cache import cache_folder
from probe_flow.engine.run.paths import PathSize, input_paths, measure_path
from probe_flow.engine.schedulers.base import Scheduler
from probe_flow.engine.schedulers.executor import Executor, plan_executor
from probe_flow.errors import Diagnostic, Severity, Span, UsageError, WorkflowError, did_you_mean
from probe_flow.files.existing import exists, is_readable, why_missing
from probe_flow.stages.base import Kind
from probe_flow.workflow.model import ResolvedStage, Workflow
from probe_flow.workflow.sources import COMMAND_LINE, OPTION, PYTHON


class PlannedStage(Struct, frozen=True):
    """One stage of the plan.

    Args:
        stage: the stage with its options.
        is_selected: whether it runs.
        reason: why it runs, or why not.
        sizes: what lies below its input paths; empty when it does not run.
    """

    stage: ResolvedStage
    is_selected: bool
    reason: str
    sizes: tuple[PathSize, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the stages whose results it takes, each once."""
        return needs(self.stage)


class Plan(Struct, frozen=True):
    """What a run would do.

    Args:
        workflow: the workflow.
        stages: all of them, in the order in which they run.
        executor: how the work is spread.
        warnings: what is worth saying before anything runs, the workflow's own warnings included.
        forced: stages that ignore what was measured before.
    """

    workflow: Workflow
    stages: tuple[PlannedStage, ...]
    executor: Executor
    warnings: tuple[Diagnostic, ...] = ()
    forced: frozenset[str] = frozenset()

    @property
    def selected(self) -> tuple[PlannedStage, ...]:
        """The stages that run."""
        return tuple(planned for planned in self.stages if planned.is_selected)

    @property
    def size_bytes(self) -> int:
        """Bytes below all input paths of the stages that run."""
        return sum(size.size_bytes for planned in self.selected for size in planned.sizes)


def make_plan(
    workflow: Workflow,
    *,
    only: Sequence[str] = (),
    until: str | None = None,
    start: str | None = None,
    force: Sequence[str] = (),
    scheduler: str | None = None,
    workers: int | None = None,
) -> Plan:
    """Return the plan of a workflow, its paths checked. Samples that it brings are unpacked.

    Args:
        workflow: the validated workflow.
        only: run these stages and what they need; empty = all. Here and below, the name of a stage with a matrix means
            all its variants, ``stage[a=1]`` those with this value.
        until: run nothing that comes after this stage.
        start: run this stage, what comes after it, and what these need.
        force: stages that measure again what was measured before.
        scheduler: in place of the workflow's own.
        workers: in place of the workflow's own.

    Raises:
        WorkflowError: every missing (PF2101) and unreadable (PF2102) path at once, and what stages foresee.
        UsageError: PF2103 for an unknown scheduler, PF6105 for one whose package is not installed, PF5116 for a
            metrics backend whose package is not; PF6107 for a memory limit below what one worker needs; PF2108 for a
            name that no stage has; PF2111 for samples that cannot be unpacked.
    """
    named = _named(workflow, [*only, *force, *(name for name in (until, start) if name is not None)])
    selected = _select(
        workflow,
        [each for name in only for each in named[name]],
        frozenset(named[until] if until is not None else ()),
        named[start] if start is not None else (),
    )
    workflow = _with_samples(workflow)
    _check_paths(workflow, [stage for stage in workflow.stages if stage.name in selected])
    stages = tuple(_planned(stage, workflow, selected) for stage in workflow.stages)
    total = sum(size.size_bytes for planned in stages for size in planned.sizes)
    executor = plan_executor(workflow, total, scheduler=scheduler, workers=workers)
    warnings = (*workflow.warnings, *_same_folders(stages))
    return Plan(workflow, stages, executor, warnings, frozenset(each for name in force for each in named[name]))


def with_scheduler(plan: Plan, scheduler: Scheduler) -> Plan:
    """Return the plan with what is known only once its scheduler is there: workers of a cluster, and warnings."""
    executor = plan.executor
    if executor.workers is None:
        executor = replace(executor, workers=scheduler.workers)
    return replace(plan, executor=executor, warnings=(*plan.warnings, *scheduler.warnings))


def needs(stage: ResolvedStage) -> tuple[str, ...]:
    """Return the names of the stages that a stage takes results from, each once, in the order of its options."""
    return tuple(dict.fromkeys(name for names in stage.inputs.values() for name in names))


def _with_samples(workflow: Workflow) -> Workflow:
    if not workflow.is_sample:
        return workflow
    from probe_flow.workflow.templates.samples import unpacked

    return unpacked(workflow, cache_folder(workflow.cache.dir, os.environ))


def _named(workflow: Workflow, names: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return the stages that each name on a command line means: one, all variants of one, or some of them.

    Raises:
        UsageError: PF2108 for every name that no stage has.
    """
    known = [stage.name for stage in workflow.stages]
    found = {name: [stage.name for stage in workflow.stages if _is_meant(stage, name)] for name in names}
    problems = [
        Diagnostic(
            "PF2108",
            f"workflow `{workflow.name}` has no stage `{name}`",
            help=did_you_mean(name, known) or "stages: " + ", ".join(known),
        )
        for name in names
        if not found[name]
    ]
    if problems:
        raise UsageError(problems)
    return found


def _is_meant(stage: ResolvedStage, name: str) -> bool:
    if name == stage.name:
        return True
    base, bracket, values = name.partition("[")
    own, _, _ = stage.name.partition("[")
    if base != own or own == stage.name or (bracket and not values.endswith("]")):
        return False
    given = dict(each.partition("=")[::2] for each in values[:-1].split(",")) if bracket else {}
    return all(key in stage.variant and _text(stage.variant[key]) == value for key, value in given.items())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _select(workflow: Workflow, only: Sequence[str], until: Collection[str], start: Sequence[str]) -> frozenset[str]:
    """Return the names of the stages that run: what `only` and `start` need, without what follows `until`."""
    upstream = {stage.name: needs(stage) for stage in workflow.stages}
    chosen = _closure(only, upstream) if only else set(upstream)
    if start:
        after = [name for name in upstream if not _closure([name], upstream).isdisjoint(start)]
        chosen &= _closure(after, upstream)
    if until:
        chosen -= {name for name in upstream if name not in until and not _closure([name], upstream).isdisjoint(until)}
    return frozenset(chosen)


def _closure(names: Collection[str], upstream: Mapping[str, Sequence[str]]) -> set[str]:
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(upstream[name])
    return found


def _planned(stage: ResolvedStage, workflow: Workflow, selected: Collection[str]) -> PlannedStage:
    if stage.name not in selected:
        return PlannedStage(stage, is_selected=False, reason="left out by the command line")
    consumers = [other.name for other in workflow.stages if other.name in selected and stage.name in needs(other)]
    if consumers:
        reason = "needed by " + ", ".join(f"`{name}`" for name in consumers)
    else:
        reason = "its result is what the run is for"
    forecast = stage.type.foresee(stage.options)
    if forecast is not None:
        reason += f"; it {forecast.does}"
    sizes = tuple(measure_path(option, path) for option, path in input_paths(stage.options, data_only=True))
    return PlannedStage(stage, is_selected=True, reason=reason, sizes=sizes)


def _check_paths(workflow: Workflow, stages: Sequence[ResolvedStage]) -> None:
    problems = [
        problem
        for stage in stages
        for option, path in input_paths(stage.options)
        for problem in _path_problem(workflow, stage, option, path)
    ]
    problems.extend(problem for stage in stages for problem in _foreseen_problems(stage, workflow))
    if problems:
        raise WorkflowError(problems, workflow.sources)


def _foreseen_problems(stage: ResolvedStage, workflow: Workflow) -> Iterator[Diagnostic]:
    forecast = stage.type.foresee(stage.options)
    if forecast is None:
        return
    problems = list(forecast.problems)
    if forecast.problems_with is not None:
        options = {each.name: each.options for each in workflow.stages}
        given = {option: [options[name] for name in names] for option, names in stage.inputs.items()}
        problems.extend(forecast.problems_with(given))
    for problem in problems:
        yield replace(problem, span=problem.span or stage.span, stage=stage.name)


def _path_problem(workflow: Workflow, stage: ResolvedStage, option: str, path: Path) -> Iterator[Diagnostic]:
    if is_readable(path):
        return
    if exists(path):
        code, what, label = "PF2102", "cannot be read: permission denied", "not readable"
        hint = "give yourself the right to read it, or name another path"
    else:
        code, label = "PF2101", "no such file or folder"
        what, hint = why_missing(path)
    yield Diagnostic(
        code,
        f"{option} of stage `{stage.name}`: `{path}` {what}",
        span=_set_span(workflow, path) or stage.span,
        label=label,
        help=hint,
        stage=stage.name,
        path=str(path),
    )


def _set_span(workflow: Workflow, path: Path) -> Span | None:
    """Return the place of the `--set`, or of the argument, that gave this path, None when it comes from the file."""
    for place in (COMMAND_LINE, PYTHON):
        for number, line in enumerate(workflow.sources.get(place, "").split("\n"), 1):
            option, _, value = line.partition("=")
            if workflow.params.get(option.removeprefix(OPTION)) == str(path):
                column = len(option) + 2
                return Span(place, number, column, number, column + len(value))
    return None


def _same_folders(stages: Sequence[PlannedStage]) -> Iterator[Diagnostic]:
    """Yield a warning for each dump stage that reads what an earlier one reads.

    Stages of two kinds take each its own files from a folder that holds several dumps.
    """
    seen: dict[tuple[Path, str], str] = {}
    for planned in stages:
        if not planned.is_selected or planned.stage.type.produces is not Kind.CATALOG:
            continue
        for _, path in input_paths(planned.stage.options, data_only=True):
            first = seen.setdefault((path.resolve(), planned.stage.type.uses), planned.stage.name)
            if first != planned.stage.name:
                yield Diagnostic(
                    "PF2110",
                    f"stages `{first}` and `{planned.stage.name}` read the same dump `{path}`",
                    Severity.WARNING,
                    span=planned.stage.span,
                    label="same dump again",
                    help="a dump always agrees with itself; name the other side's dump",
                    stage=planned.stage.name,
                )
