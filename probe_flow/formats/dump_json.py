"""Reader of dump.json dumps: eager PyTorch and MindSpore programs, as written by msprobe-style data collectors.

A dump folder holds ``step<N>/rank<R>|proc<pid>/dump.json`` with one entry per call of an API or module (levels L0, L1
and mix), and beside it ``construct.json`` (who called whom) and ``stack.json``. Entries stand in the order in which the
calls *completed*: an API precedes the module that contains it, so `Node.parent` is needed to know what holds what.

What a node is: ``Functional.linear.5.backward`` becomes name ``Functional.linear``, call 5, phase backward;
``Module.head.Linear.forward.0`` becomes name ``Module.head.Linear``, call 0; ``Module.head.Linear.parameters_grad.0``
becomes name ``Module.head.Linear.parameters_grad``, call 0, phase none. The entry's own name is
``Node.attrs["entry"]``, that of its caller ``attrs["parent_entry"]``, and each tensor's full item name is
``TensorRef.attrs["item"]``.
"""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from probe_flow.errors import Diagnostic, FormatError, IncompleteError, ProbeFlowError, Severity, UsageError
from probe_flow.formats.dump_json_files import FOLDER as TENSOR_FOLDER
from probe_flow.formats.dump_json_files import TensorFiles
from probe_flow.formats.dump_json_folders import DumpFile, find_dump_files
from probe_flow.formats.dump_json_names import EntryKind, EntryName, parse_entry_name
from probe_flow.formats.dump_json_problems import ProblemList
from probe_flow.formats.dump_json_stream import DATA, EntryStream
from probe_flow.formats.dump_json_tree import (
    CONSTRUCT_FILE,
    STACK_FILE,
    CallTree,
    Stacks,
    read_call_tree,
    read_stacks,
)
from probe_flow.formats.dump_json_values import Flattener, has_known_shape
from probe_flow.records import Catalog, Node, NodeKey, OrderSource, Phase, TensorRef

TENSOR, STATISTICS = "tensor", "statistics"
_FRAMEWORKS = ("pytorch", "mindspore", "mindtorch")


@dataclass(slots=True)
class _Reading:
    """What has been read so far, over all files."""

    nodes: dict[NodeKey, Node] = field(default_factory=dict)
    tensors: list[TensorRef] = field(default_factory=list)
    stacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, tuple[str, str]] = field(default_factory=dict)
    levels: dict[str, None] = field(default_factory=dict)
    frameworks: dict[str, None] = field(default_factory=dict)
    entries: int = 0
    has_stacks: bool = False


@dataclass(frozen=True, slots=True)
class _Sides:
    """What the files beside one dump.json say; names of parents are taken apart once."""

    tree: CallTree
    stacks: Stacks
    names: dict[str, str] = field(default_factory=dict)

    def name_of(self, entry: str) -> str:
        """Return the name of a parent without call number and direction."""
        name = self.names.get(entry)
        if name is None:
            parsed = parse_entry_name(entry)
            name = self.names[entry] = parsed.name if parsed else entry
        return name


def read_dump_json(
    path: str | Path,
    *,
    side: str,
    ranks: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    graphs: Sequence[int | str] | None = None,
    nodes: Sequence[str] | None = None,
) -> Catalog:
    """Read what a dump.json dump holds.

    A value whose tensor was saved is of kind ``tensor``: its file's header is read, its elements are not. The others
    come with their recorded statistics (kind ``statistics``), Python scalars with their value. NaN and infinities are
    kept, null statistics give None. A malformed entry, value, tensor file or side file costs itself and becomes a
    problem of the catalog; so does one unusable dump.json among several.

    Args:
        path: a dump.json or debug.json, the folder that holds it, a step folder, the folder of the step folders, or
            that of ``graph`` and ``pynative``.
        side: name of the stage that reads.
        ranks, steps: keep only these; None keeps all. A single-process dump has no rank.
        graphs: keep only ``graph`` or ``pynative``, where a dump has both.
        nodes: glob patterns of node names to keep, e.g. ``Functional.*``.

    Returns:
        The catalog, executions by graph, step and rank; nodes in completion order.

    Raises:
        UsageError: PF3401 missing path, PF3403 no dump.json there, PF3404 nothing selected, PF3405 several processes.
        IncompleteError: PF3402 nothing was dumped, PF3407 to PF3409 no file could be used.
    """
    try:
        found = find_dump_files(Path(path), ranks=ranks, steps=steps, graphs=graphs)
    except OSError as error:
        message = f"`{path}` cannot be searched: {error.strerror or error}"
        raise IncompleteError(Diagnostic("PF3409", message, path=str(path))) from error
    reading = _Reading(problems=list(found.problems))
    failures = [failure for number, file in enumerate(found.files) for failure in _taken(file, number, nodes, reading)]
    if not reading.entries and failures:
        raise IncompleteError(failures)
    if not reading.nodes:
        raise _nothing_left(reading, nodes, str(path))
    return Catalog(
        side=side,
        framework=next(iter(reading.frameworks), "pytorch"),
        task=_task(reading),
        root=str(found.root.resolve()),
        nodes=reading.nodes,
        tensors=tuple(reading.tensors),
        stacks=reading.stacks,
        problems=(*reading.problems, *failures),
        fingerprint=_fingerprint(found.files),
        attrs={
            "format": "dump_json",
            "task": "+".join(dict.fromkeys(task for task, _ in reading.tasks.values())),
            "level": "+".join(reading.levels),
            "has_stacks": reading.has_stacks,
            "files": tuple(file.shown for file in found.files),
        },
    )


