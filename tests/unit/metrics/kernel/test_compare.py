"""The kernel: exact sums, the same bits on any split, bounded memory, and nothing written to its inputs."""

from __future__ import annotations

import math
import pickle
import random
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from msgspec.structs import astuple
from numpy.typing import NDArray

from probe_flow.errors import NotComparableError
from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.metrics.catalogue.derive import derive, side_summary
from probe_flow.metrics.kernel.compare import (
    measure,
    measure_span,
    relative_eps,
    summarise,
    summarise_span,
)
from probe_flow.metrics.kernel.kept_blocks import KEPT_BYTES
from probe_flow.metrics.sums.block_sums import Scratch, load
from probe_flow.metrics.sums.record import BLOCK, EPS32, EPS64, Record, fold
from probe_flow.testing.builders import ArrayBlocks

EVERYTHING = MeasureOptions(("masked", "moments", "significant"))
OFFLINE = MeasureOptions(("moments", "significant"))


class Parts:
    """Tensors too large to copy: a view, not made read-only."""

    def __init__(self, array: NDArray[Any], dtype: str) -> None:
        self.array, self.dtype, self.numel = array, dtype, array.size

    def read(self, start: int, stop: int) -> NDArray[Any]:
        return self.array[start:stop]


def noisy_pair(count: int, seed: int = 0, dtype: str = "float32") -> tuple[Parts, Parts]:
    rng = np.random.default_rng(seed)
    golden = rng.standard_normal(count, dtype=np.float32)
    target = golden + np.float32(1e-3) * rng.standard_normal(count, dtype=np.float32)
    golden[:: 1 + count // 7] = 0
    numpy_type = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    return Parts(target.astype(numpy_type), dtype), Parts(golden.astype(numpy_type), dtype)


def in_spans(target: Parts, golden: Parts, size: int, seed: int) -> Record:
    """Measure in tasks of ``size`` blocks, on three threads, completing in random order."""
    blocks = -(-target.numel // BLOCK)
    spans = [(first, min(size, blocks - first)) for first in range(0, blocks, size)]
    random.Random(seed).shuffle(spans)
    with ThreadPoolExecutor(3) as pool:
        records = list(pool.map(lambda span: measure_span(target, golden, *span, EVERYTHING), spans))
    return fold(pickle.loads(pickle.dumps(records)))


@pytest.mark.parametrize("size", [1, 3, 16, 77])
def test_any_split_gives_the_same_bits(size: int) -> None:
    target, golden = noisy_pair(41 * BLOCK + 12_345)
    target.array[[5, 3 * BLOCK]] = [np.nan, np.inf]
    assert repr(in_spans(target, golden, size, seed=size)) == repr(measure(target, golden, EVERYTHING))


def test_any_split_of_values_of_very_different_size_gives_the_same_bits() -> None:
    rng = np.random.default_rng(3)
    golden = rng.standard_normal(9 * BLOCK + 7) * np.repeat(10.0 ** rng.integers(-250, 250, 10), BLOCK)[: 9 * BLOCK + 7]
    golden[4 * BLOCK : 5 * BLOCK] = 0
    target = golden * (1 + 1e-6 * rng.standard_normal(golden.size))
    pair = Parts(target, "float64"), Parts(golden, "float64")
    whole = measure(*pair, EVERYTHING)
    assert repr(in_spans(*pair, 2, seed=1)) == repr(in_spans(*pair, 3, seed=2)) == repr(whole)
    values = derive(whole, ["relative_euclidean_distance", "mean_abs_err"])
    big = np.abs(golden).max()
    norms = [math.sqrt(math.fsum(((v / big) ** 2).tolist())) for v in (target - golden, golden)]
    assert values["relative_euclidean_distance"] == pytest.approx(norms[0] / norms[1], rel=1e-12)
    assert whole.errors is not None
    sum_abs = math.ldexp(whole.errors.golden_abs, whole.errors.golden_exponent)
    assert sum_abs == pytest.approx(math.fsum(np.abs(golden).tolist()), rel=1e-12)
    assert values["mean_abs_err"] == pytest.approx(math.fsum(np.abs(target - golden).tolist()) / golden.size, rel=1e-12)


def test_one_sided_statistics_are_those_of_the_pair_on_any_split() -> None:
    target, golden = noisy_pair(5 * BLOCK + 1)
    whole = summarise(target)
    spans = [summarise_span(target, first, 1) for first in range(6)]
    assert repr(fold(spans)) == repr(whole)
    assert repr(whole.target) == repr(measure(target, golden, EVERYTHING).target)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 65535, 65536, 65537, 131072, 131073])
