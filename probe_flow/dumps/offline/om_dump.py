"""Read the device dump of an offline model (OM) into a catalog."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.dumps.device_folders.layout import GeFile, GeFolder, ge_folder, is_time
from probe_flow.dumps.device_folders.nodes import GeNodes
from probe_flow.dumps.device_folders.runs import choose_runs
from probe_flow.dumps.file_names import safe_name
from probe_flow.dumps.manifest import ManifestError, manifest_problems, read_manifest, unreadable_manifest
from probe_flow.dumps.offline.names import name_filter, names_of_quantised
from probe_flow.dumps.offline.om_files import OmFiles, sort_om_files, with_true_names
from probe_flow.dumps.reduced.reduced_tensors import reduced_beside_tensors, task_of
from probe_flow.dumps.selection import (
    EVERYTHING,
    Duplicates,
    Selection,
    keeps_no_execution,
    keeps_no_node,
    one_execution,
)
from probe_flow.errors import Diagnostic, IncompleteError, Severity, UsageError
from probe_flow.files.existing import is_file
from probe_flow.files.walk import DumpListing, fingerprint, list_dump_or_file, no_dump_file
from probe_flow.records import Catalog, DeviceFacts, Execution, Flow, Node, NodeKey, Problem, TensorRef
from probe_flow.records.frameworks import OM


class _Part(Struct, frozen=True):
    folder: GeFolder
    folders: tuple[str, ...]
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
    parts = [_Part(ge_folder((*above, *below)), below, files) for below, files in chosen.items()]
    found: dict[Execution, _Part] = {}
    for part in choose_runs(parts, time, problems):
        other = found.setdefault(part.execution, part)
        if other is not part:
            raise UsageError(one_execution(other.folders, part.folders, "device files", part.execution))
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


Slices = Literal["joined", "separate"]

_MAX_NAMES = 5


def read_om(
    path: str | os.PathLike[str],
    *,
    side: str,
    select: Selection = EVERYTHING,
    duplicates: Duplicates = "newest",
    time: str | None = None,
    last_step: bool = False,
    slices: Slices = "joined",
    quantised: bool | None = None,
) -> Catalog:
    """Describe every tensor of a device dump; tensor data stay on disk.

    Files that cannot be taken become `Catalog.problems`; an operator whose file is damaged stays, with one tensor of
    kind ``unreadable``. `Catalog.attrs` has ``is_quantised``, ``quantised_names`` (some that
    show it), ``op_debug`` (overflow records, for `dumps.device.overflow_records`), ``select`` and, for one device file,
    ``file`` (its name).

    Args:
        path: a folder of device files, any folder of ``{time}/{device_id}/{model_name}/{model_id}/{data_index}``, or
            one device file.
        side: name of the stage.
        select: what to read: ranks are device ids, steps data indices, graphs model ids or model names, nodes patterns
            of true or cleaned operator names.
        duplicates: which of several files of one operator counts.
        time: 14-digit name of the run to read when several overlap; default the newest.
        last_step: read only the last step of each model.
        slices: whether the slices that the device cut an operator into are one node, or one each, whose call is the
            number of the slice.
        quantised: whether the model is quantised; None = told by the names of its operators.

    Raises:
        UsageError: PF3201 if the path or the run is not there, PF3300 files of both sides in one folder, PF3303
            folders that cannot be told apart, PF3304 nothing selected.
        IncompleteError: PF3202 if it holds no device file.
    """
    listing = list_dump_or_file(path)
    root = listing.root
    files = sort_om_files(listing)
    if not files.folders:
        if is_file(Path(path)):
            raise UsageError(no_dump_file(listing.files[0], "named as device files are"))
        raise IncompleteError(_nothing_to_read(root, listing, files))
    problems = files.problems
    problems.extend(_unlike_manifest(listing))
    executions = om_executions(files.folders, select, problems, root_name=root.name, time=time, last_step=last_step)
    problems.extend(select.unanswered(executions))
    found, tensors = _read(executions, name_filter(select.nodes), duplicates, slices, problems)
    if not found:
        raise UsageError(keeps_no_node(file.name.base_name for files in executions.values() for file in files))
    marks = names_of_quantised(
        (file.name.base_name, file.name.op_type) for members in executions.values() for file in members
    )
    return Catalog(
        side,
        OM,
        task_of(tensors),
        str(root),
        found,
        tuple(tensors),
        problems=tuple(problems),
        fingerprint=fingerprint(listing.files),
        attrs={
            "select": select.as_attrs(),
            "is_quantised": bool(marks) if quantised is None else quantised,
            "quantised_names": marks[:_MAX_NAMES],
            "op_debug": tuple(files.op_debug),
            **({"file": listing.files[0].name} if is_file(Path(path)) else {}),
        },
        flow=Flow.GRAPH,
    )


def _unlike_manifest(listing: DumpListing) -> list[Problem]:
    """Return what is wrong with a dump of ours, or with the manifest in it; nothing for one of another program."""
    try:
        manifest = read_manifest(listing.root)
    except ManifestError as error:
        return [unreadable_manifest(listing.root, error)]
    if manifest is None:
        return []
    return [*manifest_problems(listing.root, manifest, {str(file.relative) for file in listing.files})]


def _read(
    executions: Mapping[Execution, Sequence[GeFile]],
    takes: Callable[[str], bool],
    duplicates: Duplicates,
    slices: Slices,
    problems: list[Problem],
) -> tuple[dict[NodeKey, Node], list[TensorRef]]:
    """Return the operators that are taken and their tensors; add to ``problems`` what is wrong with their files."""
    found: dict[NodeKey, Node] = {}
    tensors: list[TensorRef] = []
    beside: list[str] = []
    for execution, members in executions.items():
        reader = GeNodes(execution, None, takes, duplicates, keeps_slices=slices == "separate")
        for node, refs in reader.read(with_true_names(members)):
            found[node.key] = _with_names(node)
            tensors.extend(refs)
        problems.extend(reader.problems)
        beside.extend(reader.beside)
    problems.extend(
        _renamed(node, node.facts.header_name)
        for node in found.values()
        if isinstance(node.facts, DeviceFacts) and node.facts.header_name is not None
    )
    if beside:
        problems.append(reduced_beside_tensors(beside))
    return found, tensors


def _with_names(node: Node) -> Node:
    facts = node.facts
    assert isinstance(facts, DeviceFacts)
    return replace(node, facts=replace(facts, clean_name=safe_name(node.key.name)))


def _renamed(node: Node, header_name: str) -> Problem:
    return Diagnostic(
        "PF3302",
        f"`{node.file}` is named after `{node.key.name}`, its header names `{header_name}`",
        severity=Severity.WARNING,
        help="the name of the file counts; give the file its own name again if it was renamed",
        path=node.file,
    )


def _nothing_to_read(root: Path, listing: DumpListing, files: OmFiles) -> Diagnostic:
    found = [f"{count} x {what}" for what, count in files.odd.items()]
    found += [f"{len(files.op_debug)} x overflow record"] if files.op_debug else []
    if listing.files:
        what = ", ".join(found) or "nothing"
        message = f"`{root.name}` holds no device dump file; found {what} in {len(listing.files)} files"
    else:
        message = f"`{root.name}` holds no device dump file, nor any other"
    return Diagnostic(
        "PF3202",
        message,
        help="these look like arrays of a framework: read them with `dump.npy`"
        if files.arrays
        else "give the folder of a finished dump",
        notes=(
            "looked for `{op_type}.{op_name}.{task_id}.{stream_id}.{timestamp}` in any folder",
            "outputs of an original model are arrays named `{op_name}.{index}.{timestamp}.npy`",
        ),
        path=str(root),
    )
