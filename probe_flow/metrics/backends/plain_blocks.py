"""The numpy backend's ways through ordinary blocks: few calls for small ones, little memory for full ones.

Which way a block alone goes depends on its size. Many small ones are rows of one array, and one call serves all of
them. A row of an array is summed pairwise, like an array of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probe_flow.metrics.accumulators.base import Rules
from probe_flow.metrics.sums.block_sums import Floats, Numbers, Scratch, Values, load, product_sum, summed
from probe_flow.metrics.sums.figures import (
    Bounds,
    Figures,
    can_square,
    exponent_within,
    is_ordinary,
    ordinary_record,
)
from probe_flow.metrics.sums.pair_errors import (
    FIVE_THOUSANDTHS,
    ONE_THOUSANDTH,
    PairErrors,
    PairValues,
    Relative,
    count_below,
    zeros_apart,
)
from probe_flow.metrics.sums.record import Accumulator, Record, exponent_of

Rows = NDArray[np.float64]
"""Rows of blocks, shape ``(ROWS, blocks, elements)``: both sides, errors, golden magnitudes, relative errors, then the
squares of the first three, and products."""

ROWS = 9
SMALL = 8192
"""Elements up to which calls cost more than memory: all sums come from one call over rows. Above, each product is
summed while it is still in the processor's cache (measured at 65,536 elements: 1.4 times as fast as rows)."""


class _Block(NamedTuple):
    """What was found in a block."""

    figures: Figures
    bounds: tuple[Bounds, Bounds]
    accumulators: tuple[Accumulator, ...]


def measure_plain(target: Values, golden: Values, start: int, rules: Rules, scratch: Scratch) -> Record | None:
    """Return the record of a block of real values, None if the block is not ordinary.

    Arguments are those of `numpy_backend.measure_block`, of at least one element.
    """
    found = (_by_rows if target.size <= SMALL else _in_place)(target, golden, rules, scratch)
    if found is None:
        return None
    return ordinary_record(found.figures, target.size, start, found.bounds, found.accumulators)


def _by_rows(target: Values, golden: Values, rules: Rules, scratch: Scratch) -> _Block | None:
    """Look at a block with the values and all that is to be summed as rows of one array."""
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
    relative = Relative(ratio, totals[4])
    if not math.isfinite(totals[4]):  # a zero among the golden values makes it infinite or NaN
        relative = zeros_apart(ratio, error, y, rules.eps, 0)
    sums = (totals[0], totals[1], totals[5], totals[6], totals[8], totals[2], totals[7], totals[3])
    accumulators: tuple[Accumulator, ...] = ()
    if rules.of_values:
        accumulators = found_in_values(x, y, (totals[0], totals[1]), bounds, rules, scratch)
    figures = _figures(sums, error, (max_abs, place), relative, bounds, scratch)
    if rules.of_errors:
        accumulators += found_in_errors(error, magnitude, relative, figures, rules, scratch)
    return _Block(figures, bounds, accumulators)


def _in_place(target: Values, golden: Values, rules: Rules, scratch: Scratch) -> _Block | None:
    """Look at a block, overwriting both sides by what is next to be summed."""
    x, target_bounds = load(target, scratch.target, scratch)
    y, golden_bounds = load(golden, scratch.golden, scratch)
    bounds = target_bounds, golden_bounds
    if not (is_ordinary(target, target_bounds) and is_ordinary(golden, golden_bounds)):
        return None
    work = scratch.work[: target.size]
    of_sides = (
        summed(x),
        summed(y),
        product_sum(x, x, work),
        product_sum(y, y, work),
        product_sum(x, y, work),
    )
    accumulators: tuple[Accumulator, ...] = ()
    if rules.of_values:
        accumulators = found_in_values(x, y, of_sides[:2], bounds, rules, scratch)
    error = np.subtract(x, y, out=x)
    np.abs(error, out=error)
    place = int(error.argmax())
    max_abs = float(error[place])
    if not can_square(max_abs):
        return None
    of_errors = (summed(error), product_sum(error, error, work))
    magnitude = np.abs(y, out=y)
    sums = (*of_sides, *of_errors, summed(magnitude))
    ratio = np.divide(error, magnitude, out=work if rules.of_errors else magnitude)
    total = summed(ratio)
    relative = Relative(ratio, total)
    if not math.isfinite(total):  # a zero among the golden values makes it infinite or NaN
        relative = zeros_apart(ratio, error, golden, rules.eps, 0)
    figures = _figures(sums, error, (max_abs, place), relative, bounds, scratch)
    if rules.of_errors:
        accumulators += found_in_errors(error, magnitude, relative, figures, rules, scratch)
    return _Block(figures, bounds, accumulators)


