"""The ten metric columns of an offline result, and what a spreadsheet shows in them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from probe_flow.metrics.catalogue.registry import METRICS, PREFIX
from probe_flow.record.rows import shape_of
from probe_flow.records import Measurement, Mode, Row, SideSummary
from probe_flow.reports.tables.offline.groups import NOT_COMPUTED

METRIC_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "CosineSimilarity": "cosine",
        "MaxAbsoluteError": "max_abs_err",
        "AccumulatedRelativeError": "acc_rel_err",
        "RelativeEuclideanDistance": "relative_euclidean_distance",
        "KullbackLeiblerDivergence": "kl_minmax",
        "StandardDeviation": "",
        "MeanAbsoluteError": "mean_abs_err",
        "RootMeanSquareError": "rmse",
        "MaxRelativeError": "max_rel_err_masked",
        "MeanRelativeError": "mean_rel_err_masked",
    }
)
"""Column -> metric id; the standard deviation is text of four figures."""

SIDES = ("target", "golden")
DEVIATION = "StandardDeviation"
COSINE = "CosineSimilarity"

SCALAR = "This tensor is scalar."
EMPTY = "This tensor is empty."
NO_DIRECTION = "Cannot compare by Cosine Similarity. All the data is zero in {file}."
NO_LOGARITHM = "Cannot compare by KL Divergence. The data contains 0 in {file}."

_DECIMALS = 6
_DEVIATION_DECIMALS = 3
_SHOWN_AS_ZERO = 0.001
"""Figures of the standard deviation below this are shown as 0.000, as the published table does."""


def is_scalar(row: Row) -> bool:
    """Say whether the row's tensors hold one element: shapes of ones alone, or none."""
    shapes = [shape_of(side) for side in (row.pair.target, row.pair.golden) if side is not None]
    return bool(shapes) and all(shape is not None and all(dim == 1 for dim in shape) for shape in shapes)


def number_text(value: float | None) -> str:
    """Return a number with six decimals; ``nan``, ``inf``; ``NaN`` for what was not computed."""
    return NOT_COMPUTED if value is None else f"{float(value):.{_DECIMALS}f}"


def metric_texts(row: Row) -> dict[str, str]:
    """Return the ten columns of a row, ``NaN`` throughout where its elements were not compared.

    A scalar has the cosine 1, as the published table says, beside a remark.
    """
    measured = row.measurement
    if measured is None or measured.mode is not Mode.TENSOR:
        return dict.fromkeys(METRIC_COLUMNS, NOT_COMPUTED)
    texts = {column: number_text(measured.metrics.get(name)) for column, name in METRIC_COLUMNS.items()}
    texts[DEVIATION] = deviation_text(measured)
    if is_scalar(row) and measured.count:
        texts[COSINE] = number_text(1.0)
    return texts


def deviation_text(measured: Measurement) -> str:
    """Return ``(mean;deviation),(mean;deviation)`` of target and golden."""
    sides = [side_deviation(measured, side) for side in SIDES]
    return NOT_COMPUTED if NOT_COMPUTED in sides else ",".join(sides)


def side_deviation(measured: Measurement, side: str) -> str:
    """Return ``(mean;deviation)`` of one of `SIDES`."""
    figures = [measured.metrics.get(f"{name}_{side}") for name in ("mean", "std")]
    return NOT_COMPUTED if None in figures else f"({';'.join(map(_short, figures))})"


def custom_metrics(rows: Iterable[Row]) -> tuple[str, ...]:
    """Return the metrics of installed packages that were measured, in their order."""
    found: dict[str, None] = {}
    for row in rows:
        if row.measurement is not None and row.measurement.mode is Mode.TENSOR:
            found.update(dict.fromkeys(row.measurement.metrics))
    return tuple(name for name in found if name not in METRICS.built_in and not name.startswith(PREFIX))


def is_all_zero(side: SideSummary | None) -> bool:
    """Say whether a side holds zeros only."""
    found = side.statistics if side is not None else None
    if found is None or found.nan or found.inf:
        return False
    return found.l2norm == 0 or (found.min == 0 and found.max == 0)


def nonfinite_count(side: SideSummary | None) -> tuple[int, int]:
    """Return how many NaN and infinities a side holds."""
    return (side.statistics.nan or 0, side.statistics.inf or 0) if side is not None else (0, 0)


def _short(value: float | None) -> str:
    number = float(value or 0.0)
    shown = 0.0 if math.isfinite(number) and abs(number) < _SHOWN_AS_ZERO else number
    return f"{shown:.{_DEVIATION_DECIMALS}f}"
