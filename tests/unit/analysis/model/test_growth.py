"""Allowances per family, computed by hand, and what must hold for all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from comparison_rows import deviation
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from probe_flow.analysis.model.deviation import Deviation
from probe_flow.analysis.model.families import Family
from probe_flow.analysis.model.growth import allowance, coherent_error, widest

U = 2.0**-11


def test_without_inputs_only_rounding_is_allowed():
    found = allowance(Family.MOVE, deviation(size=2.0, top=6.0), [])
    assert (found.floor, found.explained) == (2.0 * U, 0.0)
    assert found.rms == 2.0 * U
    assert found.peak == pytest.approx(6.0 * 2.0 * U + 2.0 * U * 6.0)
    # A tenth and two root-hundredths of the noise may be a common factor.
    assert found.gain == pytest.approx(0.3 * U)


@pytest.mark.parametrize("count", [4, 10**4, 10**8])
def test_a_common_factor_of_a_millionth_accuses_no_float32_kernel(count):
    # Approximated functions err in one direction, by a few units of the last place, however many elements there are.
    single = deviation(size=2.0, count=count, unit=2.0**-20, gain=1e-6, rms=2e-6)
    found = allowance(Family.CONTRACT, single, [deviation(size=2.0, count=count, unit=2.0**-20)])
    assert single.gain < 2.5 * found.gain
    assert single.rms < 2.5 * found.rms
    assert 2.5 * found.gain < 1e-4, "an error of a ten-thousandth still does"


@pytest.mark.parametrize("family", [Family.MOVE, Family.CONTRACT])
def test_moves_and_contractions_keep_absolute_errors(family):
    found = allowance(family, deviation(size=0.5), [deviation(rms=0.1)])
    assert found.explained == pytest.approx(0.12)
    assert found.floor == pytest.approx(0.5 * U)


def test_a_slice_may_hold_the_whole_error_of_its_input_and_its_whole_factor():
    found = allowance(Family.MOVE, deviation(count=25), [deviation(rms=0.1, count=100)])
    assert found.explained == pytest.approx(1.2 * 0.1 * 2.0)
    assert found.gain == pytest.approx(found.rms)


def test_the_slope_of_an_activation_adds_relative_errors_of_what_reaches_it():
    # The gradient is small and the values are not: their absolute error says nothing of the product.
    gradient, values = deviation(size=1e-3, rms=1e-6, top=5e-3), deviation(size=0.6, rms=6e-4, peak=6e-3)
    found = allowance(Family.SLOPE, deviation(size=5e-4, top=2e-3), [values, gradient])
    assert found.explained == pytest.approx(1.5 * 1e-3 * (1e-3 + 1e-3))
    assert found.floor == pytest.approx(1e-3 * U)
    assert found.peak > 2.0 * 5e-3 * 1e-2
    # Where the function is flat nearly everywhere, the output is the largest that can be said of the gradient.
    alone = allowance(Family.SLOPE, deviation(size=5e-4), [])
    assert alone.explained == 0.0


@pytest.mark.parametrize(("terms", "factor"), [(1, 1.08), (100, 1.8), (10_000, 9.0)])
def test_a_part_of_what_a_sum_is_off_by_is_shared_by_all_its_terms(terms, factor):
    found = allowance(Family.TOTAL, deviation(size=1e-9, count=16), [deviation(rms=1e-3, count=16 * terms)])
    assert found.explained == pytest.approx(1.2e-3 * terms**0.5 * factor)


def test_sums_add_absolute_errors_and_round_at_the_size_of_their_terms():
    # 100 - 99.9: what is left is a thousandth of what was summed.
    terms = [deviation(size=100.0, rms=0.1), deviation(size=99.9, rms=0.2)]
    found = allowance(Family.SUM, deviation(size=0.1), terms)
    assert found.explained == pytest.approx(1.2 * 0.3)
    assert found.floor == pytest.approx(100.0 * U)
    assert found.peak >= 0.0


def test_a_table_larger_than_the_sum_is_no_term_of_it():
    table = deviation(size=1000.0, count=10_000)
    assert allowance(Family.SUM, deviation(size=0.1), [table]).floor == pytest.approx(0.1 * U)


def test_totals_round_at_the_root_of_what_was_summed():
    # 10,000 terms of size 1 into 100 sums that cancel to 0.01.
    found = allowance(Family.TOTAL, deviation(size=0.01), [deviation(rms=0.001, count=10_000)])
    assert found.floor == pytest.approx(10.0 * U)
    assert found.explained == pytest.approx(0.001 * 10.0 * 1.2 * 1.8)  # a part of the error is shared by all terms


def test_means_that_differ_add_up_in_a_sum():
    # 400 terms that are each off by 0.01 the same way: every one of the 4 sums of 100 is off by 1.
    assert coherent_error(Family.TOTAL, deviation(count=4), [deviation(count=400, offset=-0.01)]) == pytest.approx(1.0)
    assert coherent_error(Family.REDUCE, deviation(count=4), [deviation(count=400, offset=0.01)]) == 0.0


def test_means_that_differ_add_up_in_a_product_with_what_has_a_mean():
    # (20, 30) times (30, 10): sums of 30 products. Weights off by 0.01, data of mean 0.6 (size 1, spread 0.8).
    data, weights = deviation(count=600, spread=0.8), deviation(count=300, offset=0.01)
    output = deviation(count=200)
    assert coherent_error(Family.PRODUCT, output, [data, weights]) == pytest.approx(30 * 0.01 * 0.6)
    assert coherent_error(Family.PRODUCT, output, [deviation(count=600), weights]) == 0.0, "nothing with mean zero"
    assert coherent_error(Family.PRODUCT, output, [data]) == 0.0


def test_means_do_not():
    found = allowance(Family.REDUCE, deviation(size=0.01), [deviation(rms=0.001, count=10_000)])
    assert found.floor == pytest.approx(1.0 * U)
    assert found.explained == pytest.approx(0.001)


def test_scaling_adds_relative_errors():
    found = allowance(Family.SCALE, deviation(size=4.0), [deviation(rms=0.01), deviation(size=2.0, rms=0.04)])
    assert found.explained == pytest.approx(1.5 * 4.0 * (0.01 + 0.02))


def test_the_square_of_what_is_noise_throughout_is_off_by_the_square():
    """The second moment of a gradient that is zero in mathematics: 1e4 times the golden's noise is 1e8 times of it."""
    noise = deviation(rms=1e4)
    assert allowance(Family.SCALE, deviation(), [noise, noise]).explained == pytest.approx(1.5 * 1e8)
    assert allowance(Family.SCALE, deviation(), [noise]).explained == pytest.approx(1.5 * 1e4)


