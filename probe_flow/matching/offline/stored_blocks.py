"""Tell which logical shape a tensor has that is stored in blocks: that of its header, of the rules, or of its partner.

The blocks have room for several shapes in their padding, so what header and rules say comes first: a partner of another
size is another tensor, not one that is stored here with less padding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from probe_flow.matching.offline.axes import Shape, Told, count, fits, is_matrix, orders, to_logical
from probe_flow.records import TensorRef


def fitting_shape(ref: TensorRef, told: Told, partner: Shape | None) -> Shape | None:
    """Return the likeliest shape that fits the blocks, None when none does.

    Of several, it is one with as many elements as the partner. The partner's own shape is taken where neither header
    nor rules tell one that fits.
    """
    size = count(partner)
    first = None
    for shape in _candidates(ref, told):
        if first is None or math.prod(shape) == size:
            if not fits(ref, shape):
                continue
            if size is None or math.prod(shape) == size:
                return shape
            first = shape
    if first is not None:
        return first
    last = [*(_ways(ref, told, partner) if partner is not None else ()), *_header_shape(ref)]
    return next((shape for shape in last if fits(ref, shape)), None)


def _candidates(ref: TensorRef, told: Told) -> Iterator[Shape]:
    """Yield the logical shapes that header and rules give a blocked tensor, in the order of its layout."""
    known = ref.logical_shape if ref.logical_shape != ref.shape else None
    for shape in (known, told.shape):
        if shape is not None:
            yield from _ways(ref, told, shape)


def _header_shape(ref: TensorRef) -> Iterator[Shape]:
    """Yield the header's shape where it is that of the blocks, which hardly any layout allows."""
    if ref.logical_shape is not None and ref.logical_shape == ref.shape:
        yield ref.logical_shape


def _ways(ref: TensorRef, told: Told, shape: Shape) -> Iterator[Shape]:
    """Yield what a shape may mean in the order of axes of a blocked tensor, likeliest first."""
    if is_matrix(ref):
        yield shape
    elif len(shape) in (4, 5):
        for order in orders(len(shape), (told.layout,), layout=ref.layout):
            yield to_logical(shape, order)
    else:
        yield from _with_all_axes(shape)


def _with_all_axes(shape: Shape) -> Iterator[Shape]:
    """Yield a shape of fewer axes as NCHW: a vector is C, a matrix N and C, a line lies along H or W."""
    if len(shape) == 1:
        yield (1, *shape, 1, 1)
    elif len(shape) == 2:
        yield (*shape, 1, 1)
    elif len(shape) == 3:
        yield (*shape, 1)
        yield (*shape[:2], 1, shape[2])
