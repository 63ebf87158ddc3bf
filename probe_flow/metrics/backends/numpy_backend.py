"""The numpy backend: the record of one block, always present and the reference for other backends.

A backend is `measure_block`, from the values of one block to its record, and `measure_blocks`, the same for many small
ones; what surrounds them (blocks, tree, spans) is the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from probe_flow.metrics.accumulators.base import Rules
from probe_flow.metrics.backends.plain_blocks import measure_plain, measure_plain_rows
from probe_flow.metrics.sums.block_sums import Numbers, Scratch, Values, load, side_of, summed
from probe_flow.metrics.sums.pair_errors import Block, PairValues, errors_of
from probe_flow.metrics.sums.record import Errors, Record, Side
from probe_flow.metrics.sums.special import (
    EXACT_LIMIT,
    exact_difference,
    measure_nonfinite,
    summarise_nonfinite,
)

NAME = "numpy"


def measure_block(target: Values, golden: Values, start: int, rules: Rules, scratch: Scratch) -> Record:
    """Return the record of one block of a pair.

    Args:
        target: values under test, 1-D, at most `BLOCK`, any real or complex dtype; never written.
        golden: reference values, as many.
        start: index of the first element in the tensor.
        rules: of the pair.
        scratch: of the calling thread.
    """
    if not target.size:
        return Record(0, Side(), Side(), Errors(), rules.of_nothing())
    if target.dtype.kind == "c" or golden.dtype.kind == "c":
        block = _measure_complex(target, golden, start, rules.eps, scratch)
    else:
        record = measure_plain(target, golden, start, rules, scratch)
        if record is not None:
            return record
        block = _measure_real(target, golden, start, rules.eps, scratch)
    return block.record._replace(accumulators=rules.found(block.values, block.errors))


def measure_blocks(
    targets: Sequence[Values], goldens: Sequence[Values], rules: Rules, scratch: Scratch
) -> list[Record]:
    """Return the records that `measure_block` gives of small blocks, each the first of its tensor.

    Args:
        targets: values of each block under test, all of one size and dtype, `SMALL` elements together at most.
        goldens: reference values, likewise.
        rules: of the pairs.
        scratch: of the calling thread.
    """
    found: list[Record | None] = [None] * len(targets)
    kinds = targets[0].dtype.kind, goldens[0].dtype.kind
    if len(targets) > 1 and targets[0].size and "c" not in kinds and (kinds[0] in "biu") == (kinds[1] in "biu"):
        found = measure_plain_rows(targets, goldens, 0, rules, scratch)
    return [
        measure_block(target, golden, 0, rules, scratch) if record is None else record
        for record, target, golden in zip(found, targets, goldens, strict=True)
    ]


def _measure_real(target: Values, golden: Values, start: int, eps: float, scratch: Scratch) -> Block:
    """Measure real values of any size, NaN and infinities among them."""
    x, target_bounds = load(target, scratch.target, scratch)
    y, golden_bounds = load(golden, scratch.golden, scratch)
    target_total, golden_total = summed(x), summed(y)
    if not (math.isfinite(target_total) and math.isfinite(golden_total)):
        block = measure_nonfinite(x.copy(), y.copy(), eps, scratch, start)
        found = block.record
        assert found.golden is not None
        found = found._replace(
            target=_exact_bounds(found.target, target, target_bounds),
            golden=_exact_bounds(found.golden, golden, golden_bounds),
        )
        return block._replace(record=found)
    difference = None
    if _are_integers(target, golden) and _reach(target_bounds, golden_bounds) > EXACT_LIMIT:
        difference = exact_difference(target, golden, scratch)
    own, numbers = side_of(x, target_bounds, scratch.spare, total=target_total)
    reference, golden_numbers = side_of(y, golden_bounds, scratch.spare, total=golden_total)
    errors, pair_errors = errors_of(x, y, (own, reference), eps, scratch, start=start, difference=difference)
    values = PairValues((numbers, golden_numbers), x, y, difference, scratch.spare)
    return Block(Record(target.size, own, reference, errors), values, pair_errors)


def summarise_block(values: Values, scratch: Scratch) -> tuple[Side, Numbers]:
    """Return the statistics of one side's block, and its numbers; arguments as in `measure_block`."""
    if values.dtype.kind == "c":
        return summarise_nonfinite(values.astype(np.complex128))
    if not values.size:
        return Side(), Numbers(scratch.target[:0], Side().exponent, 0.0)
    x, bounds = load(values, scratch.target, scratch)
    total = summed(x)
    if not math.isfinite(total):
        return summarise_nonfinite(x)
    return side_of(x, bounds, scratch.work, total=total)


def _measure_complex(target: Values, golden: Values, start: int, eps: float, scratch: Scratch) -> Block:
    # A real side keeps its own statistics: its imaginary zeros are no values.
    real = golden if target.dtype.kind == "c" else target
    own = summarise_block(real, scratch) if real.dtype.kind != "c" else None
    x, y = target.astype(np.complex128), golden.astype(np.complex128)
    block = measure_nonfinite(x, y, eps, scratch, start)
    if own is None:
        return block
    record, sides = block.record, block.values.sides
    if real is target:
        record, sides = record._replace(target=own[0]), (own[1], sides[1])
    else:
        record, sides = record._replace(golden=own[0]), (sides[0], own[1])
    return block._replace(record=record, values=block.values._replace(sides=sides))


def _exact_bounds(side: Side, values: Values, bounds: tuple[float, float]) -> Side:
    """Restore integer bounds on the side whose partner is not finite."""
    if values.dtype.kind in "biu":
        return side._replace(low=bounds[0], high=bounds[1])
    return side


def _are_integers(target: Values, golden: Values) -> bool:
    return target.dtype.kind in "biu" and golden.dtype.kind in "biu"


def _reach(*bounds: tuple[float, float]) -> float:
    return max(max(abs(low), abs(high)) for low, high in bounds)
