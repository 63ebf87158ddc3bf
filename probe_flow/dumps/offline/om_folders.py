"""Give the device files of an offline dump their executions.

A folder of files without any order above it is one execution. The tree that a model run leaves is
``[{time14}/]{device_id}/{model_name}/{model_id}/{data_index}``; any folder of it may be the dump that is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from probe_flow.dumps.device.dump_files import GeFile
from probe_flow.dumps.device.layout import GeFolder, ge_folder, is_time
from probe_flow.dumps.device.runs import choose_runs
from probe_flow.dumps.selection import Selection, keeps_no_execution
from probe_flow.errors import Diagnostic, Severity, UsageError
from probe_flow.records import Execution, Problem


@dataclass(frozen=True, slots=True)
class _Part:
    folder: GeFolder
    where: str
    files: Sequence[GeFile]

    @property
    def rank(self) -> int | None:
        return self.folder.device

    @property
    def execution(self) -> Execution:
        place = self.folder
        return Execution(place.device, place.step, place.model_id, device=place.device, model=place.model_name)


def om_executions(
    folders: Mapping[tuple[str, ...], Sequence[GeFile]],
    selection: Selection,
    problems: list[Problem],
    *,
    root_name: str,
    time: str | None = None,
    last_step: bool = False,
) -> dict[Execution, Sequence[GeFile]]:
    """Return the selected executions with their files, by rank, model and step.

    Args:
        folders: the files by folder below the root.
        selection: what to read; ``graphs`` may name model ids or models.
        problems: gets what was decided.
        root_name: name of the root, which may be a time.
        time: the run to read when several overlap; default the newest.
        last_step: read only the last step of each model.

    Raises:
        UsageError: PF3201 when ``time`` names no run, PF3303 when two folders would be one execution, PF3304 when the
            selection keeps nothing.
    """
    above = (root_name,) if is_time(root_name) else ()
    flat = folders.get((), ())
    if flat:
        problems.extend(_not_read(below, files) for below, files in folders.items() if below)
    chosen = {(): flat} if flat else folders
    parts = [_Part(ge_folder((*above, *below)), "/".join(below), files) for below, files in chosen.items()]
    found: dict[Execution, _Part] = {}
    for part in choose_runs(parts, time, problems):
        other = found.setdefault(part.execution, part)
        if other is not part:
            raise UsageError(_one_execution(part, other))
    kept = [execution for execution in found if _is_selected(execution, selection)]
    if not kept:
        raise UsageError(keeps_no_execution(found))
    if last_step:
        kept = _last_steps(kept)
    return {execution: found[execution].files for execution in sorted(kept, key=_order)}


def _is_selected(execution: Execution, selection: Selection) -> bool:
    rank, step = execution.rank, execution.step
    graphs = (execution.graph, execution.model)
    return any(selection.takes_execution(rank, step, graph) for graph in graphs if graph is not None) or (
        graphs == (None, None) and selection.takes_execution(rank, step, None)
    )


def _last_steps(executions: Sequence[Execution]) -> list[Execution]:
    last: dict[tuple[object, ...], Execution] = {}
    by_model: dict[tuple[object, ...], list[Execution]] = defaultdict(list)
    for execution in executions:
        by_model[(execution.rank, execution.model, execution.graph)].append(execution)
    for model, steps in by_model.items():
        last[model] = max(steps, key=lambda execution: -1 if execution.step is None else execution.step)
    return list(last.values())


def _order(execution: Execution) -> tuple[object, ...]:
    numbers = (execution.rank, execution.graph, execution.step)
    rank, graph, step = (number if isinstance(number, int) else -1 for number in numbers)
    return rank, execution.model or "", graph, step


def _not_read(below: tuple[str, ...], files: Sequence[GeFile]) -> Problem:
    where = "/".join(below)
    return Diagnostic(
        "PF3305",
        f"{len(files)} device files in `{where}` are not read: the folder above it holds device files itself",
        severity=Severity.WARNING,
        help=f"give `{where}` as `path` of a stage of its own if it is a dump too",
        path=where,
    )


def _one_execution(part: _Part, other: _Part) -> Diagnostic:
    return Diagnostic(
        "PF3303",
        f"the device files in `{other.where}` and `{part.where}` cannot be told apart: both are {part.execution}",
        help="give one of the two folders as `path`; folders of one dump are named "
        "`{device_id}/{model_name}/{model_id}/{data_index}`",
        path=part.where,
    )
