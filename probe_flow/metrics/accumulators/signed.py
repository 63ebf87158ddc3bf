"""The sum of signed errors: whether they point one way, as those of truncation do and those of rounding do not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from probe_flow.metrics.accumulators.base import CompiledBlock, LanePass, OfValues
from probe_flow.metrics.sums.block_sums import summed
from probe_flow.metrics.sums.pair_errors import PairValues
from probe_flow.metrics.sums.record import SCALE, Record, Value, power, scaled_down

if TYPE_CHECKING:
    from typing_extensions import Self


def _add(lanes, lane, x, y, unused):  # type: ignore[no-untyped-def]  # compiled  # noqa: ARG001
    lanes[lane] += x - y


_ERRORS = LanePass("signed_errors", _add, sums=1)


class Signed(OfValues, frozen=True, gc=False):
    """Sum of target - golden where both are finite, divided by 2**exponent; 0 for complex numbers."""

    name = "signed"
    passes = (_ERRORS,)
    total: float = 0.0
    exponent: int = 0

    @classmethod
    def update(cls, block: PairValues) -> Self:
        x, y, exact = block.target, block.golden, block.difference
        if exact is not None:
            return cls(summed(np.where(exact.is_negative, -exact.errors, exact.errors)))
        if x.dtype.kind == "c":
            return cls()
        total = summed(np.subtract(x, y, out=block.work[: x.size]))
        if math.isfinite(total):
            return cls(total)
        return cls(summed(x * 2.0**-SCALE - y * 2.0**-SCALE), SCALE)

    @classmethod
    def update_compiled(cls, block: CompiledBlock) -> Self:
        (total,) = block.run(_ERRORS, block.target, block.golden)
        return cls(total)

    def merge(self, right: Signed) -> Signed:
        exponent = max(self.exponent, right.exponent)
        total = scaled_down(self.total, exponent - self.exponent)
        return Signed(total + scaled_down(right.total, exponent - right.exponent), exponent)

    def finish(self, record: Record) -> dict[str, Value]:
        errors, golden = record.errors, record.golden
        if errors is None or golden is None or not errors.compared:
            return {}
        if record.target.values != record.target.finite or golden.values != golden.finite:
            return {}  # two numbers per element: complex
        ratio = 0.0
        if errors.error_abs:
            ratio = power(abs(self.total) / errors.error_abs, self.exponent - errors.error_exponent)
        return {"mean_err": power(self.total / errors.compared, self.exponent), "bias_ratio": min(1.0, ratio)}