def test_a_single_element_that_scales_others_is_off_by_a_factor():
    """The norm that gradients are clipped by: its error is a change of scale, which is told of more elements only."""
    output, gradient = deviation(gain=8e-3, count=4096), deviation(gain=1e-4, count=4096)
    norm = deviation(rms=1e-2, size=1.0, gain=0.0, count=1)
    assert allowance(Family.SCALE, output, [gradient, norm]).gain >= 2.0 * 1e-2
    assert allowance(Family.SCALE, output, [gradient, replace(norm, count=4096)]).gain < 5e-3


def test_what_is_off_where_the_golden_is_zero_goes_through_a_product():
    """AdamW decays the second moment of a gradient that is zero by mathematics: 1.2e-31 times 0.999."""
    nothing = deviation(size=0.0, top=0.0, rms=1e-31, unit=0.0)
    assert allowance(Family.SCALE, deviation(size=0.0, top=0.0), [nothing]).explained == pytest.approx(
        1.5e-31, rel=1e-9, abs=0.0
    )
    assert allowance(Family.SCALE, deviation(size=0.0, top=0.0), [deviation()]).explained == 0.0


def test_relative_errors_count_as_much_as_the_squares_of_what_they_are_of():
    """Of 20 squares whose largest is 2.3 times their size, 11 hold the norm: noise averages out over those."""
    squares = deviation(size=0.074, top=0.171, count=20)
    found = allowance(Family.SCALE, squares, [deviation(rms=0.005)])
    assert found.gain == pytest.approx(2.0 / math.sqrt(11.2) * found.rms / 0.074, rel=0.01)
    alike = allowance(Family.SCALE, deviation(size=0.1, top=0.1, count=10_000), [deviation(rms=0.005)])
    assert alike.gain == pytest.approx(0.12 * alike.rms / 0.1)


