"""Blocks that the fast path cannot take: NaN and infinities, complex numbers, integers beyond 2**53."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from probe_flow.metrics.sums.block_sums import Floats, Numbers, Scratch, Values, bounds_of, reals, side_of
from probe_flow.metrics.sums.pair_errors import Block, Difference, PairValues, errors_of
from probe_flow.metrics.sums.record import Errors, Record, Side

EXACT_LIMIT = 2**53
"""Integers up to this are exact in float64."""


def measure_nonfinite(target: Values, golden: Values, eps: float, scratch: Scratch, start: int) -> Block:
    """Measure a pair of blocks, either of which may hold NaN and infinities: float64 or complex128, never changed."""
    target_finite, golden_finite = np.isfinite(target), np.isfinite(golden)
    both = target_finite & golden_finite
    places = np.flatnonzero(both)
    common_target, common_golden = target[places], golden[places]
    found, reference = summarise_nonfinite(target), summarise_nonfinite(golden)
    values = PairValues((found[1], reference[1]), common_target, common_golden, None, _work(golden))
    errors, pair_errors = Errors(), None
    if places.size:
        sides = (
            side_of(reals(common_target), bounds_of(reals(common_target)), values.work)[0],
            side_of(reals(common_golden), bounds_of(reals(common_golden)), values.work)[0],
        )
        errors, pair_errors = errors_of(common_target, common_golden, sides, eps, scratch)
    from probe_flow.masks import are_equal, hold_alike

    special = np.flatnonzero(~both)
    sides_there = target[special], golden[special]
    mismatched, unequal = (int(np.count_nonzero(~same(*sides_there))) for same in (hold_alike, are_equal))
    errors = _with_mismatches(errors, mismatched, unequal, places, start)
    return Block(Record(target.size, found[0], reference[0], errors), values, pair_errors)


def summarise_nonfinite(values: Values) -> tuple[Side, Numbers]:
    """Return the statistics of the finite values, float64 or complex128, and the values; count the others.

    A complex element is NaN when a part is; otherwise the sign of its first infinite part counts.
    """
    finite = values[np.isfinite(values)]
    nan = np.isnan(values)
    real, imag = values.real, values.imag
    positive = ~nan & ((real == np.inf) | (np.isfinite(real) & (imag == np.inf)))
    negative = ~nan & ((real == -np.inf) | (np.isfinite(real) & (imag == -np.inf)))
    specials = (int(np.count_nonzero(nan)), int(np.count_nonzero(positive)), int(np.count_nonzero(negative)))
    per_element = 2 if values.dtype.kind == "c" else 1
    bounds = bounds_of(reals(finite)) if finite.size else (np.inf, -np.inf)
    return side_of(reals(finite), bounds, _work(finite), specials=specials, per_element=per_element)


def exact_difference(target: Values, golden: Values, scratch: Scratch) -> Difference:
    """Return the errors between integers of any types, without rounding before the subtraction."""
    target, golden = _common_integers(target, golden)
    larger, smaller = np.maximum(target, golden), np.minimum(target, golden)
    if target.dtype != object:
        # The true difference of two int64 lies in 0 .. 2**64 - 1: subtraction modulo 2**64 is exact.
        larger, smaller = larger.view(np.uint64), smaller.view(np.uint64)
    exact = larger - smaller
    place = int(exact.argmax())
    errors = scratch.error[: exact.size]
    np.copyto(errors, exact, casting="unsafe")
    return Difference(errors, int(exact[place]), place, int(np.count_nonzero(exact)), np.less(target, golden))


def _common_integers(target: Values, golden: Values) -> tuple[Values, Values]:
    """Return both sides as int64 or both as uint64; as Python ints where neither type holds all values."""
    sides = (target, golden)
    if all(side.dtype != np.uint64 or int(side.max()) < 2**63 for side in sides):
        return target.astype(np.int64), golden.astype(np.int64)
    if all(side.dtype.kind == "u" or int(side.min()) >= 0 for side in sides):
        return target.astype(np.uint64), golden.astype(np.uint64)
    return target.astype(object), golden.astype(object)


def _work(values: Values) -> Floats:
    return np.empty(reals(values).size)


def _with_mismatches(errors: Errors, mismatched: int, unequal: int, places: NDArray[np.intp], start: int) -> Errors:
    """Add what differs elsewhere, and turn indices among the finite places into indices of the tensor."""

    def index(found: int) -> int:
        return start + int(places[found]) if found >= 0 else found

    return errors._replace(
        mismatched=mismatched,
        unequal=errors.unequal + unequal,
        max_abs_index=index(errors.max_abs_index),
        max_rel_index=index(errors.max_rel_index),
        zero_miss_index=index(errors.zero_miss_index),
    )
