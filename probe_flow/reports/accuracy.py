"""The older rule behind ``Accuracy Reached or Not``.

A row can fail its verdict and still be accurate by this rule, when only elements near zero differ.
"""

from __future__ import annotations

import enum
import math

from probe_flow.records import Mode, Row, Status

COSINE_LIMIT = 0.99
MAX_ABS_LIMIT = 0.001
COSINE_FLOOR = 0.9
MAX_ABS_CEILING = 1.0


class Accuracy(enum.Enum):
    """``UNMATCHED``: the element counts differ. ``UNKNOWN``: nothing was compared."""

    YES = "Yes"
    NO = "No"
    UNMATCHED = "Unmatched"
    UNKNOWN = "N/A"


def accuracy_of(row: Row) -> Accuracy:
    """Return whether the row reaches the accuracy that the older rule asks for.

    No if (cosine < 0.99 and maximum absolute error > 0.001), or cosine < 0.9, or maximum absolute error > 1, or NaN
    and infinities stand in other places; a cosine that cannot be computed decides nothing. Statistics and checksums
    follow the verdict.
    """
    pair = row.pair
    if pair.target is None or pair.golden is None:
        return Accuracy.UNKNOWN
    measured = row.measurement
    if measured is None:
        counts = (pair.target.numel, pair.golden.numel)
        is_mismatch = None not in counts and counts[0] != counts[1]
        return Accuracy.UNMATCHED if is_mismatch else Accuracy.UNKNOWN
    if measured.mode in (Mode.STATISTICS, Mode.CHECKSUM):
        return _from_verdict(row.verdict.status)
    if measured.nonfinite_mismatch:
        return Accuracy.NO
    cosine, worst = metric_of(row, "cosine"), metric_of(row, "max_abs_err")
    if cosine is None and worst is None:
        return _from_verdict(row.verdict.status)
    cosine = 1.0 if cosine is None else cosine
    worst = 0.0 if worst is None else worst
    is_off = cosine < COSINE_LIMIT and worst > MAX_ABS_LIMIT
    return Accuracy.NO if is_off or cosine < COSINE_FLOOR or worst > MAX_ABS_CEILING else Accuracy.YES


def metric_of(row: Row, *names: str) -> float | None:
    """Return the first of these metrics that was asked for; None when it could not be computed or is NaN."""
    value = None if row.measurement is None else row.measurement.first_metric(names)
    return None if value is None or math.isnan(value) else value


def _from_verdict(status: Status) -> Accuracy:
    if status in (Status.PASS, Status.WARNING):
        return Accuracy.YES
    return Accuracy.NO if status is Status.FAIL else Accuracy.UNKNOWN
