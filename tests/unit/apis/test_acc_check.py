"""How a result is judged: figures by hand, by the formulas in exact fractions, and those of our own kernel."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from probe_flow.apis.acc_check import Figures, Judgement, figures, judge, rounded
from probe_flow.apis.side import Held, Result
from probe_flow.metrics.catalogue import formulas
from probe_flow.metrics.kernel.compare import measure
from probe_flow.testing.builders import ArrayBlocks

NAN, INF = math.nan, math.inf


def held(values: Any, dtype: str = "float32") -> Held:
    kept = "float32" if dtype == "bfloat16" else dtype
    return Held(np.asarray(values, kept), dtype)


def result(values: Any, dtype: str = "float32") -> Result:
    return Result((0,), held(values, dtype))


def judged(tested: Any, benchmark: Any, dtype: str = "float32", **more: Any) -> Judgement:
    return judge(result(tested, dtype), result(benchmark, dtype), **more)


def test_figures_by_hand() -> None:
    found = figures(held([1.0, 2.0, 2.5]), held([1.0, 2.0, 2.0]))
    # b.t = 1 + 4 + 5 = 10, |b| = 3, |t| = sqrt(11.25)
    assert found.cosine == pytest.approx((1e-8 + 10) / (1e-8 + 3 * math.sqrt(11.25)), rel=1e-15)
    assert (found.max_abs, found.max_rel, found.unequal_nonfinite) == (0.5, 0.25, 0)


def test_a_benchmark_of_zero_divides_by_a_hundred_millionth() -> None:
    found = figures(held([0.5, 3.0], "float64"), held([0.0, 3.0], "float64"))
    assert found.max_rel == pytest.approx(0.5 / 1e-8, rel=1e-15)


def by_formula(tested: list[float], benchmark: list[float]) -> tuple[float, float, float]:
    """The formulas of the specification in exact fractions; only the root is rounded."""
    t, b = ([Fraction(value) for value in side] for side in (tested, benchmark))
    tiny = Fraction(1, 10**8)
    norms = math.sqrt(sum(x * x for x in b)) * math.sqrt(sum(x * x for x in t))
    errors = [abs(x - y) for x, y in zip(b, t, strict=True)]
    cosine = float(tiny + sum(x * y for x, y in zip(b, t, strict=True))) / (1e-8 + norms)
    return cosine, float(max(errors)), float(max(e / (abs(x) or tiny) for e, x in zip(errors, b, strict=True)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_formulas_and_the_kernels_metrics(dtype: str) -> None:
    random = np.random.default_rng(3)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    kept = np.float32 if dtype == "bfloat16" else np.dtype(dtype)
    benchmark = random.normal(size=400).astype(kind).astype(kept)
    tested = (benchmark + 0.01 * random.normal(size=400)).astype(kind).astype(kept)
    found = figures(Held(tested, dtype), Held(benchmark, dtype))
    expected = by_formula(tested.astype(float).tolist(), benchmark.astype(float).tolist())
    assert (found.cosine, found.max_abs, found.max_rel) == pytest.approx(expected, rel=1e-12)

    record = measure(ArrayBlocks(tested, dtype), ArrayBlocks(benchmark, dtype))
    assert formulas.max_abs_err(record) == pytest.approx(found.max_abs, rel=1e-12)
    cosine = formulas.cosine(record)
    assert cosine == pytest.approx(found.cosine, abs=1e-9), "but for the hundred millionth of the formula"


def test_the_cosine_is_that_of_both_zero_and_of_one_zero_too() -> None:
    zero, one = [0.0, 0.0], [3e-5, 0.0]
    assert judged(zero, zero) == Judgement(is_right=True, figures=Figures(1.0, 0.0, 0.0, 0, 0.0))
    found = judged(one, zero)
    assert found.figures.cosine == 1.0
    assert found.is_right, "3e-5 is below the limit"
    found = judged([3e-4, 0.0], zero)
    assert not found.is_right
    assert found.figures.cosine == 1.0, "only the absolute error can catch it"


def test_the_cosine_of_numbers_is_that_of_their_signs() -> None:
    assert judged(-2.0, -2.0).is_right
    found = judged(-2.0, 2.0)
    assert found.figures.cosine == pytest.approx(-1.0)
    assert found.message == ("the cosine -1 is not above 0.99; the largest absolute error 4 is not below 0.0001")


def test_both_limits_are_strict() -> None:
    assert judged([1.0], [1.0 - 0.5], "float64", max_abs_limit=0.5).is_right is False
    assert judged([1.0], [1.0 - 0.5], "float64", max_abs_limit=0.5000001).is_right
    assert judged([1.0 + 9.9e-5], [1.0], "float64").is_right
    assert not judged([1.0 + 1.01e-4], [1.0], "float64").is_right
    # An angle whose cosine is 0.98995..., with an error far below the limit.
    low = judged([7e-6, 1e-6], [7e-6, 0.0], "float64")
    assert low.figures.cosine == pytest.approx(1.0, abs=1e-2)
    assert low.is_right, "the hundred millionth in the formula decides for tiny tensors"
    low = judged([0.7, 0.1], [0.7, 0.0], "float64", max_abs_limit=1.0)
    assert low.figures.cosine == pytest.approx(7 / math.sqrt(50), rel=1e-7)
    assert low.message == "the cosine 0.989949 is not above 0.99"


def test_places_that_are_not_finite_alike_are_left_out() -> None:
    same = judged([NAN, INF, -INF, 1.0], [NAN, INF, -INF, 1.0])
    assert same == Judgement(is_right=True, figures=Figures(1.0, 0.0, 0.0, 0, 0.0))
    nothing = judged([NAN, INF], [NAN, INF])
    assert nothing.is_right
    assert (nothing.figures.cosine, nothing.figures.max_abs) == (None, None)


@pytest.mark.parametrize(
    ("tested", "benchmark", "count"),
    [
        ([NAN, 1.0], [0.0, 1.0], 1),
        ([1.0, 1.0], [1.0, INF], 1),
        ([INF, 1.0], [-INF, 1.0], 1),
        ([NAN, INF, 1.0], [INF, NAN, 1.0], 2),
        ([NAN], [1.0], 1),
    ],
)
def test_places_that_are_not_finite_in_different_ways_fail_and_are_counted(
    tested: list[float], benchmark: list[float], count: int
) -> None:
    found = judged(tested, benchmark)
    assert not found.is_right
    assert found.figures.unequal_nonfinite == count
    assert found.message == f"{count} elements are NaN or infinite on one side only"
    rest = [(t, b) for t, b in zip(tested, benchmark, strict=True) if math.isfinite(t) and math.isfinite(b)]
    assert found.figures.max_abs == (0.0 if rest else None)


def test_of_an_empty_tensor_nothing_is_known_and_it_passes() -> None:
    assert judge(result(np.zeros((2, 0))), result(np.zeros((2, 0)))) == Judgement(is_right=True, figures=Figures())


def test_other_shapes_fail_and_have_no_figures() -> None:
    found = judged(np.zeros((2, 3)), np.zeros((3, 2)))
    assert found == Judgement(is_right=False, figures=Figures(), message="its shape is (2, 3), the benchmark's (3, 2)")
    assert not judged(np.zeros(()), np.zeros(1)).is_right


@pytest.mark.parametrize(
    ("dtype", "tested", "benchmark", "gap"),
    [
        ("int64", [2**62, 5], [2**62, 5], 0.0),
        ("int64", [2**62 + 1, 5], [2**62, 5], 1.0),
        ("int64", [-(2**63), 5], [2**63 - 1, 5], float(2**64 - 1)),
        ("uint64", [2**64 - 1, 0], [2**64 - 2, 0], 1.0),
        ("int64", [7, 5], [4, 5], 3.0),
    ],
)
def test_integers_beyond_float64_are_compared_exactly(
    dtype: str, tested: list[int], benchmark: list[int], gap: float
) -> None:
    found = judged(tested, benchmark, dtype, max_abs_limit=0.5)
    assert found.figures.max_abs == gap
    assert found.is_right == (gap == 0)
    assert found.figures.units is None


def test_booleans_and_small_integers_have_figures() -> None:
    assert judged([True, False], [True, False], "bool").is_right
    found = judged([True, False], [True, True], "bool")
    assert (found.is_right, found.figures.max_abs, found.figures.max_rel) == (False, 1.0, 1.0)
    assert judged([200, 3], [200, 3], "uint8").figures.max_abs == 0.0
    assert judged([200], [3], "uint8").figures.max_abs == 197.0


def test_complex_numbers_are_pairs() -> None:
    found = figures(Held(np.array([3 + 4j]), "complex128"), Held(np.array([3 + 3j]), "complex128"))
    assert (found.max_abs, found.max_rel) == (1.0, pytest.approx(1 / 3))


def test_very_large_numbers_do_not_overflow_the_cosine() -> None:
    same = judged([1e200, -1e300], [1e200, -1e300], "float64")
    assert same.is_right
    assert same.figures.cosine == pytest.approx(1.0, rel=1e-12)
    other = figures(held([1e200, 1e200], "float64"), held([1e200, 0.0], "float64"))
    assert other.cosine == pytest.approx(1 / math.sqrt(2), rel=1e-12)
    assert not judged([1e308], [-1e308], "float64").is_right
    assert figures(held([1e200], "float64"), held([0.0], "float64")).cosine == 1.0, "as with smaller ones"


WITHIN = "within 1 ulp of"


@pytest.mark.parametrize(
    ("dtype", "benchmark", "step"),
    [
        ("float16", 1000.0, 0.5),
        ("float16", 2.0, 2.0**-9),
        ("bfloat16", 1.0, 2.0**-7),
        ("bfloat16", 300.0, 2.0),
        ("float32", 1e6, 0.0625),
        ("float64", 1e15, 0.125),
    ],
)
def test_an_error_of_one_unit_in_the_last_place_says_so(dtype: str, benchmark: float, step: float) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    assert float(np.asarray(benchmark + step).astype(kind)) == benchmark + step, "the next number of the type"
    one = judged([benchmark + step, 0.0], [benchmark, 0.0], dtype)
    assert not one.is_right
    assert one.figures.units == 1.0
    assert one.message.endswith(f"; {WITHIN} {dtype}")
    two = judged([benchmark + 2 * step, 0.0], [benchmark, 0.0], dtype)
    assert (two.figures.units, WITHIN in two.message) == (2.0, False)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_beside_a_benchmark_of_zero_the_unit_is_the_smallest_number(dtype: str) -> None:
    found = judged([3e-4, 1.0], [0.0, 1.0], dtype)
    assert not found.is_right
    assert found.figures.units is not None
    assert found.figures.units > 1000
    assert WITHIN not in found.message
    smallest = {"float16": 2.0**-24, "bfloat16": 2.0**-133}[dtype]
    assert judged([smallest], [0.0], dtype).figures.units == 1.0
    assert judged([3 * smallest], [2 * smallest], dtype).figures.units == 1.0


def test_an_error_that_passes_says_nothing_of_units() -> None:
    assert judged([1.0 + 2.0**-23], [1.0]).message == ""


@pytest.mark.parametrize(
    ("tested", "benchmark", "is_right"),
    [
        (3, 3, True),
        (3, 4, False),
        (3, 3.0, False),
        (True, 1, False),
        ("torch.FloatTensor", "torch.FloatTensor", True),
        ("Float32", "torch.FloatTensor", True),
        ("BFloat16", "torch.BFloat16Tensor", True),
        ("Int64", "torch.LongTensor", True),
        ("Float16", "torch.FloatTensor", False),
        ("Float32", "torch.SparseTensor", False),
        (False, False, True),
        ((2, 3), (2, 3), True),
        (1.0, 1.00005, True),
        (1.0, 1.001, False),
        (NAN, NAN, True),
        (NAN, 1.0, False),
        (INF, INF, True),
    ],
)
def test_plain_values_are_equal_or_within_the_limits(tested: object, benchmark: object, is_right: bool) -> None:
    found = judge(Result((0,), tested), Result((0,), benchmark))
    assert found.is_right is is_right
    assert bool(found.message) is not is_right


def test_a_tensor_is_no_number() -> None:
    found = judge(result([1.0]), Result((0,), 1.0))
    assert (found.is_right, found.message) == (False, "it is a `float32`, the benchmark a `float`")


def test_rounding_to_bfloat16_is_to_the_nearest_and_ties_go_to_even() -> None:
    every = np.arange(0x7F80, dtype=np.uint16).view(ml_dtypes.bfloat16).astype(np.float64)
    assert every[-1] == float(ml_dtypes.finfo("bfloat16").max)
    rest = (every[1:] - every[:-1]) / 2
    ties = every[:-1] + rest
    odd = np.arange(len(ties)) % 2 == 1
    low = rounded(Held(ties - rest / 4, "float64"), "bfloat16").values
    assert np.array_equal(low, every[:-1])
    assert np.array_equal(rounded(Held(ties + rest / 4, "float64"), "bfloat16").values, every[1:])
    assert np.array_equal(rounded(Held(ties, "float64"), "bfloat16").values, np.where(odd, every[1:], every[:-1]))
    assert np.array_equal(rounded(Held(-ties, "float64"), "bfloat16").values, -np.where(odd, every[1:], every[:-1]))


def test_rounding_keeps_what_it_need_not_touch() -> None:
    values = held([1.0, 1e300, NAN, -INF], "float64")
    assert rounded(values, "float64") is values
    assert rounded(values, "int32") is values
    whole = held([1], "int64")
    assert rounded(whole, "float16") is whole
    narrow = rounded(values, "float16")
    assert (narrow.dtype, narrow.values.dtype) == ("float64", np.float64)
    assert str(narrow.values.tolist()) == "[1.0, inf, nan, -inf]"
    assert rounded(held([0.1], "float64"), "float16").values.tolist() == [float(np.float16(0.1))]
    assert rounded(held([0.1, 500.0], "float64"), "float8_e4m3fn").values[0] == 0.1015625


@pytest.mark.parametrize(
    ("dtype", "bits"), [("bfloat16", 7), ("float8_e4m3fn", 3), ("float8_e5m2", 2), ("float16", 10)]
)
def test_no_value_is_rounded_twice(dtype: str, bits: int) -> None:
    """A hair beside the middle of two numbers: float32 makes it the middle, and the even one of them would follow."""
    middle, hair, step = 2.0 ** -(bits + 1), 2.0**-40, 2.0**-bits
    values = np.array([[1 + middle + hair, 1 + middle - hair, 1 + middle], [1 + step + middle - hair, 1.0, -0.0]])
    expected = [[1 + step, 1.0, 1.0], [1 + step, 1.0, 0.0]]
    for sign in (1.0, -1.0):
        found = rounded(Held(sign * values, "float64"), dtype).values
        assert (sign * found).tolist() == expected
    assert rounded(Held(values[0, 0], "float64"), dtype).values.tolist() == 1 + step


def test_what_is_beyond_float32_is_infinite_in_bfloat16() -> None:
    values = np.array([1e39, -1e300, np.inf, np.nan, 3.4e38, 1e-46])
    found = rounded(Held(values, "float64"), "bfloat16").values
    assert found[:3].tolist() == [np.inf, -np.inf, np.inf]
    assert np.isnan(found[3])
    assert found[4] == np.inf, "more than half a step above the largest number"
    assert found[5] == 0
