"""Read the elements of a layout of its own: the stretch of the file that holds a block, then the elements out of it.

Where a block is spread over too much of the file (rows of a large matrix in tiles or in Fortran order), as many rows as
memory may hold are put together from the pieces that hold them, so that the bytes of a file are read about once.
Nothing is mapped: a map of a file that shrinks ends the process with a bus error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.elements.extent_bytes import Loan
from probe_flow.elements.panels import Panels, StoredBytes, places_of, taken
from probe_flow.tensors.blocked_layouts import Offsets
from probe_flow.tensors.dtypes import dtype_info
from probe_flow.tensors.stored_runs import StoredRuns

AHEAD_BYTES = 1 << 20
"""Read at once at least, and twice what a block needs: blocks that follow lie in the same stretch or behind it."""

WHOLE_BYTES = 16 << 20
"""Up to here a tensor is in memory whole rather than put together in parts."""

MAX_SPREAD = 4
"""Where a block is spread over more than this many times its bytes, it is put together from pieces of the file."""

Values = NDArray[Any]


class Scattered:
    """Reads blocks of a tensor whose stored order is not the logical one.

    Args:
        stored: its bytes, open as long as blocks are read.
        offsets: from `axis_offsets`.
        memory: what it may use.
    """

    def __init__(self, stored: StoredBytes, offsets: Offsets, memory: Loan) -> None:
        self._stored = stored
        self._memory = memory
        self._dtype = stored.dtype
        self._bits = dtype_info(stored.dtype).bits
        self._offsets = offsets
        self._places = places_of(offsets, self._bits)
        self._buffer = self._block = np.empty(0, np.uint8)
        self._first = self._end = 0
        self._panels = Panels(stored, offsets)

    def __call__(self, start: int, stop: int) -> Values:
        """Return logical elements ``[start, stop)``, at least one; they are valid until the next call.

        Raises:
            FormatError: PF3101 when the file has shrunk since it was listed.
        """
        lowest, highest = stored_range(self._offsets, start, stop)
        first, end = lowest * self._bits // 8, -(-(highest + 1) * self._bits // 8)
        if end - first > max(AHEAD_BYTES, (stop - start) * self._bits * MAX_SPREAD // 8):
            if self._stored.nbytes > WHOLE_BYTES:
                return self._panels(start, stop)
            first, end = 0, self._stored.nbytes
        raw, origin = self._stretch(first, end), self._first * 8 // self._bits
        return taken(self._stored, raw, self._places, start, stop, origin, self._room((stop - start) * self._bits // 8))

    def _room(self, nbytes: int) -> NDArray[np.uint8] | None:
        """Return memory for a block that is put together from runs, where there is some to spare."""
        if not self._memory.has_spare or not isinstance(self._places, StoredRuns):
            return None
        self._block = self._memory.at_least(nbytes, self._block)
        return self._block[:nbytes]

    def _stretch(self, first: int, end: int) -> NDArray[np.uint8]:
        """Return the buffer after reading bytes [first, end) of the tensor into it where it does not have them."""
        if not self._first <= first <= end <= self._end:
            end = max(end, min(first + max(AHEAD_BYTES, 2 * (end - first)), self._stored.nbytes))
            self._buffer = self._memory.at_least(end - first, self._buffer)
            self._first = self._end = first  # nothing, should reading fail
            self._stored.read_into(first, self._buffer[: end - first].data)
            self._end = end
        return self._buffer[: self._end - self._first]


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
