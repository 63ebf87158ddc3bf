"""The numpy backend's way through ordinary blocks: few calls, because a call costs more than 1,000 elements.

The values and all that is to be summed are rows of one array, so that one call sums them all. A row is summed pairwise,
like an array of its own.
"""

from __future__ import annotations

import math

import numpy as np

from probe_flow.metrics.block_sums import (
    FIVE_THOUSANDTHS,
    ONE_THOUSANDTH,
    Floats,
    Relative,
    Scratch,
    Values,
    count_below,
    load,
    summed,
    zeros_apart,
)
from probe_flow.metrics.figures import Bounds, Figures, can_square, is_ordinary, ordinary_record
from probe_flow.metrics.record import Record

ROWS = 9
SMALL = 8192
"""Elements up to which the bounds of both sides come from one call on float64 rather than from two on the values."""


def measure_plain(target: Values, golden: Values, start: int, eps: float, scratch: Scratch) -> Record | None:
    """Return the record of a block of real values without extra figures, None if the block is not ordinary.

    Arguments are those of `numpy_backend.measure_block`, of at least one element; ``eps`` is that of the rules.
    """
    count = target.size
    rows = scratch.rows[: ROWS * count].reshape(ROWS, count)
    bounds = _load_both(target, golden, rows, scratch)
    if not (is_ordinary(target, bounds[0]) and is_ordinary(golden, bounds[1])):
        return None
    x, y, error, magnitude, ratio = rows[:5]
    np.subtract(x, y, out=error)
    np.abs(error, out=error)
    place = int(error.argmax())
    max_abs = float(error[place])
    if not can_square(max_abs):
        return None
    np.abs(y, out=magnitude)
    np.divide(error, magnitude, out=ratio)
    np.multiply(rows[:3], rows[:3], out=rows[5:8])
    np.multiply(x, y, out=rows[8])
    totals = np.add.reduce(rows, axis=1).tolist()
    relative = Relative(ratio)
    if not math.isfinite(totals[4]):  # a zero among the golden values makes it infinite or NaN
        relative = zeros_apart(ratio, error, y, eps, 0)
        totals[4] = summed(ratio)
    rel_place = int(ratio.argmax())
    max_rel = float(ratio[rel_place])
    mask = scratch.mask[:count]
    figures = Figures(
        totals[0],
        totals[1],
        totals[5],
        totals[6],
        totals[8],
        totals[3],
        totals[2],
        totals[7],
        totals[4],
        count_below(ONE_THOUSANDTH, ratio, max_rel, mask),
        count_below(FIVE_THOUSANDTHS, ratio, max_rel, mask),
        int(np.count_nonzero(np.not_equal(error, 0.0, out=mask))) if max_abs else 0,
        relative.misses,
        bounds[0][0],
        bounds[1][0],
        bounds[0][1],
        bounds[1][1],
        max_abs,
        max_rel,
        place,
        rel_place,
        relative.miss_index,
        *relative.zero_figures,
    )
    return ordinary_record(figures, count, start, bounds)


def _load_both(target: Values, golden: Values, rows: Floats, scratch: Scratch) -> tuple[Bounds, Bounds]:
    """Fill the first two rows; the bounds are NaN when a value is."""
    if target.size > SMALL or target.dtype.kind in "biu" or golden.dtype.kind in "biu":
        return load(target, rows[0], scratch)[1], load(golden, rows[1], scratch)[1]
    np.copyto(rows[0], target)
    np.copyto(rows[1], golden)
    lows = np.minimum.reduce(rows[:2], axis=1).tolist()
    highs = np.maximum.reduce(rows[:2], axis=1).tolist()
    return (lows[0], highs[0]), (lows[1], highs[1])
