"""The numpy backend's way through many small blocks at once: one call serves all of them.

What is not measured so goes through `plain_blocks`, which is faster for a block alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from probe_flow.metrics.accumulators.base import Rules
from probe_flow.metrics.backends.plain_blocks import ROWS, found_in_errors, found_in_values
from probe_flow.metrics.sums.block_sums import Floats, Scratch, Values, summed
from probe_flow.metrics.sums.figures import Bounds, Figures, can_square, is_ordinary, ordinary_record
from probe_flow.metrics.sums.pair_errors import FIVE_THOUSANDTHS, ONE_THOUSANDTH, Relative, zeros_apart
from probe_flow.metrics.sums.record import Accumulator, Record

Rows = NDArray[np.float64]
"""Rows of blocks, shape ``(ROWS, blocks, elements)``: both sides, errors, golden magnitudes, relative errors, then the
squares of the first three, and products."""


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
