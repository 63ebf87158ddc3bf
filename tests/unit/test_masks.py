"""What counts as a mask: limits of types, infinities, and numbers that programs write, with a score beside them."""

import math

import numpy as np
import pytest

from probe_flow.masks import LEAST, hold_alike, mask_of, masks_in

FLOAT32, BFLOAT16, FLOAT64 = 3.4028234663852886e38, 3.3895313892515355e38, 1.7976931348623157e308


@pytest.mark.parametrize(
    ("number", "due"),
    [
        (-FLOAT32, -FLOAT32), (FLOAT32, FLOAT32), (-BFLOAT16, -BFLOAT16), (-FLOAT64, -FLOAT64),
        (-65504.0, -65504.0), (-65534.0, -65504.0), (-65800.0, None), (65500.0, 65504.0),
        (-1e9, -1e9), (-1e30, -1e30), (-1e4, -1e4), (-10003.2, -1e4), (-9991.0, -1e4), (-10011.0, None),
        (-1e5, -1e5), (-1e3, None), (-2e9, None), (1e9, None), (0.0, None), (-math.inf, -math.inf),
        (math.inf, math.inf), (-9e15, -9e15), (-(2.0**32) + 1, -(2.0**32)),
        (float(np.float32(-(2**32) + 1)), -(2.0**32)),
        (-(2.0**31), -(2.0**31)), (-3e9, None), (-8e15, None), (-(2.0**33), None), (9e15, None), (2.0**32, None),
    ],
)  # fmt: skip
def test_masks(number, due):
    assert mask_of(number) == due
    assert np.array_equal(masks_in(np.array([number])), [math.nan if due is None else due], equal_nan=True)


@pytest.mark.parametrize("number", [-(10**9), 2**70, -(10**400)])
def test_whole_numbers_are_no_masks(number):
    assert mask_of(number) is None


def test_nan_masks_nothing():
    assert np.isnan(masks_in(np.array([math.nan]))).all()


def test_infinity_is_a_mask_as_a_number_on_the_other_side_is_with_the_same_sign():
    one = np.array([-math.inf, -math.inf, -1e9, math.inf, -math.inf, math.nan, -1e9, 2.0])
    other = np.array([-FLOAT32, -12000.0, -math.inf, -FLOAT32, -math.inf, -1e9, -1e9, 2.0])
    assert hold_alike(one, other).tolist() == [True, False, True, False, True, False, True, True]


def test_smaller_numbers_are_no_masks():
    """Where `mask_of` does not look, `masks_in` finds none."""
    sizes = np.geomspace(1e-3, LEAST, 4000)
    assert np.isnan(masks_in(np.concatenate((-sizes, sizes)))).all()
