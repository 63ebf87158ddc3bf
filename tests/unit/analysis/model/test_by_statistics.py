"""What gates that turned leave in statistics: held against gradients with elements that are there on one side only."""

from __future__ import annotations

import numpy as np
import pytest
from comparison_rows import deviation

from probe_flow.analysis.model.by_statistics import left_by_flips
from probe_flow.analysis.model.decisions import is_decided, wavering
from probe_flow.analysis.model.families import Family


def changes(wrong, right):
    """Relative noise, and changes of norm and mean, both in the size of what is right."""
    size = np.sqrt(np.mean(right**2))
    noise = np.sqrt(np.mean((wrong - right) ** 2)) / size
    return noise, abs(np.sqrt(np.mean(wrong**2)) / size - 1.0), abs(np.mean(wrong) - np.mean(right)) / size


@pytest.mark.parametrize("turned", [3, 40, 200])
@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_what_gates_turned_averages_out_but_for_its_own_size(turned, mean):
    gradient = np.random.default_rng(turned).standard_normal(4096) + mean
    wrong = gradient.copy()
    wrong[:turned] = 0.0
    noise, norm, average = changes(wrong, gradient)
    allowed = left_by_flips(noise, 4096, 0.0)
    assert norm < allowed
    assert average < allowed
    assert allowed < 0.5 * noise  # all of it was allowed before


@pytest.mark.parametrize("mean", [0.0, 0.5, 2.0])
def test_in_products_with_data_that_have_a_mean_a_row_of_errors_has_one_sign(mean):
    """The gradient of a weight of 12 channels: each element that turned goes into one row, times data with a mean."""
    chance = np.random.default_rng(11)
    gradient, data = chance.standard_normal((12, 144)), chance.standard_normal((144, 72)) + mean
    wrong = gradient.copy()
    wrong[0, :2] = wrong[5, 7] = 0.0
    noise, norm, average = changes(wrong @ data, gradient @ data)
    aligned = mean / np.hypot(mean, 1.0)
    assert average < left_by_flips(noise, 12 * 72, aligned)
    assert norm < left_by_flips(noise, 12 * 72, aligned**2)


def test_what_decides_is_off_in_what_the_scores_differ_by():
    """Shares of four experts lie around 0.25 and differ by 0.01: half a step of float16 is 0.012 of that."""
    near_ties = deviation(size=0.25, spread=0.01, top=0.26)
    assert wavering(near_ties) == pytest.approx(0.25 * 2.0**-11 * 0.25 / 0.01)
    assert wavering(deviation(size=0.25, spread=0.01, rms=2e-5)) == pytest.approx(
        max(2e-5, 0.25 * 2.0**-11 * 0.25) / 0.01
    )
    assert wavering(deviation(unit=2.0**-20, rms=1e-7)) == pytest.approx(1e-7)


@pytest.mark.parametrize(
    ("unit", "error", "is_sure"), [(2.0**-20, 1e-7, True), (2.0**-20, 1e-3, False), (2.0**-8, 0.0, False)]
)
def test_masks_are_decided_where_what_they_were_made_of_is_off_by_too_little_to_turn_one(unit, error, is_sure):
    mask = deviation(unit=0.0, count=48)
    assert is_decided(Family.DISCRETE, mask, [deviation(unit=unit, rms=error)]) is is_sure
    assert not is_decided(Family.DISCRETE, deviation(unit=unit), [deviation(unit=unit, rms=error)])  # the values picked
    assert not is_decided(Family.SUM, mask, [deviation(unit=unit, rms=error)])
    assert not is_decided(Family.DISCRETE, mask, [])
