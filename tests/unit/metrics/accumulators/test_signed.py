"""Signed errors: by hand, where float64 is too narrow, and by both backends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from metric_oracle import exact

from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.metrics.catalogue.derive import derive
from probe_flow.metrics.kernel.compare import measure, measure_span
from probe_flow.metrics.sums.record import BLOCK, fold
from probe_flow.testing.builders import ArrayBlocks

IDS = ("mean_err", "bias_ratio")
SIGNED = MeasureOptions(("signed",))
NAN, INF = math.nan, math.inf


def values(target: Sequence[complex], golden: Sequence[complex], dtype: str = "float64") -> list[object]:
    record = measure(ArrayBlocks(target, dtype), ArrayBlocks(golden, dtype), SIGNED)
    return list(derive(record, IDS).values())


@pytest.mark.parametrize(
    ("target", "golden", "expected"),
    [
        ([1, 2, 3, 4], [0, 1, 2, 3], [1.0, 1.0]),
        ([1, 2, 3, 4], [2, 3, 4, 5], [-1.0, 1.0]),
        ([1, 0, 3, 0], [0, 1, 0, 3], [0.0, 0.0]),
        ([5, 2, 0, 0], [0, 0, 1, 0], [1.5, 0.75]),
        ([7, 7], [7, 7], [0.0, 0.0]),
        ([7], [4], [3.0, 1.0]),
        ([], [], [None, None]),
        ([NAN, INF, 5, INF], [1, INF, 3, 4], [2.0, 1.0]),
        ([NAN, 1], [1, -INF], [None, None]),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_by_hand(target: list[float], golden: list[float], expected: list[float | None], dtype: str) -> None:
    assert values(target, golden, dtype) == expected


def test_complex_errors_have_no_sign() -> None:
    assert values([1 + 1j, 2], [0, 0], "complex64") == [None, None]
    real, two = ArrayBlocks([1, 2], "float32"), ArrayBlocks([1, 2j], "complex64")
    for pair in ((real, two), (two, real)):
        assert set(derive(measure(*pair, SIGNED), IDS).values()) == {None}


@pytest.mark.parametrize(
    ("dtype", "target", "golden"),
    [
        ("int64", [2**63 - 1, -(2**63), 5], [-(2**63), 2**63 - 1, 2]),
        ("int64", [2**63 - 1, 2**62 + 1], [-(2**63), 2**62]),
        ("uint64", [2**64 - 1, 0, 7], [2**64 - 3, 1, 9]),
        ("uint64", [0, 0], [2**64 - 1, 2**63]),
    ],
)
def test_integers_are_subtracted_exactly(dtype: str, target: list[int], golden: list[int]) -> None:
    total = sum(t - g for t, g in zip(target, golden, strict=True))
    size = sum(abs(t - g) for t, g in zip(target, golden, strict=True))
    mean, ratio = values(target, golden, dtype)
    assert mean == pytest.approx(total / len(target), rel=0, abs=1e-15 * size)
    assert ratio == pytest.approx(abs(total) / size, rel=0, abs=1e-15)


def test_integers_of_two_types_are_subtracted_exactly() -> None:
    top = 2**64 - 1
    record = measure(ArrayBlocks([top, 1], "uint64"), ArrayBlocks([-(2**63), 3], "int64"), SIGNED)
    assert derive(record, IDS)["mean_err"] == pytest.approx((top + 2**63 - 2) / 2, rel=1e-15)


def test_errors_and_sums_beyond_float64() -> None:
    large = 1.5e308
    assert values([large, -large], [-large, large]) == [0.0, 0.0]
    assert values([large, 1.0], [-large, 1.0]) == [large, 1.0]
    assert values([large], [-large]) == [INF, 1.0]
    assert values([-large] * 4, [0.0] * 4) == [-large, 1.0]
    assert values([large, 1e-3], [large, 2e-3]) == [-5e-4, 1.0]
    assert values([1e-320, 0.0], [0.0, 0.0]) == [pytest.approx(5e-321, rel=1e-3), 1.0]


def test_blocks_of_very_different_size_are_merged() -> None:
    golden = np.zeros(2 * BLOCK + 2)
    target = golden.copy()
    target[0], target[1], target[BLOCK], target[-1] = 1.7e308, 1.7e308, -1.7e308, 3.0
    assert values(target, golden) == [
        pytest.approx(1.7e308 / golden.size, rel=1e-15),
        pytest.approx(1 / 3, rel=1e-15),
    ]


def noisy(count: int, dtype: str) -> tuple[ArrayBlocks, ArrayBlocks]:
    rng = np.random.default_rng(count)
    golden = rng.standard_normal(count) * 1000
    return ArrayBlocks(golden + rng.standard_normal(count) + 0.01, dtype), ArrayBlocks(golden, dtype)


@pytest.mark.parametrize("backend", ["numpy", pytest.param("numba", marks=pytest.mark.frameworks)])
@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "float64", "int32", "int64", "int8", "float8_e5m2"]
)
@pytest.mark.parametrize("count", [1, 63, 64, 8192, 8193, 2 * BLOCK + 7])
def test_every_backend_agrees_with_exact_sums_on_any_split(backend: str, dtype: str, count: int) -> None:
    if backend == "numba":
        pytest.importorskip("numba", reason="numba is not installed (extra accel)")
    options = MeasureOptions(("signed",), backend=backend)
    target, golden = noisy(count, dtype)
    if dtype == "int8":
        target, golden = (ArrayBlocks(np.asarray(side.array) % 50, dtype) for side in noisy(count, "int32"))
    record = measure(target, golden, options)
    total = math.fsum([*exact(target), *(-value for value in exact(golden))])  # exact, then rounded once
    size = math.fsum(abs(t - g) for t, g in zip(exact(target), exact(golden), strict=True))
    found = derive(record, IDS)
    assert found["mean_err"] == pytest.approx(total / count, rel=0, abs=1e-13 * size / count)
    assert found["bias_ratio"] == pytest.approx(abs(total) / size if size else 0.0, rel=0, abs=1e-13)
    cuts = range(-(-count // BLOCK) + 1)
    spans = [measure_span(target, golden, first, end - first, options) for first, end in pairwise(cuts)]
    assert repr(fold(spans)) == repr(record)


def test_truncation_shows_where_rounding_does_not() -> None:
    """What the metric is for: errors of a cast that cuts off bits point one way."""
    golden = np.abs(np.random.default_rng(0).standard_normal(100_000)).astype(np.float32)
    rounded = golden.astype(ml_dtypes.bfloat16).astype(np.float32)
    cut = (golden.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    assert values(cut, golden, "float32")[1] == 1.0
    ratio = values(rounded, golden, "float32")[1]
    assert isinstance(ratio, float)
    assert ratio < 0.02
