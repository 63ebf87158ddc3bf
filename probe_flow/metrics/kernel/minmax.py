"""The divergence of a pair as fractions of each side's range: a second pass, with the extremes known from the first.

Where values are NaN or infinite, the positions that are finite on both sides are what is compared; their extremes take
a pass of their own, which pairs of finite numbers do without.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from probe_flow.metrics.sums.block_sums import Floats, Scratch, bounds_of, load, summed, widened
from probe_flow.metrics.sums.record import BLOCK, EPS32, MinMax, Record, join_minmax
from probe_flow.metrics.sums.tree import fold_nodes, reduce_span

if TYPE_CHECKING:
    from probe_flow.metrics.kernel.compare import Blocks

_Bounds = tuple[float, float]


def measure_minmax(target: Blocks, golden: Blocks, record: Record, scratch: Scratch) -> MinMax | None:
    """Return the sums behind `kl_minmax`, None where it is not defined.

    Args:
        target: values under test.
        golden: reference values.
        record: of the same pair, for the extremes.
        scratch: buffers.

    Returns:
        None for complex numbers, and where no position is finite on both sides.
    """
    errors = record.errors
    if errors is None or record.golden is None or not errors.compared:
        return None
    if record.target.values != record.target.finite or record.golden.values != record.golden.finite:
        return None  # two numbers per element: complex

    def block(start: int) -> tuple[Floats, Floats]:
        stop = min(record.numel, start + BLOCK)
        if errors.compared == record.numel:
            x = widened(target.read(start, stop), scratch.target, scratch)
            return x, widened(golden.read(start, stop), scratch.golden, scratch)
        x, _ = load(target.read(start, stop), scratch.target, scratch)
        y, _ = load(golden.read(start, stop), scratch.golden, scratch)
        both = np.isfinite(x) & np.isfinite(y)
        return x[both], y[both]

    starts = range(0, record.numel, BLOCK)
    scratch.error.fill(EPS32)  # an array, since numpy takes twice as long for a maximum with a number
    with np.errstate(all="ignore"):
        bounds = _bounds_of_sides(record)
        if errors.compared != record.numel:
            bounds = _joined([(bounds_of(x), bounds_of(y)) for x, y in map(block, starts) if x.size])
        nodes = reduce_span(0, (_sums(*block(start), bounds, scratch) for start in starts), join_minmax)
        return fold_nodes(nodes, join_minmax)


def _bounds_of_sides(record: Record) -> tuple[_Bounds, _Bounds]:
    target, golden = record.target, record.golden
    assert golden is not None
    return (float(target.low), float(target.high)), (float(golden.low), float(golden.high))


def _joined(blocks: list[tuple[_Bounds, _Bounds]]) -> tuple[_Bounds, _Bounds]:
    sides = zip(*blocks, strict=True)
    target, golden = ((min(low for low, _ in side), max(high for _, high in side)) for side in sides)
    return target, golden


def _sums(target: Floats, golden: Floats, bounds: tuple[_Bounds, _Bounds], scratch: Scratch) -> MinMax:
    least = scratch.error[: target.size]
    p, q = _fractions(target, bounds[0], least), _fractions(golden, bounds[1], least)
    target_sum, golden_sum = summed(p), summed(q)
    logarithms = np.divide(p, q, out=q)  # in place, since a third array falls out of the processor's cache
    np.log(logarithms, out=logarithms)
    return MinMax(target_sum, golden_sum, summed(np.multiply(p, logarithms, out=logarithms)))


def _fractions(values: Floats, bounds: _Bounds, least: Floats) -> Floats:
    """Replace values by their place within the bounds, 0 to 1, at least ``least``; those of a constant by 1."""
    low, high = bounds
    if low == high:
        values.fill(1.0)  # whatever the constant is, all elements weigh alike
        return values
    if math.isinf(high - low):
        np.multiply(values, 0.5, out=values)
        low, high = low * 0.5, high * 0.5
    np.subtract(values, low, out=values)
    np.divide(values, high - low, out=values)
    return np.maximum(values, least, out=values)
