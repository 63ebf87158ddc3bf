"""What rounding explains: how far storing a value in its type may take it, and that it was in a narrower one before.

Automatic mixed precision computes in bfloat16 or float16, and models cast results back by ``.float()``, which no dump
records. A float32 tensor of such values differs from side to side by steps of the narrower type. It is told by its
extremes: that both extremes of both sides end in the zeros that the narrower type leaves is no accident (one computed
float32 value does so once in 65,536 for bfloat16, in 8,192 for float16).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.analysis.number_types import SIGNIFICANT_BITS, STEP, SUMMED, UNIT, is_record
from probe_flow.records import Mode, Pair, Pairs, TensorRef

SYSTEMATIC = 2.0**-19
"""Change of scale that does not average out: approximated functions and reduced products err in one direction."""

OTHER_FRAMEWORK = 8.0
"""How many times as large both are for float32 where two frameworks are compared: their kernels are made of other
approximations and default settings. The epsilon of a layer norm is 1e-5 in one and 1e-7 in the other, which scales
tensors of variance 1 by 5e-6, five steps of `UNIT`."""

UNLOST = 2.0**-16
"""What is lost so of fewer elements than 32,768 counts as nothing: there norms tell float32 from float32."""


class Rounding(Struct, frozen=True):
    """What needs no fault: ``unit`` by dtype (`UNIT`), a common change of scale, a norm's error per element (`SUMMED`).

    ``summed`` is 0 where no collector of a program recorded norms. Where one did, those of tensors whose elements are
    all one number (minimum and maximum say so) are not believed but computed.
    """

    unit: Mapping[str, float]
    systematic: float
    summed: float = 0.0


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


def are_bounds(extremes: Sequence[float | None]) -> bool:
    """Whether extremes are those of what lies between bounds, as a window or a mask does: they tell of no rounding."""
    return all(value in (-1.0, 0.0, 1.0) for value in extremes)


def rounding_between(pairs: Pairs) -> Rounding:
    """Return what the kernels of both sides leave; those of PyTorch and MindSpore differ, which mindtorch runs too."""
    sides = {catalog.framework.kernels for catalog in (pairs.target, pairs.golden)} - {None}
    rounding = ACROSS_FRAMEWORKS if len(sides) == 2 else WITHIN_FRAMEWORK
    return replace(rounding, summed=SUMMED) if sides else rounding  # collectors of programs record norms


def mean_as_recorded(target: float | None, golden: float | None) -> float | None:
    """Return what the mean of a tensor of more than 16 bits may stand for, where one side alone rounded it to float16.

    A collector computes means while a network of MindSpore runs in float16 (`to_float`), which then holds for them too:
    those of integers and of float32 are numbers of float16.
    """
    bits = SIGNIFICANT_BITS["float16"]
    if not target or not golden or is_record(target, bits) == is_record(golden, bits):
        return target
    step = math.ldexp(1.0, math.frexp(max(abs(target), abs(golden)))[1] - bits)
    away = target - golden
    return golden + math.copysign(max(0.0, abs(away) - step), away)
