"""Pairs of which exactly one side holds quantised values: without their scale they say nothing of the other side.

Unless they are the same values: equality needs no scale.
"""

from __future__ import annotations

from probe_flow.records import Measurement, Mode
from probe_flow.records.row import Row

NARROW = frozenset(("int8", "int4"))
"""Dtypes of quantised values."""


def quantised_side(row: Row) -> str | None:
    """Say so where exactly one side of a two-sided pair is quantised; None where the values may be compared."""
    target, golden = row.pair.target, row.pair.golden
    assert target is not None
    assert golden is not None
    if (target.dtype in NARROW) == (golden.dtype in NARROW):
        return None
    side, narrow, other = ("target", target, golden) if target.dtype in NARROW else ("golden", golden, target)
    if "float" not in other.dtype:
        return None
    return f"quantised side: the {side} is {narrow.dtype}, its scale is unknown"


def unknown_scale(row: Row) -> str | None:
    """Return why a pair cannot be judged without a scale; None where it can, and where its values are equal."""
    told = quantised_side(row)
    return None if told is None or (row.measurement is not None and _is_same(row.measurement)) else told


def _is_same(measurement: Measurement) -> bool:
    """Whether all elements are equal, or everything that was recorded of them, extremes at least."""
    if measurement.nonfinite_mismatch:
        return False
    metrics = measurement.metrics
    if measurement.mode is Mode.TENSOR:
        return metrics.get("max_abs_err") == 0.0 and not metrics.get("max_rel_err_eps")
    recorded = [metrics.get(f"{name}_diff") for name in ("min", "max", "mean", "l2norm")]
    is_known = measurement.mode is Mode.STATISTICS and None not in recorded[:2]
    return is_known and not any(recorded)