def test_single_elements_of_a_quotient_follow_its_smallest_denominator():
    # a / b with |a / b| up to 10: errors of 1e-6 in a and 2e-6 in b are 1000 times as large where b is 0.001.
    divided, by = deviation(peak=1e-6), deviation(peak=2e-6, least=1e-3)
    plain, found = (allowance(each, deviation(top=10.0), [divided, by]) for each in (Family.SCALE, Family.QUOTIENT))
    worst = (1e-6 + 10.0 * 2e-6) / 1e-3
    assert found.explained == pytest.approx(worst / math.sqrt(100))  # one of its 100 elements
    assert found.peak == pytest.approx(plain.peak + 6.0 * (found.explained - plain.explained) + worst)
    gross = allowance(Family.QUOTIENT, deviation(top=10.0), [divided, deviation(peak=1.0, least=1e-9)])
    assert gross.explained == pytest.approx(2.0 * 10.0 / math.sqrt(100))
    of_both_signs = allowance(Family.QUOTIENT, deviation(top=10.0), [divided, deviation(peak=2e-6)])
    assert of_both_signs == plain


def test_extremes_that_agree_say_nothing_of_a_numerator_that_is_noise_where_adam_divides_by_its_epsilon():
    # The keys' bias: 1e-10 in place of -1e-10, over 1e-8; the rows of the others keep the extremes as they are.
    divided, by = deviation(rms=7e-11, size=6e-4, top=2e-3), deviation(least=1e-8)
    found = allowance(Family.QUOTIENT, deviation(size=0.1, top=0.2), [divided, by])
    assert found.explained == pytest.approx(7e-11 / 1e-8 / math.sqrt(100))  # one of its 100 elements
    far = allowance(Family.QUOTIENT, deviation(size=0.1, top=0.2), [divided, deviation(least=1e-3)])
    assert far.explained < 1e-7


def test_products_add_relative_errors():
    # (10, 100) x (100, 10): 1000 x 1000 / 100 = 100 squared, so a typical entry is 1 x 1 x sqrt(100) = 10.
    factors = [deviation(rms=0.01, count=1000), deviation(rms=0.02, count=1000)]
    found = allowance(Family.PRODUCT, deviation(size=10.0), factors)
    assert found.explained == pytest.approx(1.5 * 0.03 * 10.0)
    assert found.floor == pytest.approx(10.0 * U)


def test_products_that_cancel_are_judged_by_what_they_would_usually_be():
    factors = [deviation(rms=0.01, count=1000), deviation(count=1000)]
    found = allowance(Family.PRODUCT, deviation(size=1e-6), factors)
    assert found.explained == pytest.approx(1.5 * 0.01 * 10.0)
    assert found.floor == pytest.approx(5.0 * U)
    # Mathematically zero in the golden: still noise.
    assert allowance(Family.PRODUCT, deviation(size=0.0), factors).explained == found.explained


def test_a_product_with_weights_that_are_not_shown_takes_errors_together_as_noise():
    # An activation and a shortcut: they are not multiplied with each other, and their errors have nothing in common.
    image, shortcut = deviation(size=2.0, rms=0.006, count=50), deviation(size=4.0, rms=0.016, count=100)
    found = allowance(Family.WEIGHTED, deviation(size=1.0), [image, shortcut])
    assert found.explained == pytest.approx(max(2.0 * math.hypot(0.003, 0.004), 1.2 * 0.016))
    assert found.floor == pytest.approx(4.0 * U)
    assert allowance(Family.WEIGHTED, deviation(), []).rms == U


