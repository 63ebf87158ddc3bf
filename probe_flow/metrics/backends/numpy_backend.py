"""The numpy backend: the record of one block, always present and the reference for other backends.

A backend is these two functions, from the values of one block to its record; what surrounds them (blocks, tree, spans)
is the same for all.
"""

from __future__ import annotations

import math

import numpy as np

from probe_flow.metrics.backends.plain_blocks import measure_plain
from probe_flow.metrics.sums.block_sums import Rules, Scratch, Values, errors_of, load, no_errors, side_of, summed
from probe_flow.metrics.sums.record import Record, Side
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
        empty = Side(moments=(0.0, 0.0) if rules.moments else None)
        return Record(0, empty, empty, no_errors(rules))
    if target.dtype.kind == "c" or golden.dtype.kind == "c":
        return _measure_complex(target, golden, start, rules, scratch)
    if not rules.masked:
        record = measure_plain(target, golden, start, rules, scratch)
        if record is not None:
            return record
    x, target_bounds = load(target, scratch.target, scratch)
    y, golden_bounds = load(golden, scratch.golden, scratch)
    target_total, golden_total = summed(x), summed(y)
    if not (math.isfinite(target_total) and math.isfinite(golden_total)):
        found, reference, errors = measure_nonfinite(x.copy(), y.copy(), rules, scratch, start)
        found, reference = _exact_bounds(found, target, target_bounds), _exact_bounds(reference, golden, golden_bounds)
        return Record(target.size, found, reference, errors)
    difference = None
    if _are_integers(target, golden) and _reach(target_bounds, golden_bounds) > EXACT_LIMIT:
        difference = exact_difference(target, golden, scratch)
    sides = (
        side_of(x, target_bounds, scratch.work, moments=rules.moments, total=target_total),
        side_of(y, golden_bounds, scratch.work, moments=rules.moments, total=golden_total),
    )
    errors = errors_of(x, y, sides, rules, scratch, start=start, difference=difference)
    return Record(target.size, *sides, errors)


def summarise_block(values: Values, rules: Rules, scratch: Scratch) -> Record:
    """Return the one-sided record of one block; arguments as in `measure_block`."""
    if not values.size:
        return Record(0, Side(moments=(0.0, 0.0) if rules.moments else None))
    if values.dtype.kind == "c":
        return Record(values.size, summarise_nonfinite(values.astype(np.complex128), moments=rules.moments))
    x, bounds = load(values, scratch.target, scratch)
    total = summed(x)
    if not math.isfinite(total):
        return Record(values.size, summarise_nonfinite(x, moments=rules.moments))
    return Record(values.size, side_of(x, bounds, scratch.work, moments=rules.moments, total=total))


def _measure_complex(target: Values, golden: Values, start: int, rules: Rules, scratch: Scratch) -> Record:
    x, y = target.astype(np.complex128), golden.astype(np.complex128)
    found, reference, errors = measure_nonfinite(x, y, rules, scratch, start)
    # A real side keeps its own statistics: its imaginary zeros are no values.
    if target.dtype.kind != "c":
        found = summarise_block(target, rules, scratch).target
    if golden.dtype.kind != "c":
        reference = summarise_block(golden, rules, scratch).target
    return Record(target.size, found, reference, errors)


def _exact_bounds(side: Side, values: Values, bounds: tuple[float, float]) -> Side:
    """Restore integer bounds on the side whose partner is not finite."""
    if values.dtype.kind in "biu":
        return side._replace(low=bounds[0], high=bounds[1])
    return side


def _are_integers(target: Values, golden: Values) -> bool:
    return target.dtype.kind in "biu" and golden.dtype.kind in "biu"


def _reach(*bounds: tuple[float, float]) -> float:
    return max(max(abs(low), abs(high)) for low, high in bounds)
