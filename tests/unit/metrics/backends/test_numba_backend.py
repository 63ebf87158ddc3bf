"""The compiled backend against the numpy one and against exact sums."""

from __future__ import annotations

import math
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from msgspec.structs import astuple
from numpy.typing import NDArray

from probe_flow.testing.builders import ArrayBlocks

pytest.importorskip("numba", reason="numba is not installed (extra accel)")

from probe_flow.metrics.accumulators.moments import Moments
from probe_flow.metrics.accumulators.registry import ACCUMULATORS, MeasureOptions, kinds_of
from probe_flow.metrics.accumulators.signed import Signed
from probe_flow.metrics.accumulators.significant import Significant
from probe_flow.metrics.backends import choice, compiled_code, numba_backend
from probe_flow.metrics.backends.choice import WORTH_COMPILED_BYTES, backend_named
from probe_flow.metrics.backends.compiled_code import compiled_pass
from probe_flow.metrics.kernel.compare import measure, measure_span
from probe_flow.metrics.sums.record import BLOCK, Accumulator, Record, fold

pytestmark = pytest.mark.frameworks

EVERYTHING = MeasureOptions(("masked", "moments", "signed", "significant"))
COMPILED = MeasureOptions(("masked", "moments", "signed", "significant"), backend="numba")

PAIRS = [
    ("float32", "float32"), ("float64", "float64"), ("float16", "float16"), ("bfloat16", "bfloat16"),
    ("int32", "int32"), ("int64", "int64"), ("float16", "float32"), ("float32", "float16"),
    ("bfloat16", "float32"), ("float32", "bfloat16"),
]  # fmt: skip
CONVERTED = [
    ("float16", "bfloat16"), ("float64", "float32"), ("int16", "int16"), ("uint16", "float16"), ("int8", "float32"),
    ("uint64", "uint64"), ("bool", "bool"), ("float8_e5m2", "float32"), ("int64", "float64"), ("int32", "int64"),
]  # fmt: skip


def noisy(count: int, target: str, golden: str, seed: int = 0) -> tuple[ArrayBlocks, ArrayBlocks]:
    """Return values around 0 with errors of mixed size, zeros on either side and on both."""
    rng = np.random.default_rng(seed)
    values = 40 * rng.standard_normal(count)
    errors = values * rng.choice([0.0, 1e-4, 3e-3, 0.3], count) * rng.standard_normal(count)
    found, reference = values + errors, values.copy()
    reference[::7] = 0
    found[::21] = 0
    if golden[0] in "ub":
        found, reference = np.abs(found), np.abs(reference)
    return ArrayBlocks(found, target), ArrayBlocks(reference, golden)


def assert_agree(compiled: Record, expected: Record) -> None:
    """Sums to 1e-12 of the sum of their terms' sizes, everything else exactly."""
    errors, reference = compiled.errors, expected.errors
    assert errors is not None
    assert reference is not None
    assert compiled.golden is not None
    assert expected.golden is not None
    for side, other in ((compiled.target, expected.target), (compiled.golden, expected.golden)):
        assert side._replace(total=0.0, squares=0.0) == other._replace(total=0.0, squares=0.0)
        size = math.sqrt(other.squares * other.values)
        assert side.total == pytest.approx(other.total, rel=0, abs=1e-12 * size)
        assert side.squares == pytest.approx(other.squares, rel=1e-12)
    sums = ("target_squares", "golden_squares", "golden_abs", "error_abs", "error_squares", "rel_sum", "zero_rel_sum")
    for name in sums:
        assert getattr(errors, name) == pytest.approx(getattr(reference, name), rel=1e-12), name
    size = math.sqrt(reference.target_squares * reference.golden_squares)
    assert errors.dot == pytest.approx(reference.dot, rel=0, abs=1e-12 * size)
    same = dict.fromkeys(sums, 0.0) | {"dot": 0.0}
    assert errors._replace(**same) == reference._replace(**same)
    assert len(compiled.accumulators) == len(expected.accumulators)
    for found, wanted in zip(compiled.accumulators, expected.accumulators, strict=True):
        assert_accumulators_agree(found, wanted, expected)


def assert_accumulators_agree(found: Accumulator, wanted: Accumulator, record: Record) -> None:
    """Sums to 1e-12 of the sum of their terms' sizes, counts, exponents and maxima exactly."""
    assert type(found) is type(wanted)
    if isinstance(found, Moments):
        assert record.golden is not None
        for side, other, of_side in zip(astuple(found), astuple(wanted), (record.target, record.golden), strict=True):
            assert side[:2] == other[:2]
            mean_size = math.sqrt(of_side.squares / of_side.values) if of_side.values else 0.0
            assert side.mean == pytest.approx(other.mean, rel=0, abs=1e-12 * mean_size)
            assert side.deviations == pytest.approx(other.deviations, rel=1e-12)
        return
    if isinstance(found, Signed):
        assert record.errors is not None
        assert found.exponent == wanted.exponent
        size = math.ldexp(record.errors.error_abs, record.errors.error_exponent - wanted.exponent)
        assert found.total == pytest.approx(wanted.total, rel=0, abs=1e-12 * size)
        return
    assert astuple(found) == pytest.approx(astuple(wanted), rel=1e-12)
    for name in {"elements", "max_rel", "max_abs", "exponent"} & set(found.__struct_fields__):
        assert getattr(found, name) == getattr(wanted, name)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_every_16_bit_code_becomes_its_float64_in_registers(dtype: Any) -> None:
    codes = np.arange(65536, dtype=np.uint16)
    element = "int16" if dtype is np.float16 else "uint16"
    found = np.array(compiled_pass("widened", (element,))(codes, number=0.0, figures=65536))
    with np.errstate(all="ignore"):
        expected = codes.view(dtype).astype(np.float64)
    np.testing.assert_array_equal(found, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(expected[number]))


