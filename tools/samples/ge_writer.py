"""Write device dump containers as an Ascend NPU leaves them, from ordinary arrays; no device, no protobuf package.

It makes the bundled sample and serves as the independent writer of the tests, so it is built from the format
description alone and imports nothing of probe_flow. The container (version 2) is an 8-byte little-endian header
length, a protobuf message that describes the tensors, then the bytes of all inputs, outputs, buffers and spaces.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

DATA_TYPES = {
    "undefined": 0, "float32": 1, "float16": 2, "int8": 3, "uint8": 4, "int16": 5, "uint16": 6, "int32": 7,
    "int64": 8, "uint32": 9, "uint64": 10, "bool": 11, "float64": 12, "string": 13, "complex64": 16,
    "complex128": 17, "qint8": 18, "qint16": 19, "qint32": 20, "quint8": 21, "quint16": 22, "resource": 23,
    "bfloat16": 27, "int4": 28, "uint1": 29, "int2": 30, "uint2": 31, "complex32": 32, "hifloat8": 33,
    "float8_e5m2": 34, "float8_e4m3fn": 35, "float8_e8m0": 36, "float6_e3m2": 37, "float6_e2m3": 38,
    "float4_e2m1": 39, "float4_e1m2": 40,
}  # fmt: skip
"""Element types by the numbers of the dump message."""

FORMATS = {
    "NCHW": 0, "NHWC": 1, "ND": 2, "NC1HWC0": 3, "FRACTAL_Z": 4, "NC1HWC0_C04": 12, "CHWN": 14, "HWCN": 16,
    "NDHWC": 27, "FRACTAL_NZ": 29, "NCDHW": 30, "DHWCN": 31, "NDC1HWC0": 32,
}  # fmt: skip
"""Storage layouts by the numbers of the dump message."""

_STORED_AS = {
    "undefined": "u1", "string": "u1", "qint8": "i1", "qint16": "<i2", "qint32": "<i4", "quint8": "u1",
    "quint16": "<u2", "resource": "<i8", "bfloat16": ml_dtypes.bfloat16, "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "hifloat8": "u1", "float8_e8m0": "u1", "int4": "u1", "int2": "u1",
    "uint1": "u1", "uint2": "u1", "float6_e3m2": "u1", "float6_e2m3": "u1", "float4_e2m1": "u1",
    "float4_e1m2": "u1",
}  # fmt: skip

_PERMUTATIONS = {
    "NHWC": (0, 2, 3, 1),
    "HWCN": (2, 3, 1, 0),
    "CHWN": (1, 2, 3, 0),
    "NDHWC": (0, 2, 3, 4, 1),
    "DHWCN": (2, 3, 4, 1, 0),
}
"""Axes of NCHW (or NCDHW) data in stored order."""

_FRACTAL_N0 = 16


@dataclass(frozen=True)
class DumpTensor:
    """One tensor of a dump.

    Args:
        data: logical values in NCHW (NCDHW) order for the 4-D (5-D) layouts. For ``hifloat8``, ``float8_e8m0`` and
            ``undefined`` the raw codes; ``int4`` and ``uint1`` are packed here (low nibble first, high bit first).
        dtype: a key of `DATA_TYPES`.
        layout: a key of `FORMATS`; the bytes are put into this layout, padded with zeros.
        c0: innermost block of the private layouts (16; 32 for 8-bit types; 4 for the C04 kind).
        surplus: bytes of 0xAB appended to the slot beyond what the shape needs.
        address: device address.
        sub_format: number of groups of a FRACTAL_Z weight; data is then ``(groups * n, c per group, h, w)``.
        original_shape: shape before the device's layout as the header gives it, default: that of ``data``.
        original_op: operator before fusion that an output is of, as the header gives it; empty: it gives none.
    """

    data: np.ndarray
    dtype: str
    layout: str = "ND"
    c0: int = 16
    surplus: int = 0
    address: int = 0
    sub_format: int = 0
    original_shape: Sequence[int] | None = None
    original_op: str = ""


def write_dump(
    path: Path | str,
    *,
    op_name: str,
    inputs: Sequence[DumpTensor] = (),
    outputs: Sequence[DumpTensor] = (),
    dump_time: int = 1_700_000_000_000_000,
    attrs: Iterable[tuple[str, str]] = (),
    buffers: Sequence[bytes] = (),
    spaces: Sequence[bytes] = (),
) -> Path:
    """Write one dump file and return its path. ``dump_time`` counts microseconds since the epoch."""
    path = Path(path)
    content = dump_bytes(
        op_name=op_name,
        inputs=inputs,
        outputs=outputs,
        dump_time=dump_time,
        attrs=attrs,
        buffers=buffers,
        spaces=spaces,
    )
    path.write_bytes(content)
    return path


def dump_bytes(
    *,
    op_name: str,
    inputs: Sequence[DumpTensor] = (),
    outputs: Sequence[DumpTensor] = (),
    dump_time: int = 1_700_000_000_000_000,
    attrs: Iterable[tuple[str, str]] = (),
    buffers: Sequence[bytes] = (),
    spaces: Sequence[bytes] = (),
    inline: bool = False,
) -> bytes:
    """Return the content of one dump file. ``inline`` makes the old form: one bare message that holds the data."""
    stored_inputs = [_stored(tensor) for tensor in inputs]
    stored_outputs = [_stored(tensor) for tensor in outputs]
    header = field_bytes(1, b"1.0" if inline else b"2.0") + field_varint(2, dump_time)
    for tensor, (shape, payload) in zip(outputs, stored_outputs, strict=True):
        header += field_bytes(3, _op(tensor, shape, len(payload), payload if inline else b"", 5))
    for tensor, (shape, payload) in zip(inputs, stored_inputs, strict=True):
        header += field_bytes(4, _op(tensor, shape, len(payload), payload if inline else b"", 4))
    header += b"".join(field_bytes(5, _section(len(data), data if inline else b"")) for data in buffers)
    header += field_bytes(6, op_name.encode())
    header += b"".join(field_bytes(7, field_bytes(1, k.encode()) + field_bytes(2, v.encode())) for k, v in attrs)
    header += b"".join(field_bytes(8, _section(len(data), data if inline else b"")) for data in spaces)
    if inline:
        return header
    payloads = [payload for _, payload in (*stored_inputs, *stored_outputs)]
    return container(header, *payloads, *buffers, *spaces)


def container(header: bytes, *payloads: bytes) -> bytes:
    """Return the header with its length before it and the payloads after it."""
    return struct.pack("<Q", len(header)) + header + b"".join(payloads)


def file_name(
    op_type: str,
    op_name: str,
    task_id: int,
    stream_id: int | None,
    timestamp: int,
    tail: Sequence[int] = (),
) -> str:
    """Return the name that the device gives a dump file.

    ``timestamp`` counts microseconds; ``stream_id`` None makes the four-field form; ``tail`` is
    ``(task type, context, thread, device)`` of the nine-field form.
    """
    cleaned = op_name.replace("/", "_").replace(".", "_")
    ids = [task_id] if stream_id is None else [task_id, stream_id]
    return ".".join([op_type, cleaned, *map(str, ids), f"{timestamp:016d}", *map(str, tail)])


def varint(value: int) -> bytes:
    """Encode an unsigned integer, 7 bits a byte, lowest first; negative ones as 64-bit two's complement."""
    value &= 2**64 - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def field_varint(number: int, value: int) -> bytes:
    """Encode an integer field; zero is the default and is left out."""
    return varint(number << 3) + varint(value) if value else b""


