"""Maps of the errors of a pair, filled block by block: the same bytes however the elements come in.

A tensor of three or more axes has two maps. The first has axes 0 and 1 down and all others across (channels by
positions), the second the axes behind those as a picture, the last one across (height by width), with the largest error
over axes 0 and 1; three axes make `axes 0 and 1 by axis 2` and `axis 1 by axis 2`. So a wrong channel, a wrong column,
a wrong border or a wrong block is a line or a patch in one of the two. Axes of length 1 count for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.records import ErrorMap, TensorRef

LAYOUT = 2
"""Version of the maps, part of the keys under which they are cached."""

MAX_CELLS = 64
"""Cells down, and across."""

DIGITS = 4
"""Significant digits that are kept of an error."""

_LEADING = 2
"""Axes before those that make a picture: batch and channel, or what stands in their place."""

_NOTHING = -1.0

Floats = NDArray[np.float64]
Cells = NDArray[np.int64]


class ErrorMaps:
    """Collects the maps of one pair.

    Args:
        shape: of both sides, which are given in C order of it.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._sheets = [_Sheet(shape, *axes) for axes in _folds(shape)] if math.prod(shape) else []

    def add(self, start: int, target: NDArray[Any], golden: NDArray[Any], errors: Floats) -> None:
        """Take a run of elements.

        Args:
            start: flat index of the first one.
            target, golden: values of any dtype, shape ``(n,)``.
            errors: their absolute errors, NaN or infinite wherever a side is not finite.
        """
        if not errors.size:
            return
        places = np.flatnonzero(~np.isfinite(errors))
        known = errors
        alike, mismatch = places[:0], places[:0]
        if places.size:
            is_finite, is_alike = _compared(target[places], golden[places])
            alike, mismatch = places[~is_finite & is_alike], places[~is_finite & ~is_alike]
            known = errors.copy()
            known[places[~is_finite]] = _NOTHING
        for sheet in self._sheets:
            sheet.add(start, known)
            sheet.mark(sheet.alike, alike + start)
            sheet.mark(sheet.mismatch, mismatch + start)

    def maps(self) -> tuple[ErrorMap, ...]:
        """Return what was collected; a tensor without elements has no map."""
        return tuple(sheet.map(self._shape) for sheet in self._sheets)


def indexed_shape(tensor: TensorRef, numel: int) -> tuple[int, ...]:
    """Return the shape in which the indices of a tensor count, one axis where it is not known."""
    shape = tensor.logical_shape if tensor.logical_shape is not None else tensor.shape
    return shape if shape is not None and math.prod(shape) == numel else (numel,)


def _compared(target: NDArray[Any], golden: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Say which elements are finite on both sides, and which are the same where one is not."""
    from probe_flow.masks import hold_alike

    kind = np.complex128 if np.iscomplexobj(target) or np.iscomplexobj(golden) else np.float64
    x, y = target.astype(kind), golden.astype(kind)
    return np.isfinite(x) & np.isfinite(y), hold_alike(x, y)


def _folds(shape: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield the axes that go down and those that go across, for each map."""
    long = tuple(axis for axis, length in enumerate(shape) if length > 1)
    if len(long) <= _LEADING:
        yield long[:-1], long[-1:]
        return
    lead, trail = (tuple(axis for axis in long if (axis < _LEADING) is is_lead) for is_lead in (True, False))
    if lead:
        yield lead, trail
    yield trail[:-1] or lead[-1:], trail[-1:]


def _cell_length(lengths: Sequence[int]) -> int:
    """Return how many neighbours along folded axes share a cell.

    Where cells would begin now here, now there within an inner axis, a pattern along it would make stripes that mean
    nothing: a cell is a whole part of an inner axis, or several of them, if that makes it at most twice as long.
    """
    least = -(-math.prod(lengths) // MAX_CELLS)
    unit = 1
    for length in reversed(lengths[1:]):
        if least <= unit * length:
            parts = next(parts for parts in range(unit * length // least, 0, -1) if length % parts == 0)
            found = unit * length // parts
            return found if found <= 2 * least else -(-least // unit) * unit
        unit *= length
    return -(-least // unit) * unit


class _Sheet:
    """One map in the making. Elements in C order are cut into runs: the neighbours of one row in one cell."""

    def __init__(self, shape: tuple[int, ...], down: tuple[int, ...], across: tuple[int, ...]) -> None:
        self.down, self.across = down, across
        self.rows, self.columns = (math.prod(shape[axis] for axis in axes) for axes in (down, across))
        self.tall, self.wide = (_cell_length([shape[axis] for axis in axes]) for axes in (down, across))
        self.cells_across = -(-self.columns // self.wide)
        cells = -(-self.rows // self.tall), self.cells_across
        self.errors: Floats = np.full(cells, _NOTHING)
        self.alike, self.mismatch = np.zeros(cells, np.bool_), np.zeros(cells, np.bool_)

    def add(self, start: int, errors: Floats) -> None:
        first, last = start // self.columns, (start + errors.size - 1) // self.columns
        count = last - first + 1
        is_folded = count >= self.rows  # every row is there: the lines are brought into whole turns of the rows
        before = first % self.rows if is_folded else 0
        after = -(before + count) % self.rows if is_folded else 0
        flat = np.full((before + count + after) * self.cells_across, _NOTHING)
        runs = self._runs(start, errors, first=first, last=last)
        at = before * self.cells_across + start % self.columns // self.wide
        flat[at : at + runs.size] = runs
        lines: Floats = flat.reshape(-1, self.cells_across)
        if is_folded:
            lines, first, last = lines.reshape(-1, self.rows, self.cells_across).max(axis=0), 0, self.rows - 1
        rows = np.arange(first, last + 1) % self.rows // self.tall
        begins = np.flatnonzero(np.diff(rows, prepend=-1))
        for row, found in zip(rows[begins].tolist(), np.maximum.reduceat(lines, begins, axis=0), strict=True):
            np.maximum(self.errors[row], found, out=self.errors[row])

    def _runs(self, start: int, errors: Floats, *, first: int, last: int) -> Floats:
        """Return the largest error of each run, from line ``first`` to line ``last``."""
        if self.wide == 1:
            return errors
        begins = np.arange(first, last + 1)[:, None] * self.columns + np.arange(self.cells_across) * self.wide
        begins = begins.reshape(-1) - start
        begins = begins[np.searchsorted(begins, 0, side="right") - 1 : np.searchsorted(begins, errors.size)]
        found: Floats = np.maximum.reduceat(errors, np.maximum(begins, 0))
        return found

    def mark(self, marks: NDArray[np.bool_], indices: Cells) -> None:
        if indices.size:
            line, column = np.divmod(indices, self.columns)
            marks[line % self.rows // self.tall, column // self.wide] = True

    def map(self, shape: tuple[int, ...]) -> ErrorMap:
        errors = tuple(
            None if error < 0 else float(f"{error:.{DIGITS}g}") for error in self.errors.reshape(-1).tolist()
        )
        alike, mismatch = (tuple(np.flatnonzero(marks).tolist()) for marks in (self.alike, self.mismatch))
        return ErrorMap(shape, self.down, self.across, (self.tall, self.wide), errors, alike, mismatch)
