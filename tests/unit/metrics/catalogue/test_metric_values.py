"""Every tensor metric against a 60-digit oracle, on every dtype and every awkward kind of tensor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_oracle import IDS, exact, oracle

from probe_flow.metrics.catalogue.derive import derive
from probe_flow.metrics.catalogue.metrics import BUILT_IN
from probe_flow.metrics.catalogue.registry import options_for
from probe_flow.metrics.kernel.compare import measure, relative_eps
from probe_flow.records import Mode
from probe_flow.testing.builders import ArrayBlocks

NAN, INF = math.nan, math.inf


def measured(target: ArrayBlocks, golden: ArrayBlocks) -> dict[str, Any]:
    return derive(measure(target, golden, options_for(IDS)), IDS)


def assert_equals_oracle(target: ArrayBlocks, golden: ArrayBlocks) -> None:
    values = measured(target, golden)
    expected = oracle(exact(target), exact(golden), relative_eps(target.dtype, golden.dtype))
    assert list(values) == list(IDS)
    for metric, want in expected.items():
        got = values[metric]
        if want is None:
            assert got is None, metric
        elif math.isnan(want):
            assert math.isnan(got), metric
        elif metric == "kl_softmax":
            # A difference of logarithms of sums: absolute error of a few roundings of the largest value.
            largest = max([1.0, *(abs(float(v)) for v in (*exact(target), *exact(golden)))])
            assert got == pytest.approx(want, rel=1e-12, abs=1e-14 * largest)
        elif metric == "kl_minmax":
            assert got == pytest.approx(want, rel=1e-12, abs=1e-14)  # a difference of sums of order 1
        elif metric in ("mean_err", "bias_ratio"):  # errors that cancel
            size = 1.0 if metric == "bias_ratio" else expected["mean_abs_err"] or 0.0
            assert got == pytest.approx(want, rel=0, abs=1e-13 * size + 1e-300), metric
        else:
            assert got == pytest.approx(want, rel=1e-13, abs=1e-300), metric


def test_the_oracle_knows_every_tensor_metric() -> None:
    assert {metric.id for metric in BUILT_IN if metric.mode is Mode.TENSOR} == set(IDS)


FLOATS = ["float64", "float32", "float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"]
INTEGERS = ["int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "int4"]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_floats(dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    golden = rng.standard_normal(37)
    golden[rng.integers(0, 37, 6)] = 0.0
    target = golden * (1 + rng.choice([0, 1e-4, 3e-3, 0.3], 37))
    target[rng.integers(0, 37, 3)] += 0.01
    assert_equals_oracle(ArrayBlocks(target, dtype), ArrayBlocks(golden, dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype: str) -> None:
    rng = np.random.default_rng(4)
    low = 0 if dtype.startswith("u") else -7
    golden = rng.integers(low, 8, 50)
    target = np.clip(golden + rng.integers(-1, 2, 50), low, 7)
    assert_equals_oracle(ArrayBlocks(target, dtype), ArrayBlocks(golden, dtype))


@pytest.mark.parametrize(
    ("target_dtype", "golden_dtype"),
    [
        ("float16", "float32"), ("bfloat16", "float32"), ("float32", "float64"), ("int8", "float32"),
        ("int32", "int64"), ("uint8", "int8"), ("bool", "float32"), ("float8_e4m3fn", "float32"),
    ],
)  # fmt: skip
def test_mixed_dtypes(target_dtype: str, golden_dtype: str) -> None:
    values = [0, 1, 1, 0, 1, 0, 1]
    assert_equals_oracle(ArrayBlocks(values, target_dtype), ArrayBlocks([0, 1, 0, 1, 1, 1, 1], golden_dtype))


def test_bool_counts_as_0_and_1() -> None:
    target, golden = ArrayBlocks([True, False, True, True], "bool"), ArrayBlocks([True, True, True, False], "bool")
    assert_equals_oracle(target, golden)
    values = measured(target, golden)
    assert values["max_abs_err"] == 1
    assert values["mean_abs_err"] == 0.5
    assert values["unequal_count"] == 2


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_errors_are_moduli(dtype: str) -> None:
    rng = np.random.default_rng(5)
    golden = rng.standard_normal(20) + 1j * rng.standard_normal(20)
    golden[[3, 7]] = 0
    target = golden + rng.choice([0, 1e-3, 1e-2j], 20)
    assert_equals_oracle(ArrayBlocks(target, dtype), ArrayBlocks(golden, dtype))
    one = measured(ArrayBlocks([3 + 4j, 1], dtype), ArrayBlocks([0, 1], dtype))
    assert one["max_abs_err"] == 5.0


def test_complex_against_real() -> None:
    assert_equals_oracle(ArrayBlocks([1 + 1j, 2, 3], "complex64"), ArrayBlocks([1, 2, 4], "float32"))


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "int64", "bool", "complex64", "float8_e5m2"])
@pytest.mark.parametrize(
    ("target", "golden"),
    [
        ([], []), ([1], [1]), ([1], [0]), ([0], [1]), ([0], [0]),
        ([0, 0, 0], [0, 0, 0]), ([1, 1, 0], [0, 0, 0]), ([0, 0, 0], [1, 0, 1]), ([1, 1], [1, 1]),
    ],
)  # fmt: skip
def test_edges(dtype: str, target: list[int], golden: list[int]) -> None:
    assert_equals_oracle(ArrayBlocks(target, dtype), ArrayBlocks(golden, dtype))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "complex64", "float8_e5m2"])
@pytest.mark.parametrize(
    ("target", "golden"),
    [
        ([NAN, 1, 2], [NAN, 1, 3]), ([NAN, 1, 2], [1, NAN, 3]), ([INF, 1, 2], [INF, 1, 2]),
        ([INF, 1, 2], [-INF, 1, 2]), ([INF, NAN, 1], [1, INF, 1]), ([NAN, NAN], [NAN, NAN]),
        ([NAN, INF], [1, 2]), ([1, 2], [NAN, -INF]), ([NAN], [NAN]), ([0, NAN, 4], [0, 0, 4]),
    ],
)  # fmt: skip
def test_special_values_are_left_out_and_the_rest_is_measured(
    dtype: str, target: list[float], golden: list[float]
) -> None:
    assert_equals_oracle(ArrayBlocks(target, dtype), ArrayBlocks(golden, dtype))


ANY = st.floats(width=32)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(ANY, ANY), max_size=12))
def test_any_float32_pairs(pairs: list[tuple[float, float]]) -> None:
    target = ArrayBlocks([t for t, _ in pairs], "float32")
    golden = ArrayBlocks([g for _, g in pairs], "float32")
    values = measured(target, golden)
    expected = oracle(exact(target), exact(golden), 1.1920929e-07)
    for metric, want in expected.items():
        if want is None:
            assert values[metric] is None
        elif metric in ("max_abs_err", "unequal_count", "err_ratio_1e3", "err_ratio_5e3"):
            assert values[metric] == pytest.approx(want, rel=1e-15, nan_ok=True), metric
        elif metric == "kl_minmax":
            assert values[metric] == pytest.approx(want, rel=1e-12, abs=1e-14)
        elif metric in (
            "euclidean_distance", "rmse", "mean_abs_err", "max_rel_err", "mean_rel_err_masked_eps32", "acc_rel_err",
            "mean_rel_err_masked", "max_rel_err_masked", "unequal_ratio",
        ):  # fmt: skip
            assert values[metric] == pytest.approx(want, rel=1e-12, nan_ok=True), metric


def test_int64_beyond_2_to_the_53_is_exact() -> None:
    target = ArrayBlocks([2**53 + 1, -(2**62), 2**63 - 1], "int64")
    golden = ArrayBlocks([2**53, -(2**62), -(2**63)], "int64")
    values = measured(target, golden)
    assert values["max_abs_err"] == 2**64 - 1
    assert values["unequal_count"] == 2
    close = measured(ArrayBlocks([2**53 + 1, 5], "int64"), ArrayBlocks([2**53, 5], "int64"))
    assert close["max_abs_err"] == 1
    assert close["unequal_count"] == 1
    assert close["euclidean_distance"] == 1.0


def test_uint64_and_int64_subtract_exactly() -> None:
    top = 2**64 - 1
    assert measured(ArrayBlocks([top, 1], "uint64"), ArrayBlocks([top - 1, 1], "uint64"))["max_abs_err"] == 1
    mixed = measured(ArrayBlocks([top, 1], "uint64"), ArrayBlocks([-(2**63), 1], "int64"))
    assert mixed["max_abs_err"] == top + 2**63
    positive = measured(ArrayBlocks([top, 1], "uint64"), ArrayBlocks([7, 1], "int64"))
    assert positive["max_abs_err"] == top - 7
    small = measured(ArrayBlocks([3, 1], "uint64"), ArrayBlocks([-(2**63), 1], "int64"))
    assert small["max_abs_err"] == 2**63 + 3


def test_huge_float64_values_do_not_overflow() -> None:
    target, golden = ArrayBlocks([1e200, 2e200, -1e-3], "float64"), ArrayBlocks([1e200, 1e200, 1e-3], "float64")
    assert_equals_oracle(target, golden)
    assert measured(target, golden)["cosine"] == pytest.approx(3 / math.sqrt(10))


def test_equal_huge_values_do_not_hide_a_small_error() -> None:
    values = measured(ArrayBlocks([1e200, 1.5, 3.0], "float64"), ArrayBlocks([1e200, 1.0, 3.0], "float64"))
    assert values["euclidean_distance"] == 0.5
    assert values["rmse"] == pytest.approx(0.5 / math.sqrt(3))


def test_tiny_float64_values_do_not_vanish() -> None:
    assert_equals_oracle(ArrayBlocks([1e-200, 2e-200], "float64"), ArrayBlocks([2e-200, 1e-200], "float64"))
    assert_equals_oracle(ArrayBlocks([1e-20, 0], "float64"), ArrayBlocks([2e-20, 1e-20], "float64"))


def test_differences_beyond_float64_are_infinite_and_their_ratios_are_not() -> None:
    values = measured(ArrayBlocks([1.5e308, 1.0], "float64"), ArrayBlocks([-1.5e308, 1.0], "float64"))
    assert values["max_abs_err"] == INF
    assert values["rmse"] == INF
    assert values["max_rel_err"] == pytest.approx(2.0)
    assert values["relative_euclidean_distance"] == pytest.approx(2.0)
    assert values["err_ratio_1e3"] == 0.5


def test_zero_golden_is_infinite_strictly_and_counts_by_eps_otherwise() -> None:
    values = measured(ArrayBlocks([1e-10, 5e-10, 0, 2], "float32"), ArrayBlocks([0, 0, 0, 2], "float32"))
    assert values["max_rel_err"] == values["mean_rel_err"] == INF
    assert values["err_ratio_1e3"] == 0.5
    assert values["err_ratio_5e3"] == 0.5
    assert values["err_ratio_1e3_eps"] == 0.75
    assert values["err_ratio_5e3_eps"] == 1.0
    assert values["max_rel_err_eps"] == pytest.approx(5e-10 / 1.1920929e-07)


def test_a_tiny_golden_value_that_overflows_the_ratio_is_no_missed_zero() -> None:
    record = measure(ArrayBlocks([1e10, 0], "float64"), ArrayBlocks([5e-324, 0], "float64"))
    assert record.errors is not None
    assert record.errors.zero_misses == 0
    assert derive(record, ["max_rel_err"])["max_rel_err"] == INF


VECTORS = [
    (
        [1, 2, 3, 4],
        [1.001, 2, 3.1, 4],
        {
            "cosine": 0.999885970364, "euclidean_distance": 0.100004904980, "max_abs_err": 0.099999904633,
            "max_rel_err_eps": 0.033333301544, "err_ratio_1e3_eps": 0.5, "err_ratio_5e3_eps": 0.75,
            "max_rel_err_masked_eps32": 0.0333333015, "mean_rel_err_masked_eps32": 0.0085833371,
            "max_abs_err_masked_eps32": 0.0999999046, "mean_abs_err_masked_eps32": 0.0252499878,
            "relative_euclidean_distance_or_zero": 0.0182583146, "cosine_or_zero": 0.9998859704,
        },
    ),
    (
        [0, 0, 2, -1],
        [0, 0.001, 2.002, -1],
        {
            "euclidean_distance": 0.0022361516, "max_abs_err": 0.00200009346, "max_rel_err_eps": 8388.6083984375,
            "err_ratio_1e3_eps": 0.5, "err_ratio_5e3_eps": 0.75, "cosine_or_zero": 0.9999998203,
            "max_rel_err_masked_eps32": 0.00100004673, "max_abs_err_masked_eps32": 0.00200009346,
            "relative_euclidean_distance_or_zero": 0.0010000373,
        },
    ),
    (
        [0, 0],
        [1, 2],
        {
            "cosine": NAN, "euclidean_distance": 2.236067977, "max_abs_err": 2.0, "max_rel_err_eps": 16777215.0,
            "err_ratio_1e3_eps": 0.0, "err_ratio_5e3_eps": 0.0, "cosine_or_zero": 0.0, "max_abs_err_masked_eps32": 0.0,
            "relative_euclidean_distance_or_zero": 0.0,
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(("golden", "target", "expected"), VECTORS)
def test_vectors_of_the_vendor_tools(golden: list[float], target: list[float], expected: dict[str, float]) -> None:
    values = measured(ArrayBlocks(target, "float32"), ArrayBlocks(golden, "float32"))
    for metric, want in expected.items():
        assert values[metric] == pytest.approx(want, rel=1e-6, nan_ok=True), metric


def test_kl_vector_of_the_vendor_tools() -> None:
    values = measured(ArrayBlocks([1.001, 2, 3.1, 4], "float32"), ArrayBlocks([1, 2, 3, 4], "float32"))
    assert values["kl_softmax"] == pytest.approx(0.00091894716, rel=2e-4)  # theirs is computed in float32


def test_scalars_have_no_direction_distance_or_share() -> None:
    record = measure(ArrayBlocks([2.0], "float32"), ArrayBlocks([1.0], "float32"))
    values = derive(record, IDS[:10], is_scalar=True)
    assert [metric for metric, value in values.items() if value is None] == [
        "cosine", "euclidean_distance", "err_ratio_1e3", "err_ratio_5e3",
    ]  # fmt: skip
    assert values["max_rel_err"] == 1.0
    assert derive(record, ["cosine", "euclidean_distance"]) == {"cosine": None, "euclidean_distance": 1.0}


def test_metrics_that_were_not_measured_are_none() -> None:
    record = measure(ArrayBlocks([2.0, 1.0], "float32"), ArrayBlocks([1.0, 1.0], "float32"))
    ids = [
        "std_target",
        "max_rel_err_masked_eps32",
        "mean_abs_err_masked_eps32",
        "kl_softmax",
        "acc_rel_err",
        "kl_minmax",
    ]
    assert derive(record, ids) == dict.fromkeys(ids)


def test_swapping_the_sides_leaves_symmetric_metrics_alone() -> None:
    rng = np.random.default_rng(9)
    a, b = ArrayBlocks(rng.standard_normal(100), "float32"), ArrayBlocks(rng.standard_normal(100), "float32")
    there, back = measured(a, b), measured(b, a)
    for metric in ("cosine", "euclidean_distance", "max_abs_err", "mean_abs_err", "rmse", "unequal_count"):
        assert there[metric] == back[metric]
