"""Read the elements of a layout of its own from one file: the stretch that holds a block, then the elements out of it.

Windows of the file are safe where a map is not: a map of a file that shrinks ends the process with a bus error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.formats.binary_file import BinaryFile
from probe_flow.formats.extent_bytes import Bytes, mapped_extent, shrunk
from probe_flow.records import Extent
from probe_flow.tensors.blocked_layouts import Offsets
from probe_flow.tensors.dtypes import decode_at, decode_runs, dtype_info
from probe_flow.tensors.layouts import LogicalIndex
from probe_flow.tensors.stored_runs import stored_runs

AHEAD_BYTES = 1 << 20
"""Read at once at least, and twice what a block needs: blocks that follow lie in the same stretch or behind it."""

MAX_STRETCH = 8 << 20
"""Where a block is spread over more bytes than this (rows of a large matrix in tiles, columns), the file is mapped."""

Values = NDArray[Any]


class Scattered:
    """Reads blocks of a tensor whose stored order is not the logical one.

    Args:
        file: stays open as long as blocks are read.
        extent: where the tensor lies in it.
        dtype: of the stored elements.
        offsets: from `axis_offsets`.
        is_big_endian: byte order of the file.
    """

    def __init__(self, file: BinaryFile, extent: Extent, dtype: str, offsets: Offsets, *, is_big_endian: bool) -> None:
        self._file = file
        self._extent = extent
        self._dtype = dtype
        self._bits = dtype_info(dtype).bits
        self._offsets = offsets
        self._is_big_endian = is_big_endian
        self._places = (stored_runs(offsets) if self._bits % 8 == 0 else None) or LogicalIndex(offsets)
        self._buffer = np.empty(0, np.uint8)
        self._first = self._end = 0
        self._mapped: Bytes | None = None

    def __call__(self, start: int, stop: int) -> Values:
        """Return logical elements ``[start, stop)``.

        Raises:
            FormatError: PF3101 when the file has shrunk since it was listed.
        """
        lowest, highest = stored_range(self._offsets, start, stop)
        first, end = lowest * self._bits // 8, -(-(highest + 1) * self._bits // 8)
        if end - first > MAX_STRETCH:
            raw, origin = self._map(), 0
        else:
            raw, origin = self._stretch(first, end), self._first * 8 // self._bits
        big_endian = self._is_big_endian
        if isinstance(self._places, LogicalIndex):
            indices = self._places.stored(start, stop)
            return decode_at(raw, self._dtype, indices - origin, big_endian=big_endian)
        return decode_runs(raw, self._dtype, self._places, start, stop, big_endian=big_endian, origin=origin)

    def _stretch(self, first: int, end: int) -> NDArray[np.uint8]:
        """Return the buffer after reading bytes [first, end) of the tensor into it where it does not have them."""
        if not self._first <= first <= end <= self._end:
            end = max(end, min(first + max(AHEAD_BYTES, 2 * (end - first)), self._extent.nbytes))
            if self._buffer.size < end - first:
                self._buffer = np.empty(end - first, np.uint8)
            self._first = self._end = first  # nothing, should reading fail
            done = self._file.read_into(self._extent.offset + first, self._buffer[: end - first].data)
            if done < end - first:
                raise shrunk(self._extent, self._extent.offset + first + done)
            self._end = end
        return self._buffer[: self._end - self._first]

    def _map(self) -> NDArray[np.uint8]:
        if self._mapped is None:
            self._mapped = mapped_extent(self._file, self._extent)
        return self._mapped()


def stored_range(offsets: Offsets, start: int, stop: int) -> tuple[int, int]:
    """Return bounds (both inclusive) of the stored indices of logical elements ``[start, stop)``, at least one.

    They are as narrow as whole rows of the first axis along which the elements extend.

    >>> stored_range((np.array([0, 2, 4]), np.array([0, 1])), 1, 5)
    (0, 5)
    """
    low = high = 0
    first, last = start, stop - 1
    size = 1
    for vector in offsets:
        size *= vector.size
    is_apart = False
    for vector in offsets:
        size //= vector.size
        if is_apart:
            low += int(vector.min())
            high += int(vector.max())
            continue
        (i, first), (j, last) = divmod(first, size), divmod(last, size)
        is_apart = i != j
        part = vector[i : j + 1]
        low += int(part.min())
        high += int(part.max())
    return low, high