def _taken(file: DumpFile, number: int, patterns: Sequence[str] | None, reading: _Reading) -> tuple[Diagnostic, ...]:
    """Read one file into `reading`; return why it could not be used, if so."""
    try:
        _read_file(file, number, patterns, reading)
    except FormatError as error:
        return error.diagnostics
    return ()


def _read_file(file: DumpFile, number: int, patterns: Sequence[str] | None, reading: _Reading) -> None:
    folder = file.file.parent
    problems = ProblemList(file.shown)
    sides = _Sides(read_call_tree(folder, problems), read_stacks(folder, f"{number}:", problems))
    files = TensorFiles(folder, problems)
    stream = EntryStream(file.file, file.shown)
    flattener = Flattener(str(file.file), files)
    count = 0
    for entry, value in stream:
        count += 1
        _read_entry(entry, value, file, patterns, sides, flattener, problems, reading)
    top = _checked_top(stream, file)
    task = str(top.get("task") or "statistics")
    if not count:
        raise _empty(file, task)
    for key in stream.repeated:
        message = f"`{key}` is written more than once in one object of `{file.shown}`; the last one counts"
        problems.add("PF3412", message, severity=Severity.WARNING)
    if patterns is None:
        files.report_unnamed()
    framework = top.get("framework")
    reading.frameworks[framework if framework in _FRAMEWORKS else stream.framework or "pytorch"] = None
    _note_task(task, file, problems, reading)
    reading.levels[str(top.get("level"))] = None
    reading.entries += count
    reading.stacks.update(sides.stacks.frames)
    reading.has_stacks = reading.has_stacks or sides.stacks.found
    reading.problems.extend(problems.finish())


def _checked_top(stream: EntryStream, file: DumpFile) -> Mapping[str, object]:
    top = stream.top
    if not isinstance(top, dict):
        raise _wrong_top(file, f"its top level is a {type(top).__name__} instead of an object")
    if not stream.has_entries:
        found = f"a {type(top[DATA]).__name__} instead of an object" if DATA in top else "missing"
        raise _wrong_top(file, f"its `{DATA}` is {found}")
    return top


def _note_task(task: str, file: DumpFile, problems: ProblemList, reading: _Reading) -> None:
    """Keep the task of a file; several files of one name should have one."""
    name = file.file.name
    first, shown = reading.tasks.setdefault(name, (task, file.shown))
    if task != first:
        problems.add(
            "PF3429",
            f"`{file.shown}` has the task `{task}`, `{shown}` has `{first}`",
            severity=Severity.WARNING,
            help="dump all ranks with one configuration, or select those that fit together",
        )


def _read_entry(
    entry: str,
    value: object,
    file: DumpFile,
    patterns: Sequence[str] | None,
    sides: _Sides,
    flattener: Flattener,
    problems: ProblemList,
    reading: _Reading,
) -> None:
    """Add the node and the tensors of one entry."""
    name = parse_entry_name(entry) or _as_it_stands(entry, file, problems)
    if patterns is not None and not any(fnmatch.fnmatchcase(name.name, pattern) for pattern in patterns):
        return
    key = NodeKey(file.execution, reading.names.setdefault(name.name, name.name), name.call, name.phase)
    if key in reading.nodes:
        message = f"`{entry}` of `{file.shown}` names the same call as an earlier entry and is left out"
        problems.add("PF3412", message, tensor=entry)
        return
    if not has_known_shape(value, name.kind):
        _report_shape(entry, value, file, problems)
        return
    flat = flattener.flatten(value, name=entry, kind=name.kind, node=key)
    reading.nodes[key] = _node(entry, name, key, len(reading.nodes), sides)
    reading.tensors.extend(flat.tensors)
    if flat.problems:
        item, reason = flat.problems[0]
        more = f" (and {len(flat.problems) - 1} more of this entry)" if len(flat.problems) > 1 else ""
        problems.add(
            "PF3411",
            f"`{item}` of `{file.shown}` cannot be read{more}: {reason}",
            tensor=item,
            help="dump this call again, or leave it out with `select.nodes`",
        )