def test_a_norm_of_a_small_spread_magnifies():
    # mean 10, spread 0.01: an error of 0.001 is a tenth of the spread.
    source = deviation(size=10.0, spread=0.01, rms=0.001)
    found = allowance(Family.NORMALISE, deviation(size=1.0), [source])
    assert found.explained == pytest.approx(2.0 * 0.1)
    assert found.floor == pytest.approx(1000.0 * U)


def test_one_wrong_element_before_a_norm_may_be_as_far_off_as_the_spread_says():
    source = deviation(size=10.0, spread=0.01, rms=1e-6, peak=0.001)
    assert allowance(Family.NORMALISE, deviation(size=1.0, top=3.0), [source]).peak >= 3.0 * 0.1


def test_mean_and_reciprocal_deviation_of_a_norm():
    source = deviation(size=10.0, spread=0.01, rms=0.001, count=1000)
    mean = allowance(Family.NORMALISE, deviation(size=10.0, count=10), [source])
    assert mean.explained >= 2.0 * 0.001
    assert mean.floor >= 10.0 * U
    # 1 / 0.01 = 100, off by as much as the error is of the spread: 10.
    reciprocal = allowance(Family.NORMALISE, deviation(size=100.0, count=10), [source])
    assert reciprocal.explained == pytest.approx(2.0 * 10.0)


def test_exponentials_turn_absolute_errors_into_relative_ones():
    found = allowance(Family.EXPONENTIAL, deviation(size=0.1, top=1.0), [deviation(size=8.0, rms=0.01, peak=0.05)])
    assert found.explained == pytest.approx(0.1 * 0.05)
    assert found.floor == pytest.approx(0.1 * 8.0 * U)
    # The one probability near 1 moves with the exponent, however small the others are.
    assert found.peak >= 1.0 * 0.05


@pytest.mark.parametrize("family", [Family.LOG_SHARE, Family.LOG_SUM])
def test_a_logarithm_near_zero_is_rounded_as_the_score_that_was_taken_off(family):
    """A loss of 1e-4 behind a score of 20: what is left of 20 - 19.9999 has the rounding of 20."""
    loss, scores = deviation(size=1e-4, top=1e-4), deviation(size=3.0, top=20.0)
    assert allowance(family, loss, [scores]).floor == pytest.approx(20.0 * U)
    # Scores that a mask makes -1e4 are no terms of it.
    assert allowance(family, loss, [deviation(size=1e3, top=1e4)]).floor == pytest.approx(64.0 * U)
    assert allowance(Family.EXPONENTIAL, loss, [scores]).floor < 1e-3 * U


def test_a_logarithm_of_a_sum_is_off_by_as_much_as_its_exponents():
    scores = deviation(size=3.0, rms=0.01, peak=0.05)
    found = allowance(Family.LOG_SUM, deviation(size=1e-4, top=1e-3), [scores])
    assert found.explained == pytest.approx(1.2 * 0.01)
    assert found.single == pytest.approx(1.2 * 0.05)
    assert allowance(Family.LOG_SHARE, deviation(size=1e-4), [scores]).explained == pytest.approx(1e-4 * 0.05)


def test_large_exponents_bound_what_is_allowed():
    wild = deviation(size=1e4, rms=100.0, peak=1e4)
    found = allowance(Family.EXPONENTIAL, deviation(size=0.1), [wild])
    assert found.explained == pytest.approx(0.1 * 1.0)
    assert found.floor == pytest.approx(0.1 * 16.0 * U)


def test_decisions_may_flip_a_few_times_once_inputs_differ():
    indices = deviation(size=1000.0, top=5000.0, rms=80.0, peak=800.0, unit=0.0)
    exact = allowance(Family.DISCRETE, indices, [deviation()])
    assert (exact.floor, exact.explained, exact.peak) == (0.0, 0.0, 0.0)
    near = allowance(Family.DISCRETE, indices, [deviation(rms=1e-3)])
    # 3 of 100 flips, each by as much as twice the largest index.
    assert near.explained == pytest.approx(10_000.0 * math.sqrt(0.03))
    assert near.peak == 10_000.0


