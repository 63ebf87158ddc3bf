"""HDF5 files of our own: read at what they hold, and written so that a full disk is told once and in plain words.

HDF5 itself gets no damaged file, since it crashes of some (seen with 2.0: an attribute whose text lies elsewhere). The
user block, which HDF5 leaves to programs, holds a checksum of all that stands around the data.

h5py is imported where a file is opened: most runs convert nothing.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from probe_flow.files.opening import open_bytes, regular

if TYPE_CHECKING:
    import h5py
    import numpy as np

DAMAGE = (OSError, KeyError, AttributeError, ValueError, TypeError, RuntimeError, OverflowError, MemoryError)
"""What h5py raises of files that are damaged or of another program."""


SEAL_BYTES = 512
_SEAL = struct.Struct("<24s2QI")
"""Who wrote the file, first byte of its data and the one behind them, checksum of the bytes before and behind these."""
_MAGIC = b"probe_flow cache file 1\n"
_PIECE = 2**20


def seal(raw: BinaryIO, data: tuple[int, int] = (SEAL_BYTES, SEAL_BYTES)) -> None:
    """Write the user block of a file that is whole.

    Args:
        raw: the file, for reading and writing.
        data: first byte of the data, which are left out of the checksum, and the one behind them.
    """
    checksum = _checksum(raw, *data)
    raw.seek(0)
    raw.write(_SEAL.pack(_MAGIC, *data, checksum).ljust(SEAL_BYTES, b"\0"))


def _checksum(raw: BinaryIO, start: int, stop: int) -> int:
    found = 0
    for begin, end in ((SEAL_BYTES, start), (stop, os.fstat(raw.fileno()).st_size)):
        raw.seek(begin)
        while begin < end and (piece := raw.read(min(_PIECE, end - begin))):
            found = zlib.crc32(piece, found)
            begin += len(piece)
    return found


@contextmanager
def sealed_file(path: Path) -> Iterator[h5py.File]:
    """Open a file of `new_file` for reading.

    Raises:
        ValueError: it is damaged, or of another program.
        OSError: it cannot be read, or is no regular file, which could block.
    """
    import h5py

    with open_bytes(path) as raw:
        block = raw.read(SEAL_BYTES)
        if len(block) < SEAL_BYTES or not block.startswith(_MAGIC):
            raise ValueError("it does not begin as such files do")
        _, start, stop, checksum = _SEAL.unpack_from(block)
        if not SEAL_BYTES <= start <= stop <= os.fstat(raw.fileno()).st_size:
            raise ValueError("it has lost its end")
        if _checksum(raw, start, stop) != checksum:
            raise ValueError("it does not match its checksum")
    with h5py.File(regular(path), "r", locking=False) as file:
        yield file


def plain_dataset(file: h5py.File, name: str, dtype: np.dtype[Any], file_bytes: int) -> h5py.Dataset:
    """Return a dataset of one axis whose elements lie one behind another in a file of this size, all of them.

    Raises:
        ValueError: it is of another kind. Chunks that were never written, filters and links to other files let a small
            file declare any size.
        KeyError: there is none.
    """
    import h5py

    dataset = file[name]
    if not isinstance(dataset, h5py.Dataset) or dataset.dtype != dtype or dataset.ndim != 1:
        raise ValueError(f"its `{name}` holds something else")
    start = dataset.id.get_offset()  # None where the elements are not in one piece of this file
    if dataset.nbytes and (start is None or start + dataset.nbytes > file_bytes):
        raise ValueError(f"its `{name}` declares {dataset.nbytes:,} bytes, which are not there")
    return dataset


@contextmanager
def new_file(path: Path, *, data: str | None = None) -> Iterator[h5py.File]:
    """Open a new HDF5 file; where the block ends without an error, it is on the disk.

    Args:
        path: where it shall be.
        data: name of a dataset that is too large to be read whenever the file is opened.

    Raises:
        OSError: it exists, or cannot be written; what there is of it stays.
    """
    import h5py

    with path.open("x+b", buffering=0) as raw:
        sink = _Sink(raw)
        # libver "earliest", and no times: the same content has the same bytes.
        place = SEAL_BYTES, SEAL_BYTES
        with h5py.File(sink, "w", libver="earliest", userblock_size=SEAL_BYTES) as file:
            yield file
            start = None if data is None else file[data].id.get_offset()
            if data is not None and start is not None:
                place = start, start + file[data].nbytes
        if sink.failure is not None:
            raise sink.failure
        seal(raw, place)
        os.fsync(raw.fileno())


class _Sink(io.RawIOBase):
    """What HDF5 writes to: it never fails, but keeps the first failure.

    HDF5 tells of a failure with descriptors and addresses, tries again when its objects are collected, and prints what
    is raised then, or ends the process (seen with 2.0).
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.failure: OSError | None = None

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def readinto(self, buffer: Any, /) -> int:
        return self._raw.readinto(buffer)  # type: ignore[attr-defined, no-any-return]

    def truncate(self, size: int | None = None, /) -> int:
        try:
            return self._raw.truncate(size)
        except OSError as error:
            self.failure = self.failure or error
            return size or 0

    def write(self, data: Any, /) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest and self.failure is None:
                rest = rest[self._raw.write(rest) :]
        except OSError as error:
            self.failure = error
        return size
