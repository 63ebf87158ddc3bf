"""Sums over one block of finite numbers, in preallocated float64 buffers.

Every sum is `np.add.reduce` over contiguous float64, whose order is fixed; BLAS routines sum in an order that depends
on the processor and the thread count, so none is used.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probe_flow.metrics.sums.record import BLOCK, Side, exponent_of

Floats = NDArray[np.float64]
Values = NDArray[Any]

_HALF_SIGN_AND_REST = np.int32(-0x7000_2000)  # 0x8FFF_E000: sign, and exponent with mantissa moved up by 13 bits
HALF_TO_SINGLE = np.float32(2.0**112)  # difference of the exponent biases, 127 - 15
_HALF_LIMIT = 65536.0  # finite float16 values lie below


CACHE_LINE = 64


class Scratch:
    """The buffers of one thread; a kernel call allocates nothing else for ordinary data (about 5 MB).

    ``rows`` is the memory of the six float64 buffers and of three more. All begin at a border of a cache line, which
    numpy does not see to (measured: a tenth of the time of a block).
    """

    def __init__(self) -> None:
        self.rows: Floats = _aligned(9 * BLOCK, np.dtype(np.float64))
        self.target, self.golden, self.error, self.work, self.ratio, self.spare = self.rows[: 6 * BLOCK].reshape(
            6, BLOCK
        )
        self.mask: NDArray[np.bool_] = _aligned(BLOCK, np.dtype(np.bool_))
        self.tiny: NDArray[np.bool_] = _aligned(BLOCK, np.dtype(np.bool_))
        self.codes: NDArray[np.int32] = _aligned(BLOCK, np.dtype(np.int32))


def _aligned(count: int, dtype: np.dtype[Any]) -> Values:
    raw = np.empty(count * dtype.itemsize + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + count * dtype.itemsize].view(dtype)


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
    if _is_short_float(values.dtype):
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
    if _is_short_float(values.dtype):
        np.copyto(wide, _short_floats(values, scratch.codes[: values.size]))
    else:
        np.copyto(wide, values, casting="unsafe")
    return wide


def _is_short_float(dtype: np.dtype[Any]) -> bool:
    """Tell float16 and bfloat16, which numpy calls a kind of its own, without loading the library of the latter."""
    return dtype.itemsize == 2 and dtype.kind in "fV" and dtype.isnative


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


def reals(values: Values) -> Floats:
    """Return the numbers behind float64 or complex128 values: real and imaginary parts in turn."""
    numbers: Floats = np.ascontiguousarray(values).view(np.float64)
    return numbers


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


class Numbers(NamedTuple):
    """The finite numbers of one side, divided by 2**exponent, real and imaginary parts in turn, and their sum."""

    values: Floats
    exponent: int
    total: float


def side_of(
    wide: Floats,
    bounds: tuple[float, float],
    work: Floats,
    *,
    specials: tuple[int, int, int] = (0, 0, 0),
    per_element: int = 1,
    total: float | None = None,
) -> tuple[Side, Numbers]:
    """Return the statistics of finite values, and what they were summed from.

    Args:
        wide: the values; real and imaginary parts in turn for complex tensors.
        bounds: their minimum and maximum (ignored when there are none).
        work: buffer of at least their size.
        specials: NaN, +inf and -inf counts that were left out.
        per_element: numbers per element, 2 for complex.
        total: their sum, where it is known.
    """
    if not wide.size:
        return Side(0, *specials), Numbers(wide, Side().exponent, 0.0)
    low, high = bounds
    largest = max(abs(low), abs(high))
    exponent = exponent_of(largest)
    values = scaled(wide, exponent, largest)
    if total is None or values is not wide:
        total = summed(values)
    squares = product_sum(values, values, work)
    side = Side(wide.size // per_element, *specials, wide.size, exponent, total, squares, low, high)
    return side, Numbers(values, exponent, total)


def moments_of(values: Floats, total: float, work: Floats) -> tuple[float, float]:
    """Return mean and sum of squared deviations of values (at least one) whose sum is known.

    ``work`` is a buffer of at least their size, or the values themselves, which are lost then.
    """
    mean = total / values.size
    deviations = np.subtract(values, mean, out=work[: values.size])
    return mean, float(np.add.reduce(np.multiply(deviations, deviations, out=deviations)))