def field_bytes(number: int, value: bytes) -> bytes:
    """Encode a length-delimited field (bytes, text or a nested message)."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def shape_message(dims: Iterable[int]) -> bytes:
    """Encode a shape: packed dimensions; an empty message for a scalar."""
    packed = b"".join(varint(dim) for dim in dims)
    return field_bytes(1, packed) if packed else b""


def _op(tensor: DumpTensor, shape: Sequence[int], size: int, data: bytes, first: int) -> bytes:
    """Encode an OpInput or OpOutput; they differ in where the fields from ``data`` (number ``first``) on begin."""
    return (
        field_varint(1, DATA_TYPES[tensor.dtype])
        + field_varint(2, FORMATS[tensor.layout])
        + field_bytes(3, shape_message(shape))
        + (field_bytes(4, field_bytes(1, tensor.original_op.encode())) if tensor.original_op else b"")
        + (field_bytes(first, data) if data else b"")
        + field_varint(first + 1, size)
        + field_bytes(
            first + 2, shape_message(tensor.data.shape if tensor.original_shape is None else tensor.original_shape)
        )
        + field_varint(first + 3, tensor.sub_format)
        + field_varint(first + 4, tensor.address)
    )


def _section(size: int, data: bytes) -> bytes:
    return (field_bytes(2, data) if data else b"") + field_varint(3, size)


def _stored(tensor: DumpTensor) -> tuple[tuple[int, ...], bytes]:
    array = to_layout(np.asarray(tensor.data), tensor.layout, c0=tensor.c0, groups=max(1, tensor.sub_format))
    return array.shape, encode(array, tensor.dtype) + b"\xab" * tensor.surplus


def encode(array: np.ndarray, dtype: str) -> bytes:
    """Return the bytes of an array in one of the element types, little endian, C order."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if dtype == "int4":
        nibbles = np.append(flat, np.zeros(flat.size % 2, flat.dtype)).astype(np.int64) & 0xF
        return (nibbles[0::2] | nibbles[1::2] << 4).astype("u1").tobytes()
    if dtype == "uint1":
        return np.packbits(flat.astype("u1"), bitorder="big").tobytes()
    if dtype == "complex32":
        return np.stack([flat.real, flat.imag], axis=-1).astype("<f2").tobytes()
    stored = np.dtype(_STORED_AS.get(dtype, dtype))
    return flat.astype(stored.newbyteorder("<") if stored.kind != "V" else stored).tobytes()


