"""Relative errors over the elements whose golden value is beyond float64's epsilon."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from probe_flow.metrics.accumulators.base import LANES, CompiledBlock, LanePass, OfErrors
from probe_flow.metrics.accumulators.masked import ERRORS_BEYOND
from probe_flow.metrics.sums.block_sums import summed
from probe_flow.metrics.sums.pair_errors import PairErrors
from probe_flow.metrics.sums.record import EPS64, Record, Value

if TYPE_CHECKING:
    from typing_extensions import Self


def _add(lanes, lane, y, eps):  # type: ignore[no-untyped-def]  # compiled
    magnitude = abs(y)
    lanes[lane] += 1.0 if magnitude <= eps else 0.0
    lanes[LANES + lane] += 1.0 if magnitude == 0.0 else 0.0


_TINY = LanePass("tiny_values", _add, sums=2, tensors=1)
"""How many values are not beyond a number, and how many of them are zero."""


class Significant(OfErrors, frozen=True, gc=False):
    """Number of such elements, sum and maximum of their relative errors."""

    name = "significant"
    passes = (_TINY, ERRORS_BEYOND)
    elements: int = 0
    rel_sum: float = 0.0
    max_rel: float = 0.0

    @classmethod
    def update(cls, block: PairErrors) -> Self:
        ratio = block.relative.errors
        tiny = np.less_equal(block.magnitude, EPS64, out=block.scratch.tiny[: ratio.size])
        left_out = int(np.count_nonzero(tiny))
        count = ratio.size - left_out
        if left_out and left_out != np.count_nonzero(
            np.equal(block.magnitude, 0.0, out=block.scratch.mask[: ratio.size])
        ):
            ratio = np.where(tiny, 0.0, ratio)  # seldom: picking elements costs as much as all else together
            return cls(count, summed(ratio), float(np.maximum.reduce(ratio)))
        return cls(count, summed(ratio) if block.relative.total is None else block.relative.total, block.max_rel)

    @classmethod
    def update_compiled(cls, block: CompiledBlock) -> Self:
        left_out, zeros = block.run(_TINY, block.golden, number=EPS64)
        count = block.target.size - int(left_out)
        if left_out == zeros:  # they have no relative error as it is
            return cls(count, block.figures.rel_sum, block.figures.max_rel)
        rel_sum, _, max_rel, _ = block.run(ERRORS_BEYOND, block.target, block.golden, number=EPS64)
        return cls(count, rel_sum, max_rel)

    def merge(self, right: Significant) -> Significant:
        return Significant(
            self.elements + right.elements, self.rel_sum + right.rel_sum, max(self.max_rel, right.max_rel)
        )

    def finish(self, record: Record) -> dict[str, Value]:
        errors = record.errors
        if errors is None or not errors.compared:
            return {}
        found = (self.rel_sum, self.max_rel, self.rel_sum / errors.compared)
        if not self.elements:  # nothing to relate errors to
            found = (math.nan if errors.max_abs else 0.0,) * 3
        return dict(zip(("acc_rel_err", "max_rel_err_masked", "mean_rel_err_masked"), found, strict=True))
