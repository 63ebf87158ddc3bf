"""Read a folder of arrays (`{op}.{output index}.{timestamp}.npy`) that a framework wrote into a catalog."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.dumps.device.device_file import read_ge_header
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.dumps.file_names import safe_name
from probe_flow.dumps.manifest import MODEL_GRAPH
from probe_flow.dumps.offline.known import Known, known_of
from probe_flow.dumps.offline.names import name_filter, names_of_quantised, owner_of_input
from probe_flow.dumps.offline.npy_folder_files import ArrayFile, ArrayFiles, array_files, one_array
from probe_flow.dumps.onnx.model import MODEL_FILE
from probe_flow.dumps.reduced.reduced_tensors import array_ref, task_of
from probe_flow.dumps.selection import EVERYTHING, Duplicates, Selection, choose, other_values
from probe_flow.errors import Diagnostic, FormatError, UsageError
from probe_flow.files.arrays.npy import npy_tensor_ref
from probe_flow.files.binary_file import malformed
from probe_flow.files.existing import is_file
from probe_flow.files.walk import fingerprint, list_dump_or_file
from probe_flow.records import (
    ArrayFacts,
    Catalog,
    Execution,
    Flow,
    Node,
    NodeKey,
    Problem,
    Slot,
    SlotRole,
    TensorKind,
    TensorRef,
    TensorTables,
)
from probe_flow.records.frameworks import NPY

SECOND = "__2"
"""What extraction puts behind the name of the second operator whose name is the same in file names."""

_MAX_NAMES = 5
_MAX_LISTED = 5


def read_npy_folder(
    path: str | os.PathLike[str],
    *,
    side: str,
    select: Selection = EVERYTHING,
    duplicates: Duplicates = "newest",
    quantised: bool | None = None,
    bfloat16: Sequence[str] = (),
) -> Catalog:
    """Describe one array, or every array of a folder; the folders below it are not read. Data stay on disk.

    All files must be of one suffix: ``.npy``, or the older ``.pb`` or ``.quant``, which hold a device container each.
    The catalog has one execution, which says nothing of rank, step and graph, so that only ``nodes`` selects.
    The oldest file of a node orders it. What a manifest beside the arrays tells (true names, types, what each operator
    reads) is taken over; a dump of ours that is not whole is a problem. `Catalog.attrs` has ``is_quantised``,
    ``quantised_names`` (some that show it), ``suffix``, ``select``, for one array ``file`` (its name), and the
    operators of the model (`MODEL_GRAPH`) and its file (`MODEL_FILE`) where a manifest tells them.

    Args:
        path: the folder, or one file: a ``.npy`` of any name, or one that is named as those of a folder are.
        side: name of the stage.
        select: which nodes to read, by their names as the files have them. Arrays tell no rank, step or graph, so that
            the rest cannot choose, which a problem says.
        duplicates: which of several files of one tensor counts.
        quantised: whether the model is quantised; None = told by the names of its operators.
        bfloat16: patterns of operators whose arrays of float16 hold the bits of bfloat16.

    Raises:
        UsageError: PF3201 if nothing is there, PF3300 files of several kinds in it, PF3304 nothing selected.
        IncompleteError: PF3202 if it holds no such array.
    """
    listing = list_dump_or_file(path)
    is_one = is_file(Path(path))
    found = one_array(listing.files[0]) if is_one else array_files(listing)
    found.problems.extend(select.unanswered((Execution(),)))
    known = Known() if is_one else known_of(listing, found.problems)
    reader = _Reader(duplicates, found.problems, known, name_filter(bfloat16) if bfloat16 else None)
    reader.read(found.files, name_filter(select.nodes))
    if not reader.nodes:
        raise UsageError(_keeps_nothing(found))
    marks = names_of_quantised((name, "") for name in dict.fromkeys(file.name.op for file in found.files))
    return Catalog(
        side,
        NPY,
        task_of(reader.tensors),
        str(listing.root),
        reader.nodes,
        tuple(reader.tensors),
        edges=known.edges(reader.nodes),
        problems=tuple(found.problems),
        fingerprint=fingerprint(file.file for file in found.files),
        attrs={
            "select": select.as_attrs(),
            "is_quantised": bool(marks) if quantised is None else quantised,
            "quantised_names": marks[:_MAX_NAMES],
            "suffix": found.files[0].name.suffix,
            **({"file": listing.files[0].name} if is_one else {}),
            **({MODEL_GRAPH: known.nodes} if known.nodes else {}),
            **({MODEL_FILE: known.model} if known.model is not None else {}),
        },
        flow=Flow.GRAPH,
    )


class _Reader(Struct):
    """Collects nodes and tensors."""

    duplicates: Duplicates
    problems: list[Problem]
    known: Known
    is_bfloat16: Callable[[str], bool] | None = None
    nodes: dict[NodeKey, Node] = field(default_factory=dict)
    tensors: list[TensorRef] = field(default_factory=list)
    tables: TensorTables = field(default_factory=TensorTables)
    stems: set[str] = field(default_factory=set)

    def read(self, files: Sequence[ArrayFile], takes: Callable[[str], bool]) -> None:
        """Read the operators that ``takes`` accepts, in order of their oldest files."""
        names = {file.name.op for file in files}
        self.stems = {file.file.name.split(".", 1)[0] for file in files}
        owners: dict[str, dict[Slot, list[ArrayFile]]] = defaultdict(lambda: defaultdict(list))
        for file in files:
            told = self.known.files.get(file.file.name)
            owner = owner_of_input(file.name.op, names) if told is None else None
            role = SlotRole.OUTPUT if owner is None else SlotRole.INPUT
            owners[told or owner or file.name.op][Slot(role, (file.name.index,))].append(file)
        chosen = [
            (name, [(slot, self._choose(slots[slot])) for slot in sorted(slots, key=_slot_order)])
            for name, slots in owners.items()
            if takes(name) or takes(self.known.clean_names.get(name, name))
        ]
        for name, slots in sorted(chosen, key=lambda item: (_time(item[1]), item[0])):
            self._add(name, slots)

    def _choose(self, files: Sequence[ArrayFile]) -> ArrayFile:
        kept = choose(
            files, self.duplicates, timestamp=lambda file: file.name.timestamp, size=lambda file: file.file.size
        )
        if len(files) > 1:
            self.problems.append(other_values([file.file for file in files], kept.file, self.duplicates))
        return kept

    def _add(self, name: str, slots: Sequence[tuple[Slot, ArrayFile]]) -> None:
        key = NodeKey(Execution(), name)
        time = _time(slots)
        clean = self.known.clean_names.get(name, name)
        is_told = name in self.known.clean_names or any(file.is_told for _, file in slots)
        twin = f"{clean}{SECOND}" if not is_told and f"{clean}{SECOND}" in self.stems else ""
        facts = ArrayFacts(safe_name(clean), is_told, twin)
        self.nodes[key] = Node(key, self.known.types.get(name, ""), order=time, facts=facts)
        for slot, file in slots:
            try:
                ref = _tensor_ref(file, key, slot)
                if self.is_bfloat16 is not None and ref.stored_dtype == "<f2" and self.is_bfloat16(name):
                    ref = ref.changed(dtype="bfloat16")
            except FormatError as error:
                self.problems.append(replace(error.diagnostic, path=file.file.relative))
                reason = error.diagnostic.message
                ref = TensorRef.of(key, slot, TensorKind.UNREADABLE, reason=reason, source=file.file.path)
            self.tensors.append(ref.stored_in(self.tables))


def _slot_order(slot: Slot) -> tuple[object, ...]:
    return slot.role is SlotRole.OUTPUT, slot.path


def _time(slots: Sequence[tuple[Slot, ArrayFile]]) -> int:
    return min(file.name.timestamp for _, file in slots)


def _tensor_ref(file: ArrayFile, key: NodeKey, slot: Slot) -> TensorRef:
    path = file.file.path
    if file.name.suffix != "npy":
        return _container_ref(path, key, slot)
    return array_ref(path, key, slot) if file.name.is_reduced else npy_tensor_ref(path, key, slot)


def _container_ref(path: str, key: NodeKey, slot: Slot) -> TensorRef:
    """Describe the tensor of a device container that holds one: its only output, or that of the index in the name.

    Raises:
        FormatError: as `read_ge_header`; PF3306 when it does not hold this output.
    """
    dump = read_ge_header(path)
    index = 0 if len(dump.outputs) == 1 else int(slot.path[0])
    if index >= len(dump.outputs):
        raise malformed(
            "PF3306",
            path,
            f"`{Path(path).name}` is named after output {slot.index} and holds {len(dump.outputs)} outputs",
            help_text="dump this operator again, or exclude it with `select.nodes`",
        )
    problem = dump.outputs[index].problem
    if problem is not None:
        raise FormatError(problem)
    return tensor_refs(dump, path, key)[len(dump.inputs) + index].changed(slot=slot)


def _keeps_nothing(found: ArrayFiles) -> Diagnostic:
    names = list(dict.fromkeys(file.name.op for file in found.files))
    shown = ", ".join(f"`{name}`" for name in names[:_MAX_LISTED])
    return Diagnostic(
        "PF3304",
        "`select` keeps nothing of the arrays",
        help=f"the folder holds {len(names)} operators, such as {shown}",
    )
