"""HDF5 files of our own: read at what they hold, and written so that a full disk is told once and in plain words.

h5py is imported where a file is opened: most runs convert nothing.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import h5py
    import numpy as np

DAMAGE = (OSError, KeyError, AttributeError, ValueError, TypeError, RuntimeError, OverflowError, MemoryError)
"""What h5py raises of files that are damaged or of another program."""


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
def new_file(path: Path) -> Iterator[h5py.File]:
    """Open a new HDF5 file; where the block ends without an error, it is on the disk.

    Raises:
        OSError: it exists, or cannot be written; what there is of it stays.
    """
    import h5py

    with path.open("x+b", buffering=0) as raw:
        sink = _Sink(raw)
        # libver "earliest", and no times: the same content has the same bytes.
        with h5py.File(sink, "w", libver="earliest") as file:
            yield file
        if sink.failure is not None:
            raise sink.failure
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
