"""Which pieces of the stored elements hold a part of a tensor, where that part is spread over much more than itself.

In a matrix in tiles or in Fortran order some rows lie in many short pieces, far apart. Because the place of an element
is a sum of one term per axis, the pieces are all of one length, and put one behind another they are again a layout
whose places are such sums: what reads layouts also reads them.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.tensors.blocked_layouts import Offsets


class StoredPieces(Struct, frozen=True):
    """Pieces of the stored elements, put one behind another. Made by `stored_pieces`.

    Args:
        starts: stored index of the first element of each piece, shape (pieces,).
        length: elements of every piece.
        offsets: as those of a layout, of the elements within the pieces.
    """

    starts: NDArray[np.int64]
    length: int
    offsets: Offsets


def stored_pieces(offsets: Offsets, *, gap: int, multiple: int = 1, most: int | None = None) -> StoredPieces | None:
    """Return the pieces that hold the elements of a layout, or of a part of one.

    Args:
        offsets: one vector per axis, none of them empty; of a part of a tensor the vectors of that part.
        gap: stored elements that are nobody's and still belong to a piece, as they cost less than another piece.
        multiple: pieces begin and end at multiples of this many elements, those that share a byte.
        most: elements that all pieces may have together.

    Returns:
        None where they would have more than ``most`` elements.

    >>> pieces = stored_pieces((np.array([3, 4]), np.array([0, 1000, 2000])), gap=10)
    >>> pieces.starts.tolist(), pieces.length
    ([3, 1003, 2003], 2)
    >>> [vector.tolist() for vector in pieces.offsets]
    [[0, 1], [0, 2, 4]]
    """
    near: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * len(offsets)
    far: list[NDArray[np.int64]] = list(near)
    number: list[NDArray[np.int64]] = list(near)
    reach = 0
    for axis in sorted(range(len(offsets)), key=lambda axis: _smallest_step(offsets[axis])):
        far[axis], number[axis], near[axis] = _clusters(offsets[axis], reach + gap, multiple)
        reach += int(near[axis].max())
    length = -(-(reach + 1) // multiple) * multiple
    if most is not None and math.prod(vector.size for vector in far) * length > most:
        return None
    starts = np.zeros(1, np.int64)
    for vector in far:
        starts = np.add.outer(starts, vector).reshape(-1)
    placed = []
    stride = length
    for axis in reversed(range(len(offsets))):
        placed.append(number[axis] * stride + near[axis])
        stride *= far[axis].size
    return StoredPieces(starts, length, tuple(reversed(placed)))


def _smallest_step(vector: NDArray[np.int64]) -> int:
    steps = np.abs(np.diff(vector))
    return int(steps[steps > 0].min(initial=np.iinfo(np.int64).max))


def _clusters(
    vector: NDArray[np.int64], gap: int, multiple: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the first places of groups of places with gaps up to ``gap``, each one's group, and its way from there."""
    places = vector if (np.diff(vector) >= 0).all() else np.sort(vector)
    first = np.concatenate(([True], np.diff(places) > max(gap, 1)))
    starts = places[first] // multiple * multiple
    number = np.searchsorted(places[first], vector, side="right") - 1
    return starts, number, vector - starts[number]
