"""HDF5 files of our own: read at what they hold, and written so that a full disk is told once and in plain words.

HDF5 itself gets no damaged file, since it crashes of some (seen with 2.0: an attribute whose text lies elsewhere). The
user block, which HDF5 leaves to programs, holds a checksum of all that stands around the data.

h5py is imported where a file is opened: most runs convert nothing. Files of a few plain arrays are written without it,
since its import takes 30 ms, and writing such a file ten times as long.

Source: HDF5 File Format Specification 3.0: superblock version 0, object headers version 1, groups as symbol tables.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from probe_flow.files.opening import open_bytes, regular

if TYPE_CHECKING:
    import h5py
    import numpy as np
    from numpy.typing import NDArray

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


def write_plain(path: Path, attributes: Mapping[str, NDArray[Any]], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a sealed HDF5 file of a few arrays that is on the disk when this returns; the same content, the same bytes.

    Args:
        path: where it shall be.
        attributes: of the file, by name, 64 KB each at most.
        arrays: by name, at most eight, of one axis: little-endian whole numbers, bytes, or records of these.

    Raises:
        OSError: it exists, or cannot be written; what there is of it stays.
    """
    with path.open("x+b") as raw:
        raw.write(bytes(SEAL_BYTES))
        raw.writelines(_plain_pieces(attributes, arrays))
        raw.flush()
        seal(raw)
        raw.flush()
        os.fsync(raw.fileno())


_NOWHERE = 2**64 - 1
_LEAF_K, _INTERNAL_K = 4, 16
"""Half of what a node of names holds, and a node of the tree above them."""
_SUPERBLOCK_BYTES, _HEAP_BYTES, _NAME_BYTES = 96, 32, 40
_TREE_BYTES = 24 + 8 * (4 * _INTERNAL_K + 1)
_NAMES_BYTES = 8 + 2 * _LEAF_K * _NAME_BYTES
_SPACE, _TYPE, _FILL, _LAYOUT, _ATTRIBUTE, _TABLE = 0x01, 0x03, 0x05, 0x08, 0x0C, 0x11
"""Kinds of messages, which headers consist of."""


def _plain_pieces(attributes: Mapping[str, NDArray[Any]], arrays: Mapping[str, NDArray[Any]]) -> list[bytes]:
    """Return what stands behind the user block, from where addresses count: fixed parts, headers, arrays."""
    offsets, texts = {}, bytes(8)
    for name in arrays:
        offsets[name] = len(texts)
        texts += _padded(name.encode() + b"\0")
    tree = _SUPERBLOCK_BYTES
    heap = tree + _TREE_BYTES
    names = heap + _HEAP_BYTES + len(texts)
    root = names + _NAMES_BYTES
    table = _message(_TABLE, struct.pack("<2Q", tree, heap))
    root_header = _header([table, *(_attribute(name, value) for name, value in attributes.items())])
    sizes = (len(_array_header(array, 0)) for array in arrays.values())
    *headers_at, content = accumulate(sizes, initial=root + len(root_header))
    contents = [_padded(array.tobytes()) for array in arrays.values()]
    *contents_at, end = accumulate(map(len, contents), initial=content)
    entries = {
        name: struct.pack("<2Q24x", offsets[name], place) for name, place in zip(arrays, headers_at, strict=True)
    }
    return [
        b"\x89HDF\r\n\x1a\n" + struct.pack("<5x2Bx2H4x", 8, 8, _LEAF_K, _INTERNAL_K),
        struct.pack("<4Q", SEAL_BYTES, _NOWHERE, SEAL_BYTES + end, _NOWHERE),
        struct.pack("<2QI4x2Q", 0, root, 1, tree, heap),
        _filled(struct.pack("<4s2xH5Q", b"TREE", 1, _NOWHERE, _NOWHERE, 0, names, offsets[max(arrays)]), _TREE_BYTES),
        struct.pack("<4s4x3Q", b"HEAP", len(texts), 1, heap + _HEAP_BYTES),  # 1: nothing of it is free
        texts,
        _filled(
            struct.pack("<4sBxH", b"SNOD", 1, len(arrays)) + b"".join(entries[name] for name in sorted(entries)),
            _NAMES_BYTES,
        ),
        root_header,
        *map(_array_header, arrays.values(), contents_at),
        *contents,
    ]


def _filled(text: bytes, size: int) -> bytes:
    return text.ljust(size, b"\0")


def _padded(text: bytes) -> bytes:
    return text + bytes(-len(text) % 8)


def _header(messages: Sequence[bytes]) -> bytes:
    return struct.pack("<BxHII4x", 1, len(messages), 1, sum(map(len, messages))) + b"".join(messages)


def _message(kind: int, body: bytes, *, constant: bool = False) -> bytes:
    body = _padded(body)
    return struct.pack("<2HB3x", kind, len(body), constant) + body


def _attribute(name: str, value: NDArray[Any]) -> bytes:
    parts = name.encode() + b"\0", _type(value.dtype), _space(value.shape)
    sizes = struct.pack("<Bx3H", 1, *map(len, parts))
    return _message(_ATTRIBUTE, sizes + b"".join(map(_padded, parts)) + value.tobytes())


def _array_header(array: NDArray[Any], place: int) -> bytes:
    return _header(
        [
            _message(_SPACE, _space(array.shape)),
            _message(_TYPE, _type(array.dtype), constant=True),
            _message(_FILL, struct.pack("<4BI", 2, 2, 2, 1, 0), constant=True),  # none
            _message(
                _LAYOUT, struct.pack("<2B2Q", 3, 1, place if array.nbytes else _NOWHERE, array.nbytes)
            ),  # in one piece
        ]
    )


def _space(shape: tuple[int, ...]) -> bytes:
    sizes = struct.pack(f"<{2 * len(shape)}Q", *shape, *shape)
    return struct.pack("<3B5x", 1, len(shape), bool(shape)) + sizes


def _type(dtype: np.dtype[Any]) -> bytes:
    if dtype.fields is not None:
        members = b"".join(
            _padded(name.encode() + b"\0") + struct.pack("<I28x", offset) + _type(kind)
            for name, (kind, offset, *_) in dtype.fields.items()
        )
        return struct.pack("<BH1xI", 0x16, len(dtype.fields), dtype.itemsize) + members
    if dtype.kind == "S":
        return struct.pack("<BB2xI", 0x13, 1, dtype.itemsize)  # ended by its length or NUL
    is_signed = 8 * (dtype.kind == "i")
    return struct.pack("<BB2xI2H", 0x10, is_signed, dtype.itemsize, 0, 8 * dtype.itemsize)


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
