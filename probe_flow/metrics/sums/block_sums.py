"""Sums over one block of finite numbers, in preallocated float64 buffers.

Every sum is `np.add.reduce` over contiguous float64, whose order is fixed; BLAS routines sum in an order that depends
on the processor and the thread count, so none is used.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from probe_flow.metrics.sums.record import BLOCK, EPS32, EPS64, SCALE, Errors, Masked, Side, Significant, exponent_of

Floats = NDArray[np.float64]
Values = NDArray[Any]

ONE_THOUSANDTH = 0.001
FIVE_THOUSANDTHS = 0.005

_HALF_SIGN_AND_REST = np.int32(-0x7000_2000)  # 0x8FFF_E000: sign, and exponent with mantissa moved up by 13 bits
HALF_TO_SINGLE = np.float32(2.0**112)  # difference of the exponent biases, 127 - 15
_SHORT_FLOATS = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
_HALF_LIMIT = 65536.0  # finite float16 values lie below


CACHE_LINE = 64


class Scratch:
    """The buffers of one thread; a kernel call allocates nothing else for ordinary data (about 5 MB).

    ``rows`` is the memory of the four float64 buffers and of five more. All begin at a border of a cache line, which
    numpy does not see to (measured: a tenth of the time of a block).
    """

    def __init__(self) -> None:
        self.rows: Floats = _aligned(9 * BLOCK, np.dtype(np.float64))
        self.target, self.golden, self.error, self.work = self.rows[: 4 * BLOCK].reshape(4, BLOCK)
        self.mask: NDArray[np.bool_] = _aligned(BLOCK, np.dtype(np.bool_))
        self.tiny: NDArray[np.bool_] = _aligned(BLOCK, np.dtype(np.bool_))
        self.codes: NDArray[np.int32] = _aligned(BLOCK, np.dtype(np.int32))


def _aligned(count: int, dtype: np.dtype[Any]) -> Values:
    raw = np.empty(count * dtype.itemsize + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + count * dtype.itemsize].view(dtype)


class Rules(NamedTuple):
    """What varies between pairs: the eps of zero golden values, and the extra figures asked for."""

    eps: float
    moments: bool = False
    masked: bool = False
    significant: bool = False


class Difference(NamedTuple):
    """Absolute errors found another way than by float64 subtraction: the errors, the exact largest, unequal places."""

    errors: Floats
    largest: int
    place: int
    unequal: int


def load(values: Values, out: Floats, scratch: Scratch) -> tuple[Floats, tuple[float, float]]:
    """Convert real values of any dtype to float64.

    Args:
        values: at least one, at most a block.
        out: buffer that receives them.
        scratch: further buffers.

    Returns:
        The filled part of ``out``, and minimum and maximum: exact ints for integers, bools for bools, else floats. The
        bounds are NaN or infinite when one of the values is.
    """
    wide = out[: values.size]
    if values.dtype.isnative and values.dtype in _SHORT_FLOATS:
        single = _short_floats(values, scratch.codes[: values.size])
        np.copyto(wide, single)
        bounds = bounds_of(single)
        if values.dtype == np.float16 and max(-bounds[0], bounds[1]) >= _HALF_LIMIT:
            np.copyto(wide, values)  # NaN and infinities, which the shift turned into large numbers
            return wide, bounds_of(wide)
        return wide, bounds
    np.copyto(wide, values, casting="unsafe")
    return wide, bounds_of(values if values.dtype.kind in "biu" or values.dtype == np.float32 else wide)


def widened(values: Values, out: Floats, scratch: Scratch) -> Floats:
    """Convert finite real values to float64; arguments as in `load`."""
    wide = out[: values.size]
    if values.dtype.isnative and values.dtype in _SHORT_FLOATS:
        np.copyto(wide, _short_floats(values, scratch.codes[: values.size]))
    else:
        np.copyto(wide, values, casting="unsafe")
    return wide


def _short_floats(values: Values, codes: NDArray[np.int32]) -> NDArray[np.float32]:
    """Widen float16 or bfloat16 by moving the bits to their place in a float32: much faster than numpy's casts."""
    np.copyto(codes, values.view(np.int16))
    single: NDArray[np.float32] = codes.view(np.float32)
    if values.dtype == np.float16:
        np.left_shift(codes, 13, out=codes)
        np.bitwise_and(codes, _HALF_SIGN_AND_REST, out=codes)
        np.multiply(single, HALF_TO_SINGLE, out=single)
    else:
        np.left_shift(codes, 16, out=codes)
    return single


def bounds_of(values: Values) -> tuple[float, float]:
    """Return minimum and maximum of real values (at least one)."""
    return np.minimum.reduce(values).item(), np.maximum.reduce(values).item()


def summed(values: Floats) -> float:
    """Return the pairwise float64 sum."""
    return float(np.add.reduce(values))


def product_sum(left: Floats, right: Floats, work: Floats) -> float:
    """Return the sum of products."""
    return float(np.add.reduce(np.multiply(left, right, out=work[: left.size])))


def scaled(values: Floats, exponent: int, largest: float) -> Floats:
    """Return values / 2**exponent; the same array when there is nothing to do."""
    return values * 2.0**-exponent if exponent and largest else values


