"""Layouts that cut axes into blocks and pad them: the stored offset that each logical axis adds.

``C1`` and ``C0`` stand for the number of blocks of an axis C and the elements of one; likewise N1 and N0. Padding fills
the last block of an axis and is nobody's element. Source: the public definitions of the device layouts; groups share a
block on its diagonal as the public definition of grouped FRACTAL_Z says.
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

CHANNELS_OF_C04 = 4
"""Channels of one pixel that the C04 layouts keep together."""


def contradiction(layout: str, stored: Shape, logical: Shape, reason: str) -> NotComparableError:
    """Return the error of two shapes that cannot belong to one tensor."""
    return NotComparableError(
        Diagnostic(
            "PF5113",
            f"stored shape {stored} in layout `{layout}` does not hold logical shape {logical}: {reason}",
            help="check the format and the original shape that the dump records for this tensor",
        )
    )


def merged_groups(channels: int, filters: int, groups: int, *, c0: int, n0: int) -> int:
    """Return how many groups of a grouped convolution share a block.

    Args:
        channels: channels of one group.
        filters: filters of one group.
        groups: their number.
        c0, n0: elements of a block of channels and of filters.
    """
    return min(math.lcm(math.lcm(channels, c0) // channels, math.lcm(filters, n0) // filters), groups)


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


def _matrix_shapes(layout: str, stored: Shape, logical: Shape) -> tuple[Shape, int, int]:
    """Return the batch axes, rows and columns of a matrix layout; a vector is a matrix of one row."""
    rows, columns = (1, 1, *logical)[-2:]
    batches = logical[:-2]
    if not logical or len(stored) != len(batches) + 4 or stored[: len(batches)] != batches:
        raise contradiction(layout, stored, logical, "expected the batch axes and then four axes of blocks")
    return batches, rows, columns


def _fractal_nz(layout: str, stored: Shape, logical: Shape, groups: int) -> Offsets:  # noqa: ARG001
    """Matrix axes (N, C) stored as (C1, N1, N0, C0); leading axes are batches."""
    *_, c1, n1, n0, c0 = (1, 1, 1, 1, *stored)
    return _matrix(layout, stored, logical, blocks=(n1, c1), steps=(n0 * c0, n1 * n0 * c0))


def _fractal_zz(layout: str, stored: Shape, logical: Shape, groups: int) -> Offsets:  # noqa: ARG001
    """Matrix axes (N, C) stored as (N1, C1, N0, C0); leading axes are batches."""
    *_, n1, c1, n0, c0 = (1, 1, 1, 1, *stored)
    return _matrix(layout, stored, logical, blocks=(n1, c1), steps=(c1 * n0 * c0, n0 * c0))


def _matrix(layout: str, stored: Shape, logical: Shape, *, blocks: tuple[int, int], steps: tuple[int, int]) -> Offsets:
    """Return the offsets of a matrix in blocks: how many there are, and how far apart, along its rows and columns."""
    batches, rows, columns = _matrix_shapes(layout, stored, logical)
    n0, c0 = stored[-2:]
    if not (_is_padded(rows, blocks[0], n0) and _is_padded(columns, blocks[1], c0)):
        raise contradiction(layout, stored, logical, "the blocks do not cover the last two axes exactly")
    vectors = [_steps(size, math.prod(stored[axis + 1 :])) for axis, size in enumerate(batches)]
    if len(logical) > 1:
        vectors.append(_split(rows, n0, outer=steps[0], inner=c0))
    vectors.append(_split(columns, c0, outer=steps[1], inner=1))
    return tuple(vectors)


def _nc1hwc0(layout: str, stored: Shape, logical: Shape, groups: int) -> Offsets:  # noqa: ARG001
    if len(stored) != 5 or len(logical) != 4:
        raise contradiction(layout, stored, logical, "expected (N, C1, H, W, C0) for an NCHW tensor")
    n, c, h, w = logical
    c1, c0 = stored[1], stored[4]
    if (stored[0], stored[2], stored[3]) != (n, h, w) or not _is_padded(c, c1, c0):
        raise contradiction(layout, stored, logical, "N, H, W differ or the blocks do not cover C exactly")
    plane = h * w * c0
    return _steps(n, c1 * plane), _split(c, c0, outer=plane, inner=1), _steps(h, w * c0), _steps(w, c0)


def _ndc1hwc0(layout: str, stored: Shape, logical: Shape, groups: int) -> Offsets:  # noqa: ARG001
    if len(stored) != 6 or len(logical) != 5:
        raise contradiction(layout, stored, logical, "expected (N, D, C1, H, W, C0) for an NCDHW tensor")
    n, c, d, h, w = logical
    c1, c0 = stored[2], stored[5]
    if (stored[0], stored[1], stored[3], stored[4]) != (n, d, h, w) or not _is_padded(c, c1, c0):
        raise contradiction(layout, stored, logical, "N, D, H, W differ or the blocks do not cover C exactly")
    plane = h * w * c0
    return (
        _steps(n, d * c1 * plane),
        _split(c, c0, outer=plane, inner=1),
        _steps(d, c1 * plane),
        _steps(h, w * c0),
        _steps(w, c0),
    )


def _c1hwncoc0(layout: str, stored: Shape, logical: Shape, groups: int) -> Offsets:  # noqa: ARG001
    """Weights of a depthwise convolution: channel ``c % C0`` lies on the diagonal of a block (Co, C0)."""
    if len(stored) != 6 or len(logical) != 4:
        raise contradiction(layout, stored, logical, "expected (C1, H, W, N, Co, C0) for an NCHW tensor")
    n, c, h, w = logical
    c1, c0 = stored[0], stored[5]
    if stored[1:5] != (h, w, n, c0) or not _is_padded(c, c1, c0):
        raise contradiction(layout, stored, logical, "H, W, N differ, or no square blocks cover C exactly")
    block = c0 * c0
    return (
        _steps(n, block),
        _split(c, c0, outer=h * w * n * block, inner=c0 + 1),
        _steps(h, w * n * block),
        _steps(w, n * block),
    )


def _fractal_z_c04(layout: str, stored: Shape, logical: Shape, groups: int) -> Offsets:  # noqa: ARG001
    """Weights with few channels: pixels of four channels follow each other and are cut into blocks together.

    Returns two vectors: filters, then channels, H and W together.
    """
    if len(stored) != 4 or len(logical) != 4:
        raise contradiction(layout, stored, logical, "expected (C1*H*W*4/C0, N1, N0, C0) for an NCHW tensor")
    n, c, h, w = logical
    blocks, n1, n0, c0 = stored
    pixels = -(-c // CHANNELS_OF_C04) * h * w
    if not (_is_padded(n, n1, n0) and _is_padded(pixels * CHANNELS_OF_C04, blocks, c0)):
        raise contradiction(layout, stored, logical, "the blocks do not cover N and the pixels exactly")
    group, place = np.divmod(np.arange(c, dtype=np.int64), CHANNELS_OF_C04)
    pixel = np.arange(h * w, dtype=np.int64)
    along = np.add.outer(group * h * w, pixel) * CHANNELS_OF_C04 + place[:, np.newaxis]
    offsets: NDArray[np.int64] = along // c0 * (n1 * n0 * c0) + along % c0
    return _split(n, n0, outer=n0 * c0, inner=c0), offsets.reshape(-1)


def _fractal_z(layout: str, stored: Shape, logical: Shape, groups: int) -> Offsets:
    if len(stored) != 4 or len(logical) != 4:
        raise contradiction(layout, stored, logical, "expected (C1*H*W, N1, N0, C0) for an NCHW tensor")
    n, c, h, w = logical
    weights = _weights(layout, stored, logical, (n, c, 1, h, w), groups)
    return (*weights[:-3], *weights[-2:])


def _fractal_z_3d(layout: str, stored: Shape, logical: Shape, groups: int) -> Offsets:
    if len(stored) != 4 or len(logical) != 5:
        raise contradiction(layout, stored, logical, "expected (D*C1*H*W, N1, N0, C0) for an NCDHW tensor")
    n, c, d, h, w = logical
    return _weights(layout, stored, logical, (n, c, d, h, w), groups)


def _fractal_z_3d_transpose(layout: str, stored: Shape, logical: Shape, groups: int) -> Offsets:  # noqa: ARG001
    """Return those of FRACTAL_Z_3D with the parts of N and C exchanged: (D*N1*H*W, C1, C0, N0)."""
    if len(stored) != 4 or len(logical) != 5:
        raise contradiction(layout, stored, logical, "expected (D*N1*H*W, C1, C0, N0) for an NCDHW tensor")
    n, c, d, h, w = logical
    channels, filters, *rest = _weights(layout, stored, logical, (c, n, d, h, w), 1)
    return filters, channels, *rest


def _weights(layout: str, stored: Shape, logical: Shape, sizes: Shape, groups: int) -> Offsets:
    """Return the offsets of N, C, D, H and W stored as (D*C1*H*W, N1, N0, C0); N and C are merged where grouped."""
    n, c, d, h, w = sizes
    rows, n1, n0, c0 = stored
    plane = n1 * n0 * c0
    if groups > 1:
        filters, c1 = _grouped(layout, stored, logical, sizes, groups)
    else:
        c1 = -(-c // c0) if c0 > 0 else 0
        if not _is_padded(n, n1, n0) or c0 <= 0 or rows != d * c1 * h * w:
            raise contradiction(layout, stored, logical, "the blocks do not cover N and C exactly")
        filters = (_split(n, n0, outer=n0 * c0, inner=c0), _split(c, c0, outer=h * w * plane, inner=1))
    return (*filters, _steps(d, c1 * h * w * plane), _steps(h, w * plane), _steps(w, plane))


def _grouped(layout: str, stored: Shape, logical: Shape, sizes: Shape, groups: int) -> tuple[Offsets, int]:
    """Return the one vector of filters and channels together, and C1: several groups share a block, on its diagonal."""
    n, c, d, h, w = sizes
    rows, n1, n0, c0 = stored
    if n % groups:
        raise contradiction(layout, stored, logical, f"its filters are no multiple of the {groups} groups")
    filters = n // groups
    if min(n0, c0) <= 0:
        raise contradiction(layout, stored, logical, "a block is empty")
    merged = merged_groups(c, filters, groups, c0=c0, n0=n0)
    c1 = -(-merged * c // c0)
    if rows != -(-groups // merged) * d * c1 * h * w or not _is_padded(merged * filters, n1, n0):
        raise contradiction(layout, stored, logical, f"the blocks do not fit {groups} groups")
    group, in_group = np.divmod(np.arange(n, dtype=np.int64)[:, np.newaxis], filters)
    block, place = np.divmod(group, merged)
    channel = place * c + np.arange(c, dtype=np.int64)
    filter_ = place * filters + in_group
    plane = n1 * n0 * c0
    offsets = (block * d * c1 + channel // c0) * (h * w * plane) + channel % c0 + filter_ * c0
    return (offsets.reshape(-1),), c1


BLOCKED: Mapping[str, Callable[[str, Shape, Shape, int], Offsets]] = MappingProxyType(
    {
        "FRACTAL_NZ": _fractal_nz,
        "FRACTAL_NZ_C0_16": _fractal_nz,
        "FRACTAL_NZ_C0_32": _fractal_nz,
        "FRACTAL_ZZ": _fractal_zz,
        "NC1HWC0": _nc1hwc0,
        "NC1HWC0_C04": _nc1hwc0,
        "NDC1HWC0": _ndc1hwc0,
        "FRACTAL_Z": _fractal_z,
        "FRACTAL_Z_C04": _fractal_z_c04,
        "FRACTAL_Z_3D": _fractal_z_3d,
        "FRACTAL_Z_3D_TRANSPOSE": _fractal_z_3d_transpose,
        "C1HWNCoC0": _c1hwncoc0,
    }
)
"""Layout -> function of the layout, the stored shape, the logical shape and the number of groups (from 1)."""
