"""Which standard judges an API, and what it says of one run."""

from __future__ import annotations

import math

import numpy as np
import pytest

from probe_flow.apis.figures import StandardFigures
from probe_flow.apis.side import Held
from probe_flow.apis.standards import (
    Profile,
    Standard,
    checks_alone,
    figure_names,
    is_judged,
    level_of,
    limits_of,
    standard_figures,
    standard_of,
)


@pytest.mark.parametrize(
    ("api", "dtype", "input_dtype", "per_api", "benchmark_only"),
    [
        ("mul", "float32", "float32", Standard.ABSOLUTE, Standard.BENCHMARK),
        ("__imul__", "bfloat16", "float32", Standard.ABSOLUTE, Standard.BENCHMARK),
        ("relu", "float16", "float32", Standard.BINARY, Standard.BENCHMARK),
        ("matmul", "float16", "float32", Standard.ULP, Standard.BENCHMARK),
        ("conv2d", "float32", "float32", Standard.THOUSANDTH, Standard.BENCHMARK),
        ("softmax", "float32", "float32", Standard.BENCHMARK, Standard.BENCHMARK),
        ("linalg.inv", "float32", "float32", Standard.BENCHMARK, Standard.BENCHMARK),
        ("mul", "int64", "float32", Standard.BINARY, Standard.BINARY),
        ("matmul", "bool", "float32", Standard.BINARY, Standard.BINARY),
        ("mul", "float8_e4m3fn", "float32", Standard.ULP, Standard.ULP),
        ("softmax", "hifloat8", "float32", Standard.ULP, Standard.ULP),
        ("matmul", "float16", "float8_e5m2", Standard.ABSOLUTE, Standard.ABSOLUTE),
        ("mul", "float64", "float32", None, None),
        ("mul", "complex64", "float32", None, None),
    ],
)
def test_the_first_rule_that_fits_gives_the_standard(
    api: str, dtype: str, input_dtype: str, per_api: Standard | None, benchmark_only: Standard | None
) -> None:
    assert standard_of(api, dtype, input_dtype) is per_api
    assert standard_of(api, dtype, input_dtype, profile=Profile.BENCHMARK_ONLY) is benchmark_only
    assert is_judged(dtype) is (per_api is not None)


def test_levels_of_apis_make_the_benchmark_standard_stricter() -> None:
    assert [level_of(api) for api in ("softmax", "embedding", "layer_norm")] == ["L0", "L1", "L2"]


def test_types_without_limits_have_those_of_float32() -> None:
    assert limits_of("float64") == limits_of("float32")
    assert (limits_of("float8_e4m3fn").ulps, limits_of("float8_e4m3fn").mean_ulp) == (1.0, None)
    assert limits_of("float32").mean_ulp == 64.0


@pytest.mark.parametrize(
    ("standard", "figures", "dtype", "failing"),
    [
        (Standard.ABSOLUTE, {"inf_nan_ratio": 0.0, "rel_ratio": 0.0, "abs_ratio": 0.0}, "float32", []),
        (Standard.ABSOLUTE, {"inf_nan_ratio": 0.1, "rel_ratio": 0.0, "abs_ratio": 1e-9}, "float32", [0, 2]),
        (Standard.BINARY, {"error_rate": 0.0}, "int64", []),
        (Standard.BINARY, {"error_rate": 1e-9}, "int64", [0]),
        (Standard.THOUSANDTH, {"within_thousandth": 0.999}, "float32", []),
        (Standard.THOUSANDTH, {"within_thousandth": 0.9989}, "float32", [0]),
        (Standard.THOUSANDTH, {"within_thousandth": math.nan}, "float32", [0]),
        (Standard.ULP, {"mean_ulp": 9.0, "ulp_ratio": 0.0009}, "float8_e4m3fn", []),
        (Standard.ULP, {"mean_ulp": 0.1, "ulp_ratio": 0.001}, "float8_e4m3fn", [0]),
    ],
)
def test_each_figure_of_one_run_is_held_against_its_limit(
    standard: Standard, figures: dict[str, float], dtype: str, failing: list[int]
) -> None:
    checks = checks_alone(standard, StandardFigures(**figures), dtype)
    assert checks is not None
    assert [number for number, check in enumerate(checks) if not check.holds] == failing
    assert all(bool(check.message) is not check.holds for check in checks)


@pytest.mark.parametrize(("dtype", "limit"), [("float16", 2**-20), ("bfloat16", 2**-7), ("float32", 2**-14)])
def test_the_accumulative_standard_limits_the_balance_by_the_type(dtype: str, limit: float) -> None:
    for balance, holds in ((limit, True), (limit * 1.01, False)):
        figures = StandardFigures(inf_nan_ratio=0.0, rel_ratio=0.0, abs_ratio=0.0, error_balance=balance)
        checks = checks_alone(Standard.ACCUMULATIVE, figures, dtype)
        assert checks is not None
        assert [check.holds for check in checks] == [True, True, True, holds]


@pytest.mark.parametrize("standard", [Standard.BENCHMARK, Standard.ULP])
def test_standards_that_compare_two_devices_say_nothing_of_one(standard: Standard) -> None:
    assert checks_alone(standard, StandardFigures(ulp_ratio=0.5, mean_ulp=99.0, max_rel=1.0), "float32") is None


@pytest.mark.parametrize("standard", list(Standard))
def test_a_standard_measures_the_figures_that_it_is_judged_by(standard: Standard) -> None:
    tested, benchmark = np.linspace(-1, 1, 7, dtype=np.float32), np.linspace(-1, 1.0001, 7)
    figures = standard_figures(standard, Held(tested, "float32"), Held(benchmark, "float64"))
    assert all(getattr(figures, name) is not None for name in figure_names(standard))


@pytest.mark.parametrize("standard", list(Standard))
def test_an_empty_output_has_no_figures(standard: Standard) -> None:
    empty = Held(np.zeros((0, 3), np.float32), "float32")
    assert standard_figures(standard, empty, empty) == StandardFigures()


def test_the_limits_of_the_type_decide() -> None:
    benchmark = np.array([1.0, 2.0])
    tested = (benchmark * (1 + 2.0**-9)).astype(np.float32)
    half = standard_figures(Standard.ABSOLUTE, Held(tested, "bfloat16"), Held(benchmark, "float64"))
    single = standard_figures(Standard.ABSOLUTE, Held(tested, "float32"), Held(benchmark, "float64"))
    assert (half.rel_ratio, single.rel_ratio) == (0.0, 1.0)
    accumulative = standard_figures(Standard.ACCUMULATIVE, Held(tested, "float32"), Held(benchmark, "float64"))
    # 1 is a small value there, 2 is not; the bound of both errors is 2**-11.
    assert (accumulative.rel_ratio, accumulative.abs_ratio, accumulative.error_balance) == (1.0, 1.0, 1.0)
