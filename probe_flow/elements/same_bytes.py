"""Tell whether two tensors hold the same: decoded alike, from the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from probe_flow.files.binary_file import BinaryFile
from probe_flow.records import Extent, TensorRef

_PIECE = 1 << 18

Contents = Mapping[str, bytes]
"""What small files hold that were read when their dump was, by path; see `SmallFiles`."""

NO_CONTENTS: Contents = MappingProxyType({})


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
