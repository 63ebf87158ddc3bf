"""A metric with a sum of its own: the share of elements where the target is above the golden."""

from __future__ import annotations

import numpy as np

from probe_flow.metrics.accumulators.base import OfValues
from probe_flow.metrics.catalogue.metric import Better, Metric
from probe_flow.metrics.sums.pair_errors import PairValues
from probe_flow.metrics.sums.record import Record, Value


class Above(OfValues, frozen=True, gc=False):
    """How many elements of the target are above those of the golden."""

    name = "acme_above"
    count: int = 0

    @classmethod
    def update(cls, block: PairValues) -> Above:
        """Return what is found in one block; both sides are float64 there, at the places where both are finite."""
        if block.target.dtype.kind == "c":
            return cls()
        return cls(int(np.count_nonzero(block.target > block.golden)))

    def merge(self, right: Above) -> Above:
        """Return what is found in two neighbours."""
        return Above(self.count + right.count)

    def finish(self, record: Record) -> dict[str, Value]:
        """Return the metric of the whole pair; none without finite elements."""
        errors = record.errors
        return {} if errors is None or not errors.compared else {"acme_above_share": self.count / errors.compared}


METRIC = Metric(
    "acme_above_share", "#(t > g) / n; 0 for complex tensors.", "[0, 1]", "1", "Acme", Better.NEITHER,
    accumulator="acme_above",
)  # fmt: skip
