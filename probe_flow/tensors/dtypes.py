"""Canonical numeric dtypes: their names, sizes, and how their bytes become numbers.

Sources: the data type enumeration of the device dump message (proto numbering), the OCP float formats, the HiFloat8
bit rules; packing of 4-bit integers (low nibble first) is the convention of the dumps' writers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.errors import Diagnostic, NotComparableError

if TYPE_CHECKING:
    from probe_flow.tensors.stored_runs import StoredRuns

Values = NDArray[Any]
"""A 1-D array of any numpy or ml_dtypes dtype."""


class DTypeKind(enum.Enum):
    FLOAT = "float"
    INT = "int"
    UINT = "uint"
    BOOL = "bool"
    COMPLEX = "complex"
    OPAQUE = "opaque"


class DType(Struct, frozen=True):
    """One dtype.

    Args:
        name: canonical name, e.g. ``bfloat16``.
        bits: storage of one element in bits; 0 when it has no fixed size.
        kind: what the elements are.
        decodable: whether `decode` knows it. The others exist in dumps but their packing is not established.
    """

    name: str
    bits: int
    kind: DTypeKind
    decodable: bool = True

    @property
    def is_integer(self) -> bool:
        """Whether the values are whole numbers (bool is not counted)."""
        return self.kind in (DTypeKind.INT, DTypeKind.UINT)


def _registry() -> Mapping[str, DType]:
    floats = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16}
    floats |= dict.fromkeys(("hifloat8", "float8_e5m2", "float8_e4m3fn", "float8_e8m0"), 8)
    floats |= dict.fromkeys(("float8_e5m2fnuz", "float8_e4m3fnuz"), 8)
    kinds = {
        DTypeKind.FLOAT: floats,
        DTypeKind.INT: {"int64": 64, "int32": 32, "int16": 16, "int8": 8, "int4": 4},
        DTypeKind.UINT: {"uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8, "uint1": 1},
        DTypeKind.BOOL: {"bool": 8},
        DTypeKind.COMPLEX: {"complex128": 128, "complex64": 64, "complex32": 32},
    }
    dtypes = {name: DType(name, bits, kind) for kind, names in kinds.items() for name, bits in names.items()}
    undecodable = {"int2": 2, "uint2": 2, "float6_e3m2": 6, "float6_e2m3": 6, "float4_e2m1": 4, "float4_e1m2": 4}
    undecodable |= dict.fromkeys(("string", "string_ref", "dual", "variant"), 0)
    dtypes |= {name: DType(name, bits, DTypeKind.OPAQUE, decodable=False) for name, bits in undecodable.items()}
    return MappingProxyType(dtypes)


DTYPES: Mapping[str, DType] = _registry()
"""Every dtype by canonical name."""

_DEVICE = (
    # number, the format's own name, canonical name
    (0, "DT_UNDEFINED", "int8"), (1, "DT_FLOAT", "float32"), (2, "DT_FLOAT16", "float16"), (3, "DT_INT8", "int8"),
    (4, "DT_UINT8", "uint8"), (5, "DT_INT16", "int16"), (6, "DT_UINT16", "uint16"), (7, "DT_INT32", "int32"),
    (8, "DT_INT64", "int64"), (9, "DT_UINT32", "uint32"), (10, "DT_UINT64", "uint64"), (11, "DT_BOOL", "bool"),
    (12, "DT_DOUBLE", "float64"), (13, "DT_STRING", "string"), (14, "DT_DUAL_SUB_INT8", "int8"),
    (15, "DT_DUAL_SUB_UINT8", "uint8"), (16, "DT_COMPLEX64", "complex64"), (17, "DT_COMPLEX128", "complex128"),
    (18, "DT_QINT8", "int8"), (19, "DT_QINT16", "int16"), (20, "DT_QINT32", "int32"), (21, "DT_QUINT8", "uint8"),
    (22, "DT_QUINT16", "uint16"), (23, "DT_RESOURCE", "int64"), (24, "DT_STRING_REF", "string_ref"),
    (25, "DT_DUAL", "dual"), (26, "DT_VARIANT", "variant"), (27, "DT_BF16", "bfloat16"), (28, "DT_INT4", "int4"),
    (29, "DT_UINT1", "uint1"), (30, "DT_INT2", "int2"), (31, "DT_UINT2", "uint2"), (32, "DT_COMPLEX32", "complex32"),
    (33, "DT_HIFLOAT8", "hifloat8"), (34, "DT_FLOAT8_E5M2", "float8_e5m2"), (35, "DT_FLOAT8_E4M3FN", "float8_e4m3fn"),
    (36, "DT_FLOAT8_E8M0", "float8_e8m0"), (37, "DT_FLOAT6_E3M2", "float6_e3m2"),
    (38, "DT_FLOAT6_E2M3", "float6_e2m3"), (39, "DT_FLOAT4_E2M1", "float4_e2m1"),
    (40, "DT_FLOAT4_E1M2", "float4_e1m2"),
)  # fmt: skip

DEVICE_DTYPES: Mapping[int, str] = MappingProxyType({number: name for number, _, name in _DEVICE})
"""Data type number of the device dump message -> canonical name. Undefined data are read as int8."""

DEVICE_DTYPE_NAMES: Mapping[int, str] = MappingProxyType({number: name for number, name, _ in _DEVICE})
"""Data type number of the device dump message -> the format's own name."""


