"""Statistics of one side of a row, and how far two records of the same elements may be apart."""

from __future__ import annotations

import math

from msgspec import Struct

from probe_flow.analysis.narrowed import rounded_before
from probe_flow.analysis.number_types import (
    NARROW,
    RESTATED,
    SIGNIFICANT_BITS,
    STEP,
    SUMMED,
    UNIT,
    common_share,
    is_record,
    nearest_record,
)
from probe_flow.records import Mode
from probe_flow.records.row import Row

IN_ONE_LANE = 8.0
"""How many times as large that is where the elements do not lie side by side, as those of an expanded gradient."""

RECORDED = 2.0**-20
"""Relative error of recorded statistics, which are sums in float32."""

LEAST_SQUARE = 2.0**-149
"""Step of float32 near zero, which squares of elements below 1e-19 are rounded to in a recorded norm."""

TWO_VALUED = 1e-4
"""Relative distance from a tensor of two values, such as a mask, which has the statistics of many others."""


class Moments(Struct, frozen=True, gc=False):
    """Statistics of one side of a row.

    Args:
        low, high: the extremes.
        mean: of the elements.
        norm: root of the sum of their squares.
        count: of elements.
        unit: relative error that storage explains.
        recorded: relative error of the statistics themselves.
        bits: of the significand of the 16-bit type in which the norm may be recorded; 0 for others.
        step: distance of the neighbours of zero in that type, where a mean may be as small.
    """

    low: float
    high: float
    mean: float
    norm: float
    count: int
    unit: float
    recorded: float
    bits: int
    step: float = 0.0

    @property
    def size(self) -> float:
        """Root mean square of the elements."""
        return self.norm / math.sqrt(self.count)

    @property
    def spread(self) -> float:
        """Standard deviation of the elements."""
        return math.sqrt(max(0.0, self.size * self.size - self.mean * self.mean))

    @property
    def mean_recorded(self) -> float:
        """Error of the recorded mean: half a step of a 16-bit type in which some collectors take it."""
        of_type = self.unit * abs(self.mean) if is_record(self.mean, self.bits) else 0.0
        return max(self.recorded * self.size, of_type, 0.5 * self.step)

    @property
    def norm_recorded(self) -> float:
        """Relative error of the recorded norm, which of 16-bit tensors may be of their type."""
        return max(self.unit if is_record(self.norm, self.bits) else self.recorded, self.summed)

    @property
    def summed(self) -> float:
        """That of adding up squares in float32, whatever lies between them."""
        return IN_ONE_LANE * SUMMED * self.count

    @property
    def top(self) -> float:
        """Largest magnitude."""
        return max(abs(self.low), abs(self.high))

    @property
    def share(self) -> float:
        """Share of rounding that is left in a mean: little, unless elements are so alike that all are rounded alike."""
        return common_share(self.count) if self.spread > NARROW * self.unit * self.size else 1.0

    @property
    def is_two_valued(self) -> bool:
        """Whether each element is the smallest or the largest: then mean and norm say the same."""
        gap = self.size * self.size - (self.low + self.high) * self.mean + self.low * self.high
        return abs(gap) <= TWO_VALUED * (self.size * self.size + abs(self.low * self.high))


def moments_of(row: Row, side: str) -> Moments | None:
    """Return the statistics of the ``target`` or ``golden`` of a row; None where they are not all known and finite."""
    measured, tensor = row.measurement, getattr(row.pair, side)
    if measured is None or tensor is None or (dtype := tensor.dtype) not in UNIT:
        return None
    known = measured.target_statistics if side == "target" else measured.golden_statistics
    count, mismatches = measured.table.elements(measured.number)
    if known is None or mismatches or count < 2:
        return None
    if known.min is None or known.max is None or known.mean is None or known.l2norm is None:
        return None
    low, high, mean, norm = float(known.min), float(known.max), float(known.mean), float(known.l2norm)
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(mean) and math.isfinite(norm)):
        return None
    is_recorded = measured.mode is Mode.STATISTICS
    unit = UNIT[dtype]
    lost = count * LEAST_SQUARE / max(norm * norm, LEAST_SQUARE)
    bits = SIGNIFICANT_BITS.get(dtype, 0) if is_recorded else 0
    is_of_type = is_record(norm, bits) or is_record(mean, bits)
    recorded = max(RECORDED, RESTATED * unit if is_of_type else 0.0, lost) if is_recorded else RECORDED
    step = STEP.get(dtype, 0.0) if is_recorded else 0.0
    return Moments(low, high, mean, norm, count, unit, recorded, bits, step)


def apart(whole: Moments, same: Moments) -> float:
    """Return how far two records of the same elements are from each other, in what recording explains.

    In 16 bits an addend that is small enough to leave the golden's records as they are can take elements of the target,
    extremes among them, a step further.
    """
    if not same.top or not same.size:
        return 0.0
    ends = [(whole.low, same.low), (whole.high, same.high)]
    if whole.bits and same.bits:
        ends = [(nearest_record(here, there, whole.bits) or 0.0, there) for here, there in ends]
    cast = 0.0 if whole.bits else _cast_between(whole, same)
    moved = max(abs(here - there) for here, there in ends) / (max(RECORDED, cast) * same.top)
    stepped = common_share(whole.count) * (whole.unit if whole.bits and same.bits else cast) * whole.size
    mean = abs(whole.mean - same.mean) / (whole.mean_recorded + same.mean_recorded + stepped)
    norm = nearest_record(whole.norm, same.norm, whole.bits) if whole.bits else whole.norm
    of_norm = max(whole.recorded, RESTATED * whole.unit, whole.summed, cast)
    return max(moved, mean, abs((norm or 0.0) - same.norm) / (of_norm * same.norm))


def _cast_between(whole: Moments, same: Moments) -> float:
    """Return the rounding of a narrower type that elements went through on their way, which no dump shows; or 0.

    A model that keeps its residuals in float32 casts them to its own type and back in each layer.
    """
    before, after = (rounded_before((each.low, each.high), UNIT) for each in (same, whole))
    return after if after > before else 0.0


def differing(whole: Moments, same: Moments) -> tuple[str, float, float]:
    """Return the statistic by which two records of the same elements differ most, with both values."""
    figures = {
        "minimum": (whole.low, same.low),
        "maximum": (whole.high, same.high),
        "mean": (whole.mean, same.mean),
        "root mean square": (whole.size, same.size),
    }
    name, (here, there) = max(figures.items(), key=lambda each: abs(each[1][0] - each[1][1]))
    return name, here, there
