"""Read the elements of a tensor block by block, in logical order, whatever way its bytes lie in one file or several.

Memory is bounded: large files are read in windows or, where asked for, mapped; private layouts are gathered from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.elements.extent_bytes import (
    Bytes,
    Loan,
    SpareMemory,
    StoredFile,
    Windows,
    held_extent,
    mapped_extent,
    shrunk,
    small_extent,
)
from probe_flow.errors import Diagnostic, NotComparableError
from probe_flow.files.binary_file import BinaryFile
from probe_flow.records import Extent, TensorKind, TensorRef
from probe_flow.tensors.blocked_layouts import Offsets
from probe_flow.tensors.dtypes import decode, decode_at, decode_runs, dtype_info
from probe_flow.tensors.encoding import TORCH, Encoding, parse_encoding
from probe_flow.tensors.layouts import LogicalIndex, axis_offsets
from probe_flow.tensors.stored_runs import stored_runs

if TYPE_CHECKING:
    from typing_extensions import Self

    from probe_flow.elements.joined_blocks import OpenParts

SMALL_BYTES = 2**20
"""Below this one read into memory beats a map (measured: 6 us against 29 to 42 us)."""

AT_ONCE = 2**20
"""Elements that are read at once of a tensor that is wanted as a whole."""

_PIECE = 1 << 18

Contents = Mapping[str, bytes]
"""What small files hold that were read when their dump was, by path; see `SmallFiles`."""

NO_CONTENTS: Contents = MappingProxyType({})

Values = NDArray[Any]
_Reader = Callable[[int, int], Values]


class TensorBlocks:
    """The elements of one tensor. Made by `open_tensor`; close it, or use it in ``with``.

    Args:
        numel: logical elements.
        dtype: canonical name of what the dump holds, e.g. ``bfloat16``.
        block_dtype: numpy (or ml_dtypes) dtype of the blocks, in native byte order.
    """

    __slots__ = ("_file", "_memory", "_reader", "block_dtype", "dtype", "numel")

    def __init__(
        self,
        numel: int,
        dtype: str,
        block_dtype: np.dtype[Any],
        reader: _Reader | None,
        file: BinaryFile | OpenParts | None,
        memory: Loan | None = None,
    ) -> None:
        self.numel = numel
        self.dtype = dtype
        self.block_dtype = block_dtype
        self._reader = reader
        self._file = file
        self._memory = memory

    def read(self, start: int, stop: int) -> Values:
        """Return logical elements ``[start, stop)`` in C order as a 1-D array, aligned, in native byte order.

        The block may be read-only, and it is valid until the next call only; from `SpareMemory`, until the tensor is
        closed as well.

        Raises:
            IndexError: when the range is not within the tensor.
            FormatError: PF3101 when the file has shrunk since it was listed.
        """
        if not 0 <= start <= stop <= self.numel:
            raise IndexError(f"elements {start} to {stop} of {self.numel}")
        if start == stop or self._reader is None:
            return np.empty(0, self.block_dtype)
        block = self._reader(start, stop)
        if block.dtype != self.block_dtype:
            return block.astype(self.block_dtype)
        return block if block.flags.aligned else block.copy()

    def close(self) -> None:
        """Let go of the file. Blocks that were read from a map stay valid."""
        self._reader = None
        if self._memory is not None:
            self._memory.end()
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def open_tensor(
    ref: TensorRef,
    *,
    io: str = "auto",
    file: BinaryFile | None = None,
    content: bytes | None = None,
    spare: SpareMemory | None = None,
) -> TensorBlocks:
    """Open one tensor of a dump for reading in logical order.

    Args:
        ref: a tensor of kind ``tensor``; sizes are checked against its files first. Several extents are parts that
            are read as the one array they were cut from.
        io: ``auto`` and ``read`` read windows into one reused buffer (measured faster than a map, and safe when a file
            shrinks meanwhile); ``mmap`` maps files from 1 MiB on.
        file: the file of a tensor's only extent where it is open already; who opened it closes it after the blocks.
        content: what that file holds, where it is known; then it is not opened.
        spare: memory that tensors use one after another; blocks mean nothing once their tensor is closed.

    Returns:
        Blocks of float32 for 8-bit floats, int8 for int4, uint8 for uint1, complex64 for complex32; other dtypes as
        they are. A tensor whose file holds a wider dtype than its own comes in that one. An empty tensor has no
        elements and opens no file.

    Raises:
        NotComparableError: PF3102 no numbers, PF3103 parts that do not fit, PF5110/PF5113 layout, PF5111 dtype.
        FormatError: PF3001/PF3002 unreadable, PF3101 shorter than when it was listed, PF3423 to PF3425 not to be
            loaded by torch.
    """
    numel = _check(ref)
    extents = ref.extents
    extent = extents[0] if extents else Extent(ref.source or "", 0, 0)
    encoding = parse_encoding(extent.encoding)
    stored_as = encoding.stored_as or ref.dtype
    dtype = _block_dtype(stored_as)
    if numel == 0:
        return TensorBlocks(0, ref.dtype, dtype, None, None)
    memory = Loan(spare)
    if len(extents) > 1:
        return _open_parts(ref, numel, dtype, io, memory)
    offsets = _offsets(ref, encoding)
    if extent.encoding == TORCH:
        return TensorBlocks(numel, ref.dtype, dtype, _loaded(extent.file, ref, offsets), None)
    if content is not None:
        reader = _in_memory(held_extent(content, extent), encoding, stored_as, offsets)
        return TensorBlocks(numel, ref.dtype, dtype, reader, None)
    if file is not None:
        reader = _reader(file, extent, encoding, stored_as, offsets, io, memory)
        return TensorBlocks(numel, ref.dtype, dtype, reader, None, memory)
    file = BinaryFile(extent.file)
    try:
        reader = _reader(file, extent, encoding, stored_as, offsets, io, memory)
    except BaseException:
        file.close()
        raise
    if _is_read_on(extent, io):
        return TensorBlocks(numel, ref.dtype, dtype, reader, file, memory)
    file.close()
    return TensorBlocks(numel, ref.dtype, dtype, reader, None)


def array_of(ref: TensorRef) -> Values:
    """Return all elements of a tensor in its logical shape; flat where that is not known, or does not fit.

    Raises:
        NotComparableError, FormatError: as `open_tensor`.
    """
    with open_tensor(ref) as blocks:
        found = np.empty(blocks.numel, blocks.block_dtype)
        for start in range(0, blocks.numel, AT_ONCE):
            stop = min(start + AT_ONCE, blocks.numel)
            found[start:stop] = blocks.read(start, stop)
    shape = ref.shape if ref.logical_shape is None else ref.logical_shape
    return found if shape is None or math.prod(shape) != found.size else found.reshape(shape)


@cache
def _block_dtype(stored_as: str) -> np.dtype[Any]:
    dtype: np.dtype[Any] = decode(np.empty(0, np.uint8), stored_as, 0, 0).dtype.newbyteorder("=")
    return dtype


def _check(ref: TensorRef) -> int:
    if ref.kind is not TensorKind.TENSOR or ref.numel is None:
        raise NotComparableError(
            Diagnostic(
                "PF3102",
                f"`{ref.id}` cannot be read as numbers: {ref.reason or f'it is of kind {ref.kind.value}'}",
                path=ref.source,
                tensor=ref.id,
                help="see `probe-flow explain PF3102`",
            )
        )
    if not ref.extents and ref.numel:
        raise NotComparableError(
            Diagnostic(
                "PF3103",
                f"`{ref.id}` has {ref.numel} elements and no part that holds them",
                path=ref.source,
                tensor=ref.id,
                help="dump this operator again",
            )
        )
    return ref.numel


def _open_parts(ref: TensorRef, numel: int, dtype: np.dtype[Any], io: str, memory: Loan) -> TensorBlocks:
    from probe_flow.elements.joined_blocks import OpenParts, StoredParts
    from probe_flow.elements.joined_parts import joined_parts

    parts = joined_parts(ref)
    offsets = _offsets(ref, Encoding())
    opened = OpenParts(ref, parts, lambda part: open_tensor(part, io=io))
    if offsets is not None:
        from probe_flow.elements.scattered import Scattered

        scattered = Scattered(StoredParts(parts, opened, dtype), offsets, memory)
        return TensorBlocks(numel, ref.dtype, dtype, scattered, opened, memory)
    return TensorBlocks(numel, ref.dtype, dtype, lambda i, j: parts.read(i, j, dtype, opened.read), opened)


def _loaded(file: str, ref: TensorRef, offsets: Offsets | None) -> _Reader:
    """Have torch load a tensor whole; its blocks are then views."""
    from probe_flow.files.torch.torch_load import load_with_torch

    content = load_with_torch(file, ref.dtype, ref.shape or ())
    if offsets is None:
        return lambda start, stop: decode(content, ref.dtype, start, stop - start)
    return _scattered(lambda: content, ref.dtype, offsets)


def _offsets(ref: TensorRef, encoding: Encoding) -> Offsets | None:
    logical = ref.logical_shape if ref.logical_shape is not None else ref.shape or ()
    strides = encoding.strides
    if strides is None and not encoding.is_fortran_order:
        stored = ref.shape if ref.shape is not None else logical
        return axis_offsets(ref.layout, stored, logical, sub_format=ref.sub_format)
    if strides is None:
        strides = tuple(math.prod(logical[:axis]) for axis in range(len(logical)))
    return tuple(np.arange(size, dtype=np.int64) * stride for size, stride in zip(logical, strides, strict=True))


def _reader(
    file: BinaryFile,
    extent: Extent,
    encoding: Encoding,
    dtype: str,
    offsets: Offsets | None,
    io: str,
    memory: Loan,
) -> _Reader:
    if extent.offset + extent.nbytes > file.size:
        raise shrunk(extent, file.size)
    is_big_endian = encoding.is_big_endian
    if _is_read_on(extent, io):
        if offsets is None:
            return Windows(file, extent, dtype, is_big_endian=is_big_endian, memory=memory)
        from probe_flow.elements.scattered import Scattered

        return Scattered(StoredFile(file, extent, dtype, is_big_endian=is_big_endian), offsets, memory)
    raw = small_extent(file, extent) if extent.nbytes < SMALL_BYTES else mapped_extent(file, extent)
    return _in_memory(raw, encoding, dtype, offsets)


def _is_read_on(extent: Extent, io: str) -> bool:
    """Return whether the elements are read as they are asked for, by windows or in pieces, from the open file."""
    return extent.nbytes >= SMALL_BYTES and io != "mmap"


def _in_memory(raw: Bytes, encoding: Encoding, dtype: str, offsets: Offsets | None) -> _Reader:
    is_big_endian = encoding.is_big_endian
    if offsets is None:
        return lambda start, stop: decode(raw(), dtype, start, stop - start, big_endian=is_big_endian)
    return _scattered(raw, dtype, offsets, is_big_endian=is_big_endian)


def _scattered(raw: Bytes, dtype: str, offsets: Offsets, *, is_big_endian: bool = False) -> _Reader:
    """Return what reads elements in an order of their own: by runs where they lie so, else one by one."""
    runs = stored_runs(offsets) if dtype_info(dtype).bits % 8 == 0 else None
    if runs is not None:
        return lambda start, stop: decode_runs(raw(), dtype, runs, start, stop, big_endian=is_big_endian)
    index = LogicalIndex(offsets)
    return lambda start, stop: decode_at(raw(), dtype, index.stored(start, stop), big_endian=is_big_endian)


def holds_same(first: TensorRef, second: TensorRef, contents: Contents = NO_CONTENTS) -> bool:
    """Return True if two tensors are decoded alike from the same bytes; False where one of them cannot be read.

    It ends at the first difference, so tensors that differ cost little.

    Raises:
        FormatError: a file cannot be opened or read.
    """
    if _decoding(first) != _decoding(second):
        return False
    return all(_are_same(one, other, contents) for one, other in zip(first.extents, second.extents, strict=True))


def _decoding(tensor: TensorRef) -> tuple[object, ...]:
    parts = tuple((extent.nbytes, extent.encoding, extent.part) for extent in tensor.extents)
    return tensor.dtype, tensor.layout, tensor.sub_format, tensor.shape, tensor.logical_shape, parts


def _are_same(first: Extent, second: Extent, contents: Contents) -> bool:
    one_content, other_content = contents.get(first.file), contents.get(second.file)
    if one_content is not None and other_content is not None:
        found = one_content[first.offset : first.offset + first.nbytes]
        return len(found) == first.nbytes and found == other_content[second.offset : second.offset + second.nbytes]
    with BinaryFile(first.file) as one, BinaryFile(second.file) as other:
        for start in range(0, first.nbytes, _PIECE):
            count = min(_PIECE, first.nbytes - start)
            piece = one.read_at(first.offset + start, count)
            if len(piece) < count or piece != other.read_at(second.offset + start, count):
                return False
    return True
