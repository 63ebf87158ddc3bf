"""Write `.pt` files byte by byte, from the zip format and the pickle opcodes: as `torch.save` does, and otherwise."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

STORAGES = {
    "float64": "DoubleStorage",
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
}
ITEM_BYTES = {"float64": 8, "int64": 8, "complex64": 8, "complex128": 16, "float32": 4, "int32": 4}
ITEM_BYTES |= dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2)
HOOKS = b"ccollections\nOrderedDict\n)R"


def mark(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def named(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def number(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if 0 <= value < 65536:
        return b"M" + struct.pack("<H", value)
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def numbers(values: Sequence[int]) -> bytes:
    return mark(*(number(value) for value in values))


def c_strides(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def call(
    dtype: str,
    shape: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    offset: int = 0,
    count: int | None = None,
    more: Sequence[bytes] = (),
) -> bytes:
    """Return the opcodes of one tensor, without protocol and end; dtypes without storage class go by their bytes."""
    steps = c_strides(shape) if strides is None else strides
    is_typed = dtype in STORAGES
    kind = named("torch", STORAGES[dtype]) if is_typed else named("torch.storage", "UntypedStorage")
    size = math.prod(shape) * (1 if is_typed else ITEM_BYTES.get(dtype, 1)) if count is None else count
    storage = mark(text("storage"), kind, text("0"), text("cpu"), number(size)) + b"Q"
    dtype_argument = [] if is_typed else [named("torch", dtype)]
    arguments = mark(storage, number(offset), numbers(shape), numbers(steps), b"\x89", HOOKS, *dtype_argument, *more)
    return named("torch._utils", "_rebuild_tensor_v2" if is_typed else "_rebuild_tensor_v3") + arguments + b"R"


def pickled(opcodes: bytes) -> bytes:
    return b"\x80\x02" + opcodes + b"."


@dataclass
class Zip:
    """An archive in the making, with the sizes behind the content (as torch writes them) and in the directory."""

    content: bytearray = field(default_factory=bytearray)
    entries: list[bytes] = field(default_factory=list)

    def add(self, name: str, data: bytes, *, packed: bytes | None = None, wide: bool = False) -> int:
        """Add a member; `packed` is its deflated form. Return where its bytes begin."""
        raw, stored = name.encode(), data if packed is None else packed
        method, crc, start = 0 if packed is None else 8, zlib.crc32(data), len(self.content)
        padding = -(start + 30 + len(raw) + 4) % 64
        extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        self.content += struct.pack("<4s5H3L2H", b"PK\3\4", 0, 0x808, method, 0, 0, 0, 0, 0, len(raw), len(extra))
        self.content += raw + extra
        begin = len(self.content)
        self.content += stored + struct.pack("<4s3L", b"PK\7\x08", crc, len(stored), len(data))
        sizes = (len(stored), len(data), start)
        more = b""
        if wide:
            more = struct.pack("<2H3Q", 1, 24, len(data), len(stored), start)
            sizes = (0xFFFFFFFF,) * 3
        self.entries.append(
            struct.pack(
                "<4s4B4HL2L5H2L",
                *(b"PK\1\2", 20, 0, 20, 0, 0x808, method, 0, 0, crc, *sizes[:2], len(raw), len(more), 0, 0, 0, 0),
                sizes[2],
            )
            + raw
            + more
        )
        return begin

    def end(self, *, wide: bool = False) -> bytes:
        offset, directory, count = len(self.content), b"".join(self.entries), len(self.entries)
        body = bytes(self.content) + directory
        place = (len(directory), offset)
        if wide:
            record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, *place)
            body += record + struct.pack("<4sLQL", b"PK\6\7", 0, offset + len(directory), 1)
            place = (0xFFFFFFFF, 0xFFFFFFFF)
        return body + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, *place, 0)


def torch_file(opcodes: bytes, payload: bytes | None = b"", *, order: bytes = b"little", **options: Any) -> bytes:
    """Return a whole file: these opcodes, and the bytes of storage 0 unless None."""
    archive = Zip()
    archive.add("x/data.pkl", pickled(opcodes), **options)
    archive.add("x/byteorder", order)
    if payload is not None:
        archive.add("x/data/0", payload, **options)
    archive.add("x/version", b"3\n")
    return archive.end(wide=bool(options.get("wide")))
