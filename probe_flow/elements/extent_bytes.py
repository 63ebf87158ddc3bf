"""The bytes of one extent: small ones in memory, large ones mapped or in windows; a file that shrank is an error."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.elements.spare_memory import Loan
from probe_flow.errors import FormatError
from probe_flow.files.binary_file import BinaryFile, malformed
from probe_flow.records import Extent
from probe_flow.tensors.dtypes import decode, dtype_info

Values = NDArray[Any]
Bytes = Callable[[], NDArray[np.uint8]]


def small_extent(file: BinaryFile, extent: Extent) -> Bytes:
    content = file.read_at(extent.offset, extent.nbytes)
    if len(content) < extent.nbytes:
        raise shrunk(extent, extent.offset + len(content))
    values = np.frombuffer(content, np.uint8)
    return lambda: values


def held_extent(content: bytes, extent: Extent) -> Bytes:
    """Return the bytes of an extent in the content of its file."""
    if len(content) < extent.offset + extent.nbytes:
        raise shrunk(extent, len(content))
    values = np.frombuffer(content, np.uint8, extent.nbytes, extent.offset)
    return lambda: values


def mapped_extent(file: BinaryFile, extent: Extent) -> Bytes:
    """Map a tensor; each use looks first whether the file still holds it.

    Touching a page that a file no longer has ends the process with a bus error, so this way is only taken where a map
    is asked for.
    """
    mapped: mmap.mmap = file.map()
    end = extent.offset + extent.nbytes
    if len(mapped) < end:
        raise shrunk(extent, len(mapped))
    values = np.frombuffer(mapped, np.uint8, extent.nbytes, extent.offset)

    def present() -> NDArray[np.uint8]:
        if mapped.size() < end:
            raise shrunk(extent, mapped.size())
        return values

    return present


class StoredFile:
    """The bytes of an extent, for `Scattered`.

    Args:
        file: open as long as bytes are read.
        extent: where they are in it.
        dtype: of the stored elements.
        is_big_endian: byte order of the file.
    """

    def __init__(self, file: BinaryFile, extent: Extent, dtype: str, *, is_big_endian: bool) -> None:
        self._file = file
        self._extent = extent
        self.dtype = dtype
        self.is_big_endian = is_big_endian
        self.nbytes = extent.nbytes

    def read_into(self, first: int, buffer: memoryview) -> None:
        done = self._file.read_into(self._extent.offset + first, buffer)
        if done < len(buffer):
            raise shrunk(self._extent, self._extent.offset + first + done)


class Windows:
    """Reads each block from the file into one buffer that grows to the largest block.

    What lies in the buffer as the block itself is laid out once for all blocks of a size.
    """

    def __init__(self, file: BinaryFile, extent: Extent, dtype: str, *, is_big_endian: bool, memory: Loan) -> None:
        self._file = file
        self._extent = extent
        self._memory = memory
        self._dtype = dtype
        self._bits = dtype_info(dtype).bits
        self._is_big_endian = is_big_endian
        self._buffer = np.empty(0, np.uint8)
        self._window = memoryview(b"")
        self._count = 0
        self._view: Values | None = None

    def __call__(self, start: int, stop: int) -> Values:
        first, end, count = start * self._bits // 8, -(-stop * self._bits // 8), stop - start
        view = self._view if count == self._count else None
        if view is None:
            self._buffer = self._memory.at_least(end - first, self._buffer)
            self._window = self._buffer[: end - first].data
        done = self._file.read_into(self._extent.offset + first, self._window)
        if done < end - first:
            raise shrunk(self._extent, self._extent.offset + first + done)
        if view is not None:
            return view
        skipped = start - first * 8 // self._bits
        values = decode(self._window, self._dtype, skipped, count, big_endian=self._is_big_endian)
        self._count, self._view = count, values if np.may_share_memory(values, self._buffer) else None
        return values


def shrunk(extent: Extent, size: int) -> FormatError:
    return malformed(
        "PF3101",
        extent.file,
        f"`{Path(extent.file).name}` ends at byte {size}; the tensor needs bytes up to {extent.offset + extent.nbytes}",
        help_text="run again when nothing writes to the dump any more",
        offset=extent.offset,
    )
