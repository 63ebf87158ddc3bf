"""Private storage layouts of the device: where each logical element lies among the stored ones.

In every layout the stored flat index of a logical element is a sum of one term per logical axis. A layout is
therefore described by one vector of offsets per axis, whatever the size of the tensor. Where two axes are tied to each
other (filters and channels of a grouped convolution) one vector stands for both.

Source: the public definitions of the device layouts. Block sizes (C0, N0) are always read from the stored shape. Device
dumps give logical 4-D shapes in the order NCHW and 5-D shapes in the order NCDHW.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from probe_flow.errors import Diagnostic, NotComparableError

Shape = tuple[int, ...]
Offsets = tuple[NDArray[np.int64], ...]

PLAIN_LAYOUTS = frozenset({"", "ND", "NCHW", "NCDHW", "NCL", "NC", "MD", "RESERVED", "ALL", "NULL"})
"""Layouts whose stored order is the logical order."""

LOGICAL_ORDER: Mapping[int, str] = MappingProxyType({4: "NCHW", 5: "NCDHW"})
"""In which order a logical shape counts its axes, by their number."""

_PERMUTED = frozenset({"NHWC", "HWCN", "CHWN", "NDHWC", "DHWCN", "DHWNC"})


def axis_offsets(layout: str, stored_shape: Shape, logical_shape: Shape, *, sub_format: int = 0) -> Offsets | None:
    """Return the stored offset that each logical axis adds, or None when the stored order is the logical order.

    Args:
        layout: storage layout, e.g. ``FRACTAL_NZ``.
        stored_shape: shape of the stored elements, padding included.
        logical_shape: shape without padding, in NCHW or NCDHW order for 4 and 5 axes.
        sub_format: groups of a FRACTAL_Z weight; 0 and 1 mean ungrouped.

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
    if layout in _PERMUTED:
        return _permuted(layout, stored_shape, logical_shape)
    if layout not in _BLOCKED:
        raise NotComparableError(
            Diagnostic(
                "PF5110",
                f"layout `{layout}` has no exact conversion to logical order",
                help="convert the tensor to ND before it is dumped, or list it as not comparable with this reason",
            )
        )
    if layout == "FRACTAL_Z" and sub_format > 1:
        return _fractal_z_grouped(stored_shape, logical_shape, sub_format)
    return _BLOCKED[layout](layout, stored_shape, logical_shape)


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
        raise _contradiction(layout, stored, logical, "the element counts differ")


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
        raise _contradiction(layout, stored, logical, f"the axes of `{layout}` do not give it in {order} order")
    strides = {axis: math.prod(stored[place + 1 :]) for place, axis in enumerate(layout)}
    return tuple(np.arange(sizes[axis], dtype=np.int64) * strides[axis] for axis in order)


def _split(size: int, block: int, *, outer: int, inner: int) -> NDArray[np.int64]:
    """Return the offsets of an axis that is stored as (axis // block, axis % block) with these strides."""
    at = np.arange(size, dtype=np.int64)
    offsets: NDArray[np.int64] = at // block * outer + at % block * inner
    return offsets


def _steps(size: int, stride: int) -> NDArray[np.int64]:
    return np.arange(size, dtype=np.int64) * stride


