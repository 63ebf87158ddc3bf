"""Describe the tensors of a device dump file as the tensors of a catalog.

The shapes of a header say how many bytes a tensor needs, and which shape is the logical one.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from probe_flow.dumps.device.file_records import GeDump, GeTensor
from probe_flow.dumps.device.message import MAX_DIMS, SectionMessage
from probe_flow.records import Extent, NodeKey, Slot, SlotRole, TensorKind, TensorRef, shared_slot
from probe_flow.tensors.dtypes import DEVICE_DTYPE_NAMES, DEVICE_DTYPES, DTYPES, nbytes
from probe_flow.tensors.layouts import PLAIN_LAYOUTS

UNDEFINED = 0
"""Element type number of slots whose type the device does not know; their bytes are read as they are."""

LAYOUTS = MappingProxyType(
    {
        0: "NCHW", 1: "NHWC", 2: "ND", 3: "NC1HWC0", 4: "FRACTAL_Z", 5: "NC1C0HWPAD", 6: "NHWC1C0", 7: "FSR_NCHW",
        8: "FRACTAL_DECONV", 9: "C1HWNC0", 10: "FRACTAL_DECONV_TRANSPOSE", 11: "FRACTAL_DECONV_SP_STRIDE_TRANS",
        12: "NC1HWC0_C04", 13: "FRACTAL_Z_C04", 14: "CHWN", 15: "FRACTAL_DECONV_SP_STRIDE8_TRANS", 16: "HWCN",
        17: "NC1KHKWHWC0", 18: "BN_WEIGHT", 19: "FILTER_HWCK", 20: "HASHTABLE_LOOKUP_LOOKUPS",
        21: "HASHTABLE_LOOKUP_KEYS", 22: "HASHTABLE_LOOKUP_VALUE", 23: "HASHTABLE_LOOKUP_OUTPUT",
        24: "HASHTABLE_LOOKUP_HITS", 25: "C1HWNCoC0", 26: "MD", 27: "NDHWC", 28: "FRACTAL_ZZ", 29: "FRACTAL_NZ",
        30: "NCDHW", 31: "DHWCN", 32: "NDC1HWC0", 33: "FRACTAL_Z_3D", 34: "CN", 35: "NC", 36: "DHWNC",
        37: "FRACTAL_Z_3D_TRANSPOSE", 38: "FRACTAL_ZN_LSTM", 39: "FRACTAL_Z_G", 40: "RESERVED", 41: "ALL",
        42: "NULL", 43: "ND_RNN_BIAS", 44: "FRACTAL_ZN_RNN", 45: "YUV", 46: "YUV_A", 47: "NCL",
        48: "FRACTAL_Z_WINO", 49: "C1HWC0", 50: "FRACTAL_NZ_C0_16", 51: "FRACTAL_NZ_C0_32", 255: "MAX",
    }
)  # fmt: skip
"""Storage layouts by the numbers of the dump message."""

# The widest element has 16 bytes; addresses are signed 64-bit.
_MAX_ELEMENTS = (2**63 - 1) // 16


class ResolvedShape(Struct, frozen=True):
    """A stored shape with the bytes it needs; ``code`` and ``trouble`` say why it cannot be used."""

    shape: tuple[int, ...]
    nbytes: int
    code: str | None = None
    trouble: str = ""


def resolve_shape(section: SectionMessage, size: int) -> ResolvedShape:
    """Return the stored shape of a tensor whose slot has ``size`` bytes.

    Undefined elements fill the slot as bytes. An absent shape means a scalar when the slot holds one element, else a
    1-D tensor that fills the slot; an empty one that is present always means a scalar. Types of unknown size are not
    checked. The shape of single bits may count the bytes that hold them: it does where the slot has exactly so many,
    and the last axis then is that of the bits.
    """
    if section.data_type == UNDEFINED:
        return ResolvedShape((size,), size)
    info = DTYPES.get(DEVICE_DTYPES.get(section.data_type, ""))
    bits = info.bits if info is not None and info.decodable else 0
    shape = _implied_shape(size, bits) if section.shape is None else tuple(section.shape)
    if is_absurd(shape):
        return ResolvedShape(shape, 0, "PF3017", f" has the shape {list(shape)}, which is no size")
    if info is None or not bits:
        return ResolvedShape(shape, size)
    if bits == 1 and math.prod(shape) == size > 0:
        return ResolvedShape(_shape_of_bits(shape, tuple(section.original_shape or shape)), size)
    needed = nbytes(info.name, math.prod(shape))
    if needed > size:
        name = DEVICE_DTYPE_NAMES[section.data_type]
        text = f": shape {list(shape)} of {name} needs {needed} bytes, its slot has {size}"
        return ResolvedShape(shape, needed, "PF3016", text)
    return ResolvedShape(shape, needed)


def _shape_of_bits(in_bytes: tuple[int, ...], original: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of bits of which the stored shape counts bytes; the last one may be partly used."""
    *rest, last = in_bytes or (1,)
    unused = 8 * math.prod(in_bytes) - math.prod(original)
    is_known = original != in_bytes and not is_absurd(original) and 0 <= unused < 8
    return original if is_known else (*rest, 8 * last)


@lru_cache(maxsize=4096)
def is_absurd(shape: tuple[int, ...]) -> bool:
    """Return whether a shape is negative, has too many dimensions or exceeds any memory.

    Zero dimensions count as one here, so that they do not hide absurd ones.
    """
    if len(shape) > MAX_DIMS or any(dim < 0 for dim in shape):
        return True
    return math.prod(max(dim, 1) for dim in shape) > _MAX_ELEMENTS


def _implied_shape(size: int, bits: int) -> tuple[int, ...]:
    if bits == 0 or size * 8 // bits <= 1:
        return ()
    return (size * 8 // bits,)


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
