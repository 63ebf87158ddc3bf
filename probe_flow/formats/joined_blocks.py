"""Open the parts of a tensor that lies in several files, with bounded memory and a bounded number of open files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from probe_flow.formats.binary_file import BinaryFile
from probe_flow.formats.encoding import parse_encoding
from probe_flow.formats.extent_bytes import Bytes, mapped_extent
from probe_flow.formats.joined_parts import JoinedParts
from probe_flow.records import Extent, TensorRef
from probe_flow.tensors.dtypes import decode_at
from probe_flow.tensors.layouts import LogicalIndex

MAX_OPEN_PARTS = 32
"""Files of one tensor that are open together: several workers of a process share its limit, often 1024."""

Values = NDArray[Any]


class _Blocks(Protocol):
    def read(self, start: int, stop: int) -> Values: ...

    def close(self) -> None: ...


class OpenParts:
    """The parts of a tensor in a plain layout. All are opened once at the start, so that a bad one is known at once."""

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
            plain = replace(self._ref, shape=shape, logical_shape=shape, layout="ND", sub_format=0, extents=(extent,))
            self._open[part] = self._open_part(plain)
        return self._open[part]


def gather_parts(
    parts: JoinedParts, dtype: str, block_dtype: np.dtype[Any], index: LogicalIndex
) -> Callable[[int, int], Values]:
    """Return a reader of logical elements that lie scattered over all parts; each part is mapped.

    Raises:
        FormatError: PF3001/PF3002 unreadable, PF3101 shorter than when it was listed.
    """
    contents = [_mapped(extent) if extent.nbytes else None for extent in parts.extents]

    def read(start: int, stop: int) -> Values:
        values = np.empty(stop - start, block_dtype)
        for part, places, stored in parts.split(index.stored(start, stop)):
            content, encoding = contents[part], parse_encoding(parts.extents[part].encoding)
            assert content is not None
            is_big_endian = encoding.is_big_endian
            values[places] = decode_at(content(), encoding.stored_as or dtype, stored, big_endian=is_big_endian)
        return values

    return read


def _mapped(extent: Extent) -> Bytes:
    # A map outlives its file, so that no descriptor is held.
    with BinaryFile(extent.file) as file:
        return mapped_extent(file, extent)
