"""Figures of the precision standards: by hand, against sums in plain Python, and against recorded ones of msprobe."""

from __future__ import annotations

import json
import math
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe_flow.apis.figures import (
    StandardFigures,
    benchmark_figures,
    error_balance,
    error_rate,
    errors_of,
    shares_within,
    threshold_figures,
    ulp_figures,
)
from probe_flow.apis.side import Held
from probe_flow.apis.standards import Standard, figure_names, standard_figures

DATA = Path(__file__).parents[2] / "data" / "precheck"
RECORDED: dict[str, dict[str, Any]] = json.loads((DATA / "standards.json").read_text(encoding="utf-8"))

NOT_FINITE = {
    ("float32_nonfinite", "binary"),
    ("float32_nonfinite", "ulp"),
    ("float32_nonfinite", "thousandth"),
    ("float16_out_of_range", "thousandth"),
}
"""Cases where msprobe counts equal infinities and NaN on both sides as errors, or NaN on one as none."""


def held(values: Any, dtype: str = "float32") -> Held:
    return Held(np.asarray(values), dtype)


def recorded(name: str) -> tuple[Held, Held]:
    with np.load(DATA / "standards.npz") as arrays:
        found = RECORDED[name]
        return (
            Held(arrays[f"{name}.tested"], found["dtype"]),
            Held(arrays[f"{name}.benchmark"], found["benchmark_dtype"]),
        )


@pytest.mark.parametrize(
    ("name", "standard"),
    [(name, standard) for name, found in RECORDED.items() for standard in found.get("standards", ())],
)
def test_figures_are_those_that_msprobe_gave(name: str, standard: str) -> None:
    if (name, standard) in NOT_FINITE:
        return
    figures = standard_figures(Standard(standard), *recorded(name))
    for figure, value in RECORDED[name]["standards"][standard].items():
        assert getattr(figures, figure) == pytest.approx(float(value), rel=1e-6, abs=1e-15, nan_ok=True), figure


def test_units_of_eight_bits_are_those_that_msprobe_gave_without_their_sign() -> None:
    tested, benchmark = recorded("float8_e4m3fn_units")
    found = [
        ulp_figures(errors_of(held(one, tested.dtype), held(other)), allowed=1.0).max_ulp
        for one, other in zip(tested.values.reshape(-1, 1), benchmark.values.reshape(-1, 1), strict=True)
    ]
    units = [abs(float(unit)) for unit in RECORDED["float8_e4m3fn_units"]["units"]]
    # Below 2**-22 msprobe cuts the benchmark's exponent and leaves the tested one.
    kept = np.minimum(np.abs(tested.values), np.abs(benchmark.values)) >= 2.0**-22
    assert kept.sum() >= 90
    assert np.array(found)[kept] == pytest.approx(np.array(units)[kept], rel=1e-6)


def test_thresholds_are_held_against_small_and_normal_values_apart() -> None:
    tested = np.array([1.0, 2.002, 0.5e-3, 0.9e-3], np.float32)
    benchmark = np.array([1.0, 2.0, 0.4e-3, 0.9e-3])
    figures = threshold_figures(errors_of(held(tested), held(benchmark)), small=1e-3, atol=1e-5, rtol=9e-4)
    assert figures == StandardFigures(inf_nan_ratio=0.0, rel_ratio=0.5, abs_ratio=0.5)


@pytest.mark.parametrize(
    ("tested", "benchmark", "is_wrong"),
    [
        (math.nan, math.nan, False),
        (math.inf, math.inf, False),
        (math.inf, -math.inf, True),
        (math.inf, 65500.0, False),
        (math.inf, 1.0, True),
        (65504.0, 7e4, False),
        (100.0, math.inf, True),
        (math.nan, 1.0, True),
    ],
)
def test_what_is_not_finite_has_to_agree_within_the_range_of_the_type(
    tested: float, benchmark: float, *, is_wrong: bool
) -> None:
    errors = errors_of(held(np.array([tested, 1.0], np.float16), "float16"), held(np.array([benchmark, 1.0])))
    figures = threshold_figures(errors, small=1e-3, atol=1e-5, rtol=1e-3)
    assert figures == StandardFigures(inf_nan_ratio=float(is_wrong), rel_ratio=0.0, abs_ratio=0.0)


