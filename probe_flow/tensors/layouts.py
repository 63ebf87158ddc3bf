"""Private storage layouts of the device: where each logical element lies among the stored ones.

In every layout the stored flat index of a logical element is a sum of one term per logical axis. A layout is
therefore described by one vector of offsets per axis, whatever the size of the tensor. Where two axes are tied to each
other (filters and channels of a grouped convolution) one vector stands for both.

Source: the public definitions of the device layouts. Block sizes (C0, N0) are always read from the stored shape. Device
dumps give logical 4-D shapes in the order NCHW and 5-D shapes in the order NCDHW.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from probe_flow.errors import Diagnostic, NotComparableError
from probe_flow.tensors.blocked_layouts import BLOCKED, Offsets, Shape, contradiction

PLAIN_LAYOUTS = frozenset({"", "ND", "NCHW", "NCDHW", "NCL", "NC", "MD", "RESERVED", "ALL", "NULL"})
"""Layouts whose stored order is the logical order."""

LOGICAL_ORDER: Mapping[int, str] = MappingProxyType({4: "NCHW", 5: "NCDHW"})
"""In which order a logical shape counts its axes, by their number."""

PERMUTED_LAYOUTS = frozenset({"NHWC", "HWCN", "CHWN", "NDHWC", "DHWCN", "DHWNC"})
"""Layouts that are the logical axes in another order, which their name gives."""


def axis_offsets(layout: str, stored_shape: Shape, logical_shape: Shape, *, sub_format: int = 0) -> Offsets | None:
    """Return the stored offset that each logical axis adds, or None when the stored order is the logical order.

    Args:
        layout: storage layout, e.g. ``FRACTAL_NZ``.
        stored_shape: shape of the stored elements, padding included.
        logical_shape: shape without padding, in NCHW or NCDHW order for 4 and 5 axes.
        sub_format: groups of a FRACTAL_Z or FRACTAL_Z_3D weight; 0 and 1 mean ungrouped.

    Returns:
        One int64 vector per logical axis (one for two merged axes, whose length is the product): the outer sum of the
        vectors in C order lists the stored index of every logical element. None also for tensors without elements.

    Raises:
        NotComparableError: PF5110 if the layout has no known conversion, PF5113 if the shapes contradict each other.
    """
    if math.prod(logical_shape) == 0:
        return None
    if layout in PLAIN_LAYOUTS:
        _check_plain(layout, stored_shape, logical_shape)
        return None
    if layout in PERMUTED_LAYOUTS:
        return _permuted(layout, stored_shape, logical_shape)
    if layout not in BLOCKED:
        raise NotComparableError(
            Diagnostic(
                "PF5110",
                f"layout `{layout}` has no exact conversion to logical order",
                help="convert the tensor to ND before it is dumped, or list it as not comparable with this reason",
            )
        )
    return BLOCKED[layout](layout, stored_shape, logical_shape, max(1, sub_format))


class LogicalIndex:
    """Stored indices of logical elements, made block by block.

    The offsets of as many trailing axes as fit into ``inner_limit`` elements are summed once; a block then only adds
    those of the leading axes.

    Args:
        offsets: from `axis_offsets`.
        inner_limit: elements of the part that is summed beforehand (8 bytes each).
    """

    def __init__(self, offsets: Offsets, *, inner_limit: int = 1 << 18) -> None:
        inner = np.zeros(1, dtype=np.int64)
        leading = len(offsets)
        while leading and (inner.size == 1 or inner.size * offsets[leading - 1].size <= inner_limit):
            leading -= 1
            inner = np.add.outer(offsets[leading], inner).reshape(-1)
        self._inner = inner
        self._outer = offsets[:leading]
        self._outer_shape = tuple(vector.size for vector in self._outer)
        self.numel = math.prod(self._outer_shape) * inner.size

    def stored(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the stored flat indices of logical elements ``[start, stop)``; memory is that of the block."""
        if not 0 <= start <= stop <= self.numel:
            raise IndexError(f"elements {start} to {stop} of {self.numel}")
        size = self._inner.size
        first, end = start // size, -(-stop // size)
        if end - first <= 1:
            base = int(self._base(np.array([first], dtype=np.int64))[0]) if stop > start else 0
            return self._inner[start - first * size : stop - first * size] + base
        rows = self._base(np.arange(first, end, dtype=np.int64))
        return np.add.outer(rows, self._inner).reshape(-1)[start - first * size : stop - first * size]

    def _base(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        total = np.zeros(rows.size, dtype=np.int64)
        for vector in reversed(self._outer):
            rows, position = np.divmod(rows, vector.size)
            total += vector[position]
        return total


def gather(
    take: Callable[[NDArray[np.int64]], NDArray[np.generic]], index: LogicalIndex, start: int, stop: int
) -> NDArray[np.generic]:
    """Return logical elements ``[start, stop)``.

    Args:
        take: gives the stored elements at flat indices, e.g. ``lambda i: decode_at(raw, "float16", i)``.
        index: of the tensor.
        start: first logical element.
        stop: end (exclusive).
    """
    return take(index.stored(start, stop))


def _check_plain(layout: str, stored: Shape, logical: Shape) -> None:
    if math.prod(stored) != math.prod(logical):
        raise contradiction(layout, stored, logical, "the element counts differ")


def _permuted(layout: str, stored: Shape, logical: Shape) -> Offsets | None:
    if len(stored) != len(layout):
        # A 4-D or 5-D label on another rank says nothing; dump writers put it on vectors and matrices.
        _check_plain(layout, stored, logical)
        return None
    order = LOGICAL_ORDER[len(layout)]
    sizes = dict(zip(layout, stored, strict=True))
    if tuple(sizes[axis] for axis in order) != logical:
        if stored == logical:  # the logical shape itself is written in the stored order
            return None
        raise contradiction(layout, stored, logical, f"the axes of `{layout}` do not give it in {order} order")
    strides = {axis: math.prod(stored[place + 1 :]) for place, axis in enumerate(layout)}
    return tuple(np.arange(sizes[axis], dtype=np.int64) * strides[axis] for axis in order)


MATRIX_LAYOUTS = frozenset({"FRACTAL_NZ", "FRACTAL_NZ_C0_16", "FRACTAL_NZ_C0_32", "FRACTAL_ZZ"})
"""Layouts of matrices: their axes are rows and columns, whatever a label calls them."""


_OTHERS = ("NHWC", "HWCN", "CHWN", "NDHWC", "DHWCN", "DHWNC")
"""Other orders, the usual ones of frameworks first."""


def in_logical_order(shape: Shape, given: str) -> Shape:
    """Return a shape in NCHW or NCDHW order that is given in another one.

    >>> in_logical_order((1, 5, 6, 3), "NHWC")
    (1, 3, 5, 6)
    """
    sizes = dict(zip(given, shape, strict=True))
    return tuple(sizes[axis] for axis in LOGICAL_ORDER[len(given)])


def logical_shape_of(
    layout: str, stored: Shape, given: Shape, *, sub_format: int = 0, preferred: Sequence[str] = ()
) -> Shape:
    """Return the shape of a tensor in NCHW or NCDHW order, whichever order a dump gives it in.

    Args:
        layout: storage layout.
        stored: stored shape, which decides: it fits one order, seldom several.
        given: the shape as the dump gives it.
        sub_format: groups of a convolution.
        preferred: orders to try first where several fit.

    Raises:
        NotComparableError: as `axis_offsets` for the shape as it is given, when no order fits.
    """
    if len(given) not in LOGICAL_ORDER or layout in MATRIX_LAYOUTS or layout in PLAIN_LAYOUTS:
        return given
    if layout in PERMUTED_LAYOUTS and len(layout) == len(stored):
        return in_logical_order(stored, layout)
    usual = LOGICAL_ORDER[len(given)]
    for order in dict.fromkeys((*preferred, usual, *_OTHERS)):
        if sorted(order) != sorted(usual):
            continue
        shape = in_logical_order(given, order)
        try:
            axis_offsets(layout, stored, shape, sub_format=sub_format)
        except NotComparableError:
            continue
        return shape
    axis_offsets(layout, stored, given, sub_format=sub_format)
    return given
