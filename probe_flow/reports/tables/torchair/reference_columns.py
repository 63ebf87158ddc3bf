"""Columns of the third side, behind those of the published tables; a comparison without a reference has none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from probe_flow.records import ComparedPair, Comparison
from probe_flow.reports.cells import number_cell, text_cell
from probe_flow.reports.table import Cell

_DTYPE = "Reference Dtype"
_METRICS: Mapping[str, str] = MappingProxyType(
    {
        "Reference Cosine": "reference.cosine",
        "Reference EucDist": "reference.euclidean_distance",
        "Reference MaxAbsErr": "reference.max_abs_err",
        "Golden Error": "golden_error",
        "Excess Error": "excess_error",
    }
)
_NOT_AVAILABLE = "N/A"

NUMBERS = frozenset(_METRICS)
"""Columns that hold numbers."""


def reference_columns(comparison: Comparison) -> tuple[str, ...]:
    """Return the columns that a reference adds."""
    return () if comparison.pairs.reference is None else (_DTYPE, *_METRICS)


def reference_cells(row: ComparedPair) -> list[Cell]:
    """Return the cells of these columns; ``N/A`` where the reference has no such tensor."""
    reference = row.pair.reference
    metrics = row.measurement.metrics if row.measurement is not None else {}
    dtype = text_cell(reference.dtype) if reference is not None else ""
    return [dtype or _NOT_AVAILABLE, *(_number(metrics.get(metric_id)) for metric_id in _METRICS.values())]


def _number(value: float | None) -> Cell:
    if value.__class__ is float and math.isfinite(value):
        return value
    return number_cell(value, blank=_NOT_AVAILABLE, nan="NaN")