def found_in_values(
    x: Floats, y: Floats, totals: tuple[float, float], bounds: tuple[Bounds, Bounds], rules: Rules, scratch: Scratch
) -> tuple[Accumulator, ...]:
    sides = Numbers(x, exponent_within(bounds[0]), totals[0]), Numbers(y, exponent_within(bounds[1]), totals[1])
    values = PairValues(sides, x, y, None, scratch.work)
    return tuple([kind.update(values) for kind in rules.of_values])


def found_in_errors(
    error: Floats, magnitude: Floats, relative: Relative, figures: Figures, rules: Rules, scratch: Scratch
) -> tuple[Accumulator, ...]:
    exponent = exponent_of(figures.max_abs)
    errors = PairErrors(error, error, exponent, magnitude, relative, figures.max_rel, scratch)
    return tuple([kind.update(errors) for kind in rules.of_errors])


def _figures(
    sums: tuple[float, float, float, float, float, float, float, float],
    error: Floats,
    worst: tuple[float, int],
    relative: Relative,
    bounds: tuple[Bounds, Bounds],
    scratch: Scratch,
) -> Figures:
    """Return the figures; ``sums``: sides, their squares, products, errors, their squares, golden magnitudes."""
    mask = scratch.mask[: error.size]
    ratio = relative.errors
    rel_place = int(ratio.argmax())
    max_rel = float(ratio[rel_place])
    return Figures(
        sums[0],
        sums[1],
        sums[2],
        sums[3],
        sums[4],
        sums[7],
        sums[5],
        sums[6],
        summed(ratio) if relative.total is None else relative.total,
        count_below(ONE_THOUSANDTH, ratio, max_rel, mask),
        count_below(FIVE_THOUSANDTHS, ratio, max_rel, mask),
        int(np.count_nonzero(np.not_equal(error, 0.0, out=mask))) if worst[0] else 0,
        relative.misses,
        bounds[0][0],
        bounds[1][0],
        bounds[0][1],
        bounds[1][1],
        worst[0],
        max_rel,
        worst[1],
        rel_place,
        relative.miss_index,
        *relative.zero_figures,
    )


def _load_both(target: Values, golden: Values, rows: Floats, scratch: Scratch) -> tuple[Bounds, Bounds]:
    """Fill the first two rows; the bounds are NaN when a value is."""
    if target.dtype.kind in "biu" or golden.dtype.kind in "biu":
        return load(target, rows[0], scratch)[1], load(golden, rows[1], scratch)[1]
    np.copyto(rows[0], target)
    np.copyto(rows[1], golden)
    lows = np.minimum.reduce(rows[:2], axis=1).tolist()
    highs = np.maximum.reduce(rows[:2], axis=1).tolist()
    return (lows[0], highs[0]), (lows[1], highs[1])


def measure_plain_rows(
    targets: Sequence[Values], goldens: Sequence[Values], start: int, rules: Rules, scratch: Scratch
) -> list[Record | None]:
    """Return the records of blocks of real values, None for blocks that are not ordinary.

    The values, and all that is to be summed, are rows of one array, and no call mixes rows: each block gets the bits
    that it gets alone.

    Args:
        targets: values of each block under test: of one size, at least one element, and one dtype.
        goldens: reference values, likewise; integers if and only if the targets are, since bounds are found otherwise
            where one side alone is.
        start: index of the first element of each block in its tensor.
        rules: of the pairs.
        scratch: of the calling thread, with room for `plain_blocks.SMALL` elements.
    """
    count, size = len(targets), targets[0].size
    rows = scratch.rows[: ROWS * count * size].reshape(ROWS, count, size)
    bounds = _load_rows(targets, goldens, rows)
    x, y, error, magnitude, ratio = rows[:5]
    np.subtract(x, y, out=error)
    np.abs(error, out=error)
    np.abs(y, out=magnitude)
    np.divide(error, magnitude, out=ratio)
    np.multiply(rows[:3], rows[:3], out=rows[5:8])
    np.multiply(x, y, out=rows[8])
    totals = np.add.reduce(rows, axis=2)
    relatives = _zeros_apart_of_rows(rows, totals, rules.eps)
    found: list[Record | None] = []
    mask = scratch.mask[: count * size].reshape(count, size)
    for number, (figures, ends) in enumerate(zip(_figures_of_rows(rows, totals, bounds, mask), bounds, strict=True)):
        if not (is_ordinary(targets[0], ends[0]) and is_ordinary(goldens[0], ends[1]) and can_square(figures.max_abs)):
            found.append(None)
            continue
        relative = relatives.get(number)
        if relative is not None:
            figures = _with_misses(figures, relative)
        accumulators: tuple[Accumulator, ...] = ()
        if rules.of_values:
            sums = figures.target_total, figures.golden_total
            accumulators = found_in_values(x[number], y[number], sums, ends, rules, scratch)
        if rules.of_errors:
            relative = relative or Relative(ratio[number], figures.rel_sum)
            accumulators += found_in_errors(error[number], magnitude[number], relative, figures, rules, scratch)
        found.append(ordinary_record(figures, size, start, ends, accumulators))
    return found


