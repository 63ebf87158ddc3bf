"""How the bytes of an extent hold the elements of a tensor: the words of `probe_flow.records.Extent.encoding`.

``raw`` is little endian in C order. Behind it, in this order: ``-big`` for swapped bytes, ``-fortran`` for Fortran
order or ``-strided:3,1`` for any other distances between elements, ``@float32`` when the file holds another dtype than
the tensor has. ``torch`` stands alone: torch has to load the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

TORCH = "torch"


class Encoding(Struct, frozen=True):
    """An encoding taken apart.

    Args:
        is_big_endian: bytes of an element are swapped.
        is_fortran_order: column-major.
        strides: distances between elements, by axis; None for C or Fortran order.
        stored_as: canonical dtype of the bytes; None = that of the tensor.
    """

    is_big_endian: bool = False
    is_fortran_order: bool = False
    strides: tuple[int, ...] | None = None
    stored_as: str | None = None


@lru_cache(maxsize=4096)
def parse_encoding(text: str) -> Encoding:
    """Take an encoding that begins with ``raw`` apart."""
    text, _, stored_as = text.partition("@")
    text, _, distances = text.partition("-strided:")
    return Encoding(
        is_big_endian="-big" in text,
        is_fortran_order=text.endswith("-fortran"),
        strides=tuple(int(word) for word in distances.split(",")) if distances else None,
        stored_as=stored_as or None,
    )


def strided(encoding: str, shape: Sequence[int], strides: Sequence[int]) -> str:
    """Add the distances between elements to an encoding, unless they are those of C order."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != expected:
            break
        expected *= size
    else:
        return encoding
    return encoding if 0 in shape else f"{encoding}-strided:{','.join(map(str, strides))}"


def restrided(encoding: str, strides: Sequence[int]) -> str:
    """Return an encoding that begins with ``raw`` with other distances between elements."""
    words, at, stored_as = encoding.partition("@")
    order = words.removesuffix("-fortran").partition("-strided:")[0]
    return f"{order}-strided:{','.join(map(str, strides))}{at}{stored_as}"


def held_as(encoding: str, dtype: str) -> str:
    """Say that the bytes are of another dtype than the tensor."""
    return f"{encoding}@{dtype}"
