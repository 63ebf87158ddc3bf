"""What scripts of `op_generate` judge by: constants, the rows of their tables, and the verdicts of the manual.

Source of constants and rows: the scripts that msprobe 1.2.1 wrote, and its `api_precision_threshold.yaml`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from probe_flow.apis.standards import LIMITS, Constants, Standard
from probe_flow.apis.two_runs import ratio
from probe_flow.apis.values import Values, to_bfloat16

PASS, WARNING, ERROR, UNKNOWN = "pass", "warning", "error", "n/a"


def _spacing(_dtype: str, benchmark: Values) -> float:
    return float(np.finfo(np.float64 if benchmark.dtype == np.float64 else np.float32).eps)


def _rounding(dtype: str, tested: Values, benchmark: Values) -> Values:
    if dtype == "bfloat16":
        return to_bfloat16(benchmark.astype(np.float32))
    return benchmark.astype(tested.dtype)


def normal_rmse(squares: float, count: int, _size: int) -> float:
    """Return the root mean square of the normal values; 0 where there are none."""
    return math.sqrt(squares / count) if count else 0.0


OP_GENERATE = Constants(
    "op_generate",
    {
        dtype: replace(LIMITS[dtype], rtol=rtol, small=small, absolute_atol=atol, benchmark_atol=atol)
        for dtype, rtol, small, atol in (
            ("float16", 1e-3, 1e-3, 1e-5),
            ("bfloat16", 4e-3, 1e-3, 1e-5),
            ("float32", 1e-6, 1e-6, 1e-9),
        )
    },
    spacing=_spacing,
    rmse=normal_rmse,
    rounding=_rounding,
)
"""Constants that msprobe's scripts judge by, those of its pre-check before generation 1.2. Where they differ from
`ACC_CHECK`: limits, the spacing and the rounding of bfloat16, and the root mean square error."""

STANDARD_NAMES: Mapping[Standard, str] = MappingProxyType(
    {
        Standard.BINARY: "Binary Equality Standard",
        Standard.ABSOLUTE: "Absolute Threshold Standard",
        Standard.ULP: "ULP error Standard",
        Standard.THOUSANDTH: "Thousandth Standard",
        Standard.BENCHMARK: "Benchmark Standard",
    }
)


@dataclass(frozen=True)
class Row:
    """A figure of a standard: its name in tables, and that of its verdict."""

    figure: str
    name: str
    verdict: str


ROWS: Mapping[Standard, Sequence[Row]] = MappingProxyType(
    {
        Standard.BINARY: (Row("error_rate", "Error Rate", "二进制一致错误率判定结果"),),
        Standard.ABSOLUTE: (
            Row("inf_nan_ratio", "Inf/Nan Error Ratio", "inf/nan 错误率判定结果"),
            Row("rel_ratio", "Relative Error Ratio", "相对误差判定结果"),
            Row("abs_ratio", "Absolute Error Ratio", "绝对误差判定结果"),
        ),
        Standard.ULP: (
            Row("max_ulp", "Maximum ULP Error", ""),
            Row("mean_ulp", "Mean ULP Error", ""),
            Row("ulp_ratio", "ULP Error Proportion", "ULP 误差判定结果"),
        ),
        Standard.THOUSANDTH: (Row("within_thousandth", "Thousandth ratio", "双千指标判定结果"),),
        Standard.BENCHMARK: (
            Row("small_ratio", "Small Value Error Proportion", "小值域错误判定结果"),
            Row("max_rel", "Maximum Relative Error", "相对误差最大值判定结果"),
            Row("mean_rel", "Mean Relative Error", "相对误差平均值判定结果"),
            Row("rmse", "Root Mean Squared Error", "RMSE 判定结果"),
            Row("error_balance", "Error Balance", "误差均衡性判定结果"),
        ),
    }
)
"""Figures in the order of tables; the manual has one verdict for those of ULP."""

_WARNS_UP_TO = 2.0
_MAX_REL_WARNS_UP_TO = 10.0
_THOUSANDTH_ABOVE = 0.999


def verdicts(
    standard: Standard, dtype: str, found: Mapping[str, float], reference: Mapping[str, float] | None
) -> Iterator[tuple[str, str]]:
    """Yield the verdicts of the manual by their names."""
    for row in ROWS[standard]:
        if row.verdict and row.figure in found:
            yield row.verdict, _verdict(standard, dtype, row.figure, found, reference)


def _verdict(
    standard: Standard, dtype: str, figure: str, found: Mapping[str, float], reference: Mapping[str, float] | None
) -> str:
    value, limits = found[figure], OP_GENERATE.of(dtype)
    if standard in (Standard.BINARY, Standard.ABSOLUTE):
        return PASS if value == 0 else ERROR
    if standard is Standard.THOUSANDTH:
        return PASS if value > _THOUSANDTH_ABOVE else ERROR
    if standard is Standard.ULP:
        is_small = value < limits.ulp_ratio or (limits.mean_ulp is not None and found["mean_ulp"] < limits.mean_ulp)
        if is_small:
            return PASS
        if reference is None or figure not in reference:
            return ERROR
        return PASS if value < reference[figure] else ERROR
    if reference is None or figure not in reference:
        # Only gross errors show: no device's mean error counts as less than the least one.
        is_gross = figure == "mean_rel" and not value <= _WARNS_UP_TO * limits.least_error
        return ERROR if is_gross else UNKNOWN
    other = reference[figure]
    found_ratio = ratio(value, other, limits.least_error)
    if math.isnan(found_ratio):
        return PASS if value == other or (math.isnan(value) and math.isnan(other)) else ERROR
    if found_ratio <= 1:
        return PASS
    return WARNING if found_ratio <= (_MAX_REL_WARNS_UP_TO if figure == "max_rel" else _WARNS_UP_TO) else ERROR