def dtype_info(name: str) -> DType:
    """Return the dtype of a canonical name.

    Raises:
        NotComparableError: PF5111 if there is no such dtype.
    """
    if name not in DTYPES:
        raise NotComparableError(
            Diagnostic("PF5111", f"dtype `{name}` is unknown", help="known: " + ", ".join(sorted(DTYPES)))
        )
    return DTYPES[name]


@lru_cache(maxsize=1 << 12)
def nbytes(name: str, count: int) -> int:
    """Return the bytes that ``count`` packed elements take, the same object for tensors of one size.

    The last byte of sub-byte types may be partly used.

    Raises:
        NotComparableError: PF5111 if the dtype is unknown or has no fixed size.
    """
    bits = dtype_info(name).bits
    if bits == 0:
        raise _undecodable(name)
    return (bits * count + 7) // 8


def decode(
    raw: NDArray[np.uint8] | memoryview | bytes, name: str, start: int, count: int, *, big_endian: bool = False
) -> Values:
    """Return elements ``[start, start + count)`` of a tensor as a 1-D array.

    float64 .. float16, bfloat16, whole-byte integers and complex64/128 are zero-copy views of ``raw`` (perhaps
    unaligned, read-only when ``raw`` is). 8-bit floats become float32, int4 int8, uint1 uint8, complex32 complex64;
    any non-zero byte of a bool is True.

    Args:
        raw: the bytes of the tensor, contiguous; surplus bytes at the end are ignored.
        name: canonical dtype.
        start: first element.
        count: number of elements.
        big_endian: bytes of an element are swapped (whole-byte types).

    Raises:
        NotComparableError: PF5111 if the dtype cannot be decoded, PF5112 if ``raw`` is too short.
    """
    data = _bytes_of(raw, name, start, start + count)
    bits = DTYPES[name].bits
    if bits < 8:
        return _unpack(data, name, np.arange(start, start + count, dtype=np.int64))
    size = bits // 8
    return _whole_bytes(data[start * size : (start + count) * size], name, big_endian=big_endian)


