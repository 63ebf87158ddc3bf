"""Open the parts of a tensor that lies in several files, with bounded memory and a bounded number of open files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from probe_flow.elements.joined_parts import JoinedParts
from probe_flow.records import TensorRef

MAX_OPEN_PARTS = 32
"""Files of one tensor that are open together: several workers of a process share its limit, often 1024."""

Values = NDArray[Any]


class _Blocks(Protocol):
    def read(self, start: int, stop: int) -> Values: ...

    def close(self) -> None: ...


class OpenParts:
    """The parts of a tensor, each as a plain array. All are opened once at the start: a bad one is known at once."""

    def __init__(self, ref: TensorRef, parts: JoinedParts, open_part: Callable[[TensorRef], _Blocks]) -> None:
        self._ref = ref
        self._parts = parts
        self._open_part = open_part
        self._open: dict[int, _Blocks] = {}
        try:
            for part in range(len(parts.extents)):
                self._blocks(part)
        except BaseException:
            self.close()
            raise

    def read(self, part: int, start: int, stop: int) -> Values:
        """Return elements [start, stop) of one part."""
        return self._blocks(part).read(start, stop)

    def close(self) -> None:
        for blocks in self._open.values():
            blocks.close()
        self._open.clear()

    def _blocks(self, part: int) -> _Blocks:
        if part not in self._open:
            if len(self._open) >= MAX_OPEN_PARTS:
                self._open.pop(next(iter(self._open))).close()
            shape = (self._parts.rows * self._parts.width(part),)
            extent = replace(self._parts.extents[part], part=None)
            plain = self._ref.changed(shape=shape, logical_shape=shape, layout="ND", sub_format=0, extents=(extent,))
            self._open[part] = self._open_part(plain)
        return self._open[part]


class StoredParts:
    """The bytes of the stored array that parts make up together, for `Scattered`: those of its decoded elements.

    Args:
        parts: how they make it up.
        opened: the parts themselves.
        dtype: of the decoded elements.
    """

    def __init__(self, parts: JoinedParts, opened: OpenParts, dtype: np.dtype[Any]) -> None:
        self._parts = parts
        self._opened = opened
        self._dtype = dtype
        self.dtype = dtype.name
        self.is_big_endian = False
        self.nbytes = parts.rows * parts.bounds[-1] * dtype.itemsize

    def read_into(self, first: int, buffer: memoryview) -> None:
        """Fill ``buffer`` with whole elements; a FormatError (PF3101) where a part has shrunk."""
        size = self._dtype.itemsize
        elements = self._parts.read(first // size, (first + len(buffer)) // size, self._dtype, self._opened.read)
        np.frombuffer(buffer, np.uint8)[:] = elements.view(np.uint8)
