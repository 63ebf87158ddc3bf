"""A metric: how much energy (sum of squares) the target has for each unit of the golden's."""

from __future__ import annotations

import math

from probe_flow.metrics.catalogue.metric import Better, Metric
from probe_flow.metrics.sums.record import Record


def compute(record: Record) -> float | None:
    """Return the ratio; None without finite elements, 1 for two sides of zeros, infinite for a golden of zeros only."""
    errors = record.errors
    if errors is None or not errors.compared:
        return None
    if not errors.golden_squares:
        return 1.0 if not errors.target_squares else math.inf
    # Sums of squares are stored divided by 4 to an exponent, so that none overflows.
    ratio = errors.target_squares / errors.golden_squares
    return math.ldexp(ratio, 2 * (errors.target_exponent - errors.golden_exponent))


METRIC = Metric(
    "acme_energy_ratio", "Σt² / Σg²; 0/0: 1; x/0: inf.", "[0, inf]", "1", "Acme", Better.NEITHER, compute=compute
)
