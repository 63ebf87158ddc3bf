"""One dumped file by itself, whatever its form: its tensors, and the bytes that have no shape.

Device files in every container, and a `.npy` file in place of one (a single output). A file of an operator that the
runtime cut into threads holds one slice; it gets the shape that the description of the slices gives its thread.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from probe_flow.dumps.device.device_file import read_ge_header
from probe_flow.dumps.device.file_records import GeDump
from probe_flow.dumps.device.joined_slices import Slice, with_slice_shapes
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.dumps.device.slices import slice_table
from probe_flow.dumps.file_names import parse_ge_name
from probe_flow.errors import FormatError
from probe_flow.files.arrays.npy import npy_tensor_ref
from probe_flow.records import Execution, Extent, NodeKey, Problem, Slot, SlotRole, TensorRef

_L1 = 0


class Section(Struct, frozen=True):
    """Bytes without a shape.

    Args:
        label: ``l1buffer.0``, ``space.1``: what stands in file names.
        extent: where they lie.
    """

    label: str
    extent: Extent


class DumpedFile(Struct, frozen=True):
    """What a file holds.

    Args:
        op_name: the operator's name in its graph; empty when the file does not give it.
        tensors: inputs before outputs.
        sections: buffers and spaces.
        problems: of sections that are cut off; those of tensors are their `TensorRef.reason`.
    """

    op_name: str
    tensors: tuple[TensorRef, ...]
    sections: tuple[Section, ...] = ()
    problems: tuple[Problem, ...] = ()


def read_dumped_file(path: Path | str, name: str | None = None) -> DumpedFile:
    """Read what a file holds; the bytes of its tensors stay on the disk.

    Args:
        path: the file.
        name: its true name, where the one that it has is a hash.

    Raises:
        FormatError: it is unreadable, or no dumped file of any form.
    """
    name = name or Path(path).name
    if name.endswith(".npy"):
        key = NodeKey(Execution(), name)
        return DumpedFile("", (npy_tensor_ref(path, key, Slot(SlotRole.OUTPUT)),))
    dump = _with_thread_shapes(read_ge_header(path), path, name)
    key = NodeKey(Execution(), dump.op_name or name)
    return DumpedFile(dump.op_name, tuple(tensor_refs(dump, path, key)), _sections(dump, path), _cut_off(dump))


def _with_thread_shapes(dump: GeDump, path: Path | str, name: str) -> GeDump:
    fields = parse_ge_name(name)
    if fields is None or fields.thread_id is None:
        return dump
    try:
        table = slice_table(dump, path)
    except FormatError:  # the slice is what its own header says, then
        return dump
    if table is None:
        return dump
    part = Slice(fields.thread_id, dump, str(path), os.stat(path).st_size)  # noqa: PTH116
    return with_slice_shapes(part, table).dump


def _sections(dump: GeDump, path: Path | str) -> tuple[Section, ...]:
    size = os.stat(path).st_size  # noqa: PTH116
    labels = [f"{'l1buffer' if part.kind == _L1 else 'buffer'}.{i}" for i, part in enumerate(dump.buffers)]
    labels += [f"space.{i}" for i in range(len(dump.spaces))]
    parts = zip(labels, (*dump.buffers, *dump.spaces), strict=True)
    return tuple(
        Section(label, Extent(str(path), part.offset, part.size))
        for label, part in parts
        if part.offset + part.size <= size
    )


def _cut_off(dump: GeDump) -> tuple[Problem, ...]:
    of_tensors = [tensor.problem for tensor in (*dump.inputs, *dump.outputs) if tensor.problem is not None]
    return tuple(problem for problem in dump.problems if problem not in of_tensors)
