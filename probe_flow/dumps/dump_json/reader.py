"""Reader of dump.json dumps: eager PyTorch and MindSpore programs, as written by msprobe-style data collectors.

A dump folder holds ``step<N>/rank<R>|proc<pid>/dump.json`` with one entry per call of an API or module (levels L0, L1
and mix), and beside it ``construct.json`` (who called whom) and ``stack.json``. Entries stand in the order in which the
calls *completed*: an API precedes the module that contains it, so `Node.parent` is needed to know what holds what.

What a node is: ``Functional.linear.5.backward`` becomes name ``Functional.linear``, call 5, phase backward;
``Module.head.Linear.forward.0`` becomes name ``Module.head.Linear``, call 0; ``Module.head.Linear.parameters_grad.0``
becomes name ``Module.head.Linear.parameters_grad``, call 0, phase none. The entry's own name is
`Node.entry`, that of its caller `Node.caller`, and each tensor's full item name is
``TensorRef.attrs["item"]``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from msgspec.structs import replace

from probe_flow.dumps.dump_json.companion_files import CONSTRUCT_FILE, STACK_FILE
from probe_flow.dumps.dump_json.entries import STATISTICS, STRUCTURE, TENSOR, Reading, read_file
from probe_flow.dumps.dump_json.folders import DumpFile, find_dump_files
from probe_flow.dumps.dump_json.tensor_files import FOLDER
from probe_flow.dumps.manifest import ManifestError, manifest_problems, read_manifest, unreadable_manifest
from probe_flow.dumps.selection import EVERYTHING, Selection
from probe_flow.errors import Diagnostic, FormatError, IncompleteError, ProbeFlowError, UsageError
from probe_flow.records import Catalog, SlotRole, TensorKind, TensorRef, TensorTable
from probe_flow.records.figures import MANY, let_go_of_numbers
from probe_flow.records.frameworks import PYTORCH


def read_dump_json(
    path: str | Path,
    *,
    side: str,
    select: Selection = EVERYTHING,
) -> Catalog:
    """Read what a dump.json dump holds.

    A value whose tensor was saved is of kind ``tensor``: its file's header is read, its elements are not. The others
    come with their recorded statistics (kind ``statistics``), Python scalars with their value. NaN and infinities are
    kept, null statistics give None. A malformed entry, value, tensor file or side file costs itself and becomes a
    problem of the catalog; so does one unusable dump.json among several. A dump of task ``structure`` has no entries:
    its calls are those of construct.json, each with one tensor that stands for the call itself.

    Args:
        path: a dump.json or debug.json, the folder that holds it, a step folder, the folder of the step folders, or
            that of ``graph`` and ``pynative``.
        side: name of the stage that reads.
        select: what to read. A single-process dump has no rank; graphs are ``graph`` and ``pynative``, where a dump has
            both; nodes are patterns such as ``Functional.*``.

    Returns:
        The catalog, executions by graph, step and rank; nodes in completion order.

    Raises:
        UsageError: PF3401 missing path, PF3403 no dump.json there, PF3404 nothing selected, PF3405 several processes.
        IncompleteError: PF3402 nothing was dumped, PF3407 to PF3409 no file could be used.
    """
    try:
        found = find_dump_files(Path(path), ranks=select.ranks, steps=select.steps, graphs=select.graphs)
    except OSError as error:
        message = f"`{path}` cannot be searched: {error.strerror or error}"
        raise IncompleteError(Diagnostic("PF3409", message, path=str(path))) from error
    if found.is_part:
        select.left_out.add("executions")
    reading = Reading(problems=list(found.problems))
    failures: list[Diagnostic] = []
    packs = 1 < len(found.files) == len({file.execution for file in found.files})
    for number, file in enumerate(found.files):
        failures.extend(_taken(file, number, select.nodes, reading))
        if packs and (reading.packed or len(reading.tensors) >= MANY):
            packs = _pack(reading)
    if not reading.entries and failures:
        raise IncompleteError(failures)
    if not reading.nodes and not reading.packed:
        raise _nothing_left(reading, select.nodes, str(path))
    catalog = Catalog(
        side=side,
        framework=next(iter(reading.frameworks), PYTORCH),
        task="",
        root=str(found.root.resolve()),
        nodes=reading.nodes,
        tensors=tuple(reading.tensors),
        undumped=tuple(reading.undumped),
        call_order=reading.call_order,
        stacks=reading.stacks,
        problems=(*reading.problems, *failures),
        fingerprint=_fingerprint(found.files),
        attrs={
            "format": "dump_json",
            "task": "+".join(dict.fromkeys(task for task, _ in reading.tasks.values())),
            "level": "+".join(reading.levels),
            "has_stacks": reading.has_stacks,
            "files": tuple(file.shown for file in found.files),
            "select": select.as_attrs(),
        },
    )
    if reading.packing is not None:
        catalog = _with_packed(catalog, reading)
    return replace(catalog, task=_task(reading, catalog.tensors))


def _taken(file: DumpFile, number: int, patterns: Sequence[str] | None, reading: Reading) -> tuple[Diagnostic, ...]:
    """Read one file into `reading`; return why it could not be used, if so."""
    try:
        read_file(file, number, patterns, reading)
    except FormatError as error:
        return error.diagnostics
    reading.problems.extend(_manifest_problems(file.file.parent))
    return ()


def _pack(reading: Reading) -> bool:
    """Pack the executions that were read, each of one file; return False, and do not, where they hold elements."""
    from probe_flow.files.filed_numbers import NumberFile
    from probe_flow.records.tables.catalogs import Packing

    if any(tensor.kind is TensorKind.TENSOR for tensor in reading.tensors):
        return False
    reading.packing = reading.packing or Packing(put=NumberFile().put)
    owned = {run: [*some] for run, some in groupby(reading.tensors, attrgetter("node.execution"))}
    for run, nodes in groupby(reading.nodes.values(), attrgetter("key.execution")):
        reading.packing.add([*nodes], owned.get(run, ()))
    reading.packed += len(reading.nodes)
    reading.nodes, reading.tensors = {}, []
    let_go_of_numbers(MANY)  # orders of nodes, of which those of the first program alone are left
    return True


def _with_packed(catalog: Catalog, reading: Reading) -> Catalog:
    """Return a catalog of all that was read, some of which was packed."""
    from probe_flow.records.tables.catalogs import packed

    assert reading.packing is not None
    if not reading.nodes or _pack(reading):
        return packed(catalog, reading.packing.ran)
    before = packed(catalog, reading.packing.ran).in_full()
    return replace(before, nodes={**before.nodes, **reading.nodes}, tensors=(*before.tensors, *reading.tensors))


def _manifest_problems(folder: Path) -> Iterator[Diagnostic]:
    """Yield what the manifest of a dump of ours says against it; other programs' dumps have none."""
    try:
        manifest = read_manifest(folder)
    except ManifestError as error:
        yield unreadable_manifest(folder, error)
        return
    if manifest is not None:
        tensors = folder / FOLDER
        names = {f"{FOLDER}/{path.name}" for path in tensors.iterdir()} if tensors.is_dir() else set()
        yield from manifest_problems(folder, manifest, names)


def _task(reading: Reading, tensors: Sequence[TensorRef]) -> str:
    """Return what the dump holds: ``tensor``, ``statistics``, ``md5``, ``structure``; others go by what they wrote."""
    task = next((task for task, _ in reading.tasks.values()), STATISTICS)
    if task == STRUCTURE and all(tensor.slot.role is SlotRole.CALL for tensor in tensors):
        return STRUCTURE
    if task == TENSOR or (task not in (STATISTICS, TENSOR) and any(tensor.extents for tensor in tensors)):
        return TENSOR
    return "md5" if _has_checksums(tensors) else STATISTICS


def _has_checksums(tensors: Sequence[TensorRef]) -> bool:
    data = {id(tensor.data): tensor.data for tensor in tensors}.values()  # of most dumps one table
    if all(isinstance(each, TensorTable) and not each.checksums for each in data):
        return False
    return any(tensor.checksum is not None for tensor in tensors)


def _nothing_left(reading: Reading, patterns: Sequence[str] | None, path: str) -> ProbeFlowError:
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
        for name in (file.file.name, CONSTRUCT_FILE, STACK_FILE, FOLDER):
            path = file.file.with_name(name)
            if path.exists():
                status = path.stat()
                digest.update(f"{file.shown}/{path.name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