def to_layout(data: np.ndarray, layout: str, *, c0: int = 16, groups: int = 1) -> np.ndarray:
    """Return logical data (NCHW, NCDHW or ND) in a storage layout, padded with zeros."""
    if layout in _PERMUTATIONS:
        return data.transpose(_PERMUTATIONS[layout])
    if layout == "FRACTAL_NZ":
        return _to_fractal_nz(data, c0)
    if layout in ("NC1HWC0", "NC1HWC0_C04"):
        n, c, h, w = data.shape
        padded = _pad(data, (n, _up(c, c0), h, w))
        return padded.reshape(n, -1, c0, h, w).transpose(0, 1, 3, 4, 2)
    if layout == "NDC1HWC0":
        n, c, d, h, w = data.shape
        padded = _pad(data, (n, _up(c, c0), d, h, w))
        return padded.reshape(n, -1, c0, d, h, w).transpose(0, 3, 1, 4, 5, 2)
    if layout == "FRACTAL_Z":
        return _to_fractal_z(data, c0, groups)
    return data


def _to_fractal_nz(data: np.ndarray, c0: int) -> np.ndarray:
    rows = data if data.ndim > 1 else data.reshape(1, -1)
    *batch, m, k = rows.shape
    padded = _pad(rows, (*batch, _up(m, _FRACTAL_N0), _up(k, c0)))
    blocks = padded.reshape(*batch, padded.shape[-2] // _FRACTAL_N0, _FRACTAL_N0, padded.shape[-1] // c0, c0)
    b = len(batch)
    return blocks.transpose(*range(b), b + 2, b, b + 1, b + 3)


def _to_fractal_z(data: np.ndarray, c0: int, groups: int) -> np.ndarray:
    total_n, c, h, w = data.shape
    n = total_n // groups
    e = min(math.lcm(math.lcm(c, c0) // c, math.lcm(n, _FRACTAL_N0) // n), groups)
    c1, n1, g = _up(e * c, c0) // c0, _up(e * n, _FRACTAL_N0) // _FRACTAL_N0, -(-groups // e)
    stored = np.zeros((g, c1, h, w, n1, _FRACTAL_N0, c0), data.dtype)
    for group, j, channel in np.ndindex(groups, n, c):
        dc, dn = group % e * c + channel, group % e * n + j
        kernel = data[group * n + j, channel]
        stored[group // e, dc // c0, :, :, dn // _FRACTAL_N0, dn % _FRACTAL_N0, dc % c0] = kernel
    return stored.reshape(g * c1 * h * w, n1, _FRACTAL_N0, c0)


def _up(value: int, block: int) -> int:
    return -(-value // block) * block


def _pad(data: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    padded = np.zeros(shape, data.dtype)
    padded[tuple(slice(0, dim) for dim in data.shape)] = data
    return padded