def test_values_put_in_order_are_off_by_no_more_than_what_was_ordered():
    scores = deviation(rms=1e-3, peak=4e-3)
    values = allowance(Family.ORDER, deviation(count=10), [scores])
    # Sorting moves no value by more than the worst of what it sorts: 1.2 x (rms of 10 elements a slot of the result).
    assert values.explained == pytest.approx(1.2 * 1e-3 * math.sqrt(10.0))
    assert values.peak < 0.05
    places = deviation(size=1000.0, top=5000.0, unit=0.0)
    assert allowance(Family.ORDER, places, [scores]) == allowance(Family.DISCRETE, places, [scores])


def test_what_dequantisation_reads_counts_in_its_own_units():
    # int32 sums of size 16,000 that are off by 150 are off by 1 %, and so may be the fractions of size 0.6 behind them.
    sums = deviation(rms=150.0, peak=600.0, size=16_000.0, spread=16_000.0, top=47_000.0, unit=0.0)
    found = allowance(Family.UNITS, deviation(size=0.6, top=1.8), [sums])
    assert found.explained == pytest.approx(1.5 * 0.6 * 150.0 / 16_000.0)
    assert found.peak < 0.3
    # Around a zero point of 128 one step is a large part of what is left when it is taken off.
    bytes_ = deviation(rms=0.2, peak=1.0, size=128.0, spread=4.0, top=136.0, unit=0.0)
    near = allowance(Family.UNITS, deviation(size=0.04, top=0.08), [bytes_])
    assert near.explained == pytest.approx(1.5 * 0.04 * 0.2 / 4.0)
    assert near.peak > 0.01  # one step


def test_whole_numbers_made_of_fractions_are_off_by_one():
    found = allowance(Family.MOVE, deviation(unit=0.0, size=40.0), [deviation(rms=1e-4, size=40.0)])
    assert found.peak > 1.0
    assert 0.3 < found.floor < 0.5
    exact = allowance(Family.MOVE, deviation(unit=0.0, size=40.0), [deviation(unit=0.0, size=40.0)])
    assert (exact.floor, exact.peak) == (0.0, 0.0)


def test_unknown_arithmetic_is_wider_than_any_usual_one():
    inputs = [deviation(rms=0.01), deviation(rms=0.01)]
    unknown = allowance(Family.UNKNOWN, deviation(), inputs)
    for family in (Family.MOVE, Family.SUM, Family.SCALE, Family.CONTRACT):
        assert unknown.rms >= allowance(family, deviation(), inputs).rms


def test_widest_takes_each_figure_for_itself():
    one, other = (
        allowance(Family.SUM, deviation(), [deviation(size=9.0)]),
        allowance(Family.SCALE, deviation(), [deviation(rms=0.5)]),
    )
    both = widest([one, other])
    assert both.floor == one.floor
    assert both.explained == other.explained
    assert both.peak == max(one.peak, other.peak)


SIZES = st.one_of(st.just(0.0), st.floats(1e-30, 1e30), st.floats(1e150, 1e308))
ERRORS = st.one_of(st.just(0.0), st.floats(1e-30, 1e30), st.just(math.inf))


@st.composite
def deviations(draw):
    size = draw(SIZES)
    return deviation(
        rms=draw(ERRORS), peak=draw(ERRORS), gain=draw(st.floats(-10, 10)), size=size, top=size * 1.5,
        spread=size * draw(st.floats(0, 1)), count=draw(st.integers(1, 10**7)),
        unit=draw(st.sampled_from([0.0, 2.0**-11, 2.0**-20])),
    )  # fmt: skip


@given(st.sampled_from(Family), deviations(), st.lists(deviations(), max_size=3))
@settings(max_examples=60, deadline=None)
def test_allowances_are_finite_and_not_negative(family, output, inputs):
    found = allowance(family, output, inputs)
    for field in fields(type(found)):
        value = getattr(found, field.name)
        assert math.isfinite(value)
        assert value >= 0.0