def _is_padded(size: int, blocks: int, block: int) -> bool:
    """Whether ``blocks`` blocks are what ``size`` elements need: no fewer, no more."""
    return block > 0 and blocks == -(-size // block)


def _fractal_nz(layout: str, stored: Shape, logical: Shape) -> Offsets:
    """Matrix axes (N, C) stored as (C1, N1, N0, C0); leading axes are batches; a vector is a matrix of one row."""
    rows, columns = (1, 1, *logical)[-2:]
    batches = logical[:-2]
    if not logical or len(stored) != len(batches) + 4 or stored[: len(batches)] != batches:
        raise _contradiction(layout, stored, logical, "expected the batch axes and then (C1, N1, N0, C0)")
    c1, n1, n0, c0 = stored[len(batches) :]
    if not (_is_padded(rows, n1, n0) and _is_padded(columns, c1, c0)):
        raise _contradiction(layout, stored, logical, "the blocks do not cover the last two axes exactly")
    vectors = [_steps(size, math.prod(stored[axis + 1 :])) for axis, size in enumerate(batches)]
    if len(logical) > 1:
        vectors.append(_split(rows, n0, outer=n0 * c0, inner=c0))
    vectors.append(_split(columns, c0, outer=n1 * n0 * c0, inner=1))
    return tuple(vectors)


def _nc1hwc0(layout: str, stored: Shape, logical: Shape) -> Offsets:
    if len(stored) != 5 or len(logical) != 4:
        raise _contradiction(layout, stored, logical, "expected (N, C1, H, W, C0) for an NCHW tensor")
    n, c, h, w = logical
    c1, c0 = stored[1], stored[4]
    if (stored[0], stored[2], stored[3]) != (n, h, w) or not _is_padded(c, c1, c0):
        raise _contradiction(layout, stored, logical, "N, H, W differ or the blocks do not cover C exactly")
    plane = h * w * c0
    return _steps(n, c1 * plane), _split(c, c0, outer=plane, inner=1), _steps(h, w * c0), _steps(w, c0)


def _ndc1hwc0(layout: str, stored: Shape, logical: Shape) -> Offsets:
    if len(stored) != 6 or len(logical) != 5:
        raise _contradiction(layout, stored, logical, "expected (N, D, C1, H, W, C0) for an NCDHW tensor")
    n, c, d, h, w = logical
    c1, c0 = stored[2], stored[5]
    if (stored[0], stored[1], stored[3], stored[4]) != (n, d, h, w) or not _is_padded(c, c1, c0):
        raise _contradiction(layout, stored, logical, "N, D, H, W differ or the blocks do not cover C exactly")
    plane = h * w * c0
    return (
        _steps(n, d * c1 * plane),
        _split(c, c0, outer=plane, inner=1),
        _steps(d, c1 * plane),
        _steps(h, w * c0),
        _steps(w, c0),
    )


def _fractal_z(layout: str, stored: Shape, logical: Shape) -> Offsets:
    if len(stored) != 4 or len(logical) != 4:
        raise _contradiction(layout, stored, logical, "expected (C1*H*W, N1, N0, C0) for an NCHW tensor")
    n, c, h, w = logical
    rows, n1, n0, c0 = stored
    if not _is_padded(n, n1, n0) or c0 <= 0 or rows != -(-c // c0) * h * w:
        raise _contradiction(layout, stored, logical, "the blocks do not cover N and C exactly")
    plane = n1 * n0 * c0
    return (
        _split(n, n0, outer=n0 * c0, inner=c0),
        _split(c, c0, outer=h * w * plane, inner=1),
        _steps(h, w * plane),
        _steps(w, plane),
    )


def _fractal_z_grouped(stored: Shape, logical: Shape, groups: int) -> Offsets:
    """Weights of a grouped convolution: several groups share one block, on its diagonal.

    Returns three vectors: filters and channels together, then H, then W.
    """
    if len(stored) != 4 or len(logical) != 4 or logical[0] % groups:
        reason = f"expected (C1*H*W, N1, N0, C0) for an NCHW tensor whose N is a multiple of the {groups} groups"
        raise _contradiction("FRACTAL_Z", stored, logical, reason)
    n, c, h, w = logical
    rows, n1, n0, c0 = stored
    filters = n // groups
    if min(n0, c0) <= 0:
        raise _contradiction("FRACTAL_Z", stored, logical, "a block is empty")
    merged = min(math.lcm(math.lcm(c, c0) // c, math.lcm(filters, n0) // filters), groups)
    c1 = -(-merged * c // c0)
    if rows != -(-groups // merged) * c1 * h * w or not _is_padded(merged * filters, n1, n0):
        raise _contradiction("FRACTAL_Z", stored, logical, f"the blocks do not fit {groups} groups")
    group, in_group = np.divmod(np.arange(n, dtype=np.int64)[:, np.newaxis], filters)
    block, place = np.divmod(group, merged)
    channel = place * c + np.arange(c, dtype=np.int64)
    filter_ = place * filters + in_group
    plane = n1 * n0 * c0
    offsets = (block * c1 + channel // c0) * (h * w * plane) + channel % c0 + filter_ * c0
    return offsets.reshape(-1), _steps(h, w * plane), _steps(w, plane)


_BLOCKED: Mapping[str, Callable[[str, Shape, Shape], Offsets]] = MappingProxyType(
    {
        "FRACTAL_NZ": _fractal_nz,
        "FRACTAL_NZ_C0_16": _fractal_nz,
        "FRACTAL_NZ_C0_32": _fractal_nz,
        "NC1HWC0": _nc1hwc0,
        "NC1HWC0_C04": _nc1hwc0,
        "NDC1HWC0": _ndc1hwc0,
        "FRACTAL_Z": _fractal_z,
    }
)


def _contradiction(layout: str, stored: Shape, logical: Shape, reason: str) -> NotComparableError:
    return NotComparableError(
        Diagnostic(
            "PF5113",
            f"stored shape {stored} in layout `{layout}` does not hold logical shape {logical}: {reason}",
            help="check the format and the original shape that the dump records for this tensor",
        )
    )
