"""Write one tensor as `torch.save` does (zip archive, version 3), without torch.

Members are stored, not compressed: `data.pkl` (pickle protocol 2) rebuilds the tensor over the storage `data/0`.
"""

from __future__ import annotations

import math
import struct
import zipfile
from pathlib import Path

ALIGNMENT = 64
PREFIX = "tensor"
DATE = (1980, 1, 1, 0, 0, 0)
LOCAL_HEADER_BYTES = 30
STORAGES = {"float32": "FloatStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage"}


def write_torch(path: Path, payload: bytes, *, dtype: str, shape: tuple[int, ...]) -> None:
    """Write ``payload``, the elements in C order and little endian, as a tensor of this dtype and shape."""
    members = {
        "data.pkl": tensor_pickle(dtype, shape),
        "byteorder": b"little",
        "data/0": payload,
        "version": b"3\n",
    }
    with path.open("wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(f"{PREFIX}/{name}", DATE)
            info.extra = _padding(file.tell() + LOCAL_HEADER_BYTES + len(info.filename))
            archive.writestr(info, content)


def tensor_pickle(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the pickle of a call of ``_rebuild_tensor_v2``, opcode by opcode: contiguous, without gradient."""
    strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    storage = (
        _mark(_text("storage"), _global("torch", STORAGES[dtype]), _text("0"), _text("cpu"), _int(math.prod(shape)))
        + b"Q"  # BINPERSID: the storage is named, not contained
    )
    arguments = _mark(
        storage,
        _int(0),
        _mark(*(_int(value) for value in shape)),
        _mark(*(_int(value) for value in strides)),
        b"\x89",  # NEWFALSE: requires no gradient
        _global("collections", "OrderedDict") + b")R",
    )
    return b"\x80\x02" + _global("torch._utils", "_rebuild_tensor_v2") + arguments + b"R."


def _mark(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def _global(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode("ascii")


def _text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode("ascii")


def _int(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def _padding(offset: int) -> bytes:
    """Return an extra field that puts the content of the member, now at ``offset``, on a multiple of the alignment."""
    missing = -(offset + 4) % ALIGNMENT
    return struct.pack("<2sH", b"FB", missing) + b"Z" * missing
