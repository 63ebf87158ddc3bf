"""The divergence of the softmax of both sides."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from probe_flow.metrics.accumulators.base import SecondPass
from probe_flow.metrics.sums.block_sums import Scratch, Values, load, summed
from probe_flow.metrics.sums.record import Record, Value

if TYPE_CHECKING:
    from typing_extensions import Self


class Softmax(SecondPass, frozen=True, gc=False):
    """Sums of exp(value - maximum) per side and of exp(golden - maximum) * (golden - target).

    Undefined for tensors without elements, for complex numbers, and where either side holds NaN or infinities.
    """

    name = "softmax"
    target_sum: float
    golden_sum: float
    weighted: float

    @classmethod
    def begin(
        cls,
        record: Record,
        blocks: Iterable[tuple[Values, Values]],  # noqa: ARG003  # as all have them
        scratch: Scratch,  # noqa: ARG003
    ) -> tuple[float, float] | None:
        errors = record.errors
        is_real = record.target.values == record.target.finite
        if errors is None or record.golden is None or not record.numel or errors.compared != record.numel:
            return None
        if not is_real or record.golden.values != record.golden.finite:
            return None
        return float(record.target.high), float(record.golden.high)

    @classmethod
    def update(cls, target: Values, golden: Values, given: tuple[float, float], scratch: Scratch) -> Self:
        target_high, golden_high = given
        x, _ = load(target, scratch.target, scratch)
        y, _ = load(golden, scratch.golden, scratch)
        weight, gap = scratch.work[: y.size], scratch.error[: y.size]
        np.exp(np.subtract(y, golden_high, out=weight), out=weight)
        golden_sum = summed(weight)
        np.subtract(y, x, out=gap)
        weighted = summed(np.multiply(weight, gap, out=weight))
        target_sum = summed(np.exp(np.subtract(x, target_high, out=x), out=x))
        return cls(target_sum, golden_sum, weighted)

    def merge(self, right: Softmax) -> Softmax:
        return Softmax(
            self.target_sum + right.target_sum, self.golden_sum + right.golden_sum, self.weighted + right.weighted
        )

    def finish(self, record: Record) -> dict[str, Value]:
        assert record.golden is not None
        log_golden = float(record.golden.high) + math.log(self.golden_sum)
        log_target = float(record.target.high) + math.log(self.target_sum)
        return {"kl_softmax": max(0.0, self.weighted / self.golden_sum - log_golden + log_target)}