def decode_at(
    raw: NDArray[np.uint8] | memoryview | bytes, name: str, indices: NDArray[np.int64], *, big_endian: bool = False
) -> Values:
    """Return the elements at the given flat indices, in their order; types and errors as in `decode`.

    Raises:
        NotComparableError: PF5111 if the dtype cannot be decoded, PF5112 if an index lies outside ``raw``.
    """
    lowest, highest = (int(indices.min()), int(indices.max())) if indices.size else (0, -1)
    data = _bytes_of(raw, name, lowest, highest + 1)
    bits = DTYPES[name].bits
    if bits < 8:
        return _unpack(data, name, indices)
    size = bits // 8
    stored: Values = data[: data.size // size * size].view(_STORED[size])
    return _whole_bytes(stored[indices].view(np.uint8), name, big_endian=big_endian)


def decode_runs(
    raw: NDArray[np.uint8] | memoryview | bytes,
    name: str,
    runs: StoredRuns,
    start: int,
    stop: int,
    *,
    big_endian: bool = False,
    origin: int | None = None,
    out: NDArray[np.uint8] | None = None,
) -> Values:
    """Return logical elements ``[start, stop)`` of a tensor that lies in runs; types and errors as in `decode`.

    Elements of less than a byte have no runs. Where ``origin`` is given, ``raw`` begins with that stored element and
    holds at least those that are asked for, not the whole tensor. ``out`` is memory of their size for their bytes.
    """
    data = _bytes_of(raw, name, 0, runs.span if origin is None else 0)
    size = DTYPES[name].bits // 8
    stored: Values = data[: data.size // size * size].view(_STORED[size])
    place = None if out is None else out.view(stored.dtype)
    copied = runs.copy(stored, start, stop, origin=origin or 0, out=place)
    return _whole_bytes(copied.view(np.uint8), name, big_endian=big_endian)


def _bytes_of(raw: NDArray[np.uint8] | memoryview | bytes, name: str, start: int, stop: int) -> NDArray[np.uint8]:
    """Return ``raw`` as a flat uint8 array after checking that it holds elements ``[start, stop)``."""
    if not dtype_info(name).decodable:
        raise _undecodable(name)
    data = np.asarray(raw) if isinstance(raw, np.ndarray) else np.frombuffer(raw, dtype=np.uint8)
    needed = nbytes(name, max(stop, 0))
    if not 0 <= start <= stop or needed > data.size:
        raise NotComparableError(
            Diagnostic(
                "PF5112",
                f"elements {start} to {stop} of a `{name}` tensor need {needed} bytes, it has {data.size}",
                help="dump this tensor again: its file holds less than its shape says",
            )
        )
    return data


def _undecodable(name: str) -> NotComparableError:
    return NotComparableError(
        Diagnostic(
            "PF5111",
            f"dtype `{name}` cannot be decoded: it is no number, or its packing is not established",
            help="convert the tensor to another dtype before it is dumped",
        )
    )


_STORED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
"""A numpy type of the same size, to move elements of 1 to 16 bytes without interpreting them."""


@cache
def _numpy_dtype(name: str, *, big_endian: bool) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(name).newbyteorder(">" if big_endian else "<")
    return dtype


def _whole_bytes(data: NDArray[np.uint8], name: str, *, big_endian: bool) -> Values:
    if name == "bool":
        return np.not_equal(data, 0)
    if DTYPES[name].bits == 8 and DTYPES[name].kind is DTypeKind.FLOAT:
        from probe_flow.tensors.small_floats import value_table

        return value_table(name)[data]
    if name == "bfloat16":
        import ml_dtypes

        codes = data.view(_numpy_dtype("uint16", big_endian=big_endian))
        bfloats: Values = codes.astype(np.uint16, copy=False).view(ml_dtypes.bfloat16)
        return bfloats
    if name == "complex32":
        parts: Values = data.view(_numpy_dtype("float16", big_endian=big_endian))
        return parts.astype(np.float32).view(np.complex64)
    values: Values = data.view(_numpy_dtype(name, big_endian=big_endian))
    return values


def _unpack(data: NDArray[np.uint8], name: str, indices: NDArray[np.int64]) -> Values:
    """Return elements of a packed type: uint1 from the highest bit on, int4 low nibble first in two's complement."""
    if name == "uint1":
        bits: Values = np.right_shift(data[indices >> 3], (7 - (indices & 7)).astype(np.uint8))
        bits &= np.uint8(1)
        return bits
    nibbles: Values = np.right_shift(data[indices >> 1], ((indices & 1) << 2).astype(np.uint8)) & np.uint8(0x0F)
    signed: Values = (nibbles ^ np.uint8(8)).astype(np.int8)
    signed -= np.int8(8)
    return signed
