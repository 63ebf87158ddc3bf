"""A plan as text: for people, as a record for programs, and as a picture in Mermaid or DOT (graphviz)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from probe_flow.cli.terminal.running import shown_path
from probe_flow.errors import ProbeFlowError

if TYPE_CHECKING:
    from probe_flow.engine.run.plan import Plan, PlannedStage


def show_plan(plan: Plan) -> None:
    """Print a plan for people."""
    for line in plan_lines(plan, Path.cwd()):
        click.echo(line)


def plan_record(plan: Plan) -> dict[str, Any]:
    """Return the plan for programs."""
    executor = plan.executor
    return {
        "workflow": {"name": plan.workflow.name, "path": str(plan.workflow.path)},
        "stages": [_stage_record(planned) for planned in plan.stages],
        "size_bytes": plan.size_bytes,
        "executor": {"scheduler": executor.scheduler, "workers": executor.workers, "reason": executor.reason},
        "warnings": [warning.to_dict() for warning in plan.warnings],
    }


def _stage_record(planned: PlannedStage) -> dict[str, Any]:
    stage = planned.stage
    return {
        "name": stage.name,
        "uses": stage.type.uses,
        "kind": stage.type.produces.value,
        "inputs": {option: list(names) for option, names in stage.inputs.items()},
        "runs": planned.is_selected,
        "reason": planned.reason,
        "writes_bytes": _writes(planned),
        "paths": [
            {
                "option": size.option,
                "path": size.path,
                "files": size.files,
                "size_bytes": size.size_bytes,
                "complete": size.is_complete,
            }
            for size in planned.sizes
        ],
    }


def plan_lines(plan: Plan, cwd: Path) -> Iterator[str]:
    """Yield the plan for people."""
    from rich.filesize import decimal

    workflow = plan.workflow
    yield workflow.name + (f": {workflow.description}" if workflow.description else "")
    yield ""
    name_width = max(len(planned.stage.name) for planned in plan.stages)
    uses_width = max(len(planned.stage.type.uses) for planned in plan.stages)
    for planned in plan.stages:
        stage = planned.stage
        mark = "run " if planned.is_selected else "skip"
        arrow = f" <- {', '.join(planned.needs)}" if planned.needs else ""
        yield f"  {mark}  {stage.name:<{name_width}}  {stage.type.uses:<{uses_width}}  {planned.reason}{arrow}"
        for line in _size_lines(planned, cwd):
            yield f"  {'':<{name_width + 6}}  {line}"
        if (writes := _writes(planned)) is not None:
            told = f"about {decimal(writes)}" if isinstance(writes, int) else writes
            yield f"  {'':<{name_width + 6}}  writes {told}"
    yield ""
    executor = plan.executor
    workers = "1 worker" if executor.workers == 1 else f"{executor.workers or 'all'} workers"
    yield f"{len(plan.selected)} of {len(plan.stages)} stages run, {decimal(plan.size_bytes)} below their input paths"
    yield f"scheduler: {executor.scheduler}, {workers} ({executor.reason})"
    yield from cache_lines(plan)


def cache_lines(plan: Plan) -> Iterator[str]:
    """Yield what the cache holds of the plan's comparisons, and what caused the misses. An empty cache is not read."""
    from probe_flow.engine.cache import cache_folder, comparison_store, shared_store

    folder = cache_folder(plan.workflow.cache.dir, os.environ)
    if not any(shared_store(folder).glob("*.h5")) and not any(comparison_store(folder).glob("*")):
        yield f"cache: nothing is kept in {folder} yet"
        return
    from probe_flow.files.machine import check_address_space

    try:
        check_address_space(os.environ)
        from probe_flow.engine.run.cache_state import cache_states, causes_text

        for state in cache_states(plan, folder):
            yield f"cache: {state.stage}: {causes_text(state)}"
    except ProbeFlowError as error:  # what a run will say in full; the plan itself is right
        yield f"cache: not known: {error.diagnostic.message}"


def _writes(planned: PlannedStage) -> int | str | None:
    """Return about how many bytes a stage would write, or what is known of it; None where there is nothing to say."""
    stage = planned.stage
    forecast = stage.type.foresee(stage.options) if planned.is_selected else None
    return forecast.writes() if forecast is not None and forecast.writes is not None else None


def _size_lines(planned: PlannedStage, cwd: Path) -> Iterator[str]:
    from rich.filesize import decimal

    for size in planned.sizes:
        at_least = "" if size.is_complete else "at least "
        files = "1 file" if size.files == 1 else f"{size.files:,} files"
        yield f"{size.option}: {shown_path(Path(size.path), cwd)} ({at_least}{files}, {decimal(size.size_bytes)})"


def mermaid(plan: Plan) -> str:
    """Return the plan as a Mermaid flow chart; stages that do not run are dashed."""
    ids = _ids(plan)
    lines = ["flowchart LR"]
    for planned in plan.stages:
        label = "<br/>".join(map(_mermaid_text, _label(planned)))
        lines.append(f'  {ids[planned.stage.name]}["{label}"]')
    lines += [f"  {ids[giver]} --> {ids[taker]}" for giver, taker in _wires(plan)]
    left_out = [ids[planned.stage.name] for planned in plan.stages if not planned.is_selected]
    if left_out:
        lines += ["  classDef left stroke-dasharray: 4 4", f"  class {','.join(left_out)} left"]
    return "\n".join(lines) + "\n"


def dot(plan: Plan) -> str:
    """Return the plan as a directed graph for graphviz; stages that do not run are dashed."""
    lines = [f"digraph {json.dumps(plan.workflow.name)} {{", "  rankdir=LR;", "  node [shape=box];"]
    for planned in plan.stages:
        style = "" if planned.is_selected else ", style=dashed"
        lines.append(f"  {json.dumps(planned.stage.name)} [label={_dot_text(_label(planned))}{style}];")
    lines += [f"  {json.dumps(giver)} -> {json.dumps(taker)};" for giver, taker in _wires(plan)]
    return "\n".join([*lines, "}"]) + "\n"


def _ids(plan: Plan) -> dict[str, str]:
    return {planned.stage.name: f"s{number}" for number, planned in enumerate(plan.stages)}


def _label(planned: PlannedStage) -> tuple[str, str]:
    return planned.stage.name, planned.stage.type.uses


def _wires(plan: Plan) -> list[tuple[str, str]]:
    known = {planned.stage.name for planned in plan.stages}
    wires = ((name, each.stage.name) for each in plan.stages for names in each.stage.inputs.values() for name in names)
    return list(dict.fromkeys((giver, taker) for giver, taker in wires if giver in known))


def _mermaid_text(text: str) -> str:
    return "".join(char if char.isalnum() or char in " ._-=[,]" else f"#{ord(char)};" for char in text)


def _dot_text(lines: tuple[str, str]) -> str:
    return '"' + "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines) + '"'