@given(st.sampled_from(Family), deviations(), st.lists(deviations(), min_size=1, max_size=3), st.floats(1.0, 1e6))
@settings(max_examples=60, deadline=None)
def test_a_larger_error_of_an_input_never_shrinks_the_allowance(family, output, inputs, factor):
    first = inputs[0]
    worse = replace(first, rms=first.rms * factor, peak=first.peak * factor, gain=first.gain * factor)
    before, after = allowance(family, output, inputs), allowance(family, output, [worse, *inputs[1:]])
    for name in ("floor", "explained", "peak", "gain", "rms"):
        assert getattr(after, name) >= getattr(before, name) * (1 - 1e-12)


def test_rounding_to_whole_numbers_is_off_by_one_at_most():
    source, rounded = deviation(rms=0.01, peak=0.05), deviation(unit=0.0, size=100.0, top=300.0)
    found = allowance(Family.STEP, rounded, [source])
    assert (found.explained, found.peak) == (1.05, 1.05)
    exact = allowance(Family.STEP, rounded, [deviation(rms=0.0, peak=0.0)])
    assert (exact.rms, exact.peak) == (0.0, 0.0)


def test_elements_that_are_one_number_are_rounded_alike():
    unit, size = 2.0**-8, 6.0**-0.5
    picked = deviation(size=size, top=1.0, spread=math.sqrt(size**2 - size**4), count=42, unit=unit)
    constant = deviation(size=2.0, top=2.0, spread=0.0, count=42, unit=unit)
    mixed = deviation(size=size, top=1.0, spread=size, count=42, unit=unit)
    # 0.798 and a hundredth of it, in bfloat16: the first term of a gelu that is written out, in BLOOM.
    narrow = deviation(size=0.8, top=0.824, spread=0.006, count=6144, unit=unit)
    for family in (Family.MOVE, Family.SCALE, Family.PRODUCT):
        alike = [allowance(family, each, []).gain for each in (picked, constant, narrow)]
        assert alike == [pytest.approx(unit)] * 3
        assert allowance(family, mixed, []).gain < 0.6 * unit
    assert allowance(Family.SCALE, deviation(size=2.0, top=2.0, spread=0.0, count=1, unit=unit), []).gain == unit


def test_solutions_of_equations_are_off_by_the_condition_of_their_matrix_in_one_direction():
    chance = np.random.default_rng(3)
    points = chance.standard_normal((24, 3))
    distances = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
    matrix, right = np.exp(-0.5 * distances) + 0.3 * np.eye(24), chance.standard_normal(24)
    golden = np.linalg.solve(matrix, right)
    noise = 1e-3 * chance.standard_normal((24, 24))
    errors = np.linalg.solve(matrix * (1.0 + noise), right) - golden

    def of(values: np.ndarray, errors: np.ndarray) -> Deviation:
        size, rms = (float(np.sqrt(np.mean(each**2))) for each in (values, errors))
        gain = float(errors.ravel() @ values.ravel() / (values.ravel() @ values.ravel()))
        peak, top = float(np.abs(errors).max()), float(np.abs(values).max())
        return deviation(size=size, rms=rms, peak=peak, gain=gain, top=top, count=values.size, unit=2.0**-20)

    solved = of(golden, errors)
    found = allowance(Family.SOLVE, solved, [of(matrix, matrix * noise)])
    assert solved.rms < found.rms
    assert abs(solved.gain) < found.gain
    exact = allowance(Family.SOLVE, solved, [of(matrix, 0.0 * noise)])
    assert exact.rms < 1e-3 * solved.size, "and with equal inputs a factor of a hundredth is named"


def test_a_mask_that_keeps_what_is_nearly_zero_keeps_errors_of_all_sizes():
    """Of logarithms of size 5 that are off by 0.01 it keeps ones of 1e-4, which may be off by 0.01 all the same."""
    logarithms, mask = deviation(size=5.0, rms=0.01), deviation(size=0.3, rms=0.0, unit=0.0)
    kept = allowance(Family.SCALE, deviation(size=1e-4), [logarithms, mask])
    assert kept.explained == pytest.approx(1.5 * 0.3 * 0.01)
    usual = allowance(Family.SCALE, deviation(size=2.0), [logarithms, mask])
    assert usual.explained == pytest.approx(1.5 * 2.0 * 0.002)
