"""Tensors that lie in several pieces: where an element of the whole is, when its parts stand one behind the other.

The stored array is the concatenation of its parts along one axis. Seen as rows (all axes before the cut one) every part
gives each row a run of columns, so whole rows of a block are one contiguous read in every part.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.errors import Diagnostic, NotComparableError
from probe_flow.records import Extent, TensorRef
from probe_flow.tensors.dtypes import dtype_info, nbytes
from probe_flow.tensors.encoding import TORCH, parse_encoding

MAX_PARTS = 4096
"""Devices cut an operator into some tens of parts; each costs an open file."""

_FEW_PARTS = 16
"""Up to here comparing with each part's borders beats a search (measured: 0.06 ms a part against 1 ms a block)."""

Values = NDArray[Any]
ReadPart = Callable[[int, int, int], Values]
"""Returns elements [start, stop) of one part, given its number, start and stop."""


class JoinedParts(Struct, frozen=True):
    """How the parts make up the stored array.

    Args:
        extents: in order along the cut axis.
        bounds: first column of every part in a row of the whole, and the length of the row behind them.
        rows: number of rows.
    """

    extents: tuple[Extent, ...]
    bounds: tuple[int, ...]
    rows: int

    def width(self, part: int) -> int:
        """Return the elements that a part has in every row."""
        return self.bounds[part + 1] - self.bounds[part]

    def read(self, start: int, stop: int, dtype: np.dtype[Any], read_part: ReadPart) -> Values:
        """Return stored elements [start, stop); memory is twice that of the block."""
        whole = np.empty(stop - start, dtype)
        row_size = self.bounds[-1]
        position = start
        while position < stop:
            row, column = divmod(position, row_size)
            count = 0 if column else (stop - position) // row_size
            end = position + count * row_size if count else min(stop, (row + 1) * row_size)
            piece = whole[position - start : end - start]
            if count:
                self._fill_rows(piece.reshape(count, row_size), row, read_part)
            else:
                self._fill_columns(piece, row, column, read_part)
            position = end
        return whole

    def _fill_rows(self, block: Values, row: int, read_part: ReadPart) -> None:
        for part in range(len(self.extents)):
            if width := self.width(part):
                values = read_part(part, row * width, (row + len(block)) * width)
                block[:, self.bounds[part] : self.bounds[part + 1]] = values.reshape(len(block), width)

    def _fill_columns(self, block: Values, row: int, column: int, read_part: ReadPart) -> None:
        end = column + block.size
        part = bisect_right(self.bounds, column) - 1
        position = column
        while position < end:
            stop = min(end, self.bounds[part + 1])
            if stop > position:
                base = row * self.width(part) - self.bounds[part]
                block[position - column : stop - column] = read_part(part, base + position, base + stop)
            position, part = stop, part + 1

    def split(self, stored: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield, for stored indices of the whole, each part with the places it fills and its own indices for them."""
        rows = stored // self.bounds[-1]
        columns = stored - rows * self.bounds[-1]  # numpy's divmod takes five times as long
        first = bisect_right(self.bounds, int(columns.min())) - 1
        last = bisect_right(self.bounds, int(columns.max())) - 1
        if last - first < _FEW_PARTS:
            held: Sequence[int] = range(first, last + 1)
            masks = ((columns >= self.bounds[part]) & (columns < self.bounds[part + 1]) for part in held)
        else:
            owners = np.searchsorted(np.asarray(self.bounds), columns, side="right") - 1
            held = np.flatnonzero(np.bincount(owners)).tolist()
            masks = (owners == part for part in held)
        for part, mask in zip(held, masks, strict=True):
            places = np.flatnonzero(mask)
            if places.size:
                yield part, places, rows[places] * self.width(part) + columns[places] - self.bounds[part]


def joined_parts(ref: TensorRef) -> JoinedParts:
    """Return how the extents of a tensor make up its stored array; the bytes of a part tell its size along the axis.

    Raises:
        NotComparableError: PF3103 when the parts are not numbered from 0 along one axis, are stored in an order of
            their own, or do not add up to the tensor; PF5111 for an unknown dtype.
    """
    extents = sorted(ref.extents, key=lambda extent: extent.part[1] if extent.part else -1)
    shape = ref.shape if ref.shape is not None else ref.logical_shape or ()
    axes = {extent.part[0] for extent in extents if extent.part is not None}
    numbers = [extent.part[1] if extent.part else -1 for extent in extents]
    if len(extents) > MAX_PARTS or len(axes) != 1 or numbers != list(range(len(extents))):
        raise _not_joinable(ref, f"they are not numbered along one axis, or are more than {MAX_PARTS}")
    (axis,) = axes
    if not 0 <= axis < len(shape):
        raise _not_joinable(ref, f"they are cut along axis {axis}, the tensor has {len(shape)}")
    rows, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    if not rows * inner:
        raise _not_joinable(ref, f"its shape {list(shape)} has no elements beside axis {axis}")
    widths = [_width(ref, extent, rows, inner) for extent in extents]
    if sum(widths) != shape[axis] * inner:
        raise _not_joinable(ref, f"together they have {sum(widths) // inner} along axis {axis}, shape {list(shape)}")
    return JoinedParts(tuple(extents), (0, *accumulate(widths)), rows)


def _width(ref: TensorRef, extent: Extent, rows: int, inner: int) -> int:
    encoding = parse_encoding(extent.encoding)
    if extent.encoding == TORCH or encoding.is_fortran_order or encoding.strides is not None:
        raise _not_joinable(ref, f"`{extent.encoding}` parts have an order of their own")
    dtype = encoding.stored_as or ref.dtype
    bits = dtype_info(dtype).bits
    width = extent.nbytes * 8 // bits // rows // inner * inner if bits else 0
    if not bits or nbytes(dtype, rows * width) != extent.nbytes:
        raise _not_joinable(ref, f"{extent.nbytes} bytes of `{dtype}` are no whole part of it")
    return width


def _not_joinable(ref: TensorRef, why: str) -> NotComparableError:
    return NotComparableError(
        Diagnostic(
            "PF3103",
            f"the {len(ref.extents)} parts of `{ref.id}` cannot be put together: {why}",
            path=ref.source,
            tensor=ref.id,
            help="dump without slicing, or join the parts first",
        )
    )
