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