def test_sizes_around_block_edges_against_exact_sums(count: int) -> None:
    target, golden = noisy_pair(count, seed=count)
    record = measure(target, golden)
    x, y = target.array.astype(np.float64), golden.array.astype(np.float64)
    d = np.abs(x - y)
    errors = record.errors
    assert errors is not None
    assert record.golden is not None
    assert record.numel == errors.compared == count
    bound = 4e-16 * (2 + 2)
    for values, got in [
        (x * y, errors.dot),
        (x * x, errors.target_squares),
        (y * y, errors.golden_squares),
        (np.abs(y), errors.golden_abs),
        (d, errors.error_abs),
        (d * d, errors.error_squares),
        (x, record.target.total),
        (y, record.golden.total),
    ]:
        exact, size = math.fsum(values.tolist()), math.fsum(np.abs(values).tolist())
        assert abs(got - exact) <= bound * size
    if count:
        assert errors.max_abs == d.max()
        assert errors.max_abs_index == int(np.flatnonzero(d == d.max())[0])
        assert (record.target.low, record.target.high) == (x.min(), x.max())
        assert errors.unequal == sum(a != b for a, b in zip(x.tolist(), y.tolist(), strict=True))


def test_offset_data_keep_their_standard_deviation() -> None:
    rng = np.random.default_rng(1)
    values = 1e4 + 1e-3 * rng.standard_normal(BLOCK + 4_001)
    record = measure(Parts(values, "float64"), Parts(values, "float64"), EVERYTHING)
    exact = [Fraction(v) for v in values.tolist()]
    mean = sum(exact) / len(exact)
    variance = float(sum((v - mean) ** 2 for v in exact) / len(exact))
    assert derive(record, ["std_target"])["std_target"] == pytest.approx(math.sqrt(variance), rel=1e-9)


