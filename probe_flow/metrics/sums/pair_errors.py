"""Errors between the finite values of a block, and what a block shows to the accumulators of a run."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probe_flow.metrics.sums.block_sums import Floats, Numbers, Scratch, Values, product_sum, scaled, summed
from probe_flow.metrics.sums.record import SCALE, Errors, Record, Side, exponent_of

ONE_THOUSANDTH = 0.001
FIVE_THOUSANDTHS = 0.005


class Difference(NamedTuple):
    """Errors between integers, found another way than by float64 subtraction.

    Args:
        errors: their absolute values.
        largest: the largest one, exact.
        place: where it is first.
        unequal: places with different values.
        is_negative: where the target is below the golden value.
    """

    errors: Floats
    largest: int
    place: int
    unequal: int
    is_negative: NDArray[np.bool_]


class PairValues(NamedTuple):
    """The values of a block, for reading only.

    Args:
        sides: the finite numbers of target and golden, each by itself.
        target, golden: values at the places where both are finite, maybe none: float64, or both complex128.
        difference: errors between integers that are not exact in float64.
        work: buffer for as many numbers as a side has at most, which may be written.
    """

    sides: tuple[Numbers, Numbers]
    target: Values
    golden: Values
    difference: Difference | None
    work: Floats


class Relative(NamedTuple):
    """Relative errors, 0 where the golden value is 0; their sum where it is known; what happened at the zeros."""

    errors: Floats
    total: float | None = None
    misses: int = 0
    miss_index: int = -1
    zero_figures: tuple[float, float, int, int] = (0.0, 0.0, 0, 0)


class PairErrors(NamedTuple):
    """The errors of a block at the places where both sides are finite (at least one), for reading only.

    Args:
        absolute: of each place, moduli for complex values; infinite where no float64 holds it.
        scaled: the same divided by 2**exponent, always finite.
        exponent: 0 for ordinary sizes.
        magnitude: of the golden value.
        relative: absolute errors over magnitudes.
        max_rel: the largest of them.
        scratch: its ``mask`` and ``tiny`` may be written.
    """

    absolute: Floats
    scaled: Floats
    exponent: int
    magnitude: Floats
    relative: Relative
    max_rel: float
    scratch: Scratch


class Block(NamedTuple):
    """What was found in a block: its record, still without accumulators, and what it shows to them.

    ``errors`` is None where no place is finite on both sides.
    """

    record: Record
    values: PairValues
    errors: PairErrors | None


def errors_of(
    target: Values,
    golden: Values,
    sides: tuple[Side, Side],
    eps: float,
    scratch: Scratch,
    *,
    start: int = 0,
    difference: Difference | None = None,
) -> tuple[Errors, PairErrors]:
    """Return what the errors between finite values, at least one, sum up to, and the errors.

    The arrays may be the buffers ``target`` and ``golden`` of ``scratch``; all others are overwritten.

    Args:
        target: values under test, float64 or complex128.
        golden: reference values, the denominators of relative errors.
        sides: statistics of exactly these values, from `side_of`.
        eps: what a zero golden value counts as.
        scratch: buffers.
        start: index of the first element, added to the indices found.
        difference: errors that were computed exactly.
    """
    count = target.size
    work, mask = scratch.work, scratch.mask[:count]
    error = difference.errors if difference else _absolute_difference(target, golden, scratch)
    place = difference.place if difference else int(error.argmax())
    max_abs = difference.largest if difference else float(error[place])
    error_exponent = exponent_of(max_abs)
    overflows = math.isinf(max_abs)
    if overflows:
        small = np.abs(target * 2.0**-SCALE - golden * 2.0**-SCALE)
        place = int(small.argmax())
    else:
        small = scaled(error, error_exponent, max_abs)
    unequal = difference.unequal if difference else int(np.count_nonzero(np.greater(error, 0.0, out=mask)))
    dot = _dot(target, golden, sides, work)
    magnitude = np.abs(golden, out=work[:count])
    golden_abs = summed(scaled(magnitude, sides[1].exponent, _largest(sides[1])))
    relative = relative_errors(error, magnitude, golden, eps, start, scratch.ratio[:count])
    if overflows:
        _repair_overflow(relative.errors, error, small, golden)
    rel_place = int(relative.errors.argmax())
    max_rel = float(relative.errors[rel_place])
    errors = Errors(
        count,
        0,
        unequal,
        sides[0].exponent,
        sides[1].exponent,
        error_exponent,
        dot,
        sides[0].squares,
        sides[1].squares,
        golden_abs,
        summed(small),
        product_sum(small, small, scratch.spare),
        max_abs,
        start + place,
        summed(relative.errors) if relative.total is None else relative.total,
        max_rel,
        start + rel_place,
        count_below(ONE_THOUSANDTH, relative.errors, max_rel, mask) - relative.misses,
        count_below(FIVE_THOUSANDTHS, relative.errors, max_rel, mask) - relative.misses,
        relative.misses,
        relative.miss_index,
        *relative.zero_figures,
    )
    return errors, PairErrors(error, small, error_exponent, magnitude, relative, max_rel, scratch)


def _largest(side: Side) -> float:
    return max(abs(side.low), abs(side.high))


def _absolute_difference(target: Values, golden: Values, scratch: Scratch) -> Floats:
    error = scratch.error[: target.size]
    if target.dtype.kind == "c":
        np.abs(target - golden, out=error)
        return error
    np.subtract(target, golden, out=error)
    np.abs(error, out=error)
    return error


def _dot(target: Values, golden: Values, sides: tuple[Side, Side], work: Floats) -> float:
    """Return the scaled sum of products, over real and imaginary parts alike."""
    left, right = target, golden
    if target.dtype.kind == "c":
        left, right = target.view(np.float64), golden.view(np.float64)
        work = np.empty(left.size)
    left = scaled(left, sides[0].exponent, _largest(sides[0]))
    right = scaled(right, sides[1].exponent, _largest(sides[1]))
    return product_sum(left, right, work)


def relative_errors(error: Floats, magnitude: Floats, golden: Values, eps: float, start: int, out: Floats) -> Relative:
    """Divide errors by magnitudes, the absolute values of ``golden``."""
    ratio = np.divide(error, magnitude, out=out)
    total = summed(ratio)
    if math.isfinite(total):  # a single zero among the golden values would have made it infinite or NaN
        return Relative(ratio, total)
    return zeros_apart(ratio, error, golden, eps, start)


def zeros_apart(ratio: Floats, error: Floats, golden: Values, eps: float, start: int) -> Relative:
    """Set the ratios of zero golden values to 0, in place, and tell what was there."""
    np.fmax(ratio, 0.0, out=ratio)  # 0/0 gave NaN and is no error
    if not math.isinf(float(np.maximum.reduce(ratio))):
        return Relative(ratio)
    places = np.flatnonzero(np.isinf(ratio))
    places = places[golden[places] == 0]
    if not places.size:
        return Relative(ratio)
    ratio[places] = 0.0
    missed = error[places] / eps
    within = [int(np.count_nonzero(missed < bound)) for bound in (ONE_THOUSANDTH, FIVE_THOUSANDTHS)]
    figures = (summed(missed), float(np.maximum.reduce(missed)), within[0], within[1])
    return Relative(ratio, None, places.size, start + int(places[0]), figures)


def count_below(bound: float, errors: Floats, largest: float, mask: NDArray[np.bool_]) -> int:
    """Return how many errors are below ``bound``; ``largest`` is the largest one, ``mask`` a buffer of their size."""
    return errors.size if largest < bound else int(np.count_nonzero(np.less(errors, bound, out=mask)))


def _repair_overflow(relative: Floats, error: Floats, small: Floats, golden: Values) -> None:
    """Replace the ratios of errors that have no float64 value; their golden values are large enough to scale."""
    places = np.flatnonzero(np.isinf(error))
    relative[places] = small[places] / np.abs(golden[places] * 2.0**-SCALE)
