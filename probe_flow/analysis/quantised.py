"""Pairs of which exactly one side holds quantised values: without their scale they say nothing of the other side."""

from __future__ import annotations

from probe_flow.analysis.measured import MeasuredPair

NARROW = frozenset(("int8", "int4"))
"""Dtypes of quantised values."""


def quantised_side(row: MeasuredPair) -> str | None:
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
