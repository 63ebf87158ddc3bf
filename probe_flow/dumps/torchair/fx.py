"""Read a TorchAir FX dump (`msprobe_fx_dump`, `data_dump`) into a catalog: fx nodes with their arrays.

A node's arrays are its positional arguments and its results; numbers and lists of integers are arrays too. Nothing is
unpickled: arrays of objects and texts are opaque. Arrays of one node share a time stamp.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field, structs
from msgspec.structs import replace

from probe_flow.dumps.device_folders.layout import (
    MAPPING_FILE,
    FxFolder,
    fx_folder,
    hashed_without_mapping,
    not_a_dump_file,
    rank_of,
)
from probe_flow.dumps.file_names import (
    FxFileName,
    is_hashed,
    node_of,
    parse_fx_name,
    parse_ge_name,
    read_name_mapping,
    real_name,
    stem_of,
)
from probe_flow.dumps.reduced.reduced_tensors import array_ref, reduced_beside_tensors, task_of
from probe_flow.dumps.selection import (
    EVERYTHING,
    Duplicates,
    Selection,
    choose,
    keeps_no_execution,
    keeps_no_node,
    left_out_duplicate,
    one_execution,
)
from probe_flow.dumps.torchair.fx_manifest import MANIFESTS, manifest_problems
from probe_flow.errors import Diagnostic, FormatError, IncompleteError, UsageError
from probe_flow.files.arrays.npy import npy_tensor_ref
from probe_flow.files.walk import DumpFile, DumpListing, dump_root, fingerprint, list_dump
from probe_flow.records import Catalog, Execution, Node, NodeKey, Problem, SlotRole, TensorKind, TensorRef, TensorTables
from probe_flow.records.frameworks import TORCHAIR_FX

_DUMP_FOLDERS = ("msprobe_fx_dump", "data_dump")


def read_torchair_fx(
    path: str | os.PathLike[str],
    *,
    side: str,
    select: Selection = EVERYTHING,
    duplicates: Duplicates = "newest",
) -> Catalog:
    """Describe every array of an FX dump; array data stay on disk.

    A node is named as in the fx graph (``add_1``), its type is the target (``aten.add.Tensor``). `Node.order` is the
    time stamp of its files. Steps count from 0 in every layout. Executions under ``gm_*_dump`` folders have that
    folder's name as graph.

    Args:
        path: `msprobe_fx_dump`, `msprobe_fx_dump/data_dump`, `data_dump`, or the folder that holds one of them.
        side: name of the stage.
        select: what to read.
        duplicates: which files count when a node was dumped twice in one step.

    Raises:
        UsageError: PF3201 if the folder is not there, PF3303 if it holds two dumps of one execution.
        IncompleteError: PF3202 if it holds no FX dump.
    """
    root = _fx_root(dump_root(path))
    listing = list_dump(root)
    files = _sort_files(listing)
    if not any(files.folders.values()):
        raise IncompleteError(_nothing_to_read(root, listing, files))
    problems = files.problems
    catalog_nodes: dict[NodeKey, Node] = {}
    tables = TensorTables()
    tensors: list[TensorRef] = []
    beside: list[str] = []
    executions = _executions(files, root, select)
    problems.extend(select.unanswered(structs.replace(each, graph=_known_graph(each.graph)) for each in executions))
    for execution, members in executions.items():
        for node, refs in _read_execution(execution, members, select, duplicates, problems, beside):
            catalog_nodes[node.key] = node
            tensors.extend(ref.stored_in(tables) for ref in refs)
    if executions and not catalog_nodes and select.nodes is not None:
        problems.append(keeps_no_node(file.name.node for members in executions.values() for file in members))
    if beside:
        problems.append(reduced_beside_tensors(beside))
    return Catalog(
        side,
        TORCHAIR_FX,
        task_of(tensors),
        str(root),
        catalog_nodes,
        tuple(tensors),
        problems=tuple(problems),
        fingerprint=fingerprint(listing.files),
        attrs={"select": select.as_attrs()},
    )


def _fx_root(path: Path) -> Path:
    """Return the dump folder itself when its parent was given."""
    if any(rank_of(entry.name) is not None for entry in path.iterdir()):
        return path
    inner = path / _DUMP_FOLDERS[0]
    if inner.is_dir() and not inner.is_symlink():
        path = inner
    inner = path / _DUMP_FOLDERS[1]
    # The two layouts of one dump folder are read together; a folder that merely lies beside other things is entered.
    if inner.is_dir() and not inner.is_symlink() and path.name != _DUMP_FOLDERS[0]:
        path = inner
    return path


class _FxFile(Struct, frozen=True, gc=False):
    file: DumpFile
    name: FxFileName


class _FxFiles(Struct):
    folders: dict[tuple[str, ...], list[_FxFile]] = field(default_factory=lambda: defaultdict(list))
    problems: list[Problem] = field(default_factory=list)
    odd: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def _sort_files(listing: DumpListing) -> _FxFiles:
    files = _FxFiles(problems=[*listing.problems, *manifest_problems(listing.files)])
    mappings: dict[tuple[str, ...], Mapping[str, str]] = {}
    for file in listing.files:
        if file.name == MAPPING_FILE:
            mappings[file.folders], bad = read_name_mapping(Path(file.path), file.relative)
            files.problems.extend(bad)
    for file in listing.files:
        parsed = parse_fx_name(file.name)
        if parsed is None:
            parsed = _otherwise(file, mappings, files)
        if parsed is not None:
            files.folders[file.folders].append(_FxFile(file, parsed))
    return files


def _otherwise(
    file: DumpFile, mappings: Mapping[tuple[str, ...], Mapping[str, str]], files: _FxFiles
) -> FxFileName | None:
    """Return the name behind a hashed one; report what is no array of the dump."""
    if file.name == MAPPING_FILE or (file.name.startswith("dump_options_") and file.name.endswith(".json")):
        return None
    if file.name in MANIFESTS:
        return None
    name: str | None = file.name
    dumped = stem_of(file.name) if file.name.endswith(".npy") else None
    if is_hashed(file.name) or (dumped is not None and is_hashed(dumped)):
        name = real_name(dumped or file.name, mappings.get(file.folders, {}))
    parsed = parse_fx_name(name) if name is not None else None
    if parsed is not None:
        return structs.replace(parsed, is_reduced=True) if dumped is not None else parsed
    if name is None:
        files.odd["hashed name"] += 1
        files.problems.append(hashed_without_mapping(file, f"`{MAPPING_FILE}` beside it does not name it"))
    else:
        what = _what(file)
        files.odd[what] += 1
        files.problems.append(not_a_dump_file(file, what))
    return None


def _what(file: DumpFile) -> str:
    if file.name.startswith("."):
        return "hidden file"
    if file.name.startswith("dynamo_"):
        return "graph text of a device dump"
    if not file.name.endswith((".npy", ".json", ".csv", ".txt")) and parse_ge_name(file.name) is not None:
        return "device dump file"
    return "array of another program" if file.name.endswith(".npy") else "file of another kind"


def _executions(files: _FxFiles, root: Path, selection: Selection) -> dict[Execution, list[_FxFile]]:
    """Return the executions in order of rank, graph and step; arrays of one execution in several folders are joined.

    Raises:
        UsageError: PF3303 when two of these folders hold the same node, so that they are two dumps.
    """
    found: dict[FxFolder, list[_FxFile]] = defaultdict(list)
    for folders, members in files.folders.items():
        place = fx_folder(folders, root_name=root.name)
        held = {file.name.key: file.file.folders for file in found[place]}
        other = next((held[file.name.key] for file in members if file.name.key in held), None)
        if other is not None:
            execution = Execution(place.rank, place.step, place.graph)
            raise UsageError(one_execution(other, folders, "arrays", execution))
        found[place].extend(members)
    ordered = {
        Execution(folder.rank, folder.step, folder.graph): found[folder] for folder in sorted(found, key=_folder_order)
    }
    kept = {
        each: members
        for each, members in ordered.items()
        if selection.takes_execution(each.rank, each.step, _known_graph(each.graph))
    }
    if not kept:
        files.problems.append(keeps_no_execution(ordered))
    return kept


def _known_graph(graph: int | str | None) -> int | str | None:
    """A ``gm_*_dump`` folder is no graph id: a selection of graphs cannot exclude it."""
    return None if isinstance(graph, str) else graph


def _folder_order(folder: FxFolder) -> tuple[int, int, int, str, int]:
    graph = folder.graph
    number, text = (graph, "") if isinstance(graph, int) else (-1, graph or "")
    return (
        -1 if folder.rank is None else folder.rank,
        1 if text else 0,
        number,
        text,
        -2 if folder.step is None else folder.step,
    )


def _read_execution(
    execution: Execution,
    files: Sequence[_FxFile],
    selection: Selection,
    duplicates: Duplicates,
    problems: list[Problem],
    beside: list[str],
) -> Iterator[tuple[Node, list[TensorRef]]]:
    takes = selection.node_filter()
    groups: dict[str, dict[int, list[_FxFile]]] = defaultdict(lambda: defaultdict(list))
    for file in sorted(files, key=lambda file: file.file.relative):
        groups[file.name.key][file.name.timestamp].append(file)
    chosen = [_one_run(runs, duplicates, problems, beside) for key, runs in groups.items() if takes(node_of(key))]
    names: dict[str, int] = defaultdict(int)
    for members in sorted(chosen, key=lambda members: (members[0].name.timestamp, members[0].name.key)):
        first = members[0].name
        name = first.node
        key = NodeKey(execution, name, call=names[name])
        names[name] += 1
        node = Node(key, first.target, order=first.timestamp)
        yield node, [_tensor(key, file, problems) for file in members]


def _one_run(
    runs: Mapping[int, list[_FxFile]], duplicates: Duplicates, problems: list[Problem], beside: list[str]
) -> list[_FxFile]:
    """Return the files of one run of a node in slot order; the files of its other runs are reported."""
    members = list(runs.values())
    kept = choose(
        members,
        duplicates,
        timestamp=lambda run: run[0].name.timestamp,
        size=lambda run: sum(file.file.size for file in run),
    )
    for run in members:
        if run is not kept:
            problems.extend(left_out_duplicate(file.file, kept[0].file, duplicates) for file in run)
    slots: dict[tuple[object, ...], _FxFile] = {}
    for file in kept:
        identity = (file.name.slot.role, file.name.slot.path)
        known = slots.get(identity)
        if known is None:
            slots[identity] = file
        elif known.name.is_reduced and not file.name.is_reduced:
            slots[identity] = file
            beside.append(known.file.relative)
        elif file.name.is_reduced and not known.name.is_reduced:
            beside.append(file.file.relative)
        else:
            problems.append(left_out_duplicate(file.file, known.file, "first"))
    return sorted(slots.values(), key=_slot_order)


def _slot_order(file: _FxFile) -> tuple[bool, tuple[int | str, ...]]:
    slot = file.name.slot
    return slot.role is SlotRole.OUTPUT, slot.path


def _tensor(key: NodeKey, file: _FxFile, problems: list[Problem]) -> TensorRef:
    slot = file.name.slot
    try:
        if file.name.is_reduced:
            return array_ref(file.file.path, key, slot)
        return npy_tensor_ref(file.file.path, key, slot)
    except FormatError as error:
        problems.append(replace(error.diagnostic, path=file.file.relative))
        reason = error.diagnostic.message
        return TensorRef.of(key, slot, TensorKind.UNREADABLE, reason=reason, source=file.file.path)


def _nothing_to_read(root: Path, listing: DumpListing, files: _FxFiles) -> Diagnostic:
    found = ", ".join(f"{count} x {what}" for what, count in files.odd.items())
    help_text = "give the folder `msprobe_fx_dump` (or `data_dump`) of a finished dump"
    if any("device" in what for what in files.odd):
        help_text = "this is a device dump: give an FX dump, or read it with `dump.torchair_ge` to compare two of them"
    return Diagnostic(
        "PF3202",
        f"`{root.name}` holds no FX dump file; found {found or 'nothing'} in {len(listing.files)} files",
        help=help_text,
        notes=("looked for `{node}-{target}.{INPUT|OUTPUT}.{i}.{timestamp}.npy` in any folder",),
        path=str(root),
    )
