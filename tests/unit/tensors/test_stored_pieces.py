"""Pieces of the stored elements: every element is where its piece says, and pieces are no larger than they must be."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from probe_flow.tensors.stored_pieces import stored_pieces

axes = st.lists(st.integers(0, 400), min_size=1, max_size=6)


@given(st.lists(axes, min_size=1, max_size=4), st.integers(0, 60), st.sampled_from([1, 2, 8]))
def test_every_element_is_in_the_piece_and_at_the_place_that_its_offsets_say(offsets, gap, multiple):
    pieces = stored_pieces(tuple(np.array(vector, np.int64) for vector in offsets), gap=gap, multiple=multiple)
    assert pieces is not None
    for stored, place in zip(itertools.product(*offsets), itertools.product(*pieces.offsets), strict=True):
        piece, element = divmod(int(sum(place)), pieces.length)
        assert pieces.starts[piece] + element == sum(stored)
    assert pieces.length % multiple == 0
    assert not (pieces.starts % multiple).any()


def test_rows_of_tiles_are_one_piece_a_column_of_tiles():
    # 64 columns in tiles of 16 rows and 16 columns, of a matrix of 160 rows; rows 32 to 39 of it.
    rows = np.arange(32, 40) * 16
    columns = np.arange(64) // 16 * (160 * 16) + np.arange(64) % 16
    pieces = stored_pieces((rows, columns), gap=100)
    assert pieces is not None
    assert pieces.starts.tolist() == [512, 512 + 2560, 512 + 5120, 512 + 7680]
    assert pieces.length == 8 * 16


def test_a_gap_that_is_small_enough_is_read_along():
    vector = np.array([0, 1, 2, 10, 11, 50])
    (apart, joined) = (stored_pieces((vector,), gap=gap) for gap in (7, 8))
    assert apart is not None
    assert (apart.starts.tolist(), apart.length) == ([0, 10, 50], 3)
    assert joined is not None
    assert (joined.starts.tolist(), joined.length) == ([0, 50], 12)


def test_more_elements_than_may_be_are_refused():
    vector = (np.arange(10) * 100,)
    assert stored_pieces(vector, gap=1, most=9) is None
    assert stored_pieces(vector, gap=1, most=10) is not None
