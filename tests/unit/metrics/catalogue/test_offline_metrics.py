"""The metrics of the offline comparison against what the vendor's tools printed, and where ours are better."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from probe_flow.metrics.catalogue.derive import derive
from probe_flow.metrics.catalogue.registry import metric_ids, options_for
from probe_flow.metrics.kernel.compare import measure
from probe_flow.testing.builders import ArrayBlocks

IDS = metric_ids("offline")
NAN, INF = math.nan, math.inf

PRINTED = (
    "cosine", "max_abs_err", "acc_rel_err", "relative_euclidean_distance", "kl_minmax", "mean_target", "std_target",
    "mean_golden", "std_golden", "mean_abs_err", "rmse", "max_rel_err_masked", "mean_rel_err_masked",
)  # fmt: skip
"""Ids of the figures below, in their order."""


def measured(target: Any, golden: Any, dtypes: tuple[str, str] = ("float32", "float32")) -> dict[str, Any]:
    sides = ArrayBlocks(target, dtypes[0]), ArrayBlocks(golden, dtypes[1])
    return derive(measure(*sides, options_for(IDS)), IDS)


@pytest.mark.parametrize(
    ("target", "golden", "dtypes", "printed"),
    [
        (
            [0.5, -1.25, 2.75, 100, 0], [0.5, -1.2501, 2.7, 101, 0.001], ("float16", "float32"),
            "1.000000 1.000000 1.028499 0.009909 0.000010 20.400 39.821 20.590 40.225 0.210220 0.447773 1.000000 "
            "0.205700",
        ),
        (
            [1, 2, 3, 4], [4, 3, 2, 1], ("float32", "float32"),
            "0.666667 3.000000 4.583333 0.816497 8.086716 2.500 1.118 2.500 1.118 2.000000 2.236068 3.000000 1.145833",
        ),
        (
            [0, 1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1, 0], ("int32", "int32"),
            "0.411765 8.000000 11.590477 1.084652 4.017518 4.000 2.582 4.000 2.582 4.444445 5.163978 6.000000 1.287831",
        ),
        (
            [3] * 6, [3] * 6, ("float32", "float32"),
            "1.000000 0.000000 0.000000 0.000000 0.000000 3.000 0.000 3.000 0.000 0.000000 0.000000 0.000000 0.000000",
        ),
        (
            [3] * 6, [2] * 6, ("float32", "float32"),
            "1.000000 1.000000 3.000000 0.500000 0.000000 3.000 0.000 2.000 0.000 1.000000 1.000000 0.500000 0.500000",
        ),
    ],
)  # fmt: skip
def test_figures_that_the_vendor_tools_print(
    target: list[float], golden: list[float], dtypes: tuple[str, str], printed: str
) -> None:
    values = measured(target, golden, dtypes)
    for metric, text in zip(PRINTED, printed.split(), strict=True):
        decimals = len(text.partition(".")[2])
        # Theirs are sums in float32, so the last decimal may be another.
        assert values[metric] == pytest.approx(float(text), abs=1.5 * 10.0**-decimals), metric


def test_a_golden_of_zeros_gives_no_relative_errors_instead_of_none() -> None:
    values = measured([1, 2, 0], [0, 0, 0])
    assert math.isnan(values["cosine"])
    assert values["relative_euclidean_distance"] == INF
    assert all(math.isnan(values[metric]) for metric in ("acc_rel_err", "max_rel_err_masked", "mean_rel_err_masked"))
    assert values["kl_minmax"] == pytest.approx(0.462097, abs=1e-6)
    equal = measured([0, 0, 0], [0, 0, 0])
    assert [equal[m] for m in ("cosine", "acc_rel_err", "max_rel_err_masked", "mean_rel_err_masked")] == [1, 0, 0, 0]


def test_golden_values_of_2_to_the_minus_52_and_less_are_masked() -> None:
    eps = 2.0**-52
    values = measured([1, 2 * eps, 3], [eps, 1.5 * eps, 2], ("float64", "float64"))
    assert values["max_rel_err_masked"] == 0.5
    assert values["acc_rel_err"] == pytest.approx(0.5 + 1 / 3, rel=1e-15)
    assert values["mean_rel_err_masked"] == pytest.approx((0.5 + 1 / 3) / 3, rel=1e-15)


def test_special_values_leave_the_rest_measured_and_are_counted() -> None:
    values = measured([NAN, INF, 1, 2, 4], [NAN, 5, 1, 2, 2])
    assert values["unequal_count"] == 2
    assert values["max_abs_err"] == 2.0
    assert values["mean_rel_err_masked"] == pytest.approx(1 / 3)
    assert values["kl_minmax"] is not None
    assert values["kl_minmax"] == measured([1, 2, 4], [1, 2, 2])["kl_minmax"]


@pytest.mark.parametrize("size", [1e20, 1e38, 1e-25, 1e-38])
def test_huge_and_tiny_values_have_a_direction(size: float) -> None:
    golden = [size, -size / 2, size / 4]
    assert measured(golden, golden)["cosine"] == 1.0
    assert measured([-value for value in golden], golden)["cosine"] == -1.0


def test_the_divergence_of_values_over_the_whole_range_of_float64() -> None:
    values = measured([-1.7e308, 0, 1.7e308], [-1.7e308, 8e307, 1.7e308], ("float64", "float64"))
    small = measured([-1.7, 0, 1.7], [-1.7, 0.8, 1.7], ("float64", "float64"))
    assert values["kl_minmax"] == pytest.approx(small["kl_minmax"], rel=1e-12)


def test_the_divergence_is_blind_to_scale_and_shift() -> None:
    golden = np.array([0.25, -1, 3, 8])
    assert measured(2 * golden, golden)["kl_minmax"] == 0.0
    assert measured(golden + 1, golden)["kl_minmax"] == pytest.approx(0.0, abs=1e-15)
    assert measured(2 * golden, golden)["relative_euclidean_distance"] == 1.0


def test_integers_beyond_float32_and_bools_are_told_apart() -> None:
    one_off = measured([2**40 + 1, 7], [2**40, 7], ("int64", "int64"))
    assert (one_off["max_abs_err"], one_off["unequal_count"]) == (1, 1)
    bools = measured([True, False, True, True], [True, True, True, True], ("bool", "bool"))
    assert (bools["unequal_count"], bools["mean_abs_err"]) == (1, 0.25)
    assert bools["kl_minmax"] is not None
    ratio = ["unequal_ratio"]
    record = measure(ArrayBlocks([True, False], "bool"), ArrayBlocks([True, True], "bool"), options_for(ratio))
    assert derive(record, ratio) == {"unequal_ratio": 0.5}


def test_no_elements_and_one_element() -> None:
    nothing = measured([], [])
    assert {metric for metric, value in nothing.items() if value is not None} == {"unequal_count"}
    one = measured([2.0], [1.0])
    assert one["cosine"] is None
    assert (one["kl_minmax"], one["mean_rel_err_masked"], one["std_target"]) == (0.0, 1.0, 0.0)


FLOATS = arrays.arrays(np.float32, st.integers(1, 40), elements=st.floats(-1e6, 1e6, width=32))


@settings(max_examples=60, deadline=None)
@given(FLOATS, st.integers(0, 2**31))
def test_formulas_as_they_are_published(golden: NDArray[np.float32], seed: int) -> None:
    rng = np.random.default_rng(seed)
    target = (golden * rng.choice([1, 1.001, 0.5], golden.size)).astype(np.float32)
    values = measured(target, golden)
    x, y = target.astype(np.float64), golden.astype(np.float64)
    kept = np.abs(y) > 2.0**-52
    relative = np.abs(x[kept] / y[kept] - 1)
    if kept.any():
        assert values["acc_rel_err"] == pytest.approx(relative.sum(), rel=1e-9, abs=1e-12)
        assert values["max_rel_err_masked"] == pytest.approx(relative.max(), rel=1e-9, abs=1e-12)
        assert values["mean_rel_err_masked"] == pytest.approx(relative.sum() / y.size, rel=1e-9, abs=1e-12)
    assert (values["mean_target"], values["std_target"]) == (
        pytest.approx(x.mean(), rel=1e-12, abs=1e-9), pytest.approx(x.std(), rel=1e-12, abs=1e-9),
    )  # fmt: skip
    p, q = (_fractions(side) for side in (x, y))
    assert values["kl_minmax"] == pytest.approx(float((p * np.log(p / q)).sum()), rel=1e-9, abs=1e-12)


def _fractions(values: NDArray[np.float64]) -> NDArray[np.float64]:
    low, high = values.min(), values.max()
    parts = np.maximum((values - low) / (high - low) if high > low else np.ones_like(values), 1.1920929e-07)
    found: NDArray[np.float64] = parts / parts.sum()
    return found
