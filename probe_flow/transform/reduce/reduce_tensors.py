"""Reduce the tensors of one dumped file to what its reduced file holds."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from probe_flow.dumps.device.file_records import GeDump
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.dumps.file_names import parse_ge_name
from probe_flow.dumps.reduced.reduced_files import ReducedArray, ReducedDevice, ReducedTensor
from probe_flow.elements.blocks import TensorBlocks, open_tensor
from probe_flow.errors import NotComparableError
from probe_flow.files.arrays.npy import NpyHeader
from probe_flow.files.binary_file import BinaryFile
from probe_flow.metrics.kernel.kept_blocks import Blocks
from probe_flow.metrics.reduction import needs_sums, reduce_blocks
from probe_flow.metrics.sums.block_sums import Scratch
from probe_flow.metrics.sums.record import BLOCK
from probe_flow.records import Execution, Extent, NodeKey, Slot, SlotRole, TensorKind, TensorRef
from probe_flow.transform.reduce.reduce_functions import UserFunction, check_room, nothing

_ANYWHERE = Execution(None, None, None)
_buffers = threading.local()


SERIAL_SHARE = 64
"""One in so many bytes counts as reduced under the interpreter lock where only extremes and checksums are found:
threads wait for it a few microseconds at every block (measured: processes are faster from 32 GiB on, even at 16)."""


class Figures(Struct, frozen=True):
    """What every tensor is reduced to: statistics by name, then the user's functions."""

    statistics: tuple[str, ...]
    functions: tuple[UserFunction, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all figures, in the order of reduced files."""
        return (*self.statistics, *(name for function in self.functions for name in function.names))

    def serial_bytes(self, total: int) -> int:
        """Return how many of these bytes threads would reduce one after another."""
        return total if needs_sums(self.statistics) or self.functions else total // SERIAL_SHARE


class Reduced(Struct):
    """A reduced file in the making.

    Args:
        content: its bytes.
        tensors: how many it describes.
        lost: why some tensor has no figures; its data are nowhere else, so the dumped file must stay.
        notes: what is worth knowing of the figures.
        nan_tensors: tensors with a NaN in them.
    """

    content: bytes = b""
    tensors: int = 0
    lost: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    nan_tensors: int = 0


def reduce_array(file: BinaryFile, header: NpyHeader, figures: Figures) -> Reduced:
    """Reduce an FX array.

    Raises:
        FormatError: it cannot be read; PF3233 a function failed.
        NotComparableError: its dtype cannot be decoded.
    """
    assert header.dtype is not None
    extent = Extent(file.path, header.offset, header.nbytes, header.encoding)
    ref = TensorRef.of(
        NodeKey(_ANYWHERE, file.name),
        Slot(SlotRole.OUTPUT, (0,)),
        TensorKind.TENSOR,
        dtype=header.dtype,
        shape=header.shape,
        logical_shape=header.shape,
        extents=(extent,),
        source=file.path,
    )
    reduced = Reduced(tensors=1)
    tensor = _tensor(ref, file, figures, reduced)
    reduced.content = ReducedArray(figures.names, tensor).to_bytes()
    return reduced


def reduce_device(file: BinaryFile, dump: GeDump, figures: Figures) -> Reduced:
    """Reduce a device file; a tensor that holds no numbers or cannot be decoded gets NaN and is told in ``lost``.

    Raises:
        FormatError: it cannot be read; PF3233 a function failed.
    """
    reduced = Reduced()
    sides: tuple[list[ReducedTensor], list[ReducedTensor]] = ([], [])
    for ref in tensor_refs(dump, file.path, NodeKey(_ANYWHERE, dump.op_name or file.name)):
        reduced.tensors += 1
        try:
            tensor = _tensor(ref, file, figures, reduced)
        except NotComparableError as exc:
            tensor = ReducedTensor(nothing(len(figures.names)), ref.dtype, ref.logical_shape)
            reduced.lost.append(f"{ref.slot}: {ref.reason or exc.diagnostic.message}")
        sides[ref.slot.role is SlotRole.OUTPUT].append(tensor)
    name = parse_ge_name(file.name)
    reduced.content = ReducedDevice(
        figures.names,
        tuple(sides[0]),
        tuple(sides[1]),
        dump.op_name,
        name.op_type if name else "",
        name.timestamp if name else dump.dump_time,
    ).to_bytes()
    return reduced


def _tensor(ref: TensorRef, file: BinaryFile, figures: Figures, reduced: Reduced) -> ReducedTensor:
    if ref.kind is TensorKind.NULL:
        return ReducedTensor(nothing(len(figures.names)), ref.dtype, ref.logical_shape)
    with open_tensor(ref, io="read", file=file) as opened:
        values: Blocks = opened
        own: tuple[float, ...] = ()
        if figures.functions:
            check_room(opened.numel * opened.block_dtype.itemsize)
            whole = _whole(opened, ref.logical_shape)
            values = _Memory(whole.reshape(-1), opened.dtype)
            own = tuple(value for function in figures.functions for value in function.figures(whole))
        found = reduce_blocks(values, figures.statistics, _scratch(figures.statistics))
    if found.is_rounded:
        reduced.notes.append(f"{ref.slot} has integers beyond 2**53, which float64 rounds")
    reduced.nan_tensors += found.has_nan
    return ReducedTensor((*found.figures, *own), ref.dtype, ref.logical_shape)


def _scratch(statistics: Sequence[str]) -> Scratch | None:
    """Return the buffers of this thread where sums need them."""
    if not needs_sums(statistics):
        return None
    found: Scratch | None = getattr(_buffers, "scratch", None)
    if found is None:
        found = _buffers.scratch = Scratch()
    return found


def _whole(values: TensorBlocks, shape: tuple[int, ...] | None) -> NDArray[Any]:
    """Return a tensor in memory, read-only, so that no function changes what the next one sees."""
    whole = np.empty(values.numel, values.block_dtype)
    for start in range(0, values.numel, BLOCK):
        stop = min(values.numel, start + BLOCK)
        whole[start:stop] = values.read(start, stop)
    whole.flags.writeable = False
    return whole.reshape(shape) if shape is not None and math.prod(shape) == whole.size else whole


class _Memory(Struct, frozen=True):
    """A tensor in memory, as the kernel reads it."""

    values: NDArray[Any]
    dtype: str

    @property
    def numel(self) -> int:
        return self.values.size

    def read(self, start: int, stop: int) -> NDArray[Any]:
        return self.values[start:stop]
