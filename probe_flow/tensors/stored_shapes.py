"""The shape that a tensor takes in a storage layout: the way from logical shapes to blocks.

`layouts.axis_offsets` then says where each element lies. Source: the public definitions of the device layouts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from probe_flow.errors import Diagnostic, NotComparableError
from probe_flow.tensors.blocked_layouts import CHANNELS_OF_C04, Shape, contradiction, merged_groups
from probe_flow.tensors.layouts import LOGICAL_ORDER, PERMUTED_LAYOUTS, PLAIN_LAYOUTS

CUBE = 16
"""Rows of a block (N0) in every layout."""

_BLOCK_BITS = 256
"""A row of a block has 32 bytes of the narrow element types, and `CUBE` elements of the others."""


class Blocks(Struct, frozen=True):
    """Sizes of blocks: ``c0`` of channels or columns, ``n0`` of filters or rows; ``groups`` of a convolution."""

    c0: int = CUBE
    n0: int = CUBE
    groups: int = 1


def usual_c0(bits: int) -> int:
    """Return C0 for an element type of so many bits.

    >>> usual_c0(16), usual_c0(32), usual_c0(8), usual_c0(4)
    (16, 16, 32, 64)
    """
    return max(CUBE, _BLOCK_BITS // bits)


def stored_shape(layout: str, logical: Shape, blocks: Blocks) -> Shape:
    """Return the shape of a tensor in a layout, padding included.

    Args:
        layout: where to.
        logical: shape without padding, in NCHW or NCDHW order for 4 and 5 axes.
        blocks: their sizes; ``NC1HWC0_C04`` has a C0 of its own.

    Raises:
        NotComparableError: PF5110 if the layout has no known conversion, PF5113 if it takes no tensor of this rank.
    """
    if layout in PLAIN_LAYOUTS:
        return logical
    if layout in PERMUTED_LAYOUTS:
        if len(layout) != len(logical):
            raise _rank(layout, logical, len(layout))
        sizes = dict(zip(LOGICAL_ORDER[len(layout)], logical, strict=True))
        return tuple(sizes[axis] for axis in layout)
    if layout not in _RULES:
        raise NotComparableError(
            Diagnostic(
                "PF5110",
                f"no tensor can be brought into layout `{layout}`: its rule is not published",
                help="there are " + ", ".join(sorted(CONVERTIBLE)),
            )
        )
    rank, rule = _RULES[layout]
    if not has_tensors_of(layout, len(logical)):
        raise _rank(layout, logical, rank)
    return rule(logical, blocks)


def has_tensors_of(layout: str, axes: int) -> bool:
    """Tell whether there are tensors of so many axes in a layout of blocks; others take any.

    >>> has_tensors_of("NC1HWC0", 1), has_tensors_of("FRACTAL_NZ", 1), has_tensors_of("NHWC", 1)
    (False, True, True)
    """
    rank = _RULES[layout][0] if layout in _RULES else None
    return rank is None or (axes == rank if rank else axes > 0)


def _ceil(size: int, block: int) -> int:
    return -(-size // block)


def _nz(logical: Shape, blocks: Blocks) -> Shape:
    rows, columns = (1, *logical)[-2:]
    return (*logical[:-2], _ceil(columns, blocks.c0), _ceil(rows, blocks.n0), blocks.n0, blocks.c0)


def _zz(logical: Shape, blocks: Blocks) -> Shape:
    rows, columns = (1, *logical)[-2:]
    return (*logical[:-2], _ceil(rows, blocks.n0), _ceil(columns, blocks.c0), blocks.n0, blocks.c0)


def _nc1hwc0(logical: Shape, blocks: Blocks) -> Shape:
    n, c, h, w = logical
    return n, _ceil(c, blocks.c0), h, w, blocks.c0


def _nc1hwc0_c04(logical: Shape, blocks: Blocks) -> Shape:  # noqa: ARG001
    n, c, h, w = logical
    return n, _ceil(c, CHANNELS_OF_C04), h, w, CHANNELS_OF_C04


def _ndc1hwc0(logical: Shape, blocks: Blocks) -> Shape:
    n, c, d, h, w = logical
    return n, d, _ceil(c, blocks.c0), h, w, blocks.c0


def _c1hwncoc0(logical: Shape, blocks: Blocks) -> Shape:
    n, c, h, w = logical
    return _ceil(c, blocks.c0), h, w, n, blocks.c0, blocks.c0


def _fractal_z_c04(logical: Shape, blocks: Blocks) -> Shape:
    n, c, h, w = logical
    pixels = _ceil(c, CHANNELS_OF_C04) * h * w
    return _ceil(pixels * CHANNELS_OF_C04, blocks.c0), _ceil(n, blocks.n0), blocks.n0, blocks.c0


def _fractal_z(logical: Shape, blocks: Blocks) -> Shape:
    n, c, h, w = logical
    return _weights("FRACTAL_Z", logical, (n, c, h * w), blocks)


def _fractal_z_3d(logical: Shape, blocks: Blocks) -> Shape:
    n, c, d, h, w = logical
    return _weights("FRACTAL_Z_3D", logical, (n, c, d * h * w), blocks)


def _fractal_z_3d_transpose(logical: Shape, blocks: Blocks) -> Shape:
    n, c, d, h, w = logical
    return _weights("FRACTAL_Z_3D_TRANSPOSE", logical, (c, n, d * h * w), Blocks(blocks.c0, blocks.n0))


def _weights(layout: str, logical: Shape, sizes: Shape, blocks: Blocks) -> Shape:
    """Return (kernel * C1, N1, N0, C0); groups that share a block come first."""
    n, c, kernel = sizes
    c0, n0, groups = blocks.c0, blocks.n0, blocks.groups
    if groups <= 1 or not math.prod(sizes):
        return _ceil(c, c0) * kernel, _ceil(n, n0), n0, c0
    if n % groups:
        raise contradiction(layout, (), logical, f"its filters are no multiple of the {groups} groups")
    merged = merged_groups(c, n // groups, groups, c0=c0, n0=n0)
    rows = _ceil(groups, merged) * _ceil(merged * c, c0) * kernel
    return rows, _ceil(merged * (n // groups), n0), n0, c0


def _rank(layout: str, logical: Shape, rank: int) -> NotComparableError:
    wanted = f"a tensor of {rank} axes" if rank else "a tensor with at least one axis"
    return NotComparableError(
        Diagnostic(
            "PF5113",
            f"shape {logical} cannot be brought into layout `{layout}`: that takes {wanted}",
            help="name a layout for this number of axes, or ND",
        )
    )


_RULES: Mapping[str, tuple[int, Callable[[Shape, Blocks], Shape]]] = MappingProxyType(
    {
        "FRACTAL_NZ": (0, _nz),
        "FRACTAL_ZZ": (0, _zz),
        "NC1HWC0": (4, _nc1hwc0),
        "NC1HWC0_C04": (4, _nc1hwc0_c04),
        "NDC1HWC0": (5, _ndc1hwc0),
        "FRACTAL_Z": (4, _fractal_z),
        "FRACTAL_Z_C04": (4, _fractal_z_c04),
        "FRACTAL_Z_3D": (5, _fractal_z_3d),
        "FRACTAL_Z_3D_TRANSPOSE": (5, _fractal_z_3d_transpose),
        "C1HWNCoC0": (4, _c1hwncoc0),
        "FRACTAL_NZ_C0_16": (0, lambda logical, blocks: _nz(logical, Blocks(16, blocks.n0))),
        "FRACTAL_NZ_C0_32": (0, lambda logical, blocks: _nz(logical, Blocks(32, blocks.n0))),
    }
)
"""Layout -> rank that it takes (0: any but scalars) and its rule."""

CONVERTIBLE = frozenset({"ND", "NCHW", "NCDHW"}) | PERMUTED_LAYOUTS | frozenset(_RULES)
"""Layouts that tensors can be brought into."""