def test_blocks_with_means_of_their_own_join_to_the_exact_deviation() -> None:
    values = np.repeat([1.0, -7.0, 3.0], [BLOCK, BLOCK, 1_000]) + np.tile([0.25, -0.25], BLOCK + 500)
    record = measure(Parts(values, "float64"), Parts(values, "float64"), EVERYTHING)
    count = values.size
    mean = Fraction(BLOCK - 7 * BLOCK + 3_000, count)
    squares = sum(
        n * ((centre + sign - mean) ** 2)
        for centre, size in ((1, BLOCK), (-7, BLOCK), (3, 1_000))
        for sign, n in ((Fraction(1, 4), size // 2), (Fraction(-1, 4), size // 2))
    )
    values_found = derive(record, ["mean_target", "std_golden"])
    assert values_found["mean_target"] == pytest.approx(float(mean), rel=1e-15)
    assert values_found["std_golden"] == pytest.approx(math.sqrt(squares / count), rel=1e-14)


def test_sides_of_different_size_keep_their_own_scale() -> None:
    target = np.ones(2 * BLOCK)
    golden = np.repeat([1e200, 1.0], BLOCK)
    errors = measure(Parts(target, "float64"), Parts(golden, "float64")).errors
    assert errors is not None
    assert math.ldexp(errors.golden_abs, errors.golden_exponent) == pytest.approx(1e200 * BLOCK, rel=1e-14)
    assert math.ldexp(errors.target_squares, 2 * errors.target_exponent) == 2 * BLOCK
    assert math.ldexp(errors.dot, errors.target_exponent + errors.golden_exponent) == pytest.approx(1e200 * BLOCK)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int32"])
@pytest.mark.parametrize("count", [1, 7, 256, 8192, 8193, BLOCK + 300])
@pytest.mark.parametrize("options", [EVERYTHING, OFFLINE])
def test_extra_figures_do_not_change_the_others(dtype: str, count: int, options: MeasureOptions) -> None:
    target, golden = noisy_pair(count, dtype=dtype)
    target.array[count // 3] += 3
    plain, full = measure(target, golden), measure(target, golden, options)
    assert len(full.accumulators) == len(options.accumulators)
    assert repr(plain) == repr(full._replace(accumulators=()))


@pytest.mark.parametrize("count", [5, 8192, 8193, BLOCK + 300])
def test_what_is_found_in_a_block_does_not_depend_on_what_else_is_looked_for(count: int) -> None:
    target, golden = noisy_pair(count)
    golden.array[::3] *= np.float32(1e-25)
    golden.array[1::5] = 0
    both, everything = measure(target, golden, OFFLINE), measure(target, golden, EVERYTHING)
    assert set(both.accumulators) < set(everything.accumulators)
    found = {each.name: each for each in both.accumulators}
    beyond = np.abs(golden.array.astype(np.float64)) > 2.0**-52
    ratios = np.abs(target.array.astype(np.float64) - golden.array)[beyond] / np.abs(golden.array)[beyond]
    assert astuple(found["significant"]) == pytest.approx(
        (int(beyond.sum()), ratios.sum(), max(ratios, default=0.0)), rel=1e-12
    )


class Counted(Parts):
    """Counts the elements that are read."""

    read_elements = 0

    def read(self, start: int, stop: int) -> NDArray[Any]:
        self.read_elements += stop - start
        found: NDArray[Any] = super().read(start, stop).copy()
        return found


def test_a_second_pass_reads_again_only_what_was_not_kept() -> None:
    kept = KEPT_BYTES // 8
    for count, expected in ((3 * BLOCK + 5, 3 * BLOCK + 5), (kept + BLOCK, kept + 2 * BLOCK)):
        values = np.arange(count, dtype=np.float64)
        target, golden = Counted(values, "float64"), Counted(values[::-1], "float64")
        measure(target, golden, MeasureOptions(("minmax",)))
        assert (target.read_elements, golden.read_elements) == (expected, expected)


def test_minmax_pass_over_block_edges_and_special_values() -> None:
    rng = np.random.default_rng(6)
    golden = rng.standard_normal(2 * BLOCK + 5)
    target = golden + 0.01 * rng.standard_normal(golden.size)
    target[3], golden[BLOCK + 2], golden[-1], target[-2] = math.nan, math.inf, 1e9, -math.inf
    record = measure(Parts(target, "float64"), Parts(golden, "float64"), MeasureOptions(("minmax",)))
    both = np.isfinite(target) & np.isfinite(golden)
    p, q = ((v - v.min()) / (v.max() - v.min()) for v in (target[both], golden[both]))
    p, q = (np.maximum(v, 1.1920929e-07) for v in (p, q))
    p, q = p / p.sum(), q / q.sum()
    assert derive(record, ["kl_minmax"])["kl_minmax"] == pytest.approx(float((p * np.log(p / q)).sum()), abs=1e-12)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_one_special_value_is_seen_at_any_size(dtype: str, value: float) -> None:
    for count in (10, 9000):
        target, golden = noisy_pair(count, dtype=dtype)
        target.array[count // 2] = value
        record = measure(target, golden)
        assert sum(record.target[1:4]) == 1
        assert record.errors is not None
        assert (record.errors.mismatched, record.errors.compared) == (1, count - 1)


def test_the_first_missed_zero_is_named() -> None:
    target = np.zeros(3 * BLOCK, dtype=np.float32)
    target[[BLOCK + 7, BLOCK + 8, 2 * BLOCK + 1]] = [1, 9, 2]
    errors = measure(Parts(target, "float32"), Parts(np.zeros_like(target), "float32")).errors
    assert errors is not None
    assert (errors.zero_misses, errors.zero_miss_index, errors.max_rel_index) == (3, BLOCK + 7, 0)


@pytest.mark.parametrize(
    ("target", "golden", "eps"),
    [
        ("float16", "bfloat16", EPS32), ("float32", "float8_e5m2", EPS32), ("complex64", "float32", EPS32),
        ("float64", "float32", EPS64), ("float32", "int8", EPS64), ("bool", "bool", EPS64),
        ("complex128", "complex64", EPS64),
    ],
)  # fmt: skip
def test_eps_follows_the_wider_dtype(target: str, golden: str, eps: float) -> None:
    assert relative_eps(target, golden) == eps


def test_integer_counts_and_indices_against_a_loop() -> None:
    rng = np.random.default_rng(2)
    golden = rng.integers(-3, 4, BLOCK + 99)
    target = golden + rng.integers(-1, 2, golden.size) * (rng.random(golden.size) < 0.01)
    target[[70, BLOCK + 9]] = golden[[70, BLOCK + 9]] + 5
    errors = measure(Parts(target, "int64"), Parts(golden, "int64")).errors
    assert errors is not None
    unequal = within = misses = 0
    first_miss = -1
    for place, (t, g) in enumerate(zip(target.tolist(), golden.tolist(), strict=True)):
        unequal += t != g
        within += abs(t - g) * 1000 < abs(g) or t == g
        if g == 0 and t != 0:
            first_miss = place if not misses else first_miss
            misses += 1
    assert (errors.unequal, errors.within_1e3, errors.zero_misses) == (unequal, within, misses)
    assert errors.zero_miss_index == first_miss
    assert (errors.max_abs, errors.max_abs_index) == (5, 70)


def test_equal_maxima_name_the_first_place() -> None:
    target = np.zeros(3 * BLOCK, dtype=np.float32)
    target[[BLOCK + 4, BLOCK + 9, 2 * BLOCK]] = 2.0
    record = measure(Parts(target, "float32"), Parts(np.zeros_like(target), "float32"))
    assert record.worst_index == BLOCK + 4


def all_codes(dtype: Any) -> NDArray[Any]:
    return np.arange(65536, dtype=np.uint16).view(dtype)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_every_16_bit_code_becomes_its_float64(dtype: Any) -> None:
    codes = all_codes(dtype)
    with np.errstate(all="ignore"):
        expected = codes.astype(np.float32).astype(np.float64)
        scratch = Scratch()
        wide, _ = load(codes, scratch.target, scratch)
        finite = np.isfinite(expected)
        clean, bounds = load(codes[finite], scratch.golden, scratch)
    np.testing.assert_array_equal(wide, expected)
    np.testing.assert_array_equal(clean, expected[finite])
    np.testing.assert_array_equal(np.signbit(clean), np.signbit(expected[finite]))
    assert bounds == (expected[finite].min(), expected[finite].max())


@pytest.mark.parametrize(("dtype", "nan"), [("float16", 2046), ("bfloat16", 254)])
def test_every_16_bit_code_is_measured(dtype: str, nan: int) -> None:
    codes = all_codes(ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16)
    record = measure(Parts(codes, dtype), Parts(codes, dtype))
    assert (record.target.nan, record.target.positive_inf, record.target.negative_inf) == (nan, 1, 1)
    assert record.errors is not None
    assert (record.errors.mismatched, record.errors.unequal, record.errors.max_abs) == (0, 0, 0.0)
    with np.errstate(all="ignore"):
        values = codes.astype(np.float32).astype(np.float64)
    finite = values[np.isfinite(values)]
    summary = side_summary(record.target).statistics
    assert summary.l2norm == pytest.approx(math.sqrt(math.fsum((finite * finite).tolist())), rel=1e-14)
    assert (summary.min, summary.max, summary.inf) == (finite.min(), finite.max(), 2)


def test_nonfinite_values_are_counted_by_kind_side_and_sign() -> None:
    nan, inf = math.nan, math.inf
    target = ArrayBlocks([nan, inf, inf, -inf, nan, 1.0, 2.0, 0.5], "float32")
    golden = ArrayBlocks([nan, inf, -inf, -inf, 3.0, nan, 2.0, 0.25], "float32")
    record = measure(target, golden)
    assert record.golden is not None
    assert record.errors is not None
    assert record.target[1:4] == (2, 2, 1)
    assert record.golden[1:4] == (2, 1, 2)
    assert record.errors.mismatched == 3
    assert record.errors.unequal == 4
    assert record.errors.compared == 2
    assert (record.errors.max_abs, record.worst_index) == (0.25, 7)
    assert side_summary(record.golden).statistics.min == 0.25


def test_a_block_of_nothing_but_nan_leaves_the_others_alone() -> None:
    target, golden = noisy_pair(3 * BLOCK)
    rest = measure(Parts(target.array[BLOCK:], "float32"), Parts(golden.array[BLOCK:], "float32"))
    target.array[:BLOCK] = np.nan
    record = measure(target, golden)
    assert record.errors is not None
    assert rest.errors is not None
    assert record.target.nan == record.errors.mismatched == BLOCK
    assert record.errors.max_abs == rest.errors.max_abs
    assert record.worst_index == rest.errors.max_abs_index + BLOCK
    assert record.errors.error_squares == pytest.approx(rest.errors.error_squares, rel=1e-14)


def test_complex_special_values_agree_only_part_by_part() -> None:
    inf, nan = math.inf, math.nan
    target = ArrayBlocks([complex(inf, 1), complex(1, -inf), complex(nan, 1), 1j], "complex64")
    golden = ArrayBlocks([complex(inf, 2), complex(1, -inf), complex(1, nan), 1j], "complex64")
    record = measure(target, golden)
    assert record.errors is not None
    assert record.errors.mismatched == 1
    assert record.target[:4] == (1, 1, 1, 1)


def test_integer_and_bool_extremes_stay_exact() -> None:
    ints = side_summary(summarise(ArrayBlocks([2**53 + 1, 2**62 + 1, 3], "int64")).target).statistics
    assert (ints.min, ints.max) == (3, 2**62 + 1)
    bools = side_summary(summarise(ArrayBlocks([True, False], "bool")).target).statistics
    assert bools.min is False
    assert bools.max is True
    against_nan = measure(ArrayBlocks([2**53 + 1, 1], "int64"), ArrayBlocks([math.nan, 1.0], "float64"))
    assert against_nan.target.high == 2**53 + 1


def test_an_empty_pair_has_statistics_without_values() -> None:
    record = fold([measure_span(ArrayBlocks([], "float32"), ArrayBlocks([], "float32"), 0, 0, EVERYTHING)])
    assert record.numel == 0
    assert record.worst_index is None
    summary = side_summary(record.target).statistics
    assert (summary.min, summary.max, summary.mean, summary.l2norm, summary.nan) == (None, None, None, None, 0)
    assert summarise(ArrayBlocks([], "complex64")).numel == 0


def test_views_of_any_alignment_and_byte_order_give_the_same_record() -> None:
    target, golden = noisy_pair(1000)
    raw = np.zeros(4001, dtype=np.uint8)
    raw[1:] = target.array.view(np.uint8)
    unaligned = Parts(raw[1:].view(np.float32), "float32")
    swapped = Parts(target.array.astype(">f4"), "float32")
    expected = repr(measure(target, golden))
    assert repr(measure(unaligned, golden)) == repr(measure(swapped, golden)) == expected


def test_inputs_are_never_written() -> None:
    for dtype in ("float32", "float64", "float16", "bfloat16", "int64", "complex64", "bool"):
        target, golden = ArrayBlocks([0, 1, 1, 0], dtype), ArrayBlocks([1, 1, 0, 0], dtype)
        before = target.array.tobytes(), golden.array.tobytes()
        measure(target, golden, MeasureOptions(("masked", "minmax", "moments", "significant", "softmax")))
        measure(target, golden, MeasureOptions(("moments", "significant")))
        assert (target.array.tobytes(), golden.array.tobytes()) == before


def test_memory_does_not_grow_with_the_tensor() -> None:
    target, golden = noisy_pair(40 * BLOCK)
    scratch = Scratch()
    measure(target, golden, EVERYTHING, scratch)
    tracemalloc.start()
    try:
        measure(target, golden, MeasureOptions(), scratch)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 256 * 1024  # less than half of one block of float64


def test_softmax_pass_over_block_edges() -> None:
    rng = np.random.default_rng(6)
    golden = rng.standard_normal(2 * BLOCK + 5)
    target = golden + 0.01 * rng.standard_normal(golden.size)
    pair = Parts(target, "float64"), Parts(golden, "float64")
    record = measure(*pair, MeasureOptions(("softmax",)))
    p, q = np.exp(golden - golden.max()), np.exp(target - target.max())
    p, q = p / p.sum(), q / q.sum()
    assert derive(record, ["kl_softmax"])["kl_softmax"] == pytest.approx(float((p * np.log(p / q)).sum()), abs=1e-12)


def test_different_counts_are_refused() -> None:
    with pytest.raises(NotComparableError) as caught:
        measure(ArrayBlocks([1, 2], "float32"), ArrayBlocks([1], "float32"))
    assert caught.value.diagnostic.code == "PF5102"


def test_blocks_outside_the_tensor_are_refused() -> None:
    target, golden = noisy_pair(10)
    for first, count in ((0, 2), (1, 1), (-1, 1)):
        with pytest.raises(ValueError, match="blocks"):
            measure_span(target, golden, first, count)


def test_a_read_of_the_wrong_size_is_refused() -> None:
    class Short(ArrayBlocks):
        def read(self, start: int, stop: int) -> NDArray[Any]:
            return self.array[start : stop - 1]

    with pytest.raises(ValueError, match="asked for"):
        measure(Short([1, 2], "float32"), ArrayBlocks([1, 2], "float32"))


def test_missing_and_doubled_spans_are_refused() -> None:
    target, golden = noisy_pair(3 * BLOCK)
    spans = [measure_span(target, golden, first, 1) for first in range(3)]
    with pytest.raises(ValueError, match="missing"):
        fold([spans[0], spans[2]])
    with pytest.raises(ValueError, match="twice"):
        fold([spans[0], spans[1], spans[1], spans[2]])
    with pytest.raises(ValueError, match="no block"):
        fold([])
