"""Converted tensors in HDF5: private storage layouts undone once, for later runs to read as plain data.

Only tensors whose elements lie scattered are kept (private layouts with few elements to a run); plain data, and long
runs of a layout, are read where they lie. One file holds one tensor: a contiguous dataset ``values`` in the tensor's
own dtype, without filter, so that it is mapped like any other file. Written under a temporary name and renamed; what
cannot be read is converted again. h5py is imported where a file is opened: most runs convert nothing.
"""

from __future__ import annotations

import enum
import zlib
from functools import lru_cache
from pathlib import Path

import numpy as np
from msgspec import Struct

from probe_flow.elements.blocks import TensorBlocks, open_tensor
from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.hdf5_files import DAMAGE, new_file, plain_dataset, sealed_file
from probe_flow.files.leftovers import temporary_path
from probe_flow.records import Extent, TensorRef
from probe_flow.tensors.dtypes import dtype_info, nbytes
from probe_flow.tensors.layouts import axis_offsets
from probe_flow.tensors.stored_runs import stored_runs

FORMAT = 1
WORTH_BYTES = 2**20
"""From this size on looking up each element (0.6 GB/s measured) costs more than a file of its own."""

_PIECE = 1 << 22
"""Elements converted at a time."""


class _Place(enum.Enum):
    """How the elements of a tensor lie: in logical order, in runs of it, or one by one."""

    IN_ORDER = enum.auto()
    RUNS = enum.auto()
    APART = enum.auto()


@lru_cache(maxsize=256)  # tensors of a network have few shapes, and finding runs takes 0.3 ms
def _place(layout: str, stored: tuple[int, ...], logical: tuple[int, ...], groups: int) -> _Place:
    offsets = axis_offsets(layout, stored, logical, sub_format=groups)
    if offsets is None:
        return _Place.IN_ORDER
    return _Place.APART if stored_runs(offsets) is None else _Place.RUNS


class TensorStore(Struct, frozen=True):
    """Converted tensors below one folder.

    Args:
        folder: where they lie.
        keeps_all: whether small ones are kept as well.
    """

    folder: Path
    keeps_all: bool = False

    def wants(self, ref: TensorRef) -> bool:
        """Say whether a tensor is kept: its elements lie scattered, its dtype is whole bytes, its size worth it."""
        if ref.nbytes < (1 if self.keeps_all else WORTH_BYTES) or len(ref.extents) != 1:
            return False
        if ref.extents[0].encoding != "raw" or dtype_info(ref.dtype).bits % 8 or ref.logical_shape is None:
            return False
        assert ref.shape is not None
        place = _place(ref.layout, ref.shape, ref.logical_shape, ref.sub_format)
        return place is _Place.APART or (self.keeps_all and place is _Place.RUNS)

    def open(self, ref: TensorRef, key: str, *, io: str) -> TensorBlocks:
        """Open a tensor that is wanted, from its converted copy; make the copy first where there is none.

        Raises:
            OSError: when the copy cannot be written; open the tensor itself then.
            FormatError, NotComparableError: as `open_tensor` of the tensor itself.
        """
        path = self.folder / key[:2] / f"{key}.h5"
        extent = _extent(path, ref)
        if extent is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            _convert(ref, path, io)
            extent = _extent(path, ref)
        if extent is None:
            raise OSError(f"`{path}` cannot be read back")
        return open_tensor(_plain(ref, extent), io=io)


def _plain(ref: TensorRef, extent: Extent) -> TensorRef:
    return ref.changed(layout="ND", sub_format=0, shape=ref.logical_shape, extents=(extent,))


def _extent(path: Path, ref: TensorRef) -> Extent | None:
    """Return where the values lie in a converted file, None when it is absent or not what it should be."""
    numel = ref.numel
    assert numel is not None
    try:
        with sealed_file(path) as file:
            values = plain_dataset(file, "values", np.dtype(np.uint8), path.stat().st_size)
            if int(file.attrs["format"]) != FORMAT or file.attrs["dtype"] != ref.dtype:
                return None
            if values.nbytes != nbytes(ref.dtype, numel):
                return None
            return Extent(str(path), int(values.id.get_offset() or 0), int(values.nbytes))
    except DAMAGE:  # absent or damaged: it is converted again
        return None


def _convert(ref: TensorRef, path: Path, io: str) -> None:
    temporary = temporary_path(path)  # fresh: two threads may convert one tensor
    numel = ref.numel
    assert numel is not None
    checksum = 0
    try:
        with open_tensor(ref, io=io) as blocks, new_file(temporary, data="values") as file:
            values = file.create_dataset("values", (nbytes(ref.dtype, numel),), np.uint8, track_times=False)
            written = 0
            for start in range(0, numel, _PIECE):
                piece = np.ascontiguousarray(blocks.read(start, min(numel, start + _PIECE))).view(np.uint8)
                values[written : written + piece.size] = piece
                checksum = zlib.crc32(piece.tobytes(), checksum)
                written += piece.size
            file.attrs.update({"format": FORMAT, "dtype": ref.dtype, "crc32": checksum})
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def problem_of(path: Path) -> Diagnostic | None:
    """Read a converted tensor whole and say what is wrong with it, None when it is sound."""
    try:
        with sealed_file(path) as file:
            values, checksum = plain_dataset(file, "values", np.dtype(np.uint8), path.stat().st_size), 0
            for start in range(0, values.shape[0], _PIECE):
                checksum = zlib.crc32(values[start : start + _PIECE], checksum)
            if checksum == int(file.attrs["crc32"]):
                return None
            what = "its values do not match their checksum"
    except DAMAGE as error:
        what = str(error)
    return Diagnostic(
        "PF6201",
        f"converted tensor `{path.name}` is damaged or of another program: {what}",
        severity=Severity.WARNING,
        path=str(path),
        help="`probe-flow cache gc` removes it",
    )
