"""Join the slices of an operator that the device cut: one tensor per slot, whose parts lie in the files of the slices.

Outputs are joined along the one axis that the description names as cut. Inputs are joined where the ranges of the
threads follow each other along one axis; an input that every thread takes alike is that of the first slice. Where the
runtime cut the operator the ranges give the shapes of the slices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct, structs
from msgspec.structs import replace

from probe_flow.dumps.device.file_records import GeDump, GeTensor
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.dumps.device.slices import Ranges, SliceTable
from probe_flow.errors import NotComparableError
from probe_flow.records import NodeKey, Slot, SlotRole, TensorKind, TensorRef
from probe_flow.tensors.dtypes import DEVICE_DTYPES, dtype_info, nbytes
from probe_flow.tensors.layouts import PLAIN_LAYOUTS, axis_offsets

NOT_JOINED = "its slices cannot be joined"
"""How the reason of a tensor begins of which slices are missing or contradict each other."""


class Slice(Struct, frozen=True):
    """One slice: its number (thread id, or that of its name), its header, its file and the size of that."""

    number: int
    dump: GeDump
    path: str
    size: int


def with_slice_shapes(part: Slice, table: SliceTable) -> Slice:
    """Return a slice whose tensors have the shapes that the ranges of its thread give them.

    A header may describe the whole tensor while its slot holds the slice; that is no problem of the tensor then.
    """
    if not table.is_automatic:
        return part
    inputs = [
        _reshaped(tensor, table.input_ranges(part.number, index), part.size)
        for index, tensor in enumerate(part.dump.inputs)
    ]
    outputs = [
        _reshaped(tensor, table.ranges(part.number, index), part.size) for index, tensor in enumerate(part.dump.outputs)
    ]
    solved = {
        old.problem.message
        for old, new in zip((*part.dump.inputs, *part.dump.outputs), (*inputs, *outputs), strict=True)
        if old.problem is not None and new.problem is None
    }
    problems = tuple(problem for problem in part.dump.problems if problem.message not in solved)
    return replace(part, dump=replace(part.dump, inputs=tuple(inputs), outputs=tuple(outputs), problems=problems))


def _reshaped(tensor: GeTensor, ranges: Ranges | None, file_size: int) -> GeTensor:
    dtype = DEVICE_DTYPES.get(tensor.data_type)
    if ranges is None or dtype is None or not dtype_info(dtype).decodable:
        return tensor
    shape = tuple(higher - lower for lower, higher in ranges)
    if tensor.problem is None:
        return structs.replace(tensor, shape=shape) if math.prod(shape) == math.prod(tensor.shape) else tensor
    needed = nbytes(dtype, math.prod(shape))
    if tensor.problem.code != "PF3016" or needed > tensor.size or tensor.offset + needed > file_size:
        return tensor
    return structs.replace(tensor, shape=shape, nbytes=needed, problem=None)


def join_slices(slices: Sequence[Slice], table: SliceTable, key: NodeKey) -> list[TensorRef]:
    """Return one tensor per slot of the operator.

    An output that cannot be joined is unreadable, such an input (threads may take overlapping parts) opaque.
    """
    missing = _missing(slices, table)
    rows = [{ref.slot: ref for ref in tensor_refs(part.dump, part.path, key)} for part in slices]
    refs: list[TensorRef] = []
    for slot in dict.fromkeys(slot for row in rows for slot in row):
        column = [row.get(slot) for row in rows]
        base = next(ref for ref in column if ref is not None)
        ranges = _slot_ranges(slices, table, slot)
        axes = _cut_axes(table, slot, ranges)
        if not axes:
            refs.append(base)
            continue
        trouble = missing or _trouble(column, axes, ranges)
        refs.append(_unjoined(base, trouble) if trouble else _joined(slices, column, axes[0]))
    return refs


def _missing(slices: Sequence[Slice], table: SliceTable) -> str | None:
    expected = table.count if table.count is not None else len(table.outputs) or len(slices)
    if len(slices) == expected:
        return None
    there = ", ".join(str(part.number) for part in slices)
    return f"{expected} slices were made, {len(slices)} are there (number {there})"


def _slot_ranges(slices: Sequence[Slice], table: SliceTable, slot: Slot) -> list[Ranges | None]:
    take = table.ranges if slot.role is SlotRole.OUTPUT else table.input_ranges
    return [take(part.number, int(slot.path[0])) if table.is_automatic else None for part in slices]


def _cut_axes(table: SliceTable, slot: Slot, ranges: Sequence[Ranges | None]) -> tuple[int, ...]:
    if slot.role is SlotRole.OUTPUT:
        index = int(slot.path[0])
        return table.cuts[index] if index < len(table.cuts) else ()
    known = [part for part in ranges if part is not None]
    if len(known) < len(ranges) or len({len(part) for part in known}) != 1:
        return ()
    return tuple(axis for axis in range(len(known[0])) if len({part[axis] for part in known}) > 1)


def _trouble(column: Sequence[TensorRef | None], axes: Sequence[int], ranges: Sequence[Ranges | None]) -> str | None:
    """Return why the slices of one slot do not make up one tensor, None when they do."""
    if len(axes) > 1:
        return f"it is cut along axes {', '.join(map(str, axes))}, and only one can be joined"
    (axis,) = axes
    base = column[0]
    end = None
    for part, where in zip(column, ranges, strict=True):
        if part is None or base is None or part.kind is not TensorKind.TENSOR or part.shape is None:
            return (part.reason if part is not None else None) or "a slice does not hold it"
        assert base.shape is not None
        if (part.dtype, part.layout, len(part.shape)) != (base.dtype, base.layout, len(base.shape)):
            return (
                f"the slices have different types or layouts ({base.dtype} {base.layout}, {part.dtype} {part.layout})"
            )
        if axis >= len(part.shape) or _without(part.shape, axis) != _without(base.shape, axis):
            return f"slices of shape {list(base.shape)} and {list(part.shape)} do not fit together along axis {axis}"
        if where is None:
            continue
        if tuple(higher - lower for lower, higher in where) != part.shape:
            return f"a slice has the shape {list(part.shape)}, its description says {list(map(list, where))}"
        if where[axis][0] != (0 if end is None else end):
            return f"the slices overlap or leave gaps along axis {axis}"
        end = where[axis][1]
    return None


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _unjoined(base: TensorRef, why: str) -> TensorRef:
    is_input = base.slot.role is SlotRole.INPUT
    kind = TensorKind.OPAQUE if is_input else TensorKind.UNREADABLE
    reason = f"{NOT_JOINED}: {why}"
    return base.changed(kind=kind, shape=None, logical_shape=None, extents=(), reason=reason)


def _joined(slices: Sequence[Slice], column: Sequence[TensorRef | None], axis: int) -> TensorRef:
    parts = [part for part in column if part is not None and part.shape is not None]
    base = parts[0]
    assert base.shape is not None
    total = sum(part.shape[axis] for part in parts if part.shape is not None)
    shape = (*base.shape[:axis], total, *base.shape[axis + 1 :])
    originals = [_tensor(part, base.slot).original_shape for part in slices]
    extents = tuple(
        structs.replace(extent, part=(axis, number)) for number, part in enumerate(parts) for extent in part.extents[:1]
    )
    logical = _logical_shape(base, shape, originals, axis)
    return base.changed(shape=shape, logical_shape=logical, extents=extents)


def _tensor(part: Slice, slot: Slot) -> GeTensor:
    tensors = part.dump.outputs if slot.role is SlotRole.OUTPUT else part.dump.inputs
    return tensors[int(slot.path[0])]


def _logical_shape(
    base: TensorRef, shape: tuple[int, ...], originals: Sequence[tuple[int, ...] | None], axis: int
) -> tuple[int, ...]:
    """Return the logical shape of the whole: that of the headers, or theirs added up along the axis that fits.

    Headers give the shape of the slice or of the whole; a private layout has its axes elsewhere.
    """
    known = [original for original in originals if original]
    if len(known) < len(originals) or len({len(original) for original in known}) != 1:
        return shape
    first = known[0]
    candidates = [first] if len(set(known)) == 1 else []
    axes = sorted(range(len(first)), key=lambda other: (other != axis, other))
    for other in axes:
        if len({_without(original, other) for original in known}) == 1:
            total = sum(original[other] for original in known)
            candidates.append((*first[:other], total, *first[other + 1 :]))
    return next((logical for logical in candidates if _fits(base, shape, logical)), shape)


def _fits(base: TensorRef, shape: tuple[int, ...], logical: tuple[int, ...]) -> bool:
    if base.layout in PLAIN_LAYOUTS:
        return math.prod(shape) == math.prod(logical)
    try:
        axis_offsets(base.layout, shape, logical, sub_format=base.sub_format)
    except NotComparableError:
        return False
    return True
