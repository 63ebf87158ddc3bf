"""What the elements of a tensor look like: the first ones, statistics, a histogram, the largest errors of a pair.

Read in blocks, so that memory is bounded by the block whatever the tensor's size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.elements.blocks import TensorBlocks, open_tensor
from probe_flow.metrics.kernel.error_maps import ErrorMaps, indexed_shape
from probe_flow.metrics.sums.record import BLOCK
from probe_flow.records import ErrorMap, Statistics, TensorRef

MAX_FIRST = 128
"""Values shown from the begin of a tensor."""

CLASSES = 16
"""Classes of a histogram, of equal width between the least and the greatest finite value."""

Floats = NDArray[np.float64]


class Values(Struct, frozen=True):
    """Elements of one tensor.

    Args:
        numel: how many there are.
        first: the first ones in logical order.
        statistics: over the finite elements, with the others counted; ``l2norm`` is the Euclidean norm.
        edges: bounds of the classes, rising; empty when nothing is finite.
        counts: elements in each class.
    """

    numel: int
    first: tuple[float, ...]
    statistics: Statistics
    edges: tuple[float, ...]
    counts: tuple[int, ...]


class WorstElement(Struct, frozen=True):
    """One element with a large error; `error` is infinite where only one side is finite or they differ in kind."""

    index: int
    target: float
    golden: float
    error: float


def values_of(ref: TensorRef, *, first: int = MAX_FIRST) -> Values:
    """Return what the elements of a tensor look like; complex ones by their magnitude.

    Raises:
        FormatError, NotComparableError: as `open_tensor`.
    """
    with open_tensor(ref) as blocks:
        shown = tuple(magnitudes(blocks.read(0, min(first, blocks.numel))).tolist())
        statistics = _statistics(blocks)
        low, high = statistics.min, statistics.max
        if low is None or high is None:
            return Values(blocks.numel, shown, statistics, (), ())
        edges = _edges(float(low), float(high))
        counts = np.zeros(len(edges) - 1, np.int64)
        for _, values in _blocks(blocks):
            finite = values[np.isfinite(values)]
            counts += np.histogram(finite, edges)[0]
    return Values(blocks.numel, shown, statistics, tuple(edges.tolist()), tuple(counts.tolist()))


class WorstElements(Struct, frozen=True):
    """The elements with the largest errors of a pair.

    Args:
        elements: the largest first, then in order of index.
        max_abs_err: the largest error among elements that are finite on both sides, listed or not.
        maps: where in the tensor the errors are.
    """

    elements: list[WorstElement]
    max_abs_err: float
    maps: tuple[ErrorMap, ...] = ()


def worst_elements(target: TensorRef, golden: TensorRef, *, limit: int) -> WorstElements:
    """Return the elements with the largest absolute error above zero.

    Two NaN agree, and so do infinities of one sign.

    Raises:
        ValueError: when the two have different numbers of elements.
        FormatError, NotComparableError: as `open_tensor`.
    """
    found: list[WorstElement] = []
    largest = 0.0
    with open_tensor(target) as left, open_tensor(golden) as right:
        if left.numel != right.numel:
            raise ValueError(f"{left.numel} elements against {right.numel}")
        maps = ErrorMaps(indexed_shape(target, left.numel))
        for start, one in _blocks(left):
            other = magnitudes(right.read(start, start + len(one)))
            errors = absolute_errors(one, other)
            is_finite = np.isfinite(one) & np.isfinite(other)
            maps.add(start, one, other, np.where(is_finite, errors, np.nan))
            largest = max(largest, float(np.max(errors, initial=0.0, where=is_finite)))
            found += [
                WorstElement(start + int(at), float(one[at]), float(other[at]), float(errors[at]))
                for at in np.argsort(-errors, kind="stable")[:limit]
                if errors[at] > 0
            ]
            found = sorted(found, key=lambda element: (-element.error, element.index))[:limit]
    return WorstElements(found, largest, maps.maps())


def absolute_errors(target: Floats, golden: Floats) -> Floats:
    """Return the absolute errors of two blocks; equal infinities and two NaN have none, unequal ones infinite."""
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.abs(target - golden)
    same = (target == golden) | (np.isnan(target) & np.isnan(golden))
    errors[same] = 0.0
    errors[np.isnan(errors)] = np.inf
    return errors


def _statistics(blocks: TensorBlocks) -> Statistics:
    low, high, total, squares, nan, inf, finite_count = math.inf, -math.inf, 0.0, 0.0, 0, 0, 0
    for _, values in _blocks(blocks):
        finite = values[np.isfinite(values)]
        nan += int(np.count_nonzero(np.isnan(values)))
        inf += int(np.count_nonzero(np.isinf(values)))
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
            finite_count += finite.size
            with np.errstate(over="ignore"):
                total += float(finite.sum())
                squares += float(np.dot(finite, finite))
    if not finite_count:
        return Statistics(nan=nan, inf=inf)
    return Statistics(low, high, total / finite_count, math.sqrt(squares), nan, inf)


def _edges(low: float, high: float) -> Floats:
    """Return bounds of equal width; one class where all values are equal or too close to part."""
    part = np.arange(CLASSES + 1) / CLASSES
    edges = np.asarray(low * (1 - part) + high * part, np.float64)  # the width itself may be beyond float64
    edges[0], edges[-1] = low, high
    if low == high or not np.all(np.diff(edges) > 0):
        return np.array([low, high])
    return edges


def _blocks(blocks: TensorBlocks) -> Iterator[tuple[int, Floats]]:
    for start in range(0, blocks.numel, BLOCK):
        yield start, magnitudes(blocks.read(start, min(blocks.numel, start + BLOCK)))


def magnitudes(values: NDArray[Any]) -> Floats:
    """Return values as float64, complex ones by their magnitude."""
    shown = np.abs(values) if np.iscomplexobj(values) else values
    return shown.astype(np.float64)
