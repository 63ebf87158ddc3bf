"""Tables of the 256 values of every 8-bit float, exact in float32.

Sources: OCP 8-bit Floating Point Specification (E5M2, E4M3), OCP Microscaling Formats (E8M0), the published bit rules
of HiFloat8, a format whose leading bits choose how many exponent bits follow, and those of the ``fnuz`` variants
(finite, no negative zero, bias one higher).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

_HIFLOAT8_INFINITY = 0x6F
_HIFLOAT8_DENORMAL_BIAS = 23
_HIFLOAT8_FIELDS = (
    # smallest code of the range, exponent bits, mantissa bits
    (0b110_0000, 4, 1),
    (0b100_0000, 3, 2),
    (0b010_0000, 2, 3),
    (0b001_0000, 1, 3),
    (0b000_1000, 0, 3),
)


@cache
def value_table(name: str) -> NDArray[np.float32]:
    """Return the read-only float32 values of all codes 0..255 of an 8-bit float.

    Args:
        name: ``hifloat8``, ``float8_e5m2``, ``float8_e4m3fn``, ``float8_e8m0`` or the ``fnuz`` variants.
    """
    table = np.array([_RULES[name](code) for code in range(256)], dtype=np.float32)
    table.flags.writeable = False
    return table


def _hifloat8(code: int) -> float:
    sign = -1.0 if code & 0x80 else 1.0
    rest = code & 0x7F
    if rest == 0:
        return math.nan if code & 0x80 else 0.0
    if rest == _HIFLOAT8_INFINITY:
        return sign * math.inf
    for start, exponent_bits, mantissa_bits in _HIFLOAT8_FIELDS:
        if rest >= start:
            mantissa = rest & ((1 << mantissa_bits) - 1)
            field = (rest >> mantissa_bits) & ((1 << exponent_bits) - 1)
            exponent = _signed_exponent(field, exponent_bits)
            return sign * math.ldexp(1.0 + mantissa / (1 << mantissa_bits), exponent)
    return sign * math.ldexp(1.0, rest - _HIFLOAT8_DENORMAL_BIAS)


def _signed_exponent(field: int, bits: int) -> int:
    """Return a sign-magnitude exponent whose magnitude has a hidden leading one; no bits mean 0."""
    if bits == 0:
        return 0
    hidden = 1 << (bits - 1)
    magnitude = hidden + (field & (hidden - 1))
    return -magnitude if field & hidden else magnitude


def _float8_e5m2(code: int) -> float:
    exponent, mantissa = (code >> 2) & 0x1F, code & 0x03
    if exponent == 0x1F:
        magnitude = math.nan if mantissa else math.inf
    elif exponent == 0:
        magnitude = math.ldexp(mantissa, -16)
    else:
        magnitude = math.ldexp(4 + mantissa, exponent - 17)
    return math.copysign(magnitude, -1.0 if code & 0x80 else 1.0)


def _float8_e4m3fn(code: int) -> float:
    exponent, mantissa = (code >> 3) & 0x0F, code & 0x07
    if code & 0x7F == 0x7F:
        magnitude = math.nan
    elif exponent == 0:
        magnitude = math.ldexp(mantissa, -9)
    else:
        magnitude = math.ldexp(8 + mantissa, exponent - 10)
    return math.copysign(magnitude, -1.0 if code & 0x80 else 1.0)


_UNSIGNED_ZERO_NAN = 0x80
"""In the ``fnuz`` variants the code of a negative zero is the only NaN; there are no infinities."""


def _float8_e5m2fnuz(code: int) -> float:
    return _fnuz(code, mantissa_bits=2, bias=16)


def _float8_e4m3fnuz(code: int) -> float:
    return _fnuz(code, mantissa_bits=3, bias=8)


def _fnuz(code: int, *, mantissa_bits: int, bias: int) -> float:
    if code == _UNSIGNED_ZERO_NAN:
        return math.nan
    exponent, mantissa = (code & 0x7F) >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    hidden = 1 << mantissa_bits if exponent else 0
    magnitude = math.ldexp(hidden + mantissa, max(exponent, 1) - bias - mantissa_bits)
    return math.copysign(magnitude, -1.0 if code & 0x80 else 1.0)


def _float8_e8m0(code: int) -> float:
    return math.nan if code == 0xFF else math.ldexp(1.0, code - 127)


_RULES: dict[str, Callable[[int], float]] = {
    "hifloat8": _hifloat8,
    "float8_e5m2": _float8_e5m2,
    "float8_e4m3fn": _float8_e4m3fn,
    "float8_e8m0": _float8_e8m0,
    "float8_e5m2fnuz": _float8_e5m2fnuz,
    "float8_e4m3fnuz": _float8_e4m3fnuz,
}