def _load_rows(targets: Sequence[Values], goldens: Sequence[Values], rows: Rows) -> list[tuple[Bounds, Bounds]]:
    """Fill the first two rows of each block; the bounds are NaN when a value is."""
    ends: list[list[float]] = []
    for side, row in ((targets, rows[0]), (goldens, rows[1])):
        values: Values = row
        if side[0].dtype.kind in "biu":  # their bounds are exact
            values = np.concatenate(side).reshape(row.shape)
            np.copyto(row, values)
        else:
            np.concatenate(side, out=row.reshape(-1), casting="unsafe")
        ends += [np.minimum.reduce(values, axis=1).tolist(), np.maximum.reduce(values, axis=1).tolist()]
    return [((low, high), (golden_low, golden_high)) for low, high, golden_low, golden_high in zip(*ends, strict=True)]


def _zeros_apart_of_rows(rows: Rows, totals: Floats, eps: float) -> dict[int, Relative]:
    """Set the ratios of zero golden values to 0, in place, and correct their sums; return the blocks with misses there.

    As `zeros_apart`, whose common part (0/0 and no miss) is done for all blocks at once.
    """
    error, y, ratio = rows[2], rows[1], rows[4]
    numbers = np.flatnonzero(~np.isfinite(totals[4]))
    if not numbers.size:
        return {}
    some = np.fmax(ratio[numbers], 0.0)
    ratio[numbers], totals[4, numbers] = some, np.add.reduce(some, axis=1)
    found = {}
    for number in numbers[np.isinf(np.maximum.reduce(some, axis=1))].tolist():
        found[number] = zeros_apart(ratio[number], error[number], y[number], eps, 0)
        totals[4, number] = summed(ratio[number])
    return found


def _figures_of_rows(
    rows: Rows, totals: Floats, bounds: Sequence[tuple[Bounds, Bounds]], mask: NDArray[np.bool_]
) -> Iterator[Figures]:
    """Yield the figures of each block, those of misses at zeros left out; ``mask`` is a buffer of a row of each."""
    error, ratio = rows[2], rows[4]
    columns: list[list[float]] = [
        *totals[[0, 1, 5, 6, 8, 3, 2, 7, 4]].tolist(),
        _counts(np.less(ratio, ONE_THOUSANDTH, out=mask)),
        _counts(np.less(ratio, FIVE_THOUSANDTHS, out=mask)),
        _counts(np.not_equal(error, 0.0, out=mask)),
        np.maximum.reduce(error, axis=1).tolist(),
        np.maximum.reduce(ratio, axis=1).tolist(),
        error.argmax(axis=1).tolist(),
        ratio.argmax(axis=1).tolist(),
    ]
    for ((low, high), (golden_low, golden_high)), (*sums, max_abs, max_rel, place, rel_place) in zip(
        bounds, zip(*columns, strict=True), strict=True
    ):
        ends = low, golden_low, high, golden_high
        yield Figures._make((*sums, 0, *ends, max_abs, max_rel, place, rel_place, -1, 0.0, 0.0, 0, 0))


def _counts(masks: NDArray[np.bool_]) -> list[float]:
    counts: list[float] = np.add.reduce(masks, axis=1, dtype=np.intp).tolist()
    return counts


def _with_misses(figures: Figures, relative: Relative) -> Figures:
    total, largest, within_1e3, within_5e3 = relative.zero_figures
    return figures._replace(
        zero_misses=relative.misses,
        zero_miss_place=relative.miss_index,
        zero_rel_sum=total,
        zero_rel_max=largest,
        zero_within_1e3=within_1e3,
        zero_within_5e3=within_5e3,
    )
