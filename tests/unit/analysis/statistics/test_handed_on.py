"""Records of one tensor at both ends of what lies between two calls, by hand."""

from __future__ import annotations

import pytest
from comparison_rows import IN, OUT, key, pairs_of, row, statistics, statistics_measured
from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.flow.links import link
from probe_flow.analysis.statistics.handed_on import HandedOn
from probe_flow.analysis.statistics.moments import Moments, apart, moments_of
from probe_flow.records import Phase

STEP = 2.0**-13
"""Of bfloat16 between 2**-6 and 2**-5."""

GIVEN = Moments(-(2.0**-6) - 15 * STEP, 0.03125, 0.0005, 0.25, 1024, 2.0**-8, 2.0**-10, 8)


@pytest.mark.parametrize(("steps", "is_apart"), [(0, False), (1, False), (2, True)])
def test_extremes_of_16_bits_may_be_a_step_apart_where_the_golden_s_agree(steps, is_apart):
    """What a small gradient was added to on the way: its sum is the next number on one side only."""
    got = replace(GIVEN, low=GIVEN.low - steps * STEP)
    assert (apart(got, GIVEN) > 1.0) is is_apart
    wide = [replace(each, bits=0, unit=2.0**-20, recorded=2.0**-20) for each in (got, GIVEN)]
    assert (apart(*wide) > 1.0) is (steps > 0)


@pytest.mark.parametrize(("off", "is_apart"), [(2.0**-7, False), (2.0**-6, True), (0.007, True)])
def test_a_mean_that_is_as_large_as_the_elements_is_recorded_to_half_a_step_of_its_own(off, is_apart):
    """1.242 is recorded as a number of bfloat16, which are 2**-7 apart there; 1.249 has more digits than those."""
    given = Moments(0.5, 2.0, 1.2421875, 1.25 * 32, 1024, 2.0**-8, 2.0**-10, 8)
    assert (apart(replace(given, mean=given.mean + off), given) > 1.0) is is_apart


@pytest.mark.parametrize(("off", "is_apart"), [(1, False), (2, True)])
def test_the_mean_of_a_tiny_gradient_in_float16_is_recorded_to_half_a_step_of_zero(off, is_apart):
    """Numbers of float16 below 2**-14 are 2**-24 apart: of 1.56e-05 either record may be off by half of that."""
    step = 2.0**-24
    given = Moments(-3e-4, 3e-4, 262 * step, 1e-4 * 32, 1024, 2.0**-11, 2.0**-13, 11, step)
    assert (apart(replace(given, mean=given.mean + off * step), given) > 1.0) is is_apart


@pytest.mark.parametrize(("off", "is_apart"), [(7e-7, False), (1e-5, True)])
def test_what_is_added_on_the_way_may_move_the_mean_of_16_bits_by_a_step_of_its_elements(off, is_apart):
    """Gradients of size 2.9e-4 in bfloat16, of which each of 32 may have gone half a step (5.7e-7) further."""
    given = Moments(-7.1e-4, 6.4e-4, -3.29e-5, 2.9e-4 * 32**0.5, 32, 2.0**-8, 2.0**-10, 8)
    assert (apart(replace(given, mean=given.mean + off), given) > 1.0) is is_apart


@pytest.mark.parametrize(("size", "expected"), [(1e-20, 1.4e-45 / 1e-40), (1e-3, 2.0**-20)])
def test_the_norm_of_tiny_elements_lost_digits_of_its_squares(size, expected):
    """Second moments of a gradient that cancels: squares of 1e-20 are numbers of float32 that are 1.4e-45 apart."""
    seen = statistics(min=-size, max=size, mean=0.0, l2norm=10.0 * size)
    found = moments_of(row(measurement=statistics_measured(seen, seen), dtype="float32"), "target")
    assert found.recorded == pytest.approx(expected, rel=0.01)


