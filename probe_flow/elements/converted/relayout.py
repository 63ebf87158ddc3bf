"""Bring a tensor of a dump into another storage layout, block by block.

Elements are read in logical order and put where the wanted layout has them; what is padding there is zero. Large
tensors are put together in a file that has no name, so that memory stays bounded.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.elements.converted.values import BLOCK, Form, held_dtype, read_blocks
from probe_flow.errors import Diagnostic, NotComparableError
from probe_flow.records import TensorRef
from probe_flow.tensors.blocked_layouts import BLOCKED, Offsets
from probe_flow.tensors.dtypes import dtype_info
from probe_flow.tensors.layouts import (
    MATRIX_LAYOUTS,
    PERMUTED_LAYOUTS,
    PLAIN_LAYOUTS,
    LogicalIndex,
    axis_offsets,
    logical_shape_of,
)
from probe_flow.tensors.stored_shapes import CUBE, Blocks, stored_shape, usual_c0

IN_MEMORY_BYTES = 64 * 2**20
"""Tensors up to this size are put together in memory."""

Shape = tuple[int, ...]


class Relaid(Struct, frozen=True):
    """A tensor on its way into a layout.

    Args:
        source: the tensor, read in logical order.
        layout, shape: what it becomes.
        offsets: where each logical element belongs; None when the order stays.
    """

    source: TensorRef
    layout: str
    shape: Shape
    offsets: Offsets | None = None

    @property
    def numel(self) -> int:
        """Elements that it becomes, padding included."""
        return math.prod(self.shape)


def as_stored(ref: TensorRef) -> Relaid:
    """Return a tensor as the dump has it, padding and private layout included."""
    shape = ref.shape if ref.shape is not None else ref.logical_shape or ()
    return Relaid(ref.changed(layout="ND", sub_format=0, shape=shape, logical_shape=shape), ref.layout, shape)


def in_layout(ref: TensorRef, layout: str, *, given: Shape | None = None, c0: int | None = None) -> Relaid:
    """Return a tensor in a layout; ``ND`` is the logical order, NCHW or NCDHW for 4 and 5 axes.

    Args:
        ref: the tensor. Its logical shape may have channels last: the stored shape tells.
        layout: one of `stored_shapes.CONVERTIBLE`. A layout that only orders axes says nothing of tensors with
            another number of axes, and of matrices in blocks (FRACTAL_NZ): these come in logical order.
        given: logical shape, in place of the one that the dump gives.
        c0: elements of a block of channels; default: what is usual for the element type.

    Raises:
        NotComparableError: PF5110/PF5113 the layout or its shapes, PF6505 the dump gives no logical shape.
    """
    if layout == ref.layout and given is None:
        return as_stored(ref)
    source = _logical(ref, layout, given)
    logical = source.logical_shape or ()
    if layout in PLAIN_LAYOUTS or layout in PERMUTED_LAYOUTS:
        if layout != "ND" and len(layout) != len(logical):
            return Relaid(source, "ND", logical)
        if layout in PLAIN_LAYOUTS or ref.layout in MATRIX_LAYOUTS:
            return Relaid(source, layout, logical)
    groups = max(1, ref.sub_format)
    blocks = Blocks(c0 or usual_c0(dtype_info(held_dtype(ref)).bits or 8), CUBE, groups)
    stored = stored_shape(layout, logical, blocks)
    return Relaid(source, layout, stored, axis_offsets(layout, stored, logical, sub_format=groups))


def _logical(ref: TensorRef, layout: str, given: Shape | None) -> TensorRef:
    stored = ref.shape if ref.shape is not None else ref.logical_shape or ()
    shape = given if given is not None else ref.logical_shape
    if shape is None or (given is None and ref.layout in BLOCKED and shape == stored):
        raise NotComparableError(
            Diagnostic(
                "PF6505",
                f"the dump does not say which shape `{ref.id}` has without the blocks of `{ref.layout}`",
                path=ref.source,
                tensor=ref.id,
                help="give its logical shape with `--shape`, such as 1,3,224,224",
            )
        )
    found = logical_shape_of(ref.layout, stored, shape, sub_format=ref.sub_format, preferred=(layout,))
    axis_offsets(ref.layout, stored, found, sub_format=ref.sub_format)  # refuses what does not fit
    return ref.changed(logical_shape=found)


def relaid_blocks(relaid: Relaid, form: Form, *, folder: Path, io: str = "auto") -> Iterator[NDArray[Any]]:
    """Yield the elements of a tensor as they stand in its new layout, as 1-D blocks that are valid until the next.

    Args:
        relaid: the tensor.
        form: the type of the blocks, unpacked.
        folder: where large tensors are put together.
        io: as in `open_tensor`.

    Raises:
        FormatError, NotComparableError: as `open_tensor`.
        OSError: the folder cannot take a large tensor.
    """
    if relaid.offsets is None:
        yield from read_blocks(relaid.source, form, io=io)
        return
    index = LogicalIndex(relaid.offsets)
    nbytes = relaid.numel * form.dtype.itemsize
    if nbytes <= IN_MEMORY_BYTES:
        whole: NDArray[Any] = np.zeros(relaid.numel, form.dtype)
        _put(whole, relaid, form, index, io)
        yield from _cut(whole)
        return
    with tempfile.TemporaryFile(dir=folder) as file:
        file.truncate(nbytes)
        mapped: NDArray[Any] = np.memmap(file, form.dtype, "r+", shape=(relaid.numel,))
        _put(mapped, relaid, form, index, io)
        yield from _cut(mapped)


def _put(whole: NDArray[Any], relaid: Relaid, form: Form, index: LogicalIndex, io: str) -> None:
    start = 0
    for block in read_blocks(relaid.source, form, io=io):
        whole[index.stored(start, start + block.size)] = block
        start += block.size


def _cut(whole: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for start in range(0, whole.size, BLOCK):
        yield whole[start : start + BLOCK]
