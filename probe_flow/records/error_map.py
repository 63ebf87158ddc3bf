"""Where in a tensor the errors are: its axes folded into rows and columns, and those into a few thousand cells."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorMap:
    """The largest error in every part of a tensor; axes in neither `down` nor `across` are not told apart.

    Args:
        shape: of the tensor, as its indices count.
        down: axes that are folded into rows, in C order; none = one row.
        across: axes that are folded into columns.
        cell: rows and columns that a cell holds; the last ones of either may hold fewer.
        errors: largest absolute error of each cell, row by row, among the elements that are finite on both sides; None
            where there is no such element. Rounded to 4 significant digits.
        alike: numbers of the cells with NaN or infinities that both sides have, ascending.
        mismatch: numbers of the cells where such a value is on one side only, or another one on the other.
    """

    shape: tuple[int, ...]
    down: tuple[int, ...]
    across: tuple[int, ...]
    cell: tuple[int, int]
    errors: tuple[float | None, ...]
    alike: tuple[int, ...] = ()
    mismatch: tuple[int, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """How many rows and columns the axes give."""
        return math.prod(self.shape[axis] for axis in self.down), math.prod(self.shape[axis] for axis in self.across)

    @property
    def cells(self) -> tuple[int, int]:
        """How many cells there are down and across."""
        (rows, columns), (tall, wide) = self.size, self.cell
        return -(-rows // tall), -(-columns // wide)
