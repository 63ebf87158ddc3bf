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
from probe_flow.formats.dump_json_folders import DumpFile, find_dump_files
from probe_flow.formats.dump_json_names import EntryKind, EntryName, parse_entry_name
from probe_flow.formats.dump_json_problems import ProblemList
from probe_flow.formats.dump_json_text import load_document
from probe_flow.formats.dump_json_tree import (
    CONSTRUCT_FILE,
    STACK_FILE,
    CallTree,
    Stacks,
    read_call_tree,
    read_stacks,
)
from probe_flow.formats.dump_json_values import flatten_entry, has_known_shape
from probe_flow.records import Catalog, Node, NodeKey, OrderSource, Phase, TensorRef

_FRAMEWORKS = ("pytorch", "mindspore", "mindtorch")


@dataclass(slots=True)
class _Reading:
    """What has been read so far, over all files."""

    nodes: dict[NodeKey, Node] = field(default_factory=dict)
    tensors: list[TensorRef] = field(default_factory=list)
    stacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    tasks: dict[str, None] = field(default_factory=dict)
    levels: dict[str, None] = field(default_factory=dict)
    frameworks: dict[str, None] = field(default_factory=dict)
    entries: int = 0
    has_stacks: bool = False


def read_dump_json(
    path: str | Path,
    *,
    side: str,
    ranks: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    nodes: Sequence[str] | None = None,
) -> Catalog:
    """Read what a dump.json dump holds.

    Tensors come with their recorded statistics (kind ``statistics``), Python scalars with their value; files of saved
    tensors are not opened. NaN and infinities are kept, null statistics give None. A malformed entry, value or side
    file costs itself and becomes a problem of the catalog; so does one unusable dump.json among several.

    Args:
        path: a dump.json, the folder that holds it, a step folder, or the folder of the step folders.
        side: name of the stage that reads.
        ranks, steps: keep only these; None keeps all. A single-process dump has no rank.
        nodes: glob patterns of node names to keep, e.g. ``Functional.*``.

    Returns:
        The catalog, executions by step, then rank; nodes in completion order.

    Raises:
        UsageError: PF3401 missing path, PF3403 no dump.json there, PF3404 nothing selected, PF3405 several processes.
        IncompleteError: PF3402 nothing was dumped, PF3407 to PF3409 no file could be used.
    """
    try:
        found = find_dump_files(Path(path), ranks=ranks, steps=steps)
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
            "task": "+".join(reading.tasks),
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
    problems = ProblemList(file.shown)
    document = load_document(file.file, file.shown)
    top = document.value
    if not isinstance(top, dict):
        raise _wrong_top(file, f"its top level is a {type(top).__name__} instead of an object")
    data = top.get("data")
    if not isinstance(data, dict):
        found = "missing" if "data" not in top else f"a {type(data).__name__} instead of an object"
        raise _wrong_top(file, f"its `data` is {found}")
    task = str(top.get("task") or "statistics")
    if not data:
        raise _empty(file, task)
    for key in document.repeated:
        message = f"`{key}` is written more than once in one object of `{file.shown}`; the last one counts"
        problems.add("PF3412", message, severity=Severity.WARNING)
    tree = read_call_tree(file.file.parent, problems)
    stacks = read_stacks(file.file.parent, f"{number}:", problems)
    framework = top.get("framework")
    reading.frameworks[framework if framework in _FRAMEWORKS else document.framework or "pytorch"] = None
    reading.tasks[task] = None
    reading.levels[str(top.get("level"))] = None
    reading.entries += len(data)
    reading.stacks.update(stacks.frames)
    reading.has_stacks = reading.has_stacks or stacks.found
    _read_entries(data, file, patterns, tree, stacks, problems, reading)
    if task == "tensor":
        message = f"`{file.shown}` is a dump of tensors; their recorded statistics are compared, not the saved files"
        problems.add("PF3414", message, severity=Severity.WARNING)
    reading.problems.extend(problems.finish())


def _read_entries(
    data: Mapping[str, object],
    file: DumpFile,
    patterns: Sequence[str] | None,
    tree: CallTree,
    stacks: Stacks,
    problems: ProblemList,
    reading: _Reading,
) -> None:
    """Add the node and the tensors of every entry of one file."""
    source = str(file.file)
    for order, (entry, value) in enumerate(data.items()):
        name = parse_entry_name(entry) or _as_it_stands(entry, file, problems)
        if patterns is not None and not any(fnmatch.fnmatchcase(name.name, pattern) for pattern in patterns):
            continue
        key = NodeKey(file.execution, name.name, name.call, name.phase)
        if key in reading.nodes:
            message = f"`{entry}` of `{file.shown}` names the same call as an earlier entry and is left out"
            problems.add("PF3412", message, tensor=entry)
            continue
        if not has_known_shape(value, name.kind) or not isinstance(value, dict):
            _report_shape(entry, value, file, problems)
            continue
        flat = flatten_entry(value, name=entry, kind=name.kind, node=key, source=source)
        reading.nodes[key] = _node(entry, name, key, order, tree, stacks)
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


def _node(entry: str, name: EntryName, key: NodeKey, order: int, tree: CallTree, stacks: Stacks) -> Node:
    parent_entry = tree.parents.get(entry)
    parent = name.module
    if parent_entry is not None:
        parsed = parse_entry_name(parent_entry)
        parent = parsed.name if parsed else parent_entry
    attrs: dict[str, object] = {"entry": entry, "kind": name.kind.value}
    if parent_entry is not None:
        attrs["parent_entry"] = parent_entry
    if entry in tree.micro_steps:
        attrs["micro_step"] = tree.micro_steps[entry]
    return Node(
        key=key,
        op_type=name.op_type,
        parent=parent,
        stack_id=stacks.of_entry.get(entry),
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
    if any(tensor.checksum is not None for tensor in reading.tensors) and "tensor" not in reading.tasks:
        return "md5"
    return next(iter(reading.tasks), "statistics")


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
    """Digest names, sizes and times of the dump.json files and the files beside them."""
    digest = hashlib.sha256()
    for file in files:
        for path in (file.file, file.file.with_name(CONSTRUCT_FILE), file.file.with_name(STACK_FILE)):
            if path.is_file():
                status = path.stat()
                digest.update(f"{file.shown}/{path.name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
