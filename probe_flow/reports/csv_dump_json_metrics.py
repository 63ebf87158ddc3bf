"""The six metric columns of the dump.json layouts in tensor mode, with their roundings and words."""

from __future__ import annotations

import math

from probe_flow.records import ComparedPair, Measurement, TensorKind, TensorRef
from probe_flow.reports.table import Cell

UNSUPPORTED = "unsupported"
SHAPE_UNMATCHED = "shape unmatched"
NOT_A_NUMBER = "Nan"

_DECIMALS = 12
_DECIMALS_NEAR_ONE = 6
_NEAR_ONE = 0.9999
_ALL_UNSUPPORTED = (UNSUPPORTED,) * 6


def metric_cells(row: ComparedPair) -> tuple[Cell, ...]:
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
