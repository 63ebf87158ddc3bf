"""Constants of ONNX models: where their elements lie, and these elements, however the file writes them.

Source: the published message TensorProto of ONNX.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from probe_flow.files.binary_file import BinaryFile
from probe_flow.files.protobuf import DELIMITED, FIXED32, VARINT, Field, FileBytes, WireReader

DTYPES: Mapping[int, str] = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}  # fmt: skip
"""Element types by their numbers."""

_PLAIN = frozenset({"bool", "float16", "float32", "float64"}) | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""Those that numpy has, and scripts can hold."""

_BITS = {"bool": 8, "complex64": 64, "complex128": 128, "bfloat16": 16}

_TEXT = 8
"""Number of the element type of texts."""

_RAW, _FLOAT_DATA, _INT32_DATA, _INT64_DATA, _DOUBLE_DATA, _UINT64_DATA = 9, 4, 5, 7, 10, 11
FLOATING = (_RAW, _FLOAT_DATA, _DOUBLE_DATA)
WHOLE = (_INT32_DATA, _INT64_DATA, _UINT64_DATA)
"""Fields that hold elements: as bytes, as integers of any width."""

MAX_FIELDS = 50_000_000


class WireTensor(Struct, frozen=True):
    """A constant.

    Args:
        name: empty in attributes.
        kind: number of its element type.
        shape: of it.
        pieces: fields that hold the elements; None = there are too many.
        external: where else they lie: ``location``, ``offset``, ``length``.
    """

    name: str
    kind: int
    shape: tuple[int, ...]
    pieces: tuple[Field, ...] | None = ()
    external: Mapping[str, str] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """Name of its element type; empty for texts and unknown ones."""
        return DTYPES.get(self.kind, "")

    @property
    def nbytes(self) -> int:
        """Bytes that its elements take."""
        return -(-math.prod(self.shape) * bits_of(self.dtype) // 8)


def bits_of(dtype: str) -> int:
    """Return the bits of one element."""
    if dtype.startswith("float8"):
        return 8
    if dtype.startswith("float4"):
        return 4
    return _BITS.get(dtype) or int("".join(filter(str.isdigit, dtype)) or 0)


def external_file(model: str, tensor: WireTensor) -> tuple[str, int] | None:
    """Return file and offset of elements that lie outside the model's own file; None where that is no place beside it.

    Args:
        model: path of the model.
        tensor: one that has such a place.
    """
    place = tensor.external.get("location", "")
    if not place or Path(place).is_absolute() or ".." in Path(place).parts:
        return None
    offset = tensor.external.get("offset", "0")
    return str(Path(model).parent / place), int(offset) if offset.isdecimal() else 0


def elements(model: str, tensor: WireTensor) -> NDArray[Any]:
    """Return the elements of a constant in its shape; those of types that numpy lacks as bytes, in one row.

    Args:
        model: path of the model.
        tensor: one of it.

    Raises:
        ValueError: they cannot be read, and why.
        FormatError: PF3001, PF3002, PF3013 a file cannot be read, or its content.
    """
    if tensor.kind == _TEXT:
        raise ValueError(f"`{tensor.name}` holds texts")
    if not tensor.dtype or tensor.pieces is None or any(axis < 0 for axis in tensor.shape):
        raise ValueError(f"`{tensor.name}` is of element type {tensor.kind}, or written in another way than known")
    raw = _external_bytes(model, tensor) if tensor.external else _own_bytes(model, tensor)
    if len(raw) != tensor.nbytes:
        raise ValueError(f"`{tensor.name}` has {len(raw):,} bytes where its shape takes {tensor.nbytes:,}")
    if tensor.dtype not in _PLAIN:
        return np.frombuffer(raw, np.uint8)
    return np.frombuffer(raw, np.dtype(tensor.dtype).newbyteorder("<")).reshape(tensor.shape)


def _external_bytes(model: str, tensor: WireTensor) -> bytes:
    place = external_file(model, tensor)
    if place is None:
        where = tensor.external.get("location", "")
        raise ValueError(f"`{tensor.name}` lies in `{where}`, outside the folder of the model")
    path, offset = place
    with BinaryFile(path) as file:
        end = offset + tensor.nbytes
        if end > file.size:  # before room is made for what a file claims
            raise ValueError(f"`{tensor.name}` lies in `{file.name}` up to byte {end:,}, and that has {file.size:,}")
        raw = bytearray(tensor.nbytes)
        return bytes(raw[: file.read_into(offset, memoryview(raw))])


def _own_bytes(model: str, tensor: WireTensor) -> bytes:
    pieces = tensor.pieces or ()
    with BinaryFile(model) as file:
        wire = WireReader(FileBytes(file), file.path, fields_left=MAX_FIELDS)
        whole = [each for each in pieces if each.number in WHOLE]
        if whole:
            numbers = np.array([*varints(wire, whole)], np.uint64)
            return numbers.astype(f"<u{max(1, bits_of(tensor.dtype) // 8)}").tobytes()
        return b"".join(_bytes_of(wire, pieces))


def _bytes_of(wire: WireReader, pieces: Iterable[Field]) -> Iterator[bytes]:
    """Yield the bytes of elements: all of them in one field, or packed, or one by one; of raw bytes the last counts."""
    raw = [each for each in pieces if each.number == _RAW]
    for each in raw[-1:] or pieces:
        if each.wire == DELIMITED:
            yield bytes(wire.data[each.start : each.stop])
        else:
            yield each.value.to_bytes(4 if each.wire == FIXED32 else 8, "little")


def varints(wire: WireReader, fields: Sequence[Field]) -> Iterator[int]:
    """Yield unsigned integers: each in a field, or packed."""
    for each in fields:
        if each.wire == VARINT:
            yield each.value
        elif each.wire == DELIMITED:
            yield from wire.varints(each.start, each.stop, limit=each.stop - each.start)
