"""The words that say how bytes hold elements."""

from __future__ import annotations

import pytest

from probe_flow.tensors.encoding import Encoding, held_as, parse_encoding, strided


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("raw", Encoding()),
        ("raw-big", Encoding(is_big_endian=True)),
        ("raw-fortran", Encoding(is_fortran_order=True)),
        ("raw-big-fortran", Encoding(is_big_endian=True, is_fortran_order=True)),
        ("raw-big-strided:3,1", Encoding(is_big_endian=True, strides=(3, 1))),
        ("raw-strided:0@float32", Encoding(strides=(0,), stored_as="float32")),
    ],
)
def test_words_are_taken_apart(text: str, encoding: Encoding) -> None:
    assert parse_encoding(text) == encoding


@pytest.mark.parametrize(
    ("shape", "strides", "text"),
    [
        ((), (), "raw"),
        ((2, 3), (3, 1), "raw"),
        ((1, 3), (99, 1), "raw"),
        ((2, 0), (5, 5), "raw"),
        ((2, 3), (1, 2), "raw-strided:1,2"),
        ((4,), (0,), "raw-strided:0"),
    ],
)
def test_distances_are_written_when_they_are_not_those_of_c_order(
    shape: tuple[int, ...], strides: tuple[int, ...], text: str
) -> None:
    assert strided("raw", shape, strides) == text


def test_another_dtype_stands_at_the_end() -> None:
    assert parse_encoding(held_as("raw-fortran", "float32")) == Encoding(is_fortran_order=True, stored_as="float32")
