"""Errors over the elements whose golden value is beyond float32's epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probe_flow.metrics.accumulators.base import LANES, CompiledBlock, LanePass, OfErrors
from probe_flow.metrics.sums.block_sums import summed
from probe_flow.metrics.sums.pair_errors import PairErrors
from probe_flow.metrics.sums.record import EPS32, SCALE, Record, Value, exponent_of, power, scaled_down

if TYPE_CHECKING:
    from typing_extensions import Self


def _add(lanes, lane, x, y, eps):  # type: ignore[no-untyped-def]  # compiled
    error = abs(x - y)
    magnitude = abs(y)
    ratio = error / magnitude
    relative = ratio if magnitude > eps else 0.0
    kept = error if magnitude > eps else 0.0
    lanes[lane] += relative
    lanes[LANES + lane] += kept
    lanes[2 * LANES + lane] = relative if relative > lanes[2 * LANES + lane] else lanes[2 * LANES + lane]
    lanes[3 * LANES + lane] = kept if kept > lanes[3 * LANES + lane] else lanes[3 * LANES + lane]


ERRORS_BEYOND = LanePass("masked_errors", _add, sums=2, maxima=2)
"""Sums, then maxima, of the relative and the absolute errors where the golden value is beyond a number."""


class Masked(OfErrors, frozen=True, gc=False):
    """Sum and maximum of relative and absolute errors; ``abs_sum`` is divided by 2**exponent."""

    name = "masked"
    passes = (ERRORS_BEYOND,)
    rel_sum: float = 0.0
    max_rel: float = 0.0
    abs_sum: float = 0.0
    max_abs: float = 0.0
    exponent: int = -SCALE

    @classmethod
    def update(cls, block: PairErrors) -> Self:
        keep = np.greater(block.magnitude, EPS32)
        kept, kept_relative = np.where(keep, block.scaled, 0.0), np.where(keep, block.relative.errors, 0.0)
        largest = float(np.maximum.reduce(np.where(keep, block.absolute, 0.0)))
        return cls(
            summed(kept_relative), float(np.maximum.reduce(kept_relative)), summed(kept), largest, block.exponent
        )

    @classmethod
    def update_compiled(cls, block: CompiledBlock) -> Self:
        rel_sum, abs_sum, max_rel, max_abs = block.run(ERRORS_BEYOND, block.target, block.golden, number=EPS32)
        return cls(rel_sum, max_rel, abs_sum, max_abs, exponent_of(block.figures.max_abs))

    def merge(self, right: Masked) -> Masked:
        exponent = max(self.exponent, right.exponent)
        abs_sum = scaled_down(self.abs_sum, exponent - self.exponent)
        return Masked(
            self.rel_sum + right.rel_sum,
            max(self.max_rel, right.max_rel),
            abs_sum + scaled_down(right.abs_sum, exponent - right.exponent),
            max(self.max_abs, right.max_abs),
            exponent,
        )

    def finish(self, record: Record) -> dict[str, Value]:
        if record.errors is None or not record.errors.compared:
            return {}
        return {
            "max_rel_err_masked_eps32": self.max_rel,
            "mean_rel_err_masked_eps32": self.rel_sum / record.errors.compared,
            "max_abs_err_masked_eps32": self.max_abs,
            "mean_abs_err_masked_eps32": power(self.abs_sum / record.errors.compared, self.exponent),
        }
