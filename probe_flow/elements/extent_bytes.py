"""The bytes of one extent: small ones in memory, large ones mapped or in windows; a file that shrank is an error.

Windows come out of memory that tensors use one after another: fresh memory takes as long as the copy that goes into it.
The system hands it out page by page, zeroed, when it is first touched, and takes back what a large array leaves. For a
pair of a million elements in a private layout that was a sixth of the time (measured: 1,500 page faults).
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.errors import FormatError
from probe_flow.files.binary_file import BinaryFile, malformed
from probe_flow.records import Extent
from probe_flow.tensors.dtypes import decode, dtype_info

Values = NDArray[Any]
Bytes = Callable[[], NDArray[np.uint8]]


MOST_BYTES = 64 << 20
"""Kept at most: a stretch of a file and a block of either side, the largest that are read in one go."""


class SpareMemory:
    """Buffers that no tensor uses at the moment. Not to be shared by threads."""

    def __init__(self) -> None:
        self._free: list[NDArray[np.uint8]] = []
        self._nbytes = 0

    def take(self, nbytes: int) -> NDArray[np.uint8]:
        """Return a buffer of at least this size, whose content means nothing."""
        fits = [(buffer.size, number) for number, buffer in enumerate(self._free) if buffer.size >= nbytes]
        if not fits:
            return np.empty(nbytes, np.uint8)
        buffer = self._free.pop(min(fits)[1])
        self._nbytes -= buffer.size
        return buffer

    def give(self, buffer: NDArray[np.uint8]) -> None:
        """Take a buffer back; who still looks at it sees something else from now on."""
        if self._nbytes + buffer.size <= MOST_BYTES:
            self._free.append(buffer)
            self._nbytes += buffer.size


class Loan:
    """What one tensor has taken of spare memory, until it is closed; fresh memory where there is none to spare."""

    __slots__ = ("_spare", "_taken")

    def __init__(self, spare: SpareMemory | None) -> None:
        self._spare = spare
        self._taken: list[NDArray[np.uint8]] = []

    @property
    def has_spare(self) -> bool:
        return self._spare is not None

    def at_least(self, nbytes: int, buffer: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the buffer, or a larger one in its place if it has fewer bytes than this."""
        if buffer.size >= nbytes:
            return buffer
        if self._spare is None:
            return np.empty(nbytes, np.uint8)
        larger = self._spare.take(nbytes)
        self._taken.append(larger)
        return larger

    def end(self) -> None:
        """Give back all that was taken."""
        if self._spare is not None:
            for buffer in self._taken:
                self._spare.give(buffer)
            self._taken.clear()


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
