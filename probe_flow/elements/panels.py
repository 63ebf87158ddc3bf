"""Put elements together that are spread over much of a file: rows of a large matrix in tiles or in Fortran order.

As many rows as memory may hold are made at once from the pieces of the file that hold them, so that the bytes of the
file are read about once however thin one row lies in it. Where the places of two panels differ by one distance only,
the second one is made by the plan of the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from probe_flow.tensors.blocked_layouts import Offsets
from probe_flow.tensors.dtypes import decode, decode_at, decode_runs, dtype_info
from probe_flow.tensors.layouts import LogicalIndex
from probe_flow.tensors.stored_pieces import stored_pieces
from probe_flow.tensors.stored_runs import StoredRuns, stored_runs

PANEL_BYTES = 16 << 20
"""Elements put together at once at most: the more of them, the longer are the pieces."""

WINDOW_BYTES = 1 << 20
"""Bytes of pieces that are read before their elements are taken out; they stay in the processor's cache."""

GAP_BYTES = 4096
"""Read along with a piece rather than left out: copying a page takes as long as another call."""

BLOCK = 1 << 16
"""Elements taken out at once: what lists their places stays in the processor's cache too."""

LONG_BYTES = 1 << 14
"""Pieces of this size are read as fast as longer ones."""

GROWTH = 4
"""While pieces are shorter, or hold more than twice the elements, each panel has this many times those of the last."""

Values = NDArray[Any]


class StoredBytes(Protocol):
    """The stored bytes of a tensor, one stretch of them or another."""

    dtype: str
    is_big_endian: bool
    nbytes: int

    def read_into(self, first: int, buffer: memoryview) -> None:
        """Fill ``buffer`` with the bytes from ``first`` on; a FormatError (PF3101) where they are not there."""


class Panels:
    """Reads blocks of a tensor whose stored order is not the logical one, from panels of rows.

    Args:
        stored: its bytes, open as long as blocks are read.
        offsets: from `axis_offsets`.
    """

    def __init__(self, stored: StoredBytes, offsets: Offsets) -> None:
        self._stored = stored
        self._offsets = offsets
        self._bits = dtype_info(stored.dtype).bits
        self._dtype = decode(b"", stored.dtype, 0, 0).dtype.newbyteorder("=")
        self._panel = self._raw = np.empty(0, np.uint8)
        self._first = 0
        self._values: Values = np.empty(0, self._dtype)
        self._plan: tuple[Offsets, list[_Window]] = ((), [])

    def __call__(self, start: int, stop: int) -> Values:
        """Return logical elements ``[start, stop)``, at least one; they are valid until the next call.

        Raises:
            FormatError: PF3101 when the file has shrunk since it was listed.
        """
        parts: list[Values] = []
        while start < stop:
            if not self._first <= start < self._first + self._values.size:
                parts = [part.copy() for part in parts]
                self._make(start, stop)
            end = min(stop, self._first + self._values.size)
            parts.append(self._values[start - self._first : end - self._first])
            start = end
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _make(self, start: int, stop: int) -> None:
        """Make the panel that begins at ``start`` or before, a larger one than the last where that ended there."""
        follows = start == self._first + self._values.size
        ahead = max(stop - start, self._values.size * self._growth() if follows else 0)
        self._values = self._values[:0]  # nothing, should reading fail
        multiple = max(1, 8 // self._bits)
        self._first, base, offsets = _part(
            self._offsets, start, stop, ahead, PANEL_BYTES // self._dtype.itemsize, multiple
        )
        same, windows = self._plan
        if len(same) != len(offsets) or not all(map(np.array_equal, same, offsets)):
            windows = list(_windows(offsets, self._bits))
            self._plan = offsets, windows
        shape = [vector.size for vector in offsets]
        size = math.prod(shape) * self._dtype.itemsize
        if self._panel.size < size:
            self._panel = np.empty(size, np.uint8)
        panel = self._panel[:size].view(self._dtype).reshape(shape)
        for window in windows:
            raw = self._read(window, base)
            for where, start, stop in window.blocks:
                block = panel[where]
                block[...] = taken(self._stored, raw, window.places, start, stop, 0).reshape(block.shape)
        self._values = panel.reshape(-1)

    def _growth(self) -> int:
        """Return how many times as large the next panel is: more rows make longer pieces with less between."""
        windows = self._plan[1]
        is_short = any(window.length * self._bits < LONG_BYTES * 8 for window in windows)
        read = sum(window.length * window.starts.size for window in windows)
        return GROWTH if is_short or read > 2 * self._values.size else 1

    def _read(self, window: _Window, base: int) -> NDArray[np.uint8]:
        """Return the pieces of a window one behind another, all of them ``base`` elements further on."""
        size = window.length * self._bits // 8
        if self._raw.size < size * window.starts.size:
            self._raw = np.empty(size * window.starts.size, np.uint8)
        buffer, read, nbytes = self._raw.data, self._stored.read_into, self._stored.nbytes
        begin = 0
        for first in ((window.starts + base) * self._bits // 8).tolist():
            read(first, buffer[begin : begin + min(size, nbytes - first)])
            begin += size
        return self._raw[:begin]


class _Window(NamedTuple):
    """Elements of a panel that are read together: the pieces and the places in them, and blocks of the elements.

    A block is where it is in the panel, and which of the window's elements it has: first one and end.
    """

    starts: NDArray[np.int64]
    length: int
    places: StoredRuns | LogicalIndex
    blocks: list[tuple[tuple[slice, ...], int, int]]


def _part(offsets: Offsets, start: int, stop: int, ahead: int, most: int, multiple: int) -> tuple[int, int, Offsets]:
    """Return whole rows of some axis that begin at ``start`` or before: where they begin, a stored index, offsets.

    They hold ``start``, and all up to ``stop`` if these are no more than ``most``; about ``ahead`` elements together.
    The stored index is a multiple of ``multiple``, and the offsets count from it.
    """
    ahead = min(ahead, most)
    size = math.prod(vector.size for vector in offsets)
    begin = fixed = axis = 0
    for vector in offsets:
        axis += 1
        size //= vector.size
        row, last = (start - begin) // size, (stop - 1 - begin) // size
        if size <= most and (row < last or size <= ahead):
            break
        fixed += int(vector[row])
        begin += row * size
        stop = min(stop, begin + size)
    block = _block(vector)
    row -= row % block if block * size <= most else 0
    rows = -(-max(last + 1 - row, ahead // size) // block) * block
    rows = min(rows, most // size)
    base = (fixed + int(vector[row])) // multiple * multiple
    return begin + row * size, base, (vector[row : row + rows] + (fixed - base), *offsets[axis:])


def _block(vector: NDArray[np.int64]) -> int:
    """Return how many places of an axis lie in steps of one size before another follows, 1 where all do."""
    steps = np.diff(vector)
    other = np.flatnonzero(steps != steps[0]) if steps.size else steps
    return int(other[0]) + 1 if other.size else 1


def _windows(offsets: Offsets, bits: int) -> Iterator[_Window]:
    """Yield parts of a panel whose pieces have no more than `WINDOW_BYTES`."""
    multiple = max(1, 8 // bits)
    gap, most = GAP_BYTES * 8 // bits, max(WINDOW_BYTES * 8 // bits, multiple)
    waiting = [tuple((0, vector.size) for vector in offsets)]
    same: Offsets = ()
    while waiting:
        bounds = waiting.pop()
        part = tuple(vector[i:j] for vector, (i, j) in zip(offsets, bounds, strict=True))
        pieces = stored_pieces(part, gap=gap, multiple=multiple, most=most)
        if pieces is not None:
            if not same or not all(map(np.array_equal, same, pieces.offsets)):
                same, places = pieces.offsets, places_of(pieces.offsets, bits)
            yield _Window(pieces.starts, pieces.length, places, _blocks(bounds))
            continue
        axis = max(range(len(part)), key=lambda axis: int(np.ptp(part[axis])))
        first, end = bounds[axis]
        block = _block(part[axis])
        half = (end - first) // 2
        middle = first + max(half - half % block, 1)
        waiting.append((*bounds[:axis], (middle, end), *bounds[axis + 1 :]))
        waiting.append((*bounds[:axis], (first, middle), *bounds[axis + 1 :]))


def _blocks(bounds: tuple[tuple[int, int], ...]) -> list[tuple[tuple[slice, ...], int, int]]:
    """Cut a window along its first long axis into blocks of about `BLOCK` elements."""
    sizes = [end - first for first, end in bounds]
    axis = next((axis for axis, size in enumerate(sizes) if size > 1), 0)
    inner = math.prod(sizes[axis + 1 :])
    first, end = bounds[axis]
    step = max(1, BLOCK // inner)
    before, after = ([slice(*each) for each in part] for part in (bounds[:axis], bounds[axis + 1 :]))
    return [
        ((*before, slice(i, min(i + step, end)), *after), (i - first) * inner, (min(i + step, end) - first) * inner)
        for i in range(first, end, step)
    ]


def places_of(offsets: Offsets, bits: int) -> StoredRuns | LogicalIndex:
    """Return how elements are found by their offsets: by runs where they lie so, else one by one."""
    return (stored_runs(offsets) if bits % 8 == 0 else None) or LogicalIndex(offsets)


def taken(
    stored: StoredBytes,
    raw: NDArray[np.uint8],
    places: StoredRuns | LogicalIndex,
    start: int,
    stop: int,
    origin: int,
    out: NDArray[np.uint8] | None = None,
) -> Values:
    """Return logical elements ``[start, stop)`` out of stored ones that begin with number ``origin``.

    ``out`` is memory of the size of their bytes, where runs of them are put together.
    """
    if isinstance(places, LogicalIndex):
        indices = places.stored(start, stop)
        if origin:
            indices = indices - origin
        return decode_at(raw, stored.dtype, indices, big_endian=stored.is_big_endian)
    return decode_runs(raw, stored.dtype, places, start, stop, big_endian=stored.is_big_endian, origin=origin, out=out)
