"""In which order a dump gives a logical shape: frameworks with channels last record theirs beside the same blocks."""

from __future__ import annotations

from collections.abc import Sequence

from probe_flow.errors import NotComparableError
from probe_flow.tensors.blocked_layouts import Shape
from probe_flow.tensors.layouts import LOGICAL_ORDER, PERMUTED_LAYOUTS, PLAIN_LAYOUTS, axis_offsets

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
