"""How the elements of a tensor are written in files of another kind: which type they get, so that none changes value.

Arrays (`.npy`) and torch files cannot name every device type. What they cannot name is written in the next wider type
that holds each value exactly: bfloat16 in arrays as float32, 8-bit floats as float32 (torch names two of them), int4
as int8, uint1 as uint8, complex32 as complex64. Plain bytes (`.bin`) are those of the dump.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from probe_flow.elements.blocks import open_tensor
from probe_flow.records import TensorRef
from probe_flow.tensors.dtypes import decode, dtype_info
from probe_flow.tensors.encoding import TORCH, parse_encoding

BLOCK = 1 << 18
"""Elements that are read and written at a time; a multiple of 8, so that packed types are cut between bytes."""

_CARRIERS = {8: "uint8", 16: "uint16", 32: "uint32", 64: "uint64", 128: "complex128"}
"""Types that move elements of so many bits without looking at them."""

_WIDENED = {"bfloat16": np.dtype(np.float32)}
_NAMED_BY_TORCH_ONLY = frozenset({"bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz"})
_NO_BYTES = np.empty(0, np.uint8)


class Form(Struct, frozen=True):
    """How elements are written.

    Args:
        name: canonical name of the type in the file.
        read_as: canonical name of the type that the tensor is read as; another than its own moves the bits.
        dtype: numpy type of the elements in the file; of packed types, of one element before it is packed.
    """

    name: str
    read_as: str
    dtype: np.dtype[Any]

    @property
    def packed_bits(self) -> int:
        """Bits of an element that shares its byte with others; 0 for whole bytes."""
        bits = dtype_info(self.name).bits
        return bits if bits < 8 else 0

    def nbytes(self, count: int) -> int:
        """Return the bytes of so many elements in the file."""
        bits = self.packed_bits or self.dtype.itemsize * 8
        return -(-bits * count // 8)


def array_form(ref: TensorRef) -> Form:
    """Return how a tensor is written in a `.npy` file.

    Raises:
        NotComparableError: PF5111 when its elements cannot be decoded; likewise the other forms.
    """
    held = held_dtype(ref)
    found = decode(_NO_BYTES, held, 0, 0).dtype
    dtype = _WIDENED.get(held, found).newbyteorder("<")
    return Form(dtype.name, held, dtype)


def torch_form(ref: TensorRef) -> Form:
    """Return how a tensor is written in a torch file."""
    held = held_dtype(ref)
    return _moved(ref, held) if held in _NAMED_BY_TORCH_ONLY else array_form(ref)


def bytes_form(ref: TensorRef) -> Form:
    """Return how a tensor is written as plain bytes: as it is in the dump."""
    return _moved(ref, held_dtype(ref))


def held_dtype(ref: TensorRef) -> str:
    """Return the dtype of the elements in the file of a tensor, which may be wider than its own."""
    encoding = ref.extents[0].encoding if ref.extents else "raw"
    return ref.dtype if encoding == TORCH else parse_encoding(encoding).stored_as or ref.dtype


def _moved(ref: TensorRef, held: str) -> Form:
    bits = dtype_info(held).bits
    if bits not in _CARRIERS or any(extent.encoding == TORCH for extent in ref.extents):
        dtype = decode(_NO_BYTES, held, 0, 0).dtype
        return Form(held if bits < 8 else dtype.name, held, dtype.newbyteorder("<"))
    return Form(held, _CARRIERS[bits], np.dtype(_CARRIERS[bits]).newbyteorder("<"))


def read_blocks(ref: TensorRef, form: Form, *, io: str = "auto") -> Iterator[NDArray[Any]]:
    """Yield the elements of a tensor in logical order, as 1-D blocks of ``form.dtype`` that are valid until the next.

    Raises:
        FormatError, NotComparableError: as `open_tensor`.
    """
    with open_tensor(_read_as(ref, form), io=io) as blocks:
        for start in range(0, blocks.numel, BLOCK):
            block = blocks.read(start, min(blocks.numel, start + BLOCK))
            yield block.astype(form.dtype, copy=False)


def packed(block: NDArray[Any], form: Form) -> NDArray[Any]:
    """Return the elements of a block as they stand in the file: packed types share bytes."""
    if form.packed_bits == 1:
        return np.packbits(block.astype(np.uint8, copy=False))
    if form.packed_bits == 4:
        nibbles = block.view(np.uint8) & np.uint8(0x0F)
        if nibbles.size % 2:
            nibbles = np.append(nibbles, np.uint8(0))
        both: NDArray[Any] = nibbles[0::2] | nibbles[1::2] << np.uint8(4)
        return both
    return block


def _read_as(ref: TensorRef, form: Form) -> TensorRef:
    if form.read_as == ref.dtype:
        return ref
    extents = tuple(replace(extent, encoding=extent.encoding.partition("@")[0]) for extent in ref.extents)
    return ref.changed(dtype=form.read_as, extents=extents)
