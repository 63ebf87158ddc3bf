"""Whether two tensors hold the same bytes: a device writes what one operator gives again as the input of the next."""

from __future__ import annotations

from probe_flow.files.binary_file import BinaryFile
from probe_flow.records import Extent, TensorRef

_PIECE = 1 << 18


def holds_same(first: TensorRef, second: TensorRef) -> bool:
    """Say whether two tensors are decoded alike from the same bytes; false where one of them cannot be read.

    It ends at the first difference, so tensors that differ cost little.

    Raises:
        FormatError: a file cannot be opened or read.
    """
    if _decoding(first) != _decoding(second):
        return False
    return all(_are_same(one, other) for one, other in zip(first.extents, second.extents, strict=True))


def _decoding(tensor: TensorRef) -> tuple[object, ...]:
    parts = tuple((extent.nbytes, extent.encoding, extent.part) for extent in tensor.extents)
    return tensor.dtype, tensor.layout, tensor.sub_format, tensor.shape, tensor.logical_shape, parts


def _are_same(first: Extent, second: Extent) -> bool:
    with BinaryFile(first.file) as one, BinaryFile(second.file) as other:
        for start in range(0, first.nbytes, _PIECE):
            count = min(_PIECE, first.nbytes - start)
            piece = one.read_at(first.offset + start, count)
            if len(piece) < count or piece != other.read_at(second.offset + start, count):
                return False
    return True
