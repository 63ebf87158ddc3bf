"""What an element-wise view shows: both tensors of a pair side by side, and how its files are called."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Iterator

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.elements.blocks import open_tensor
from probe_flow.metrics.sums.record import BLOCK
from probe_flow.records import TensorRef

Floats = NDArray[np.float64]

MAX_PREFIX_BYTES = 200
"""Longer names are replaced by a digest: file systems stop at 255 bytes, of which endings need some."""

_AXES = {4: "N C H W", 5: "N C D H W"}
_FEW = 4
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+-]")


class ElementView(Struct, frozen=True):
    """Two tensors with equally many elements, in the same logical order.

    Args:
        prefix: what the names of all files begin with.
        target: tensor under test.
        golden: reference tensor.
        golden_names: nodes that it stands for.
        top: how many of the largest errors are listed.
        lines: elements per table.
        has_tables: whether there are tables of all elements.
    """

    prefix: str
    target: TensorRef
    golden: TensorRef
    golden_names: tuple[str, ...]
    top: int = 20
    lines: int = 1_000_000
    has_tables: bool = True

    @property
    def numel(self) -> int:
        """Elements of either side."""
        return self.target.numel or 0

    @property
    def logical_shape(self) -> tuple[int, ...]:
        """Shape of the target; indices count in it."""
        found = self.target.logical_shape if self.target.logical_shape is not None else self.target.shape
        return (self.numel,) if found is None or math.prod(found) != self.numel else found

    @property
    def grid(self) -> tuple[int, ...]:
        """The shape with ones appended up to four axes, as tables count."""
        shape = self.logical_shape
        return (*shape, *[1] * (_FEW - len(shape)))

    @property
    def axes(self) -> str:
        """Names of the axes of the grid."""
        count = len(self.grid)
        return _AXES.get(count) or " ".join(f"axis{number}" for number in range(count))


class Elements(Struct, frozen=True):
    """A run of elements of both sides as float64, and their errors.

    Args:
        start: index of the first one.
        relative: to the golden value; x/0 is infinite and 0/0 is NaN.
    """

    start: int
    target: Floats
    golden: Floats
    absolute: Floats
    relative: Floats


def elements_of(view: ElementView, start: int = 0, stop: int | None = None) -> Iterator[Elements]:
    """Yield elements ``[start, stop)`` of a view in runs of at most a block.

    Raises:
        FormatError, NotComparableError: a side cannot be read.
    """
    end = view.numel if stop is None else min(stop, view.numel)
    with open_tensor(view.target) as target, open_tensor(view.golden) as golden:
        for first in range(start, end, BLOCK):
            last = min(end, first + BLOCK)
            x, y = (side.read(first, last).astype(np.float64) for side in (target, golden))
            with np.errstate(all="ignore"):
                absolute = np.abs(x - y)
                yield Elements(first, x, y, absolute, absolute / np.abs(y))


def plain_prefix(tensor: TensorRef) -> str:
    """Return what names of files of a tensor begin with, however long: ``{node}_{input|output}_{index}``."""
    node, slot = tensor.node, tensor.slot
    call = f"_call_{node.call}" if node.call else ""
    return _UNSAFE.sub("_", f"{node.name}{call}_{slot.role.value}_{'.'.join(map(str, slot.path))}")


def short_prefix(prefix: str) -> str:
    """Return a prefix that file systems take: itself, or a digest of one that is too long.

    >>> short_prefix("conv1_output_0"), short_prefix("a" * 300)
    ('conv1_output_0', '9a3b08f4c0b7330298cd919bc8a5826a')
    """
    return prefix if len(prefix.encode()) <= MAX_PREFIX_BYTES else uuid.uuid3(uuid.NAMESPACE_DNS, prefix).hex
