"""How far apart two plain arguments are."""

import math

import pytest

from probe_flow.analysis.plain_values import gap, mask_otherwise

# `torch.finfo` of float64, float32, bfloat16 and float16, as torch prints them.
LOWEST = -1.7976931348623157e308, -3.4028234663852886e38, -3.3895313892515355e38, -65504.0
TINY = 2.2250738585072014e-308, 1.1754943508222875e-38, 1.1754943508222875e-38, 6.103515625e-05
EPS = 2.220446049250313e-16, 1.1920928955078125e-07, 0.0078125, 0.0009765625


@pytest.mark.parametrize("limits", [LOWEST, TINY, EPS], ids=["min", "tiny", "eps"])
def test_the_same_limit_of_two_types_is_the_same_argument(limits):
    assert {gap(target, golden) for target in limits for golden in limits} == {0.0}
    assert gap(-limits[0], -limits[3]) == 0.0


@pytest.mark.parametrize(
    ("target", "golden"),
    [(LOWEST[3], -LOWEST[1]), (LOWEST[2], -1e9), (EPS[2], TINY[3]), (65504.0, 1.0), (EPS[1], 1e-6)],
)
def test_limits_of_other_kinds_and_other_numbers_differ(target, golden):
    assert gap(target, golden) > 0.1


@pytest.mark.parametrize(("target", "golden"), [(1, 2), ("sum", "mean"), (True, 1), (math.inf, LOWEST[1])])
def test_what_is_no_number_of_that_kind_is_another_argument(target, golden):
    assert gap(target, golden) == math.inf


@pytest.mark.parametrize(
    ("target", "golden", "due"),
    [
        (LOWEST[3], LOWEST[1], True),
        (LOWEST[3] - 0.078, LOWEST[1], True),  # float32 absorbs the score that is added to its least number
        (LOWEST[3] + 3.5, -LOWEST[1], False),
        (LOWEST[3] - 0.078, LOWEST[3], False),  # of one type, both are what they are
        (-60000.0, LOWEST[1], False),
        (-1e9, LOWEST[1], True),  # a power of ten is written by hand
        (-10003.2, -1e9, True),  # with the score that bfloat16 or float16 did not absorb
        (-10003.2, -9998.7, False),  # one mask
        (-1e9, -math.inf, True),
        (1e9, LOWEST[1], False),
        (1e9, -LOWEST[1], False),  # nobody hides the least score
        (-12000.0, LOWEST[1], False),
        (None, LOWEST[1], False),
    ],
)
def test_a_score_may_have_been_added_to_the_number_that_masks_it(target, golden, due):
    assert mask_otherwise(target, golden) is due