def test_one_nan_does_not_hide_the_largest_error() -> None:
    tested, benchmark = np.array([math.nan, 3.0, 1.0], np.float32), np.array([1.0, 2.0, 1.0])
    figures = benchmark_figures(errors_of(held(tested), held(benchmark)), small=1e-6, atol=1e-9)
    assert figures.max_rel == pytest.approx(0.5)
    assert figures.rmse == pytest.approx(math.sqrt(1 / 3 * (3 / (2 + 1e-4) + 1e-4)))


def test_an_output_of_small_values_has_no_relative_error() -> None:
    figures = benchmark_figures(errors_of(held(np.zeros(4, np.float32)), held(np.full(4, 1e-9))), small=1e-6, atol=1e-8)
    assert figures == StandardFigures(small_ratio=0.0, max_rel=0.0, mean_rel=0.0, rmse=0.0, error_balance=1.0)


def test_balance_is_asked_of_the_benchmark_in_the_tested_type() -> None:
    tested = held(np.array([1.0, 1.0, 2.0, 1.0], np.float16), "float16")
    assert error_balance(errors_of(tested, held(np.array([1.00001, 1.00001, 1.0, 1.0])))) == 0.25


def test_errors_are_counted_in_units_at_the_size_of_the_benchmark() -> None:
    benchmark = np.array([1.0, 3.0, 2.0**-20, 0.0])
    tested = (benchmark + np.array([2.0**-10, 2.0**-9, 2.0**-24, 2.0**-10])).astype(np.float16)
    figures = ulp_figures(errors_of(held(tested, "float16"), held(benchmark)), allowed=1.0)
    # 2**-20 is below the smallest normal number, whose units are 2**-24; zero has the unit of 1.
    assert figures == StandardFigures(max_ulp=1.0, mean_ulp=1.0, ulp_ratio=0.0)


def test_a_value_that_only_one_side_has_leaves_no_number_of_units() -> None:
    tested = held(np.array([math.nan, 1.0, math.inf], np.float32))
    figures = ulp_figures(errors_of(tested, held(np.array([1.0, 1.0, math.inf]))), allowed=32.0)
    assert figures.mean_ulp is not None
    assert math.isnan(figures.mean_ulp)
    assert figures.ulp_ratio == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("tested", "benchmark", "units"),
    [
        (1.125, 1.0, 1.0),  # three bits up to 2**3
        (20.0, 16.0, 1.0),  # two up to 2**7
        (512.0, 256.0, 2.0),  # one up to 2**15
        (2.0**17, 2.0**16, 1.0),  # none: a doubling is a unit
        (0.75, 1.0, 2.0),  # below the benchmark too
        (0.0, 0.0, 0.0),
        (0.0, 2.0**-30, 0.0),  # below what the format has
    ],
)
def test_units_of_eight_bits_widen_with_the_exponent(tested: float, benchmark: float, units: float) -> None:
    errors = errors_of(held(np.array([tested], np.float32), "float8_e4m3fn"), held(np.array([benchmark], np.float32)))
    assert ulp_figures(errors, allowed=1.0).max_ulp == pytest.approx(units)


def test_equality_is_exact_for_integers_and_takes_nan_for_nan() -> None:
    large = np.array([2**62, 2**62 + 1])
    assert error_rate(held(large, "int64"), held(large[::-1].copy(), "int64")) == 1.0
    tested = np.array([math.nan, 1.0, math.nan, 0.0], np.float32)
    assert error_rate(held(tested), held(np.array([math.nan, 1.0, 1.0, -0.0], np.float32))) == 0.25


