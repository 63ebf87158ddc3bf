"""The divergence of both sides as fractions of their ranges."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from probe_flow.metrics.accumulators.base import SecondPass
from probe_flow.metrics.sums.block_sums import Floats, Scratch, Values, bounds_of, load, summed, widened
from probe_flow.metrics.sums.figures import Bounds
from probe_flow.metrics.sums.record import EPS32, Record, Value

if TYPE_CHECKING:
    from typing_extensions import Self


class _Given(NamedTuple):
    """The bounds of target and golden where both are finite, and whether all values are."""

    target: Bounds
    golden: Bounds
    are_finite: bool


class MinMax(SecondPass, frozen=True, gc=False):
    """Sums of the values as fractions of their side's range, and of target * ln(target / golden).

    Undefined for complex numbers, and where no position is finite on both sides.
    """

    name = "minmax"
    target_sum: float
    golden_sum: float
    weighted: float

    @classmethod
    def begin(cls, record: Record, blocks: Iterable[tuple[Values, Values]], scratch: Scratch) -> _Given | None:
        target, golden, errors = record.target, record.golden, record.errors
        if errors is None or golden is None or not errors.compared:
            return None
        if target.values != target.finite or golden.values != golden.finite:
            return None  # two numbers per element: complex
        scratch.error.fill(EPS32)  # an array, since numpy takes twice as long for a maximum with a number
        if errors.compared == record.numel:
            bounds = (float(target.low), float(target.high)), (float(golden.low), float(golden.high))
            return _Given(*bounds, are_finite=True)
        common = (_common(*block, scratch) for block in blocks)
        found = [(bounds_of(x), bounds_of(y)) for x, y in common if x.size]
        of_target, of_golden = (_joined(side) for side in zip(*found, strict=True))
        return _Given(of_target, of_golden, are_finite=False)

    @classmethod
    def update(cls, target: Values, golden: Values, given: _Given, scratch: Scratch) -> Self:
        if given.are_finite:
            x, y = widened(target, scratch.target, scratch), widened(golden, scratch.golden, scratch)
        else:
            x, y = _common(target, golden, scratch)
        least = scratch.error[: x.size]
        p, q = _fractions(x, given.target, least), _fractions(y, given.golden, least)
        target_sum, golden_sum = summed(p), summed(q)
        logarithms = np.divide(p, q, out=q)  # in place, since a third array falls out of the processor's cache
        np.log(logarithms, out=logarithms)
        return cls(target_sum, golden_sum, summed(np.multiply(p, logarithms, out=logarithms)))

    def merge(self, right: MinMax) -> MinMax:
        return MinMax(
            self.target_sum + right.target_sum, self.golden_sum + right.golden_sum, self.weighted + right.weighted
        )

    def finish(self, record: Record) -> dict[str, Value]:  # noqa: ARG002  # as all have it
        divergence = self.weighted / self.target_sum + math.log(self.golden_sum / self.target_sum)
        return {"kl_minmax": max(0.0, divergence)}


def _common(target: Values, golden: Values, scratch: Scratch) -> tuple[Floats, Floats]:
    """Return the values where both sides are finite."""
    x, _ = load(target, scratch.target, scratch)
    y, _ = load(golden, scratch.golden, scratch)
    both = np.isfinite(x) & np.isfinite(y)
    return x[both], y[both]


def _joined(bounds: Sequence[Bounds]) -> Bounds:
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def _fractions(values: Floats, bounds: Bounds, least: Floats) -> Floats:
    """Replace values by their place within the bounds, 0 to 1, at least ``least``; those of a constant by 1."""
    low, high = bounds
    if low == high:
        values.fill(1.0)  # whatever the constant is, all elements weigh alike
        return values
    if math.isinf(high - low):
        np.multiply(values, 0.5, out=values)
        low, high = low * 0.5, high * 0.5
    np.subtract(values, low, out=values)
    np.divide(values, high - low, out=values)
    return np.maximum(values, least, out=values)
