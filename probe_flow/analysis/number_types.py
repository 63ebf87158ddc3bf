"""Element types: how far storing a value takes it, how much of that is left in a mean, and how records are rounded.

Norm and mean of a 16-bit tensor are computed by some collectors in its own type, and its extremes are of that type.
Kernels that round faithfully, to either neighbour, differ by one step of it. Two records on that grid may be a
whole step apart although what they are of is not: just above a power of two that is 2**-7 of a bfloat16 norm.
"""

from __future__ import annotations

import math
from functools import lru_cache

UNIT = {
    "float64": 2.0**-40,
    "float32": 2.0**-20,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "hifloat8": 2.0**-3,
    "float8_e4m3fn": 2.0**-4,
    "float8_e5m2": 2.0**-3,
    "complex64": 2.0**-20,
    "complex128": 2.0**-40,
    "complex32": 2.0**-11,
    "": 2.0**-8,
}
"""Relative error that storing a value in the dtype explains: half a step for 16 bits and less. For wider types half
a step would accuse every device: float32 products run in reduced precision there, float64 is emulated. Statistics of
which no dtype is known may be of bfloat16."""

STEP_AT_MOST = 2.0
"""Rounding step of a value, in `UNIT` of it: 1 just below a power of two, 2 above. Kernels that round faithfully give
either neighbour."""

MAX_HALF = 65504.0
"""Largest number of float16."""

HALF_RANGE = (2.0**-14, MAX_HALF)
"""Magnitudes of float16 with all their bits."""

STEP = {"float16": 2.0**-24, "complex32": 2.0**-24, "float8_e4m3fn": 2.0**-9, "float8_e5m2": 2.0**-16}
"""Distance between neighbours near zero, where values are so small that relative errors say nothing."""

SIGNIFICANT_BITS = {"bfloat16": 8, "float16": 11}
"""Bits of a significand, the leading one included (IEEE 754 for float16); the narrowest first."""

WIDE = frozenset(("float32", "float64"))
"""Types whose values may have been rounded before to one of those."""

RESTATED = 0.25
"""Rounding steps between two records of one tensor, whose mean some collectors take in its own type."""

SUMMED = 2.0**-31
"""Relative error of a recorded norm, per element: collectors add up its squares in float32. torch does so in eight
lanes on a CPU, and loses 6e-7 of 2**16 normal numbers, 8e-5 of 2**22 and 5e-3 of 2**26; of numbers that are all alike,
up to as many 2**-31 as there are. A device loses less, so both sides are that far apart."""

NARROW = 8.0
"""Spread of a tensor, in rounding steps of its size, up to which its elements may all be rounded alike."""

LEAST_COMMON, MOST_COMMON = 0.1, 0.5
"""Share of noise that many elements have in common, however many they are, and however few."""


@lru_cache(maxsize=4096)
def common_share(count: int) -> float:
    """Return the share of noise that does not average out over so many elements: some of it is shared by many."""
    return min(MOST_COMMON, LEAST_COMMON + 2.0 / math.sqrt(count))


LARGER_OF_TWO = math.sqrt(1.0 + 2.0 / math.pi)
"""Root mean square of the larger of two normally distributed errors, those of both extremes, in one of them."""


def noise_by(figures: tuple[float, float, float], size: float, top: float, count: int) -> float:
    """Return the error, as root mean square, that differences of extremes, root mean squares and means say together.

    Noise moves extremes as it moves elements, more where it grows with these, and the others by the root of the count
    less, but for what is common to all. Some may be small by accident, so that none is believed alone.

    Args:
        figures: these differences.
        size, top: root mean square and largest value of the golden.
        count: of elements.
    """
    peak, norm, mean = figures
    left = math.hypot(LEAST_COMMON, 1.0 / math.sqrt(max(1, count)))
    at_top = math.sqrt(size / top) if top else 1.0
    return math.hypot(at_top * peak / LARGER_OF_TWO, norm / left, mean / left) / math.sqrt(3.0)


def nearest_record(target: float | None, golden: float | None, bits: int = 0) -> float | None:
    """Return the number nearest to ``golden`` that a record ``target`` in a 16-bit type may stand for.

    The type is the narrowest that has both and at least ``bits`` of a significand. Both stand for what they are where
    one of them is no number of these types, so that it was not rounded to one, and where one is 0: nothing was rounded
    there.
    """
    if not target or not golden or target == golden:
        return target
    used = max(bits, significand_bits(target), significand_bits(golden))
    held = min((bits for bits in SIGNIFICANT_BITS.values() if used <= bits), default=0)
    if not held:
        return target
    step = math.ldexp(1.0, math.frexp(max(abs(target), abs(golden)))[1] - held)
    away = target - golden
    return golden + math.copysign(max(0.0, abs(away) - step), away)


def is_record(value: float | None, bits: int) -> bool:
    """Return True if a number fits a significand of so many bits: by accident one in 2**(24 - bits) of float32 does."""
    return value is not None and math.ldexp(math.frexp(value)[0], bits).is_integer()


_WIDE_BITS = 24  # of a significand of float32, the leading one included


def significand_bits(value: float) -> int:
    """Return how many bits a significand uses, from its first to its last one that is set; 25 stands for more."""
    fraction, _ = math.frexp(value)
    whole = math.ldexp(fraction, _WIDE_BITS)
    if not whole.is_integer():
        return _WIDE_BITS + 1
    number = abs(int(whole))
    return number.bit_length() - (number & -number).bit_length() + 1 if number else 0
