"""How far a result is from what its inputs make: the figures of all elements, and those of slices."""

from __future__ import annotations

import numpy as np
import pytest

from probe_flow.apis.own_error import OwnError, own_error

UNIT = 2.0**-8
TRUTH = np.random.default_rng(5).standard_normal((2, 64, 8, 8))
ROUNDED = TRUTH * (1 + UNIT / 4 * np.random.default_rng(6).standard_normal(TRUTH.shape))


def compared(dumped: np.ndarray, truth: np.ndarray = TRUTH) -> OwnError:
    return own_error(("output",), dumped, truth, unit=UNIT, step=0.0)


def test_a_channel_that_is_off_shows_in_itself_alone() -> None:
    dumped = ROUNDED.copy()
    dumped[:, 7] *= 1.05
    found = compared(dumped)
    name, size, explained, share = found.worst
    assert name == "slice"
    channel = TRUTH[:, 7]
    due = np.sqrt(np.mean((dumped[:, 7] - channel) ** 2) / np.mean(channel**2))
    assert size == pytest.approx(due)
    # 128 elements; what is explained is at least a rounding of the whole tensor's size
    assert explained == pytest.approx(UNIT * max(1.0, np.sqrt(np.mean(TRUTH**2) / np.mean(channel**2))))
    assert share == pytest.approx(size / explained / (1 + 3 / np.sqrt(128)))
    assert share > 2.0 * found.worst_of_all[3] > 2.0


def test_rounding_shows_in_no_slice() -> None:
    assert compared(ROUNDED).worst[3] < 0.5


def test_small_slices_are_held_against_the_size_of_all() -> None:
    truth = TRUTH.copy()
    truth[:, 3] *= 1e-6
    dumped = truth.copy()
    dumped[:, 3] *= 2.0  # what cancels there may leave as much
    assert compared(dumped, truth).worst[3] < 1e-3


@pytest.mark.parametrize("shape", [(), (31,), (1, 4096), (40, 8), (0, 64)])
def test_tensors_without_slices_of_enough_elements_have_none(shape: tuple[int, ...]) -> None:
    truth = np.ones(shape)
    found = compared(truth * 1.5, truth)
    assert found.slice_ == ((0.0, 0.0) if shape != (40, 8) else pytest.approx((0.5, UNIT)))


def test_slices_are_not_asked_where_elements_are_not_finite() -> None:
    dumped = ROUNDED.copy()
    dumped[0, 7] = np.nan
    assert (compared(dumped).slice_share, compared(dumped).nonfinite) == (0.0, 64)


@pytest.mark.parametrize("least", [-65504.0, -3.3895313892515355e38])
@pytest.mark.parametrize(("factor", "is_right"), [(1.0, True), (1.2, False)])
def test_numbers_that_mask_scores_do_not_count(least: float, factor: float, is_right: bool) -> None:
    masked = np.random.default_rng(7).random(TRUTH.shape) < 0.4
    truth = np.where(masked, TRUTH + least, TRUTH)
    dumped = np.where(masked, least, ROUNDED * factor)  # what is added to a mask is lost
    found, scores = compared(dumped, truth), compared(ROUNDED[~masked] * factor, TRUTH[~masked])
    assert (found.worst[3] < 1.0) is is_right
    assert found.worst_of_all[0] == scores.worst_of_all[0]
    assert found.worst_of_all[1:] == pytest.approx(scores.worst_of_all[1:], rel=2e-2)  # few scores are allowed more


def test_a_mask_that_was_lost_counts() -> None:
    truth = np.where(np.arange(TRUTH.size).reshape(TRUTH.shape) % 2, TRUTH, -65504.0)
    dumped = truth.copy()
    dumped[0, 0, 0, 0] = 0.5
    assert compared(dumped, truth).worst[3] > 1.0
