"""Mean and squared deviations of each side, for standard deviations."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, NamedTuple

from probe_flow.metrics.accumulators.base import CompiledBlock, LanePass, OfValues
from probe_flow.metrics.sums.block_sums import Floats, Numbers, Values, moments_of
from probe_flow.metrics.sums.figures import exponent_within
from probe_flow.metrics.sums.pair_errors import PairValues
from probe_flow.metrics.sums.record import SCALE, Record, Value, power, scaled_down

if TYPE_CHECKING:
    from typing_extensions import Self


class Spread(NamedTuple):
    """How numbers lie around their mean: how many there are, both divided by 2**exponent and 4**exponent."""

    values: int = 0
    exponent: int = -SCALE
    mean: float = 0.0
    deviations: float = 0.0

    @classmethod
    def of(cls, numbers: Numbers, work: Floats) -> Spread:
        """Return the spread of numbers; ``work`` is a buffer of their size, or they themselves, lost then."""
        if not numbers.values.size:
            return cls()
        return cls(numbers.values.size, numbers.exponent, *moments_of(numbers.values, numbers.total, work))

    def merge(self, right: Spread) -> Spread:
        """Return the spread of both (Chan, Golub and LeVeque: updating formulae for sample variances)."""
        exponent = max(self.exponent, right.exponent)
        up, up_right = exponent - self.exponent, exponent - right.exponent
        mean, deviations = scaled_down(self.mean, up), scaled_down(self.deviations, 2 * up)
        mean_right = scaled_down(right.mean, up_right)
        deviations_right = scaled_down(right.deviations, 2 * up_right)
        if not right.values:
            return Spread(self.values, exponent, mean, deviations)
        if not self.values:
            return Spread(right.values, exponent, mean_right, deviations_right)
        count = self.values + right.values
        delta = mean_right - mean
        return Spread(
            count,
            exponent,
            mean + delta * right.values / count,
            deviations + deviations_right + delta * delta * self.values * right.values / count,
        )


def _add(lanes, lane, x, mean):  # type: ignore[no-untyped-def]  # compiled
    lanes[lane] += (x - mean) ** 2


_DEVIATIONS = LanePass("squared_deviations", _add, sums=1, tensors=1)


class Moments(OfValues, frozen=True, gc=False):
    """The spread of each side's finite numbers."""

    name = "moments"
    passes = (_DEVIATIONS,)
    target: Spread = Spread()
    golden: Spread = Spread()

    @classmethod
    def update(cls, block: PairValues) -> Self:
        target, golden = block.sides
        return cls(Spread.of(target, block.work), Spread.of(golden, block.work))

    @classmethod
    def update_compiled(cls, block: CompiledBlock) -> Self:
        figures = block.figures

        def spread(tensor: Values, total: float, exponent: int) -> Spread:
            mean = total / tensor.size
            return Spread(tensor.size, exponent, mean, *block.run(_DEVIATIONS, tensor, number=mean))

        return cls(
            spread(block.target, figures.target_total, exponent_within((figures.target_low, figures.target_high))),
            spread(block.golden, figures.golden_total, exponent_within((figures.golden_low, figures.golden_high))),
        )

    def merge(self, right: Moments) -> Moments:
        return Moments(self.target.merge(right.target), self.golden.merge(right.golden))

    def finish(self, record: Record) -> dict[str, Value]:  # noqa: ARG002  # as all have it
        return {"std_target": _std(self.target), "std_golden": _std(self.golden)}

    @classmethod
    def from_text(cls, text: str) -> Self:
        return cls(*(Spread(*fields) for fields in json.loads(text)))


def _std(spread: Spread) -> Value:
    return power(math.sqrt(spread.deviations / spread.values), spread.exponent) if spread.values else None