def side_of(
    wide: Floats,
    bounds: tuple[float, float],
    work: Floats,
    *,
    specials: tuple[int, int, int] = (0, 0, 0),
    per_element: int = 1,
    moments: bool = False,
    total: float | None = None,
) -> Side:
    """Return the statistics of finite values.

    Args:
        wide: the values; real and imaginary parts in turn for complex tensors.
        bounds: their minimum and maximum (ignored when there are none).
        work: buffer of at least their size.
        specials: NaN, +inf and -inf counts that were left out.
        per_element: numbers per element, 2 for complex.
        moments: whether to add mean and squared deviations.
        total: their sum, where it is known.
    """
    if not wide.size:
        return Side(0, *specials, moments=(0.0, 0.0) if moments else None)
    low, high = bounds
    largest = max(abs(low), abs(high))
    exponent = exponent_of(largest)
    values = scaled(wide, exponent, largest)
    if total is None or values is not wide:
        total = summed(values)
    squares = product_sum(values, values, work)
    found = None
    if moments:
        found = moments_of(values, total, work)
    finite = wide.size // per_element
    return Side(finite, *specials, wide.size, exponent, total, squares, low, high, found)


def moments_of(values: Floats, total: float, work: Floats) -> tuple[float, float]:
    """Return mean and sum of squared deviations of values (at least one) whose sum is known."""
    mean = total / values.size
    deviations = np.subtract(values, mean, out=work[: values.size])
    return mean, float(np.add.reduce(np.multiply(deviations, deviations, out=deviations)))


def errors_of(
    target: Values,
    golden: Values,
    sides: tuple[Side, Side],
    rules: Rules,
    scratch: Scratch,
    *,
    start: int = 0,
    difference: Difference | None = None,
) -> Errors:
    """Return the errors between finite values, float64 or complex128.

    The arrays may be the scratch buffers themselves; they are overwritten then.

    Args:
        target: values under test.
        golden: reference values, the denominators of relative errors.
        sides: statistics of exactly these values, from `side_of`.
        rules: of the pair.
        scratch: buffers.
        start: index of the first element, added to the indices found.
        difference: errors that were computed exactly.
    """
    count = target.size
    if not count:
        return no_errors(rules)
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
    keep = np.greater(magnitude, EPS32) if rules.masked else None
    tiny = tiny_values(magnitude, scratch) if rules.significant else None
    relative = _relative_errors(error, magnitude, golden, rules.eps, start)
    if overflows:
        _repair_overflow(relative.errors, error, small, golden)
    rel_place = int(relative.errors.argmax())
    max_rel = float(relative.errors[rel_place])
    return Errors(
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
        product_sum(small, small, scratch.golden),
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
        None if keep is None else _masked(keep, error, small, relative.errors),
        None if tiny is None else significant_of(tiny, relative),
    )


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


class Relative(NamedTuple):
    """Relative errors, 0 where the golden value is 0; their sum where it is known; what happened at the zeros."""

    errors: Floats
    total: float | None = None
    misses: int = 0
    miss_index: int = -1
    zero_figures: tuple[float, float, int, int] = (0.0, 0.0, 0, 0)


def _relative_errors(error: Floats, magnitude: Floats, golden: Values, eps: float, start: int) -> Relative:
    """Divide in place of ``magnitude``, the absolute values of ``golden``."""
    ratio = np.divide(error, magnitude, out=magnitude)
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


def no_errors(rules: Rules) -> Errors:
    """Return the errors of no elements."""
    return Errors(masked=Masked() if rules.masked else None, significant=Significant() if rules.significant else None)


class Tiny(NamedTuple):
    """Which golden values are at most `EPS64`, how many there are, and whether all of them are zero."""

    places: NDArray[np.bool_]
    total: int
    are_zeros: bool


def tiny_values(magnitude: Floats, scratch: Scratch) -> Tiny:
    """Find the tiny ones among golden magnitudes."""
    zeros = np.equal(magnitude, 0.0, out=scratch.tiny[: magnitude.size])
    zero_count = int(np.count_nonzero(zeros))
    places = np.less_equal(magnitude, EPS64, out=zeros)
    count = int(np.count_nonzero(places))
    return Tiny(places, count, count == zero_count)


def significant_of(tiny: Tiny, relative: Relative) -> Significant:
    """Return what is left of relative errors without those of tiny golden values; those of zeros are 0 already."""
    ratio, total = relative.errors, relative.total
    if not tiny.are_zeros:  # seldom: picking elements costs as much as all else together
        ratio, total = np.where(tiny.places, 0.0, ratio), None
    largest = float(np.maximum.reduce(ratio))
    return Significant(ratio.size - tiny.total, summed(ratio) if total is None else total, largest)


def _repair_overflow(relative: Floats, error: Floats, small: Floats, golden: Values) -> None:
    """Replace the ratios of errors that have no float64 value; their golden values are large enough to scale."""
    places = np.flatnonzero(np.isinf(error))
    relative[places] = small[places] / np.abs(golden[places] * 2.0**-SCALE)


def _masked(keep: NDArray[np.bool_], error: Floats, small: Floats, relative: Floats) -> Masked:
    kept_small, kept_relative = np.where(keep, small, 0.0), np.where(keep, relative, 0.0)
    largest = float(np.maximum.reduce(np.where(keep, error, 0.0)))
    return Masked(summed(kept_relative), float(np.maximum.reduce(kept_relative)), summed(kept_small), largest)
