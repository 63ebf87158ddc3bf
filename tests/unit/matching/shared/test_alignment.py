"""Alignment of lists: against a textbook table, and what it must never do."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from probe_flow.matching.shared.alignment import MAX_TABLE_BITS, align, common_subsequence

letters = st.lists(st.sampled_from("abc"), max_size=14)


def textbook_length(first: list[str], second: list[str]) -> int:
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for row, one in enumerate(first):
        for column, other in enumerate(second):
            longer = max(table[row][column + 1], table[row + 1][column])
            table[row + 1][column + 1] = table[row][column] + 1 if one == other else longer
    return table[-1][-1]


@settings(max_examples=60, deadline=None)
@given(first=letters, second=letters)
def test_subsequence_is_common_increasing_and_as_long_as_the_textbooks(first: list[str], second: list[str]) -> None:
    pairs = common_subsequence(first, second)

    assert all(first[row] == second[column] for row, column in pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(pairs))
    assert len(pairs) == textbook_length(first, second)


def test_of_equal_elements_the_earliest_are_taken() -> None:
    assert common_subsequence("xxx", "xx") == [(0, 0), (1, 1)]
    assert common_subsequence("axxxb", "cxxd") == [(1, 1), (2, 2)]


def test_problems_beyond_the_table_are_aligned_at_their_ends() -> None:
    size = int(MAX_TABLE_BITS**0.5) + 10
    first = ["start", *range(size), "end"]
    second = ["start", *range(size, 2 * size), "end"]

    assert common_subsequence(first, second) == [(0, 0), (size + 1, size + 1)]


def signature(table: dict[int, str]) -> tuple[object, object]:
    return table.__getitem__, table.__getitem__


def test_lists_of_equal_length_pair_one_by_one() -> None:
    assert align([1, 2], [7, 8], []) == [(1, 7), (2, 8)]


def test_the_most_telling_signature_anchors_and_the_next_fills_the_gaps() -> None:
    strong = {0: "p", 1: "?", 2: "q", 3: "!", 10: "p", 11: "q", 12: "!"}
    weak = {0: "m", 1: "m", 2: "m", 3: "m", 10: "m", 11: "m", 12: "m"}

    pairs = align([0, 1, 2, 3], [10, 11, 12], [signature(strong), signature(weak)])  # type: ignore[list-item]
    assert pairs == [(0, 10), (2, 11), (3, 12)]


def test_a_stretch_that_nothing_aligns_stays_unpaired_unless_it_is_as_long() -> None:
    shapes = {0: "a", 1: "b", 2: "z", 10: "c", 11: "z", 20: "c"}

    assert align([0, 1, 2], [10, 11], [signature(shapes)]) == [(2, 11)]  # type: ignore[list-item]
    assert align([0, 2], [20, 10, 11], [signature({**shapes, 10: "a"})]) == [(0, 10), (2, 11)]  # type: ignore[list-item]
