"""What rounding explains: how far storing a value in its type may take it, and that it was in a narrower one before.

Automatic mixed precision computes in bfloat16 or float16, and models cast results back by ``.float()``, which no dump
records. A float32 tensor of such values differs from side to side by steps of the narrower type. It is told by its
extremes: that both extremes of both sides end in the zeros that the narrower type leaves is no accident (one computed
float32 value does so once in 65,536 for bfloat16, in 8,192 for float16).

Norm and mean of a 16-bit tensor are computed by some collectors in its own type, and its extremes are of that type.
Kernels that round faithfully, to either neighbour, differ by one step of it. Two records on that grid may be a
whole step apart although what they are of is not: just above a power of two that is 2**-7 of a bfloat16 norm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from probe_flow.records import Mode, Pair, TensorRef
from probe_flow.records.row import Row

Extremes: TypeAlias = "tuple[float | None, float | None]"

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

SYSTEMATIC = 2.0**-19
"""Change of scale that does not average out: approximated functions and reduced products err in one direction."""

OTHER_FRAMEWORK = 8.0
"""How many times as large both are for float32 where two frameworks are compared: their kernels are made of other
approximations and default settings. The epsilon of a layer norm is 1e-5 in one and 1e-7 in the other, which scales
tensors of variance 1 by 5e-6, five steps of `UNIT`."""

STEP = {"float16": 2.0**-24, "complex32": 2.0**-24, "float8_e4m3fn": 2.0**-9, "float8_e5m2": 2.0**-16}
"""Distance between neighbours near zero, where values are so small that relative errors say nothing."""

SIGNIFICANT_BITS = {"bfloat16": 8, "float16": 11}
"""Bits of a significand, the leading one included (IEEE 754 for float16); the narrowest first."""

WIDE = frozenset(("float32", "float64"))
"""Types whose values may have been rounded before to one of those."""

PLAIN_BITS = 4
"""Numbers with so few bits say nothing: 0, 1, 0.5, 6 and such are meant as they are."""

PLAIN_INTEGER = 512.0
"""Nor do integers below this: pixels, counts, classes."""

BOTH_SIDES = 2
"""Extremes that must be known, one of each side."""

TELLING = 16.0
"""How many times the distance to its golden a step may be to which a value was rounded: it is a sixteenth by chance
once in eight times."""

RANGE = (2.0**-14, 65504.0)
"""Magnitudes of float16 with all their bits; what is outside was not in float16."""


RESTATED = 0.25
"""Rounding steps between two records of one tensor, whose mean some collectors take in its own type."""

LEAST_COMMON, MOST_COMMON = 0.1, 0.5
"""Share of noise that many elements have in common, however many they are, and however few."""


class Rounding(Struct, frozen=True):
    """What needs no fault: ``unit`` by dtype (`UNIT`), and a common change of scale (`SYSTEMATIC`)."""

    unit: Mapping[str, float]
    systematic: float


WITHIN_FRAMEWORK = Rounding(UNIT, SYSTEMATIC)
ACROSS_FRAMEWORKS = Rounding(
    {dtype: unit * (OTHER_FRAMEWORK if unit == UNIT["float32"] else 1.0) for dtype, unit in UNIT.items()},
    SYSTEMATIC * OTHER_FRAMEWORK,
)


def storage(pair: Pair, mode: Mode, rounding: Rounding) -> tuple[float, float]:
    """Return the relative error that storage explains, and the absolute one near zero."""
    target, golden = pair.target, pair.golden
    assert target is not None
    assert golden is not None
    unit, step = rounding.unit.get(target.dtype, 0.0), STEP.get(target.dtype, 0.0)
    if golden.dtype != target.dtype and (golden.dtype or target.dtype not in rounding.unit):
        unit = max(unit, rounding.unit.get(golden.dtype, 0.0))
        step = max(step, STEP.get(golden.dtype, 0.0))
    if mode is Mode.STATISTICS:
        unit = max(unit, _of_digits(target, golden))
    if pair.rule.is_self and target.dtype not in UNIT and golden.dtype in UNIT:
        step = max(step, 1.0)  # a cast to whole numbers drops the fraction
    return unit, step


def _of_digits(*sides: TensorRef) -> float:
    """Return by how much the decimal digits that dumps keep set two records of one number apart; 0 where both keep all.

    Each side rounds by half a step, which is no noise of elements that would average out.
    """
    digits = [side.facts.digits for side in sides if side.facts.digits is not None]
    return 0.5 * sum(10.0 ** (1 - kept) for kept in digits)


def rounded_before(extremes: Sequence[float | None], units: Mapping[str, float]) -> float:
    """Return the relative error that an earlier rounding of a wide tensor explains; 0.0 where it shows none.

    Args:
        extremes: smallest and largest value of both sides; None where not known (masked scores have no smallest one).
            One of each side is enough.
        units: what rounding explains by dtype (`probe_flow.analysis.model.deviation.UNIT`).
    """
    known = [value for value in extremes if value is not None]
    if len(known) < BOTH_SIDES:
        return 0.0
    bits, tells = 0, False
    for value in known:
        used = _bits(value)
        if used > SIGNIFICANT_BITS["float16"]:
            return 0.0
        bits = max(bits, used)
        tells = tells or (used > PLAIN_BITS and not (abs(value) < PLAIN_INTEGER and float(value).is_integer()))
    if not tells:
        return 0.0
    if bits <= SIGNIFICANT_BITS["bfloat16"]:
        return units["bfloat16"]
    least, most = RANGE
    return units["float16"] if all(not each or least <= abs(each) <= most for each in known) else 0.0


class LostBits(Struct, frozen=True):
    """What extremes say of a result: how many bits both lack together, and that in words."""

    bits: float
    told: str


def lost_bits(row: Row) -> LostBits | None:
    """Return the bits of a significand that both extremes of a target lack; None where one lacks none, or few elements.

    A value is rounded to ``k`` bits fewer by accident once in ``2 ** k`` times, both extremes once in ``2 ** (2 k)``.
    """
    dtype, measured = row.pair.shown.dtype, row.measurement
    held = SIGNIFICANT_BITS.get(dtype, 0)
    if not held or measured is None or measured.count <= BOTH_SIDES:
        return None
    sides = measured.target_statistics, measured.golden_statistics
    target, golden = ((each.min, each.max) if each is not None else (None, None) for each in sides)
    bits = bits_fewer(target, golden, held)
    if not bits:
        return None
    told = (
        f"minimum and maximum have {bits / 2.0:.2g} bits fewer than {dtype} holds ({target[0]:.6g} and "
        f"{target[1]:.6g}, golden {golden[0]:.6g} and {golden[1]:.6g}), by accident once in {2.0**bits:.0f} times"
    )
    return LostBits(bits, told)


def bits_fewer(target: Extremes, golden: Extremes, held: int) -> float:
    """Return how many bits both extremes of a target lack together, each as many; 0.0 where one lacks none.

    Bits that are worth more than 16 times the distance to the golden tell nothing. Nor do plain numbers and zeros of
    the golden, the two ends of one range (-1 and 1), and what differs by a rounding step.

    Args:
        target, golden: smallest and largest value of both sides.
        held: bits of the target's type.
    """
    least, step = float(held), 0.0
    for value, other in zip(target, golden, strict=True):
        if not value or not other or not math.isfinite(value) or not math.isfinite(other):
            return 0.0
        step = math.ldexp(1.0, math.frexp(max(abs(value), abs(other)))[1] - held)
        apart = abs(value - other) / step
        if apart <= 1.0 or _bits(other) <= PLAIN_BITS:
            return 0.0
        least = min(least, held - _bits(value), math.log2(TELLING * apart))
    is_range = all(abs(low + high) <= step for low, high in (target, golden))  # type: ignore[operator]
    return 0.0 if is_range else 2.0 * max(0.0, least)


def nearest_record(target: float | None, golden: float | None, bits: int = 0) -> float | None:
    """Return the number nearest to ``golden`` that a record ``target`` in a 16-bit type may stand for.

    The type is the narrowest that has both and at least ``bits`` of a significand. Both stand for what they are where
    one of them is no number of these types, so that it was not rounded to one, and where one is 0: nothing was rounded
    there.
    """
    if not target or not golden or target == golden:
        return target
    used = max(bits, _bits(target), _bits(golden))
    held = min((bits for bits in SIGNIFICANT_BITS.values() if used <= bits), default=0)
    if not held:
        return target
    step = math.ldexp(1.0, math.frexp(max(abs(target), abs(golden)))[1] - held)
    away = target - golden
    return golden + math.copysign(max(0.0, abs(away) - step), away)


def is_record(value: float | None, bits: int) -> bool:
    """Return True if a number fits a significand of so many bits: by accident one in 2**(24 - bits) of float32 does."""
    return value is not None and math.ldexp(math.frexp(value)[0], bits).is_integer()


def _bits(value: float) -> int:
    """Return how many bits a significand uses, from its first to its last one that is set; 12 stands for more."""
    fraction, _ = math.frexp(value)
    whole = fraction * 2048.0
    if not whole.is_integer():
        return 12
    number = abs(int(whole))
    return number.bit_length() - (number & -number).bit_length() + 1 if number else 0


@lru_cache(maxsize=4096)
def common_share(count: int) -> float:
    """Return the share of noise that does not average out over so many elements: some of it is shared by many."""
    return min(MOST_COMMON, LEAST_COMMON + 2.0 / math.sqrt(count))