def _node(entry: str, name: EntryName, key: NodeKey, order: int, sides: _Sides) -> Node:
    parent_entry = sides.tree.parents.get(entry)
    attrs: dict[str, object] = {"entry": entry, "kind": name.kind.value}
    if parent_entry is not None:
        attrs["parent_entry"] = parent_entry
    if entry in sides.tree.micro_steps:
        attrs["micro_step"] = sides.tree.micro_steps[entry]
    return Node(
        key=key,
        op_type=name.op_type,
        parent=name.module if parent_entry is None else sides.name_of(parent_entry),
        stack_id=sides.stacks.of_entry.get(entry),
        order=order,
        order_source=OrderSource.FILE,
        attrs=attrs,
    )


def _as_it_stands(entry: str, file: DumpFile, problems: ProblemList) -> EntryName:
    """Keep an entry whose name follows no grammar under its full name."""
    message = f"`{entry}` of `{file.shown}` is not named like a call of an API or a module"
    problems.add(
        "PF3410", message, severity=Severity.WARNING, tensor=entry, help="it is compared with an entry of the same name"
    )
    return EntryName(EntryKind.API, entry, entry.rpartition(".")[2], 0, Phase.NONE)


def _report_shape(entry: str, value: object, file: DumpFile, problems: ProblemList) -> None:
    found = "an object with unknown keys" if isinstance(value, dict) else f"a {type(value).__name__}"
    message = f"`{entry}` of `{file.shown}` is {found} and is left out"
    problems.add(
        "PF3416", message, tensor=entry, help="an entry is an object with `input_args`, `input`, `output` or parameters"
    )


def _task(reading: _Reading) -> str:
    """Return what the dump holds: ``tensor``, ``statistics`` or ``md5``; other tasks go by what they wrote."""
    task = next((task for task, _ in reading.tasks.values()), STATISTICS)
    if task == TENSOR or (task not in (STATISTICS, TENSOR) and any(tensor.extents for tensor in reading.tensors)):
        return TENSOR
    return "md5" if any(tensor.checksum is not None for tensor in reading.tensors) else STATISTICS


def _wrong_top(file: DumpFile, what: str) -> FormatError:
    return FormatError(
        Diagnostic(
            "PF3408",
            f"`{file.shown}` is no dump: {what}",
            path=str(file.file),
            help="a dump.json is an object with `task`, `level` and `data`",
        )
    )


def _empty(file: DumpFile, task: str) -> FormatError:
    cure = "check that the collector was started and stopped around the model, and its `list`, `scope`, `rank`, `step`"
    if task == "structure":
        cure = "a structure dump holds no values; dump again with task `statistics`"
    return FormatError(Diagnostic("PF3402", f"`{file.shown}` holds no entry", path=str(file.file), help=cure))


def _nothing_left(reading: _Reading, patterns: Sequence[str] | None, path: str) -> ProbeFlowError:
    if patterns is None or reading.problems:
        nothing = Diagnostic("PF3402", f"`{path}` holds no usable entry", path=path)
        return IncompleteError([nothing, *reading.problems])
    shown = ", ".join(f"`{pattern}`" for pattern in patterns)
    return UsageError(
        Diagnostic(
            "PF3404",
            f"no node of `{path}` is named like {shown}",
            path=path,
            help="names are `Functional.linear` or `Module.layers.0.Layer`, without call number and direction",
        )
    )


def _fingerprint(files: Sequence[DumpFile]) -> str:
    """Digest names, sizes and times of the dump.json files and of what lies beside them.

    Tensor files are identified by themselves where they are used; here the time of their folder stands for them.
    """
    digest = hashlib.sha256()
    for file in files:
        for name in (file.file.name, CONSTRUCT_FILE, STACK_FILE, TENSOR_FOLDER):
            path = file.file.with_name(name)
            if path.exists():
                status = path.stat()
                digest.update(f"{file.shown}/{path.name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
