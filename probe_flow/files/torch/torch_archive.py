"""Write a tensor as `torch.save` does, without torch: what stands before its bytes in the file, and what behind.

A `.pt` file is a zip archive of stored members: ``data.pkl`` rebuilds the tensor, ``data/0`` is its storage. Sources:
the published format of torch files, the zip format (APPNOTE 6.3) with its 64-bit extension, the opcodes of pickle.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType

STORAGES: Mapping[str, str] = MappingProxyType(
    {
        "float64": "DoubleStorage", "float32": "FloatStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage",
        "int64": "LongStorage", "int32": "IntStorage", "int16": "ShortStorage", "int8": "CharStorage",
        "uint8": "ByteStorage", "bool": "BoolStorage", "complex128": "ComplexDoubleStorage",
        "complex64": "ComplexFloatStorage",
    }
)  # fmt: skip
"""Dtypes with a storage class of their own."""

UNTYPED = frozenset(
    {"uint16", "uint32", "uint64", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz"}
)
"""Dtypes whose storage is bytes; torch knows them from version 2.3 on."""

_ROOT = "archive"
_ALIGNMENT = 64
_WIDE = 0xFFFFFFFF
_WIDE_FROM = _WIDE - 2**20
"""From so many bytes on places and sizes are written with 64 bits."""

_CRC_AT = 14
_UTF8 = 0x800
_TIME, _FIRST_DAY = 0, 1 << 5 | 1
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_END = struct.Struct("<4s4H2LH")


class TorchArchive:
    """The archive around the bytes of one tensor: `head`, then the bytes, then `tail`; `patch` goes into the head.

    Args:
        dtype: of `STORAGES` or `UNTYPED`.
        shape: in C order.
        nbytes: of the elements.
    """

    def __init__(self, dtype: str, shape: Sequence[int], nbytes: int) -> None:
        self._is_wide = nbytes >= _WIDE_FROM
        self._entries: list[bytes] = []
        self._size = 0
        self.head = self._member("data.pkl", _pickle(dtype, shape, nbytes)) + self._member("byteorder", b"little")
        self._data_at = self._size
        self.head += self._header("data/0", nbytes, 0)
        self._nbytes = nbytes

    def patch(self, crc: int) -> tuple[int, bytes]:
        """Return where in the file the checksum of the elements belongs, and its bytes."""
        return self._data_at + _CRC_AT, struct.pack("<L", crc)

    def tail(self, crc: int) -> bytes:
        """Return what follows the elements, given their CRC-32."""
        self._size = len(self.head) + self._nbytes
        self._entries.append(self._entry("data/0", self._nbytes, crc, self._data_at))
        last = self._member("version", b"3\n")
        directory, at = b"".join(self._entries), self._size
        count = len(self._entries)
        place: tuple[int, int] = (len(directory), at)
        end = b""
        if self._is_wide:
            end = _END64.pack(b"PK\6\6", _END64.size - 12, 45, 45, 0, 0, count, count, *place)
            end += _LOCATOR64.pack(b"PK\6\7", 0, at + len(directory), 1)
            place = (_WIDE, _WIDE)
        return last + directory + end + _END.pack(b"PK\5\6", 0, 0, count, count, *place, 0)

    def _member(self, name: str, content: bytes) -> bytes:
        start, crc = self._size, zlib.crc32(content)
        whole = self._header(name, len(content), crc) + content
        self._size += len(content)
        self._entries.append(self._entry(name, len(content), crc, start))
        return whole

    def _header(self, name: str, size: int, crc: int) -> bytes:
        """Return a local header, padded so that the content begins at a multiple of 64."""
        raw = f"{_ROOT}/{name}".encode("ascii")
        extra = struct.pack("<2H2Q", 1, 16, size, size) if self._is_wide else b""
        padding = -(self._size + _LOCAL.size + len(raw) + len(extra) + 4) % _ALIGNMENT
        extra += struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        shown = _WIDE if self._is_wide else size
        version = 45 if self._is_wide else 20
        fields = (version, _UTF8, 0, _TIME, _FIRST_DAY, crc, shown, shown, len(raw), len(extra))
        header = _LOCAL.pack(b"PK\3\4", *fields) + raw + extra
        self._size += len(header)
        return header

    def _entry(self, name: str, size: int, crc: int, start: int) -> bytes:
        raw = f"{_ROOT}/{name}".encode("ascii")
        extra, shown, version = b"", (size, size, start), 20
        if self._is_wide:
            extra, shown, version = struct.pack("<2H3Q", 1, 24, size, size, start), (_WIDE, _WIDE, _WIDE), 45
        fields = (version, version, _UTF8, 0, _TIME, _FIRST_DAY, crc, *shown[:2], len(raw), len(extra), 0, 0, 0, 0)
        return _CENTRAL.pack(b"PK\1\2", *fields, shown[2]) + raw + extra


def _pickle(dtype: str, shape: Sequence[int], nbytes: int) -> bytes:
    """Return the opcodes that rebuild a dense tensor on its storage: no gradient, no hooks."""
    is_typed = dtype in STORAGES
    kind = _name("torch", STORAGES[dtype]) if is_typed else _name("torch.storage", "UntypedStorage")
    count = math.prod(shape) if is_typed else nbytes
    storage = _tuple(_text("storage"), kind, _text("0"), _text("cpu"), _number(count)) + b"Q"
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    hooks = _name("collections", "OrderedDict") + b")R"
    arguments = [storage, _number(0), _tuple(*map(_number, shape)), _tuple(*map(_number, strides)), b"\x89", hooks]
    if not is_typed:
        arguments.append(_name("torch", dtype))
    function = _name("torch._utils", "_rebuild_tensor_v2" if is_typed else "_rebuild_tensor_v3")
    return b"\x80\x02" + function + _tuple(*arguments) + b"R."


def _tuple(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def _name(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode("ascii")


def _text(text: str) -> bytes:
    raw = text.encode("ascii")
    return b"X" + struct.pack("<L", len(raw)) + raw


def _number(value: int) -> bytes:
    if value < 2**31:
        return b"J" + struct.pack("<i", value)
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw
