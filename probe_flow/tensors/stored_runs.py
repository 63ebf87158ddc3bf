"""Private storage layouts as runs of stored elements: rows of a logical block are copied instead of gathered.

In the layouts that devices use, the offsets of an axis rise by one step, or by one step within blocks and another from
block to block. So many logical rows together are one array with strides over the stored elements, and copying it takes
a fraction of the time of looking up each element (measured on maps of device files: a tenth for images in NC1HWC0).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.tensors.blocked_layouts import Offsets
from probe_flow.tensors.layouts import LogicalIndex

WORTH_ELEMENTS = 4096
"""Where one copy moves fewer elements than this, looking up each one is as fast (measured: even at 3000)."""

TURNED_BYTES = 32 << 10
"""Stored bytes that are turned from columns into rows at once: where each place of a row has a cache line of its own,
the next rows find it in the first cache still (measured: a million float32 of 64 channels in 0.9 ms for 2.4)."""

CACHE_LINE_BYTES = 64

Values = NDArray[Any]


class _Axis(NamedTuple):
    """Offsets of an axis: ``i // block * outer + i % block * inner``; an axis with one step is one block."""

    size: int
    block: int
    outer: int
    inner: int


class _Piece(NamedTuple):
    """Places [start, start + runs * length) of a row: ``runs`` runs of ``length`` elements, from ``offset`` on."""

    start: int
    runs: int
    length: int
    offset: int


class StoredRuns(Struct, frozen=True):
    """Where the rows of a tensor lie among the stored elements. Made by `stored_runs`.

    Args:
        row: the trailing axes of one step together, or the last axis alone.
        rows: stored indices of the rows' first elements.
        span: stored elements up to the last one of the tensor.
    """

    row: _Axis
    rows: LogicalIndex
    span: int

    def copy(self, stored: Values, start: int, stop: int, *, origin: int = 0, out: Values | None = None) -> Values:
        """Return logical elements ``[start, stop)``, in C order.

        Args:
            stored: the stored elements from number ``origin`` on, contiguous, as far as these need them.
            start: first logical element.
            stop: end (exclusive).
            origin: number of the first of them.
            out: where they go, of their number and dtype.

        Raises:
            ValueError: if they are too few.
        """
        found = np.empty(stop - start, stored.dtype) if out is None else out
        size = self.row.size
        position = start
        while position < stop:
            row, column = divmod(position, size)
            count = 0 if column else (stop - position) // size
            end = position + count * size if count else min(stop, (row + 1) * size)
            place = found[position - start : end - start]
            columns = (0, size) if count else (column, column + end - position)
            self._fill(place.reshape(max(1, count), -1), stored, row, columns, origin)
            position = end
        return found

    def _fill(self, place: Values, stored: Values, row: int, columns: tuple[int, int], origin: int) -> None:
        """Copy columns [first, end) of some rows."""
        pieces = list(_pieces(self.row, *columns))
        itemsize = stored.dtype.itemsize
        outer, inner = self.row.outer * itemsize, self.row.inner * itemsize
        for first, count, base, step in _groups(self.rows.stored(row, row + len(place))):
            for piece in pieces:
                part = place[first : first + count, piece.start : piece.start + piece.runs * piece.length]
                source: Values = np.ndarray(
                    (count, piece.runs, piece.length),
                    stored.dtype,
                    stored,
                    (base + piece.offset - origin) * itemsize,
                    (step * itemsize, outer, inner),
                )
                _copied(source, part.reshape(source.shape))


def _copied(source: Values, out: Values) -> None:
    """Copy an array of rows, runs, and places within a run; in tiles where it is turned from columns into rows."""
    step, _, inner = source.strides
    width = max(TURNED_BYTES // inner, WORTH_ELEMENTS // len(source))
    if not 0 < step < CACHE_LINE_BYTES <= inner or source.shape[2] <= width:
        out[...] = source
        return
    for start in range(0, source.shape[2], width):
        out[:, :, start : start + width] = source[:, :, start : start + width]


def stored_runs(offsets: Offsets, *, worth: int = WORTH_ELEMENTS) -> StoredRuns | None:
    """Return how a tensor lies in runs, None where it does not, or where they are too short to be worth it.

    Args:
        offsets: from `axis_offsets`.
        worth: elements that one copy has to move at least.
    """
    axes = [_axis(vector) for vector in offsets if vector.size > 1]
    known = [axis for axis in axes if axis is not None]
    if not known or len(known) < len(axes) or any(vector[0] for vector in offsets):
        return None
    row = known.pop()
    while known and row.block == row.size and known[-1].block == known[-1].size:
        if known[-1].inner != row.inner * row.size:
            break
        size = known.pop().size * row.size
        row = _Axis(size, size, size, row.inner)
    together = known[-1].block if known else 1
    if together * row.size < worth:
        return None
    leading = tuple(vector for vector in offsets if vector.size > 1)[: len(known)]
    span = 1 + sum(int(vector.max()) for vector in offsets)
    return StoredRuns(row, LogicalIndex(leading), span)


def _axis(vector: NDArray[np.int64]) -> _Axis | None:
    inner = int(vector[1] - vector[0])
    other = np.flatnonzero(np.diff(vector) != inner)
    if not other.size:
        return _Axis(vector.size, vector.size, vector.size, inner) if inner > 0 else None
    block = int(other[0]) + 1
    outer = int(vector[block])
    at = np.arange(vector.size, dtype=np.int64)
    is_regular = np.array_equal(at // block * outer + at % block * inner, vector)
    return _Axis(vector.size, block, outer, inner) if is_regular and min(inner, outer) > 0 else None


def _pieces(row: _Axis, first: int, end: int) -> Iterator[_Piece]:
    """Yield the pieces that columns [first, end) of a row fall into, their starts counted from ``first``."""
    block = row.block
    start = first
    while start < end:
        offset = start // block * row.outer + start % block * row.inner
        count = 0 if start % block else (end - start) // block
        stop = start + count * block if count else min(end, (start // block + 1) * block)
        yield _Piece(start - first, max(1, count), block if count else stop - start, offset)
        start = stop


def _groups(starts: NDArray[np.int64]) -> Iterator[tuple[int, int, int, int]]:
    """Yield groups of rows whose first elements are one step apart: ``(first row, rows, stored index, step)``."""
    steps = np.diff(starts)
    changes = (np.flatnonzero(steps[1:] != steps[:-1]) + 1).tolist()
    row = 0
    while row < starts.size:
        place = bisect_right(changes, row)
        last = changes[place] if place < len(changes) else starts.size - 1
        last = max(row, last)
        yield row, last - row + 1, int(starts[row]), int(steps[row]) if last > row else 0
        row = last + 1
