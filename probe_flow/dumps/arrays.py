"""Read `.npy` arrays that any program wrote under names of its own: each is a node, and none depends on another.

The node is called as the file is, with the folders below the root and without the suffix: `layer1/weight`.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from msgspec.structs import replace

from probe_flow.dumps.selection import EVERYTHING, Selection, keeps_no_node
from probe_flow.errors import Diagnostic, FormatError, IncompleteError, Severity, UsageError
from probe_flow.files.arrays.npy import npy_tensor_ref
from probe_flow.files.walk import DumpFile, fingerprint, list_dump_or_file
from probe_flow.records import (
    Catalog,
    Execution,
    Flow,
    Node,
    NodeKey,
    Problem,
    SlotRole,
    TensorKind,
    TensorRef,
    shared_slot,
)
from probe_flow.records.frameworks import ARRAYS

SUFFIX = ".npy"
_MAX_LISTED = 5
_VALUE = shared_slot(SlotRole.OUTPUT, (0,))


def read_arrays(path: str | os.PathLike[str], *, side: str, select: Selection = EVERYTHING) -> Catalog:
    """Describe every array below a folder, or one array. Data stay on disk.

    The catalog has one execution, which says nothing of rank, step and graph, so that only ``nodes`` selects. Its flow
    is `Flow.NONE`. An array that cannot be read is ``unreadable``, with a problem; files of other kinds are counted in
    one problem (PF3235).

    Args:
        path: the folder, or one `.npy`.
        side: name of the stage.
        select: which arrays to read, by their names here.

    Raises:
        UsageError: PF3201 if nothing is there, PF3304 nothing selected.
        IncompleteError: PF3202 if it holds no array.
    """
    listing = list_dump_or_file(path)
    arrays: list[DumpFile] = []
    others: list[DumpFile] = []
    for file in listing.files:
        (arrays if _is_array(file.name) else others).append(file)
    if not arrays:
        raise IncompleteError(_nothing_to_read(listing.root, others))
    problems = [*listing.problems, *([_not_read(others)] if others else []), *select.unanswered((Execution(),))]
    takes = select.node_filter()
    nodes: dict[NodeKey, Node] = {}
    tensors: list[TensorRef] = []
    for number, file in enumerate(arrays):
        name = file.relative.removesuffix(SUFFIX)
        if takes(name):
            key = NodeKey(Execution(), name)
            nodes[key] = Node(key, "", order=number)
            tensors.append(_tensor(file, key, problems))
    if not nodes:
        raise UsageError(keeps_no_node(file.relative.removesuffix(SUFFIX) for file in arrays))
    return Catalog(
        side,
        ARRAYS,
        "tensor",
        str(listing.root),
        nodes,
        tuple(tensors),
        problems=tuple(problems),
        fingerprint=fingerprint(arrays),
        attrs={"select": select.as_attrs()},
        flow=Flow.NONE,
    )


def _is_array(name: str) -> bool:
    return name.endswith(SUFFIX) and not name.startswith(".")


def _tensor(file: DumpFile, key: NodeKey, problems: list[Problem]) -> TensorRef:
    try:
        return npy_tensor_ref(file.path, key, _VALUE)
    except FormatError as error:
        problems.append(replace(error.diagnostic, path=file.relative))
        reason = error.diagnostic.message
        return TensorRef.of(key, _VALUE, TensorKind.UNREADABLE, reason=reason, source=file.path)


def _kinds(files: list[DumpFile]) -> str:
    kinds = Counter(Path(file.name).suffix or "no suffix" for file in files)
    return ", ".join(f"{count} x `{kind}`" for kind, count in kinds.most_common(_MAX_LISTED))


def _not_read(files: list[DumpFile]) -> Problem:
    return Diagnostic(
        "PF3235",
        f"{len(files)} file{'s' if len(files) > 1 else ''} beside the arrays "
        f"{'are' if len(files) > 1 else 'is'} not read: {_kinds(files)}",
        severity=Severity.NOTE,
        help="store what is to be compared as `.npy` (`numpy.save`); `convert.npy` makes them of `.pt` files",
    )


def _nothing_to_read(root: Path, files: list[DumpFile]) -> Diagnostic:
    return Diagnostic(
        "PF3202",
        f"`{root.name}` holds no array; found {_kinds(files) or 'nothing'}",
        help="give a folder of `.npy` files; `convert.npy` makes them of `.pt` files",
        notes=("looked for `*.npy` in the folder and those below it",),
        path=str(root),
    )