@pytest.mark.parametrize(("target", "golden"), PAIRS + CONVERTED)
def test_the_backends_agree(target: str, golden: str) -> None:
    pair = noisy(2 * BLOCK + 777, target, golden)
    compiled = measure(*pair, COMPILED)
    assert_agree(compiled, measure(*pair, EVERYTHING))
    assert compiled.errors is not None
    assert compiled.errors.zero_misses


@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 65, 127, 128, 129, 65535, 65536, 65537, 131072, 131073])
def test_the_backends_agree_at_edges_of_lanes_and_blocks(count: int) -> None:
    for dtype in ("float32", "bfloat16"):
        pair = noisy(count, dtype, dtype, seed=count)
        assert_agree(measure(*pair, COMPILED), measure(*pair, EVERYTHING))
        plain = measure(*pair, MeasureOptions(backend="numba"))
        assert_agree(plain, measure(*pair))


def test_the_backends_agree_on_golden_values_that_are_next_to_nothing() -> None:
    target, golden = noisy(BLOCK + 777, "float32", "float32", seed=8)
    golden.array.flags.writeable = True
    golden.array[::3] *= np.float32(1e-25)
    golden.array.flags.writeable = False
    compiled, expected = measure(target, golden, COMPILED), measure(target, golden, EVERYTHING)
    assert_agree(compiled, expected)
    assert compiled.errors is not None
    significant = next(each for each in compiled.accumulators if isinstance(each, Significant))
    assert 0 < significant.max_rel < compiled.errors.max_rel


def test_compiled_sums_against_exact_ones() -> None:
    target, golden = noisy(3 * BLOCK + 5, "float32", "float32", seed=4)
    record = measure(target, golden, COMPILED)
    x, y = target.array.astype(np.float64), golden.array.astype(np.float64)
    d = np.abs(x - y)
    nonzero = y != 0
    assert record.errors is not None
    assert record.golden is not None
    for values, got in [
        (x * y, record.errors.dot),
        (x * x, record.target.squares),
        (y * y, record.golden.squares),
        (np.abs(y), record.errors.golden_abs),
        (d, record.errors.error_abs),
        (d * d, record.errors.error_squares),
        (d[nonzero] / np.abs(y[nonzero]), record.errors.rel_sum),
        (x, record.target.total),
        (y, record.golden.total),
    ]:
        exact, size = math.fsum(values.tolist()), math.fsum(np.abs(values).tolist())
        assert abs(got - exact) <= 4e-16 * (2 + 2) * size
    assert record.errors.max_abs == d.max()
    assert record.worst_index == int(np.flatnonzero(d == d.max())[0])


@pytest.mark.parametrize("places", [(3,), (64, 65), (65, 64 + 64), (4095, 130), (BLOCK - 1,), (63, 127, 62 + 128)])
def test_equal_maxima_name_the_first_place_whatever_its_lane(places: tuple[int, ...]) -> None:
    golden = np.ones(BLOCK + 30, dtype=np.float32)
    target = golden.copy()
    target[list(places)] = 3.0
    errors = measure(ArrayBlocks(target, "float32"), ArrayBlocks(golden, "float32"), COMPILED).errors
    assert errors is not None
    assert (errors.max_abs, errors.max_abs_index) == (2.0, min(places))
    assert (errors.max_rel, errors.max_rel_index) == (2.0, min(places))


def test_equal_tensors_have_their_worst_place_at_the_start() -> None:
    same = ArrayBlocks(np.arange(1, 200), "float16")
    errors = measure(same, same, COMPILED).errors
    assert errors is not None
    assert (errors.max_abs, errors.max_abs_index, errors.max_rel_index, errors.unequal) == (0.0, 0, 0, 0)
    assert errors.within_1e3 == 199


