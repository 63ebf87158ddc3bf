"""Statistics of one tensor: by hand, against numpy, on every dtype, and each element read once."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, field
from typing import get_args

import ml_dtypes
import numpy as np
import pytest

from probe_flow.metrics import reduction
from probe_flow.metrics.reduction import STATISTICS, needs_sums, reduce_blocks
from probe_flow.metrics.sums.record import BLOCK
from probe_flow.stages.reduce.reduce_options import Statistic

RNG = np.random.default_rng(11)
FLOATS = ["float16", "float32", "float64", ml_dtypes.bfloat16]
SIZES = [1, 2, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 300_001]


@dataclass
class Array:
    values: np.ndarray
    reads: list[tuple[int, int]] = field(default_factory=list)

    @property
    def numel(self):
        return self.values.size

    @property
    def dtype(self):
        return str(self.values.dtype)

    def read(self, start, stop):
        self.reads.append((start, stop))
        return self.values.reshape(-1)[start:stop]


def figures(values, statistics=STATISTICS):
    return dict(zip(statistics, reduce_blocks(Array(np.asarray(values)), statistics).figures, strict=True))


def test_by_hand():
    assert figures(np.array([3.0, -4.0, 0.0, 0.0], np.float32)) == {
        "min": -4.0, "max": 3.0, "mean": -0.25, "l2norm": 5.0, "count": 4.0, "nan_count": 0.0, "inf_count": 0.0,
        "crc32": float(zlib.crc32(np.array([3.0, -4.0, 0.0, 0.0], "<f4").tobytes())),
    }  # fmt: skip


def test_the_options_of_the_stage_name_every_statistic():
    assert get_args(Statistic) == STATISTICS


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shift", [0, 50, -50])
@pytest.mark.parametrize("size", SIZES)
def test_extremes_and_sums_are_those_of_numpy(dtype, shift, size):
    values = (RNG.standard_normal(size) * 9 + shift).astype(dtype)
    wide = values.astype(np.float64)
    found = figures(values)
    assert (found["min"], found["max"]) == (wide.min(), wide.max())
    assert found["mean"] == pytest.approx(wide.mean(), rel=1e-9, abs=1e-12)
    assert found["l2norm"] == pytest.approx(np.linalg.norm(wide), rel=1e-9)
    assert found["count"] == size


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_extremes_of_all_bit_patterns_of_one_sign_and_of_both(dtype):
    special = np.array([0.0, -0.0, 1e-7, -1e-7, 1.0, -1.0, math.inf, -math.inf], np.float32).astype(dtype)
    for mask in range(1, 2**special.size):
        values = special[[bool(mask >> bit & 1) for bit in range(special.size)]]
        found = figures(values, ("min", "max"))
        assert (found["min"], found["max"]) == (values.astype(float).min(), values.astype(float).max())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_nan_of_either_sign_spoils_all_but_the_counts(dtype, sign):
    values = np.ones(BLOCK + 5).astype(dtype)
    values[BLOCK + 2] = np.array(math.copysign(math.nan, sign)).astype(dtype)
    found = figures(values)
    assert all(math.isnan(found[name]) for name in ("min", "max", "mean", "l2norm"))
    assert (found["nan_count"], found["inf_count"], found["count"]) == (1, 0, BLOCK + 5)
    assert reduce_blocks(Array(values), ("min",)).has_nan


@pytest.mark.parametrize(
    ("values", "mean"),
    [([1, math.inf], math.inf), ([1, -math.inf], -math.inf), ([math.inf, -math.inf], math.nan)],
)
def test_infinities_stay_infinite(values, mean):
    found = figures(np.array(values, np.float32))
    assert found["l2norm"] == math.inf
    assert found["inf_count"] == sum(math.isinf(value) for value in values)
    assert found["mean"] == pytest.approx(mean, nan_ok=True)


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "bool", "complex64"], ids=str)
def test_no_elements_have_no_extremes(dtype):
    found = figures(np.empty(0, dtype))
    assert all(math.isnan(found[name]) for name in ("min", "max", "mean"))
    assert (found["count"], found["l2norm"], found["crc32"]) == (0, 0, 0)


def test_bools_count_as_zero_and_one():
    found = figures(np.array([True, False, True]))
    assert (found["min"], found["max"], found["mean"]) == (0, 1, pytest.approx(2 / 3))


@pytest.mark.parametrize(
    ("values", "is_rounded"), [([2**53, -5], False), ([2**53 + 1], True), ([-(2**62) - 1, 0], True)]
)
def test_integers_beyond_float64_are_told(values, is_rounded):
    found = reduce_blocks(Array(np.array(values, np.int64)), ("min", "max"))
    assert found.is_rounded is is_rounded
    assert found.figures == (float(min(values)), float(max(values)))


def test_unsigned_64_bit_integers_do_not_turn_negative():
    assert figures(np.array([2**64 - 1, 1], np.uint64), ("min", "max")) == {"min": 1.0, "max": float(2**64 - 1)}


def test_complex_numbers_are_their_parts():
    found = figures(np.array([1 + 5j, -2 - 7j], np.complex64), ("min", "max"))
    assert found == {"min": -7.0, "max": 5.0}


def test_the_checksum_of_bfloat16_is_that_of_float32():
    values = RNG.standard_normal(BLOCK + 9).astype(ml_dtypes.bfloat16)
    assert figures(values, ("crc32",)) == figures(values.astype(np.float32), ("crc32",))


def test_big_endian_blocks_give_the_same():
    values = RNG.standard_normal(100).astype(np.float32)
    assert figures(values.astype(">f4")) == figures(values)


@pytest.mark.parametrize("statistics", [("min", "max"), ("crc32",), ("mean", "min", "crc32"), STATISTICS])
def test_each_element_is_read_once_and_in_order(statistics):
    source = Array(np.zeros(1_000_003, np.float16))
    reduce_blocks(source, statistics)
    ends = [0, *(stop for _, stop in source.reads)]
    assert [start for start, _ in source.reads] == ends[:-1]
    assert ends[-1] == 1_000_003


def test_blocks_stay_small_however_large_the_tensor_is():
    source = Array(np.zeros(3_000_000, np.float32))
    reduce_blocks(source, ("min", "max"))
    assert max(stop - start for start, stop in source.reads) * 4 <= max(reduction.WINDOW_BYTES, BLOCK * 4)


def test_inputs_are_not_written():
    values = RNG.standard_normal(1000).astype(np.float32)
    before = values.copy()
    values.flags.writeable = False  # a write would raise
    figures(values)
    assert np.array_equal(values, before)


def test_sums_are_told_from_extremes():
    assert needs_sums(["min", "mean"])
    assert not needs_sums(["min", "max", "count", "crc32"])