KEPT = Moments(-0.325439453125, 0.4033203125, -0.0034406, 4.253522, 1536, 2.0**-20, 2.0**-20, 0)
"""A residual in float32."""


def test_a_residual_may_be_cast_to_16_bits_and_back_on_its_way():
    """As Mamba does: the extremes are those numbers of bfloat16 that are nearest, and all elements are rounded."""
    cast = replace(KEPT, low=-0.326171875, high=0.40234375, mean=-0.0034432, norm=4.253803)
    assert apart(cast, KEPT) < 1.0
    assert apart(KEPT, cast) > 1.0
    assert apart(replace(cast, norm=4.30), KEPT) > 1.0
    assert apart(replace(cast, high=0.4140625), KEPT) > 1.0


def test_a_norm_of_an_expanded_gradient_is_added_up_in_one_lane():
    """torch 2.13 on a CPU loses 3.8e-5 of the norm of 2**18 numbers that do not lie side by side."""
    given = Moments(-4.0, 4.0, 0.0, 512.0, 2**18, 2.0**-20, 2.0**-20, 0)
    assert apart(replace(given, norm=512.0 * (1.0 - 3.8e-5)), given) < 1.0
    few = replace(given, count=2**10)
    assert apart(replace(few, norm=512.0 * (1.0 - 3.8e-5)), few) > 1.0


def test_what_a_call_inside_of_a_module_got_may_have_been_cast_on_its_way():
    """Its gradient is recorded when it is over: a product inside of it read that before, cast to 16 bits."""
    golden = statistics(min=-0.0049511, max=0.0046207, mean=-2.96e-05, l2norm=0.0464114)
    inner = replace(golden, min=-0.004913330078125, max=0.004608154296875, l2norm=0.0463533)
    outer = replace(golden, min=-0.0049015, max=0.0046020, l2norm=0.0463444)
    rows = [
        row(
            replace(key(name), phase=Phase.BACKWARD),
            role,
            dtype="float32",
            measurement=statistics_measured(seen, golden, count=1536),
        )
        for name, role, seen in (("inner", OUT, inner), ("module", IN, outer))
    ]
    pairs = pairs_of(rows)
    calls = Calls(rows, pairs)
    handed = HandedOn(rows, calls, link(rows, pairs, calls))
    assert handed._gap(1, (0,), "target") > 1.0
    calls.of[0].container = calls.of[1]
    assert handed._gap(1, (0,), "target") <= 1.0


@pytest.mark.parametrize(("read", "is_the_sum"), [(2.609375, True), (2.6094, False)])
def test_a_sum_may_hold_gradients_that_a_cast_on_the_way_rounded(read, is_the_sum):
    """A norm of Mamba reads the residual as bfloat16: two of its gradients are added up, and cast, before the third."""
    backward = {name: replace(key(name), phase=Phase.BACKWARD) for name in ("pow", "mul", "next", "add")}
    seen = {
        "pow": (-1.4018698382112747e-06, 0.0063236733313325865),
        "mul": (-1.3152967891991163e-05, 0.03242298657085726),
        "next": (1.147245806976116e-05, 0.09237669089208896),
        "add": (-3.0489334434946613e-06, 0.097339614846036),
    }
    ends = {"min": -0.01, "max": 0.0123456}
    rows = [row("pow", IN, dtype="float32", measurement=of_values(min=-2.5, max=read, mean=0.01, l2norm=45.0))]
    rows += [
        row(backward[name], IN if name == "add" else OUT, dtype="float32",
            measurement=of_values(mean=mean, l2norm=norm, **ends))
        for name, (mean, norm) in seen.items()
    ]  # fmt: skip
    pairs = pairs_of(rows)
    calls = Calls(rows, pairs)
    handed = HandedOn(rows, calls, link(rows, pairs, calls))
    assert (handed._gap(4, (1, 2, 3), "target") <= 1.0) is is_the_sum


def of_values(**values):
    return statistics_measured(statistics(**values), statistics(**values), count=2048)