SPECIAL = [
    ([math.nan, 1.0, 2.0], [math.nan, 1.0, 2.5], "float32"),
    ([math.inf, -math.inf, 2.0], [math.inf, math.inf, 2.5], "float16"),
    ([math.inf, -math.inf], [1.0, 1.0], "bfloat16"),
    ([1.0, 1.0], [math.inf, -math.inf], "float32"),
    ([math.nan] * 70, [math.nan] * 70, "float64"),
    ([0.0] * 70, [0.0] * 70, "float32"),
    ([1e200, 3.0], [1e200, 2.0], "float64"),
    ([1e-200, 3e-200], [1e-200, 2e-200], "float64"),
    ([1.0, 1e-200], [1.0, 3e-200], "float64"),
    ([1.7e308, 1.0], [-1.7e308, 1.0], "float64"),
    ([2**53 + 1, 1], [2**53, 1], "int64"),
    ([2**63 - 1, -(2**63)], [-(2**63), 2**63 - 1], "int64"),
    ([2**64 - 1, 1], [1, 2**64 - 1], "uint64"),
    ([-(2**31), 2**31 - 1], [2**31 - 1, -(2**31)], "int32"),
    ([1 + 2j, 3 + 0j], [1 + 2j, 3 + 1j], "complex64"),
    ([True, False], [False, False], "bool"),
]


@pytest.mark.parametrize(("target", "golden", "dtype"), SPECIAL)
def test_special_values_give_what_the_numpy_backend_gives(target: Any, golden: Any, dtype: str) -> None:
    pair = ArrayBlocks(target, dtype), ArrayBlocks(golden, dtype)
    assert_agree(measure(*pair, COMPILED), measure(*pair, EVERYTHING))


def test_extremes_of_integers_are_integers() -> None:
    record = measure(ArrayBlocks([5, -3], "int32"), ArrayBlocks([True, False], "bool"), COMPILED)
    assert record.golden is not None
    assert [type(value) for value in (record.target.high, record.golden.high)] == [int, bool]
    assert type(measure(*noisy(9, "int64", "int64"), COMPILED).target.low) is int


@settings(max_examples=60, deadline=None)
@given(data=st.data(), count=st.integers(1, 200))
def test_any_float32_values_agree(data: st.DataObject, count: int) -> None:
    elements = st.floats(width=32) | st.sampled_from([0.0, -0.0, 1.0, 1.001, math.nan, math.inf, 1e-45])
    target, golden = (data.draw(arrays.arrays(np.float32, count, elements=elements)) for _ in range(2))
    pair = ArrayBlocks(target, "float32"), ArrayBlocks(golden, "float32")
    assert_agree(measure(*pair, COMPILED), measure(*pair, EVERYTHING))


@pytest.mark.parametrize("size", [1, 3, 16])
def test_any_split_over_threads_gives_the_same_bits(size: int) -> None:
    target, golden = noisy(19 * BLOCK + 12_345, "bfloat16", "float32")
    values = target.array.copy()
    values[[5, 3 * BLOCK]] = [np.nan, np.inf]
    target = ArrayBlocks(values, "bfloat16")
    spans = [(first, min(size, 20 - first)) for first in range(0, 20, size)]
    random.Random(size).shuffle(spans)
    with ThreadPoolExecutor(2) as pool:
        records = list(pool.map(lambda span: measure_span(target, golden, *span, COMPILED), spans))
    assert repr(fold(records)) == repr(measure(target, golden, COMPILED))


def test_views_of_any_kind_give_the_same_record_and_are_not_written() -> None:
    target, golden = noisy(1000, "float32", "float32")
    raw = np.zeros(4001, dtype=np.uint8)
    raw[1:] = target.array.view(np.uint8)
    unaligned: NDArray[Any] = raw[1:].view(np.float32)
    writable, strided, swapped = target.array.copy(), np.repeat(target.array, 2)[::2], target.array.astype(">f4")
    expected = measure(target, golden, COMPILED)
    for values in (unaligned, writable, strided, swapped):
        before, flags = values.tobytes(), values.flags.writeable
        side = ArrayBlocks([], "float32")
        side.array, side.numel = values, 1000
        assert_agree(measure(side, golden, COMPILED), expected)
        assert (values.tobytes(), values.flags.writeable) == (before, flags)


def test_auto_takes_numba_for_much_work_once_its_passes_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "is_compiled", lambda _accumulators: True)
    assert backend_named("auto", WORTH_COMPILED_BYTES).name == "numba"
    assert backend_named(COMPILED.backend).label == f"numba {numba_backend.VERSION}"


@pytest.mark.parametrize("name", [name for name in ACCUMULATORS if kinds_of((name,)).of_blocks])
def test_every_pass_that_runs_is_one_of_those_that_are_compiled_ahead(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead, run = set(numba_backend.passes_with(kinds_of((name,)).of_blocks)), set()

    def seen(*asked: Any) -> Any:
        run.add(asked)
        return compiled_pass(*asked)

    monkeypatch.setattr(compiled_code, "compiled_pass", seen)
    for target, golden in PAIRS + CONVERTED:
        sides = noisy(500, target, golden)
        if golden == "float32":
            sides[1].array.flags.writeable = True
            sides[1].array[::3] = 1e-25  # next to nothing: some have a pass of their own for it
        measure(*sides, MeasureOptions((name,), backend="numba"))
    assert run <= ahead
    assert {what for what, _ in run} == {what for what, _ in ahead}