def test_complex_numbers_are_pairs() -> None:
    tested, benchmark = np.array([1 + 2j, 3 + 1j], np.complex64), np.array([1 + 2j, 3 + 2j])
    assert shares_within(errors_of(held(tested, "complex64"), held(benchmark, "complex128")), 1e-3)[0] == 0.75


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_figures_are_those_of_exact_sums(seed: int, dtype: str) -> None:
    """Fractions, element by element: no rounding, no arrays."""
    random = np.random.default_rng(seed)
    count = 37
    benchmark = random.standard_normal(count) * 2.0 ** random.integers(-18, 8, count)
    tested = (benchmark * (1 + random.standard_normal(count) * 2.0**-10)).astype(dtype)
    small, atol, rtol = 2.0**-8, 2.0**-18, 2.0**-10
    bits, lowest = (10, -14) if dtype == "float16" else (23, -126)
    pairs = [(Fraction(float(one)), Fraction(float(other))) for one, other in zip(tested, benchmark, strict=True)]
    tiny = [abs(one - other) for one, other in pairs if abs(other) <= small]
    normal = [(abs(one - other), abs(other) + Fraction(2.0**-52)) for one, other in pairs if abs(other) > small]
    relative = [error / size for error, size in normal]
    mean_square = sum(error**2 for error, _ in normal) / count
    square = mean_square * (count / (count - len(tiny) + Fraction(1e-4)) + Fraction(1e-4))
    units = [
        abs(one - other) / Fraction(2) ** (max(math.frexp(float(other))[1] - 1, lowest) - bits) for one, other in pairs
    ]
    errors = errors_of(held(tested, dtype), held(benchmark))

    found = threshold_figures(errors, small=small, atol=atol, rtol=rtol)
    assert found.rel_ratio == pytest.approx(sum(each > rtol for each in relative) / len(relative))
    assert found.abs_ratio == pytest.approx(sum(each > atol for each in tiny) / len(tiny))
    found = benchmark_figures(errors, small=small, atol=atol)
    assert found.max_rel == pytest.approx(float(max(relative)), rel=1e-12)
    assert found.mean_rel == pytest.approx(float(sum(relative) / len(relative)), rel=1e-12)
    assert found.rmse == pytest.approx(math.sqrt(square), rel=1e-12)
    found = ulp_figures(errors, allowed=1.0)
    assert found.max_ulp == pytest.approx(float(max(units)), rel=1e-12)
    assert found.mean_ulp == pytest.approx(float(sum(units) / count), rel=1e-12)
    assert found.ulp_ratio == pytest.approx(sum(each > 1 for each in units) / count)
    within = sum(abs(one - other) / (abs(other) + Fraction(2.0**-52)) < Fraction(1e-3) for one, other in pairs)
    assert shares_within(errors, 1e-3)[0] == pytest.approx(within / count)


@pytest.mark.parametrize("standard", list(Standard))
def test_chunks_give_the_figures_of_the_whole(standard: Standard, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    benchmark = random.standard_normal(1000) * 2.0 ** random.integers(-24, 8, 1000)
    benchmark[[3, 500, 999]] = math.inf, math.nan, 0.0
    tested = (benchmark * (1 + random.standard_normal(1000) * 2.0**-20)).astype(np.float32)
    tested[[7, 500]] = math.nan, math.nan
    sides = held(tested.reshape(10, 100)), held(benchmark.reshape(10, 100), "float64")
    whole = standard_figures(standard, *sides)
    monkeypatch.setattr("probe_flow.apis.figures.CHUNK", 7)
    chunked = standard_figures(standard, *sides)
    assert figure_names(standard)
    for name in figure_names(standard):
        assert getattr(chunked, name) == pytest.approx(getattr(whole, name), rel=1e-12, nan_ok=True), name


def test_a_large_tensor_takes_no_more_memory_than_some_chunks() -> None:
    tested = held(np.ones(3_000_000, np.float32))
    benchmark = held(np.ones(3_000_000), "float64")
    tracemalloc.start()
    try:
        for standard in Standard:
            standard_figures(standard, tested, benchmark)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * 2**20
