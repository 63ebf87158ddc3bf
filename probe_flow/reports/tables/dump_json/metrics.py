"""The six metric columns of the dump.json layouts in tensor mode, with their roundings and words."""

from __future__ import annotations

import math

from probe_flow.records import Measurement, Row, TensorKind, TensorRef
from probe_flow.reports.dump_json_columns import ABSENT, NOT_A_NUMBER
from probe_flow.reports.table import Cell
from probe_flow.reports.tables.dump_json.sides import Value

UNSUPPORTED = "unsupported"
SHAPE_UNMATCHED = "shape unmatched"

_DECIMALS = 12
_DECIMALS_NEAR_ONE = 6
_NEAR_ONE = 0.9999
_ALL_UNSUPPORTED = (UNSUPPORTED,) * 6
_EQUAL = (1.0, 0.0, 0.0, 0.0, 1.0, 1.0)
_FLOAT_EPSILON = 2.0**-52
"""Norm up to which msprobe takes a tensor for zero."""


def metric_cells(row: Row) -> tuple[Cell, ...]:
    """Return cosine, Euclidean distance, largest absolute and relative error, and the shares within 1e-3 and 5e-3.

    ``unsupported`` where there is no tensor on both sides, or no such metric of a single number; ``shape unmatched``
    where the shapes differ in more than dimensions of size 1.
    """
    target, golden = row.pair.target, row.pair.golden
    if target is None or golden is None:
        return _ALL_UNSUPPORTED
    if target.kind is not TensorKind.TENSOR or golden.kind is not TensorKind.TENSOR or target.numel == 0:
        return _ALL_UNSUPPORTED
    shape = _squeezed(target)
    if shape != _squeezed(golden):
        return (SHAPE_UNMATCHED,) * 6
    measured = row.measurement
    if measured is None:
        return _ALL_UNSUPPORTED
    errors = _rounded(measured, "max_abs_err"), _rounded(measured, "max_rel_err_eps", "max_rel_err")
    if shape == ():
        return UNSUPPORTED, UNSUPPORTED, *errors, UNSUPPORTED, UNSUPPORTED
    distance = _value(measured, "euclidean_distance")
    return (
        _cosine(measured),
        UNSUPPORTED if distance is None else NOT_A_NUMBER if math.isnan(distance) else _shown(distance),
        *errors,
        _rounded(measured, "err_ratio_1e3_eps", "err_ratio_1e3"),
        _rounded(measured, "err_ratio_5e3_eps", "err_ratio_5e3"),
    )


def published_metric_cells(row: Row, target: Value, golden: Value) -> tuple[Cell, ...]:
    """Return the same as msprobe has it where NaN or infinities are, or hardly anything but zeros.

    Single numbers are subtracted whatever they are. NaN and infinities at other places on the two sides make all six
    metrics ``N/A``; at the same places they count as equal elements. Norms of at most 2.2e-16 are zero.

    Args:
        row: the row.
        target, golden: the largest values that are shown of its sides.
    """
    cells = metric_cells(row)
    one, measured = row.pair.target, row.measurement
    if one is None or measured is None or cells[0] == SHAPE_UNMATCHED or not _has_elements(row):
        return cells
    if _squeezed(one) == ():
        return _of_numbers(target, golden, cells)
    if measured.nonfinite_mismatch:
        return (ABSENT,) * 6
    if measured.target is None or measured.golden is None:
        return cells
    first, second = measured.target.statistics, measured.golden.statistics
    masked = (first.nan or 0) + (first.inf or 0)
    if masked == measured.count:
        return _EQUAL
    cosine, *errors = cells
    zeros = [norm is not None and norm <= _FLOAT_EPSILON for norm in (first.l2norm, second.l2norm)]
    if any(zeros):
        cosine = 1.0 if all(zeros) else NOT_A_NUMBER
    return (cosine, *errors[:3], *(_with_masked(share, masked, measured.count) for share in errors[3:]))


def _has_elements(row: Row) -> bool:
    sides = (row.pair.target, row.pair.golden)
    return all(side is not None and side.kind is TensorKind.TENSOR and side.numel for side in sides)


def _of_numbers(target: object, golden: object, cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """Return the cells of single numbers; where one is not finite, those of its subtraction."""
    if (
        not isinstance(target, float)
        or not isinstance(golden, float)
        or (math.isfinite(target) and math.isfinite(golden))
    ):
        return cells
    error = abs(target - golden)
    relative = error / abs(golden) if golden else error
    shown = (NOT_A_NUMBER if math.isnan(value) else _shown(value) for value in (error, relative))
    return (*cells[:2], *shown, *cells[4:])


def _with_masked(share: Cell, masked: int, count: int) -> Cell:
    """Return the share of close elements when those that are no numbers count as close."""
    if not masked or not isinstance(share, (int, float)):
        return share
    return round((round(share * (count - masked)) + masked) / count, _DECIMALS)


def _squeezed(tensor: TensorRef) -> tuple[int, ...] | None:
    shape = tensor.logical_shape if tensor.logical_shape is not None else tensor.shape
    return None if shape is None else tuple(size for size in shape if size != 1)


def _value(measured: Measurement, *names: str) -> float | None:
    """Return the first of these metrics that was measured."""
    for name in names:
        value = measured.metrics.get(name)
        if value is not None:
            return float(value)
    return None


def _rounded(measured: Measurement, *names: str) -> Cell:
    value = _value(measured, *names)
    if value is None:
        return UNSUPPORTED
    return NOT_A_NUMBER if math.isnan(value) else _shown(round(value, _DECIMALS) if math.isfinite(value) else value)


def _cosine(measured: Measurement) -> Cell:
    value = _value(measured, "cosine")
    if value is None:
        return UNSUPPORTED
    if math.isnan(value):
        return NOT_A_NUMBER
    rounded = round(value, _DECIMALS)
    return round(rounded, _DECIMALS_NEAR_ONE) if rounded > _NEAR_ONE else rounded


def _shown(value: float) -> Cell:
    return f" {value}" if math.isinf(value) else value
