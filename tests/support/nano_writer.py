"""Write nano dumps for tests, from the published layout alone."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import ge_writer
import numpy as np
from ge_writer import FORMATS, DumpTensor

GE_TYPES = {
    "float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6, "uint16": 7, "uint32": 8, "int64": 9,
    "uint64": 10, "float64": 11, "bool": 12, "string": 13, "complex64": 16, "complex128": 17, "qint8": 18,
    "qint16": 19, "qint32": 20, "quint8": 21, "quint16": 22, "resource": 23, "bfloat16": 27, "undefined": 28,
    "int4": 29, "uint1": 30, "int2": 31, "uint2": 32, "complex32": 33, "hifloat8": 34, "float8_e5m2": 35,
    "float8_e4m3fn": 36, "float8_e8m0": 37, "float6_e3m2": 38, "float6_e2m3": 39, "float4_e2m1": 40,
    "float4_e1m2": 41,
}  # fmt: skip
"""Element types by the numbers of the graph compiler."""


@dataclass
class NanoTensor:
    """One tensor; ``lists`` are the blocks behind its record, by default those of its shapes and name."""

    tensor: DumpTensor
    name: str = ""
    number: int | None = None
    lists: bytes | None = None
    payload: bytes = field(init=False)

    def __post_init__(self) -> None:
        given = self.tensor
        array = ge_writer.to_layout(np.asarray(given.data), given.layout, c0=given.c0, groups=max(1, given.sub_format))
        self.payload = ge_writer.encode(array, given.dtype) + b"\xab" * given.surplus
        if self.lists is None:
            self.lists = block(0, dims(array.shape)) + block(1, dims(given.data.shape))
            self.lists += block(2, self.name.encode()) if self.name else b""
        if self.number is None:
            self.number = GE_TYPES[given.dtype]

    def record(self, *, is_output: bool) -> bytes:
        fields = struct.pack("<iii", self.number, FORMATS[self.tensor.layout], 0)
        if is_output:
            fields += struct.pack("<iii", 3, self.number, FORMATS[self.tensor.layout])
        assert self.lists is not None
        sizes = struct.pack("<QQQI", self.tensor.address, 0, len(self.payload), len(self.lists))
        return fields + sizes + self.lists


def dims(shape: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(shape)}Q", *shape)


def block(tag: int, value: bytes) -> bytes:
    return struct.pack("<II", tag, len(value)) + value


def records(tag: int, tensors: Sequence[NanoTensor]) -> bytes:
    content = b"".join(tensor.record(is_output=tag == 5) for tensor in tensors)
    return block(tag, struct.pack("<I", len(tensors)) + content)


def container(*blocks: bytes, payload: bytes = b"") -> bytes:
    header = struct.pack("<2I", 0x5A5A5A5A, 1) + b"".join(blocks)
    return struct.pack("<Q", len(header)) + header + payload


def nano_bytes(inputs: Sequence[NanoTensor] = (), outputs: Sequence[NanoTensor] = ()) -> bytes:
    payload = b"".join(tensor.payload for tensor in (*inputs, *outputs))
    return container(records(4, inputs), records(5, outputs), payload=payload)
