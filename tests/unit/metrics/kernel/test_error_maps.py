"""Maps of errors against maps made by hand and by numpy, whatever the runs in which the elements come."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe_flow.metrics.kernel.error_maps import MAX_CELLS, ErrorMaps
from probe_flow.records import ErrorMap


def maps_of(target: np.ndarray, golden: np.ndarray, *, run: int = 65_536, count: int | None = None):
    maps = ErrorMaps(target.shape)
    x, y = target.reshape(-1), golden.reshape(-1)
    for start in range(0, x.size if count is None else count, run):
        part = slice(start, start + run)
        with np.errstate(invalid="ignore", over="ignore"):
            errors = np.abs(x[part].astype(np.float64) - y[part].astype(np.float64))
        maps.add(start, x[part], y[part], errors)
    return maps.maps()


def grid(found: ErrorMap) -> np.ndarray:
    return np.array([math.nan if each is None else each for each in found.errors]).reshape(found.cells)


def places(found: ErrorMap, least: float) -> list[tuple[int, int]]:
    return [tuple(map(int, place)) for place in np.argwhere(grid(found) >= least)]


def test_a_wrong_column_is_a_column():
    golden = np.zeros((3, 5), np.float32)
    target = golden.copy()
    target[:, 3] = (1.0, -2.0, 0.5)
    (found,) = maps_of(target, golden)
    assert (found.shape, found.down, found.across, found.cell, found.cells) == ((3, 5), (0,), (1,), (1, 1), (3, 5))
    assert found.errors == (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0)
    assert found.alike == found.mismatch == ()


def test_rows_and_columns_share_cells_where_there_are_many():
    golden = np.zeros((130, 65))
    target = golden.copy()
    target[129, 64], target[3, 2], target[5, 3] = 1.0, 2.0, 4.0
    (found,) = maps_of(target, golden)
    assert (found.cell, found.cells) == ((3, 2), (44, 33))
    assert places(found, 1.0) == [(1, 1), (43, 32)]
    assert grid(found)[1, 1] == 4.0
    assert grid(found)[43, 32] == 1.0


def test_a_wrong_channel_is_a_row_of_the_first_map():
    golden = np.zeros((1, 8, 6, 7), np.float16)
    target = golden.copy()
    target[0, 5] = 1.0
    channels, picture = maps_of(target, golden)
    assert (channels.down, channels.across, channels.cells) == ((1,), (2, 3), (8, 42))
    assert places(channels, 1.0) == [(5, column) for column in range(42)]
    assert (picture.down, picture.across, picture.cells) == ((2,), (3,), (6, 7))
    assert set(picture.errors) == {1.0}


def test_a_wrong_border_row_is_a_row_of_the_second_map():
    golden = np.zeros((2, 3, 5, 4))
    target = golden.copy()
    target[:, :, 4] = 0.25
    channels, picture = maps_of(target, golden)
    assert (channels.down, channels.size) == ((0, 1), (6, 20))
    assert places(channels, 0.25) == [(row, column) for row in range(6) for column in range(16, 20)]
    assert places(picture, 0.25) == [(4, column) for column in range(4)]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((), [((), ())]),
        ((1, 1), [((), ())]),
        ((7,), [((), (0,))]),
        ((7, 1), [((), (0,))]),
        ((1, 9, 1, 1), [((), (1,))]),
        ((4, 9, 1, 1), [((0,), (1,))]),
        ((2, 3, 4), [((0, 1), (2,)), ((1,), (2,))]),
        ((1, 3, 4), [((1,), (2,))]),
        ((1, 1, 4, 5), [((2,), (3,))]),
        ((1, 1, 3, 4, 5), [((2, 3), (4,))]),
        ((1, 8, 3, 4, 5), [((1,), (2, 3, 4)), ((2, 3), (4,))]),
        ((2, 8, 3, 4, 5), [((0, 1), (2, 3, 4)), ((2, 3), (4,))]),
        ((2, 8, 1, 4), [((0, 1), (3,)), ((1,), (3,))]),
    ],
)
def test_axes_by_shape(shape, expected):
    data = np.zeros(shape)
    assert [(found.down, found.across) for found in maps_of(data, data)] == expected


def test_a_scalar_is_one_cell_and_nothing_is_no_map():
    (found,) = maps_of(np.array(3.0), np.array(1.0))
    assert (found.cells, found.errors) == ((1, 1), (2.0,))
    assert maps_of(np.zeros((0, 4)), np.zeros((0, 4))) == ()


def test_nan_and_infinities_hide_no_error():
    golden = np.array([[1.0, 1.0, np.nan, np.inf], [np.inf, 2.0, 1.0, 1.0]], np.float32)
    target = np.array([[1.5, np.nan, np.nan, np.inf], [-np.inf, 2.0, np.inf, 1.0]], np.float32)
    (found,) = maps_of(target, golden)
    assert found.errors == (0.5, None, None, None, None, 0.0, None, 0.0)
    assert found.alike == (2, 3)
    assert found.mismatch == (1, 4, 6)


def test_a_cell_tells_its_finite_error_and_its_nan():
    golden, target = np.zeros(128), np.zeros(128)
    target[6], target[7] = 3.0, np.nan
    (found,) = maps_of(target, golden)
    assert found.cell == (1, 2)
    assert found.errors[3] == 3.0
    assert found.mismatch == (3,)


def test_an_error_beyond_float64_is_infinite():
    (found,) = maps_of(np.array([1e308, 1.0]), np.array([-1e308, 1.0]))
    assert found.errors == (math.inf, 0.0)
    assert found.mismatch == ()


def test_complex_values_count_by_the_magnitude_of_their_difference():
    maps = ErrorMaps((2,))
    target, golden = np.array([3 + 4j, complex(np.nan, 0)]), np.array([0j, complex(np.nan, 0)])
    maps.add(0, target, golden, np.abs(target - golden))
    (found,) = maps.maps()
    assert (found.errors, found.alike) == ((5.0, None), (1,))


def test_errors_keep_four_digits():
    (found,) = maps_of(np.array([1.234567, 0.0]), np.zeros(2))
    assert found.errors == (1.235, 0.0)


def test_elements_that_were_not_compared_have_no_error():
    data = np.zeros((4, 3))
    (found,) = maps_of(data, data, count=5, run=5)
    assert found.errors == (0.0,) * 5 + (None,) * 7


SHAPES = st.lists(st.sampled_from([1, 2, 3, 5, 64, 67, 130]), max_size=5).filter(
    lambda shape: math.prod(shape) < 40_000
)


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.integers(1, 9_000), st.integers(0, 2**32 - 1))
def test_every_split_gives_the_same_map_as_numpy(shape, run, seed):
    rng = np.random.default_rng(seed)
    target, golden = (rng.integers(-9, 9, shape).astype(np.float64) for _ in range(2))
    for data in (target, golden):
        data[rng.random(shape) < 0.001] = np.nan
    found = maps_of(target, golden, run=run)
    assert found == maps_of(target, golden)
    assert all(max(each.cells) <= MAX_CELLS for each in found)
    for each in found:
        np.testing.assert_array_equal(grid(each), folded(each, np.abs(target - golden)))


def folded(found: ErrorMap, errors: np.ndarray) -> list[list[float]]:
    """The map as numpy makes it at once: axes reduced, folded, cut."""
    kept = found.down + found.across
    rest = tuple(axis for axis in range(errors.ndim) if axis not in kept)
    errors = np.where(np.isnan(errors), -1.0, errors).max(axis=rest, initial=-1.0).reshape(found.size)
    (tall, wide), (down, across) = found.cell, found.cells
    cells = [
        [errors[row * tall : (row + 1) * tall, column * wide : (column + 1) * wide].max() for column in range(across)]
        for row in range(down)
    ]
    return [[math.nan if each < 0 else float(each) for each in line] for line in cells]


def test_a_huge_tensor_needs_no_more_than_its_cells():
    maps = ErrorMaps((4096, 1 << 20, 3, 1 << 12))  # 52 T elements: only a run of them is there
    start = ((4000 * (1 << 20) + 77) * 3 + 2) * (1 << 12) + 4000
    errors = np.zeros(200)
    errors[50] = 9.0
    maps.add(start, errors, np.zeros(200), errors)
    channels, picture = maps.maps()
    assert (channels.cells, picture.cells) == ((64, 48), (3, 64))
    assert channels.errors.index(9.0) == 62 * 48 + (2 * 4096 + 4050) // 256
    assert picture.errors.index(9.0) == 2 * 64 + 4050 // 64


@pytest.mark.parametrize(
    ("shape", "cell"),
    [
        ((8, 2, 56, 56), (1, 56)),  # 49 would do
        ((8, 2, 128, 128), (1, 256)),  # two lines
        ((8, 2, 100, 6), (1, 12)),  # 10 would do
        ((8, 2, 8, 30), (1, 5)),  # 4 would do: a sixth of a line
        ((8, 2, 5, 67), (1, 6)),  # no part of a prime number
        ((8, 2, 4, 16, 16), (1, 16)),
        ((8, 2, 9, 16, 16), (1, 64)),  # 36 would do: a quarter of an image
        ((8, 2, 80, 16, 16), (1, 512)),  # 320 would do
        ((300, 7, 5), (35, 1)),  # 33 would do
        ((1000, 3), (16, 1)),
    ],
)
def test_cells_begin_where_an_inner_axis_or_a_part_of_it_does(shape, cell):
    assert ErrorMaps(shape).maps()[0].cell == cell
