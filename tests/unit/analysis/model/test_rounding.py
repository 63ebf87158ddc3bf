"""Values that were in 16 bits before: what numpy rounds, and bit counts by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from comparison_rows import row, statistics, statistics_measured
from hypothesis import given
from hypothesis import strategies as st

from probe_flow.analysis.model.deviation import deviation_of
from probe_flow.analysis.model.rounding import UNIT, nearest_record, rounded_before

computed = st.floats(2.0**-10, 400.0, width=32)


def in_bfloat16(value: float) -> float:
    bits = int(np.float32(value).view(np.uint32))
    return float(np.uint32((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32))


@given(computed, computed)
def test_what_was_rounded_before_is_told(low, high):
    for dtype, extremes in (
        ("bfloat16", (in_bfloat16(-low - 0.3), in_bfloat16(high + 0.3))),
        ("float16", (float(np.float16(-low - 0.3)), float(np.float16(high + 0.3)))),
    ):
        found = rounded_before((*extremes, *extremes), UNIT)
        if all((math.frexp(each)[0] * 16.0).is_integer() or each.is_integer() for each in extremes):
            assert found == 0.0  # four bits and integers may be meant
        else:
            assert found in ((UNIT["bfloat16"],) if dtype == "bfloat16" else (UNIT["float16"], UNIT["bfloat16"]))


@pytest.mark.parametrize(
    "extremes",
    [
        (-2.046875, 1.84375, -2.046875, 1.8437501),  # one side was computed in float32
        (-0.1, 0.1, -0.1, 0.1),
        (0.0, 1.0, 0.0, 1.0),  # masks
        (0.0, 255.0, 0.0, 251.0),  # pixels
        (-1.0, 0.0625, -1.0, 0.0625),
        (1.0, None, 1.0, None),
        (None, 1.1484375, None, 1.1406249),  # masked scores: one of the largest values was computed in float32
        (None, None, None, 1.1484375),  # of one side alone
        (0.0, 0.0, 0.0, 0.0),
        (2.0**-30 * 1029, 0.5, 2.0**-30 * 1029, 0.5),  # eleven bits below the range of float16
    ],
)
def test_what_was_not_keeps_its_own_rounding(extremes):
    assert rounded_before(extremes, UNIT) == 0.0


def test_a_float32_tensor_of_bfloat16_values_may_differ_by_its_steps():
    def deviation(*extremes):
        sides = [statistics(min=extremes[0], max=extremes[1], mean=0.2, l2norm=norm) for norm in (40.14, 40.15)]
        return deviation_of(row(dtype="float32", measurement=statistics_measured(*sides)))

    assert deviation(-2.046875, 1.84375).unit == UNIT["bfloat16"]
    assert deviation(-2.046875, 1.8437501).unit == UNIT["float32"]


def test_records_on_the_grid_of_their_type_may_be_one_step_apart():
    assert nearest_record(32.25, 32.0) == 32.0  # a step of bfloat16 from 32 to 64 is 2**5 / 2**7
    assert nearest_record(32.0, 32.25) == 32.25
    assert nearest_record(32.5, 32.0) == 32.25
    assert nearest_record(-0.26171875, -0.2578125) == -0.259765625  # two steps of 2**-9
    assert nearest_record(1.0009765625, 1.0) == 1.0  # eleven bits: a step of float16
    assert nearest_record(32.2500001, 32.0) == 32.2500001
    assert nearest_record(None, 1.0) is None
    assert nearest_record(0.0, 0.0) == 0.0


@pytest.mark.parametrize(("dtype", "gain"), [("bfloat16", 0.0), ("float32", 2.0**-7)])
def test_only_norms_of_16_bits_are_taken_for_rounded(dtype, gain):
    sides = [statistics(l2norm=norm) for norm in (32.25, 32.0)]
    assert deviation_of(row(dtype=dtype, measurement=statistics_measured(*sides))).gain == pytest.approx(gain)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_one_extreme_of_both_sides_tells_of_masked_scores(dtype):
    """1.1484375 is 147 / 128, eight bits; 1.1416015625 is 1169 / 1024, eleven."""
    largest = {"bfloat16": 1.1484375, "float16": 1.1416015625}[dtype]
    assert rounded_before((None, largest, None, 1.140625), UNIT) == UNIT[dtype]


def test_records_of_16_bits_that_agree_leave_a_step_open():
    """Norms of 11.25 and 11.1875 are neighbours in bfloat16; 11.2471 is a float32 number."""

    def blind(target, golden, **more):
        sides = [statistics(l2norm=norm) for norm in (target, golden)]
        return deviation_of(row(measurement=statistics_measured(*sides), **more)).blind

    assert blind(11.25, 11.1875, dtype="bfloat16") == UNIT["bfloat16"]
    assert blind(11.25, 11.25, dtype="bfloat16") == UNIT["bfloat16"]
    assert blind(11.25, 11.2471, dtype="bfloat16") == 0.0
    assert blind(11.25, 11.25, dtype="bfloat16", golden_dtype="float32") == 0.0
    assert blind(11.25, 11.25, dtype="float16") == UNIT["float16"]
