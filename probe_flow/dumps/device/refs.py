"""Describe the tensors of a device dump file as the tensors of a catalog."""

from __future__ import annotations

import math
from pathlib import Path

from probe_flow.dumps.device.file_records import GeDump, GeTensor
from probe_flow.dumps.device.shapes import LAYOUTS, UNDEFINED, is_absurd
from probe_flow.records import Extent, NodeKey, Slot, SlotRole, TensorKind, TensorRef, shared_slot
from probe_flow.tensors.dtypes import DEVICE_DTYPE_NAMES, DEVICE_DTYPES, DTYPES
from probe_flow.tensors.layouts import PLAIN_LAYOUTS


def tensor_refs(dump: GeDump, path: Path | str, node_key: NodeKey) -> list[TensorRef]:
    """Return one tensor per slot, inputs before outputs.

    Malformed tensors are ``unreadable`` with their reason; element types that are no numbers or whose packing is not
    published are ``opaque``; a slot without type and bytes is ``null``. The logical shape is the original one where
    it holds the same elements or the layout is a private one, else the stored one.
    """
    source = str(path)
    return [
        _ref(tensor, source, node_key, shared_slot(role, (number,)))
        for role, tensors in ((SlotRole.INPUT, dump.inputs), (SlotRole.OUTPUT, dump.outputs))
        for number, tensor in enumerate(tensors)
    ]


def _ref(tensor: GeTensor, source: str, node_key: NodeKey, slot: Slot) -> TensorRef:
    kind, reason = _kind(tensor)
    stored_dtype = DEVICE_DTYPE_NAMES.get(tensor.data_type, f"DT_{_number(tensor)}")
    is_untyped = tensor.data_type == UNDEFINED
    layout = "ND" if is_untyped else LAYOUTS.get(tensor.format, f"FORMAT_{tensor.format}")
    is_shaped = kind in (TensorKind.TENSOR, TensorKind.OPAQUE) and not is_absurd(tensor.shape)
    return TensorRef.of(
        node_key,
        slot,
        kind,
        dtype=DEVICE_DTYPES.get(tensor.data_type, stored_dtype),
        stored_dtype=stored_dtype,
        shape=tensor.shape if is_shaped else None,
        logical_shape=_logical_shape(tensor, layout) if is_shaped else None,
        layout=layout,
        sub_format=tensor.sub_format,
        extents=(Extent(source, tensor.offset, tensor.nbytes),) if kind is TensorKind.TENSOR else (),
        source=source,
        reason=reason,
        address=tensor.address or 0,
    )


def _kind(tensor: GeTensor) -> tuple[TensorKind, str | None]:
    if tensor.problem is not None:
        return TensorKind.UNREADABLE, tensor.problem.message
    if tensor.data_type == UNDEFINED and tensor.size == 0:
        return TensorKind.NULL, "the slot has neither a type nor bytes"
    name = DEVICE_DTYPES.get(tensor.data_type)
    if name is None:
        return TensorKind.OPAQUE, f"element type number {_number(tensor)} is unknown"
    info = DTYPES[name]
    if info.decodable:
        return TensorKind.TENSOR, None
    if info.bits:
        return TensorKind.OPAQUE, f"the packing of `{DEVICE_DTYPE_NAMES[tensor.data_type]}` is not published"
    return TensorKind.OPAQUE, f"`{DEVICE_DTYPE_NAMES[tensor.data_type]}` elements are no numbers"


def _number(tensor: GeTensor) -> int:
    """Return the element type number as the file gives it."""
    return tensor.data_type if tensor.data_type >= 0 else -1 - tensor.data_type


def _logical_shape(tensor: GeTensor, layout: str) -> tuple[int, ...]:
    original = tensor.original_shape
    if original is None or tensor.data_type == UNDEFINED or is_absurd(original):
        return tensor.shape
    if math.prod(original) == math.prod(tensor.shape):
        return original
    # A private layout pads; an empty original shape beside a larger tensor only says that the device knew none.
    return tensor.shape if layout in PLAIN_LAYOUTS or not original else original
