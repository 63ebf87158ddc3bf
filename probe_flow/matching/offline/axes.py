"""In which order a shape counts its axes, and which logical shape a stored tensor has in the order NCHW."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache

from msgspec import Struct

from probe_flow.errors import NotComparableError
from probe_flow.records import TensorRef
from probe_flow.tensors.layouts import LOGICAL_ORDER, PLAIN_LAYOUTS, axis_offsets

Shape = tuple[int, ...]

_ORDERS = {
    4: ("NCHW", "NHWC", "HWCN", "CHWN"),
    5: ("NCDHW", "NDHWC", "DHWCN", "DHWNC"),
}
_COMMON = 2
"""How many of them data have; the others are those of weights."""

_KEPT = 1 << 14
"""Answers that are kept: the layers of a network repeat a few shapes."""

_NO_CONVERSION = "PF5110"
_MATRIX_LAYOUTS = ("FRACTAL_NZ", "FRACTAL_NZ_C0_16", "FRACTAL_NZ_C0_32")
_WEIGHT_LAYOUTS = ("FRACTAL_Z", "FRACTAL_Z_C04", "FRACTAL_Z_3D")


class Told(Struct, frozen=True):
    """What is known of a tensor from elsewhere: the order of its axes, its shape in that order, how it is stored."""

    layout: str = ""
    shape: Shape | None = None
    stored: str = ""


def is_order(label: str, rank: int) -> bool:
    """Tell whether a layout name is an order of that many axes."""
    return label in _ORDERS.get(rank, ())


def orders(rank: int, first: Iterable[str] = (), *, layout: str = "") -> Iterator[str]:
    """Yield the orders that a shape may be in, the told ones first; orders of weights only for layouts of weights."""
    known = _ORDERS.get(rank, ())
    usual = known if layout in _WEIGHT_LAYOUTS else known[:_COMMON]
    yield from dict.fromkeys((*(label for label in first if label in known), *usual))


def to_logical(shape: Shape, order: str) -> Shape:
    """Return a shape in the order NCHW or NCDHW."""
    return tuple(shape[order.index(axis)] for axis in LOGICAL_ORDER[len(shape)])


def from_logical(shape: Shape, order: str) -> Shape:
    """Return a shape in NCHW or NCDHW in another order."""
    logical = LOGICAL_ORDER[len(shape)]
    return tuple(shape[logical.index(axis)] for axis in order)


def is_plain(ref: TensorRef) -> bool:
    """Tell whether the stored order is the logical order, whatever the axes mean."""
    rank = len(ref.shape or ())
    return ref.layout in PLAIN_LAYOUTS or (_is_permuted(ref.layout) and rank != len(ref.layout))


def stored_order(ref: TensorRef) -> str | None:
    """Return the order of the stored axes where the layout says it."""
    rank = len(ref.shape or ())
    return ref.layout if is_order(ref.layout, rank) else None


def is_matrix(ref: TensorRef) -> bool:
    """Tell whether only the last two axes are in blocks, whatever they mean."""
    return ref.layout in _MATRIX_LAYOUTS


def fits(ref: TensorRef, logical: Shape) -> bool:
    """Tell whether the stored blocks hold exactly this logical shape."""
    return ref.shape is not None and _fits(ref.layout, ref.shape, logical, ref.sub_format)


def is_convertible(ref: TensorRef) -> bool:
    """Tell whether the layout has a conversion at all, whatever the shape."""
    return _is_convertible(ref.layout)


@lru_cache(maxsize=_KEPT)
def _fits(layout: str, stored: Shape, logical: Shape, sub_format: int) -> bool:
    if any(dim < 0 for dim in logical) or math.prod(logical) == 0:
        return False
    try:
        axis_offsets(layout, stored, logical, sub_format=sub_format)
    except NotComparableError:
        return False
    return True


@lru_cache(maxsize=_KEPT)
def _is_convertible(layout: str) -> bool:
    try:
        axis_offsets(layout, (), (1,))
    except NotComparableError as error:
        return error.diagnostic.code != _NO_CONVERSION
    return True


def count(shape: Shape | None) -> int | None:
    """Return the number of elements."""
    return None if shape is None else math.prod(shape)


def without_ones(shape: Shape) -> Shape:
    """Return a shape without its axes of length one."""
    return tuple(dim for dim in shape if dim != 1)


def _is_permuted(layout: str) -> bool:
    return any(layout in known for known in _ORDERS.values())
