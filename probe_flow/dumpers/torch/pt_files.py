"""The content of a `.pt` file of one tensor: the zip archive that `torch.save` writes, without copies of the elements.

Format: records `data.pkl` (a pickle of protocol 2 that calls ``torch._utils._rebuild_tensor_v2``), `byteorder`,
`data/0` (the elements, at a multiple of 64 bytes) and `version`, all stored, in a folder `archive`.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
import zlib
from collections import OrderedDict
from functools import lru_cache
from typing import Any

import torch

_STORAGES = {
    torch.float32: torch.FloatStorage,
    torch.float64: torch.DoubleStorage,
    torch.float16: torch.HalfStorage,
    torch.bfloat16: torch.BFloat16Storage,
    torch.int64: torch.LongStorage,
    torch.int32: torch.IntStorage,
    torch.int16: torch.ShortStorage,
    torch.int8: torch.CharStorage,
    torch.uint8: torch.ByteStorage,
    torch.bool: torch.BoolStorage,
    torch.complex64: torch.ComplexFloatStorage,
    torch.complex128: torch.ComplexDoubleStorage,
}
_ALIGNMENT = 64
_LOCAL, _CENTRAL, _END = "<IHHHHHIIIHH", "<IHHHHHHIIIHHHHHII", "<IHHHHIIH"
_LIMIT = 1 << 31
"""From here on archives need fields of 64 bits, which `torch.save` writes."""


def pt_parts(tensor: torch.Tensor) -> tuple[bytes | memoryview, ...]:
    """Return the bytes of the file in parts: the tensor alone, contiguous, on the host, without gradient."""
    held = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    size = held.numel() * held.element_size()
    if held.dtype not in _STORAGES or size >= _LIMIT:
        return (_saved(held, size),)
    data = memoryview(held.reshape(-1).view(torch.uint8).numpy()) if size else memoryview(b"")
    archive = _Archive()
    archive.add("archive/data.pkl", memoryview(_pickle(held.dtype, tuple(held.shape), held.numel())))
    archive.add("archive/byteorder", memoryview(sys.byteorder.encode()))
    archive.add("archive/data/0", data)
    archive.add("archive/version", memoryview(b"3\n"))
    return archive.parts()


def _saved(held: torch.Tensor, size: int) -> memoryview:
    if held.untyped_storage().nbytes() != size:
        held = held.clone()
    buffer = io.BytesIO()
    torch.save(held, buffer)
    return buffer.getbuffer()


class _Storage:
    """Stands for the elements in the pickle."""

    def __init__(self, kind: Any, count: int) -> None:
        self.reference = ("storage", kind, "0", "cpu", count)


class _Tensor:
    """Pickled as the call that makes the tensor again."""

    def __init__(self, storage: _Storage, shape: tuple[int, ...]) -> None:
        self._arguments: tuple[Any, ...] = (storage, 0, shape, _strides(shape), False, OrderedDict())

    def __reduce__(self) -> tuple[Any, ...]:
        return torch._utils._rebuild_tensor_v2, self._arguments


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> Any:
        return value.reference if isinstance(value, _Storage) else None


@lru_cache(maxsize=1024)
def _pickle(dtype: torch.dtype, shape: tuple[int, ...], count: int) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=2).dump(_Tensor(_Storage(_STORAGES[dtype], count), shape))
    return buffer.getvalue()


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


class _Archive:
    """A zip archive of stored records."""

    def __init__(self) -> None:
        self._parts: list[bytes | memoryview] = []
        self._directory: list[bytes] = []
        self._size = 0

    def add(self, name: str, content: memoryview) -> None:
        """Add a record whose content begins at a multiple of the alignment."""
        raw, size, check = name.encode(), content.nbytes, zlib.crc32(content)
        start = self._size + struct.calcsize(_LOCAL) + len(raw) + 4
        padding = b"FB" + struct.pack("<H", -start % _ALIGNMENT) + b"Z" * (-start % _ALIGNMENT)
        fields = (0, 0, 0, 0, check, size, size, len(raw))
        header = struct.pack(_LOCAL, 0x04034B50, 20, *fields, len(padding)) + raw + padding
        entry = struct.pack(_CENTRAL, 0x02014B50, 20, 20, *fields, 0, 0, 0, 0, 0, self._size)
        self._directory.append(entry + raw)
        self._parts += (header, content)
        self._size += len(header) + size

    def parts(self) -> tuple[bytes | memoryview, ...]:
        """Return the archive."""
        directory = b"".join(self._directory)
        count = len(self._directory)
        end = struct.pack(_END, 0x06054B50, 0, 0, count, count, len(directory), self._size, 0)
        return (*self._parts, directory + end)
