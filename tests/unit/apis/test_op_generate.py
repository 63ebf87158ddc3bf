"""Constants of the single-API scripts: figures that such scripts of msprobe printed, and by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from probe_flow.apis.figures import StandardFigures
from probe_flow.apis.op_figures import OP_GENERATE
from probe_flow.apis.side import Held
from probe_flow.apis.standards import ACC_CHECK, Standard, standard_figures

DATA = Path(__file__).parents[2] / "data" / "precheck" / "op_generate.npz"


def of_script(name: str, standard: Standard) -> StandardFigures:
    with np.load(DATA) as arrays:
        tested, benchmark = Held(arrays[f"{name}.tested"], "float32"), Held(arrays[f"{name}.benchmark"], "float64")
    return standard_figures(standard, tested, benchmark, OP_GENERATE)


@pytest.mark.parametrize(
    ("iteration", "max_rel", "mean_rel", "rmse", "balance"),
    [
        (0, 1.7490123713735926e-07, 6.448757493691448e-08, 1.6804519977424917e-08, 0.5625),
        (1, 1.1235689007744339e-07, 4.7864493518805813e-08, 1.2542560122857143e-08, 0.125),
    ],
)
def test_figures_are_those_that_the_script_of_softmax_printed(
    iteration: int, max_rel: float, mean_rel: float, rmse: float, balance: float
) -> None:
    found = of_script(f"softmax.{iteration}", Standard.BENCHMARK)
    assert found.max_rel == pytest.approx(max_rel, rel=1e-12)
    assert found.mean_rel == pytest.approx(mean_rel, rel=1e-12)
    assert found.rmse == pytest.approx(rmse, rel=1e-12)
    assert (found.small_ratio, found.error_balance) == (0.0, balance)


@pytest.mark.parametrize(
    ("name", "max_ulp", "mean_ulp"),
    [
        ("0.0", 23.44012451171875, 1.2446582123770245),
        ("0.1", 10.925304412841797, 0.8661704438605479),
        ("1.0", 10.91457423567772, 0.9289856001269072),
        ("1.1", 28.23526382446289, 1.1322661007954073),
    ],
)
def test_figures_are_those_that_the_script_of_matmul_printed(name: str, max_ulp: float, mean_ulp: float) -> None:
    found = of_script(f"matmul.{name}", Standard.ULP)
    assert (found.max_ulp, found.mean_ulp) == pytest.approx((max_ulp, mean_ulp), rel=1e-12)
    assert found.ulp_ratio == 0.0


def test_the_root_mean_square_is_that_of_the_normal_values() -> None:
    tested, benchmark = (
        Held(np.array([1.5, 2.0, 5e-7], np.float32), "float32"),
        Held(np.array([1.0, 2.0, 0]), "float64"),
    )
    figures = standard_figures(Standard.BENCHMARK, tested, benchmark, OP_GENERATE)
    assert figures.rmse == pytest.approx(math.sqrt(0.25 / 2))
    assert figures.small_ratio == 1.0
    nothing = Held(np.zeros(3), "float64")
    figures = standard_figures(Standard.BENCHMARK, Held(np.zeros(3, np.float32), "float32"), nothing, OP_GENERATE)
    assert (figures.rmse, figures.max_rel) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("dtype", "rtol", "small", "atol"),
    [("float16", 1e-3, 1e-3, 1e-5), ("bfloat16", 4e-3, 1e-3, 1e-5), ("float32", 1e-6, 1e-6, 1e-9)],
)
def test_limits_are_those_of_the_scripts(dtype: str, rtol: float, small: float, atol: float) -> None:
    values = np.array([small * 0.99, small * 0.99, 1.0, 1.0])
    # Two errors just below their limits, two just above.
    errors = np.array([0.9 * atol, 1.1 * atol, 0.9 * rtol, 1.1 * rtol])
    tested, benchmark = Held(values + errors, dtype), Held(values, "float64")
    figures = standard_figures(Standard.ABSOLUTE, tested, benchmark, OP_GENERATE)
    assert (figures.abs_ratio, figures.rel_ratio, figures.inf_nan_ratio) == (0.5, 0.5, 0.0)


def test_bfloat16_has_no_spacing_of_its_own() -> None:
    tested, benchmark = Held(np.array([1.5], np.float32), "bfloat16"), Held(np.array([1.0]), "float64")
    figures = standard_figures(Standard.BENCHMARK, tested, benchmark, OP_GENERATE)
    assert figures.max_rel == pytest.approx(0.5, rel=1e-12)
    figures = standard_figures(Standard.BENCHMARK, tested, benchmark, ACC_CHECK)
    assert figures.max_rel == pytest.approx(0.5 / (1 + 2**-8), rel=1e-12)


def test_signs_of_errors_are_counted_against_the_benchmark_in_bfloat16() -> None:
    """Nearest bfloat16 of 1.001 is 1, of 1.006 it is 1.0078125: a result that is rounded right leans to no side."""
    benchmark = Held(np.array([1.001, 1.001, 1.006]), "float64")
    for values, balance in (([1.0, 1.0, 1.0078125], 0.0), ([1.0078125, 1.0, 1.0078125], 1 / 3)):
        tested = Held(np.array(values, np.float32), "bfloat16")
        figures = standard_figures(Standard.BENCHMARK, tested, benchmark, OP_GENERATE)
        assert figures.error_balance == pytest.approx(balance)
