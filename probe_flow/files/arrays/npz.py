"""Small arrays as `.npy` and `.npz` bytes: written several times faster than general writers do, read without trust.

Source: the public NPY format description, version 1.0, and APPNOTE 6.3 of the zip format (members stored, one date).
"""

from __future__ import annotations

import ast
import math
import re
import struct
import sys
import zlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_CRC_BYTES = 4
_HEADER_CRC_AT, _ENTRY_CRC_AT = 14, 16


class StoredMember(NamedTuple):
    """Where a member lies that is not packed: its entry in the directory, its header, and its content up to ``end``."""

    key: str
    entry: int
    header: int
    content: int
    end: int


class ArchiveLayout:
    """Takes archives apart that have the layout of a known one; see `layout_of`."""

    __slots__ = ("_fixed", "_keys", "_pieces")

    def __init__(self, archive: bytes, directory: int, members: Sequence[StoredMember]) -> None:
        self._keys = [member.key for member in members]
        form = ["<"]
        for member in members:
            rest = member.content - member.header - _HEADER_CRC_AT - _CRC_BYTES
            form.append(f"{_HEADER_CRC_AT}s{_CRC_BYTES}x{rest}s{member.end - member.content}s")
        done = directory
        for member in members:
            form.append(f"{member.entry + _ENTRY_CRC_AT - done}sL")
            done = member.entry + _ENTRY_CRC_AT + _CRC_BYTES
        form.append(f"{len(archive) - done}s")
        self._pieces = struct.Struct("".join(form))
        self._fixed = self._split(archive)[0]

    def contents(self, archive: bytes) -> dict[str, bytes] | None:
        """Return the members of an archive by key; None where its layout is another one or a member is damaged."""
        if len(archive) != self._pieces.size:
            return None
        fixed, contents, checksums = self._split(archive)
        if fixed != self._fixed or tuple(map(zlib.crc32, contents)) != checksums:
            return None
        return dict(zip(self._keys, contents, strict=True))

    def _split(self, archive: bytes) -> tuple[tuple[bytes, ...], tuple[bytes, ...], tuple[int, ...]]:
        """Return what all archives of a layout share, the contents of the members, and their checksums."""
        pieces = self._pieces.unpack(archive)
        listed = 3 * len(self._keys)
        shared = pieces[0:listed:3] + pieces[1:listed:3] + pieces[listed::2]
        return shared, pieces[2:listed:3], pieces[listed + 1 :: 2]


def layout_of(archive: bytes, directory: int, members: Sequence[StoredMember]) -> ArchiveLayout | None:
    """Return the layout of an archive whose members are checked.

    Args:
        archive: the whole file.
        directory: where its directory begins.
        members: in the order of the directory.

    Returns:
        None where the members do not follow each other without gaps, from the first byte up to the directory.
    """
    ends = [0, *(member.end for member in members)]
    follows = ends == [*(member.header for member in members), directory]
    return ArchiveLayout(archive, directory, members) if follows else None


Array = NDArray[Any]

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER_AT = len(_MAGIC) + 2
_ALIGNMENT = 64
MAX_MEMBERS = 1024
"""Of one archive; reduced files have a dozen."""

_MAX_HEADER_BYTES = 32 * 1024
_MAX_NESTING = 8
_PLAIN = re.compile(r"[<>|=]?(?:[biufc][0-9]{1,2}|[?]|[US][0-9]{1,5})")
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5HL")
_PLACE = struct.Struct("<L")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_VERSION = 20
_MAX_COMMENT_BYTES = 2**16
_MAX_LAYOUT_BYTES, _MAX_LAYOUTS = 2**16, 16
_ENCRYPTED, _STORED, _DEFLATED = 1, 0, 8
_TIME, _FIRST_DAY = 0, 1 << 5 | 1
"""Midnight, and the first day that zip archives know."""


def npy_bytes(array: Array) -> bytes:
    """Return the `.npy` file of an array without Python objects."""
    assert not array.dtype.hasobject
    return npy_header(array.dtype, array.shape) + array.tobytes()


class Member(NamedTuple):
    """A member of a `.npz` file, ready for any place in it: what stands there, and its entry in the directory."""

    stored: bytes
    entry: bytes
    name: bytes


def member(key: str, content: bytes) -> Member:
    """Return the member that holds the `.npy` file ``content``."""
    name = f"{key}.npy".encode("ascii")
    facts = (_TIME, _FIRST_DAY, zlib.crc32(content), len(content), len(content))
    local = _LOCAL.pack(b"PK\x03\x04", _VERSION, 0, 0, *facts, len(name), 0)
    entry = _CENTRAL.pack(b"PK\x01\x02", _VERSION, _VERSION, 0, 0, *facts, len(name), 0, 0, 0, 0, 0)
    return Member(b"".join((local, name, content)), entry, name)


def joined(members: Sequence[Member]) -> bytes:
    """Return the `.npz` file of members (below 4 GiB in all), in their order."""
    directory: list[bytes] = []
    at = 0
    for stored, entry, name in members:
        directory += (entry, _PLACE.pack(at), name)
        at += len(stored)
    listed = b"".join(directory)
    end = _END.pack(b"PK\x05\x06", 0, 0, len(members), len(members), len(listed), at, 0)
    return b"".join((*(each.stored for each in members), listed, end))


@lru_cache(maxsize=1024)
def npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return what stands before the elements of a `.npy` file; its length is a multiple of 64."""
    descr = np.lib.format.dtype_to_descr(dtype)
    text = repr({"descr": descr, "fortran_order": False, "shape": shape})
    missing = -(len(_MAGIC) + 2 + len(text) + 1) % _ALIGNMENT
    return _MAGIC + struct.pack("<H", len(text) + 1 + missing) + f"{text}{' ' * missing}\n".encode("latin-1")


def contents_of(archive: bytes, limit: int) -> dict[str, bytes]:
    """Return the `.npy` files of a small `.npz` file by key, which may have ``limit`` bytes in all.

    Members may be stored or deflated; 64-bit sizes, which only archives of gigabytes need, are not read. The archives
    of one dump mostly have the same layout: what was found out of one is tried on the next before it is read anew.

    Raises:
        ValueError, struct.error or zlib.error: it is something else, has more than `MAX_MEMBERS`, two of one name, or
            two that share bytes.
    """
    known = _layouts(len(archive)) if len(archive) <= _MAX_LAYOUT_BYTES else []
    for layout in known:
        taken = layout.contents(archive)
        if taken is not None:
            return taken
    directory, listed = _directory(archive)
    _refuse_shared_bytes(listed, directory)
    if (total := sum(member.size for member in listed)) > limit:
        raise ValueError(f"its members claim {total} bytes, at most {limit} are read")
    found = {member.place.key: _content(archive, member) for member in listed}
    if all(member.method == _STORED for member in listed) and len(known) < _MAX_LAYOUTS:
        new = layout_of(archive, directory, [member.place for member in listed])
        if new is not None:
            known.append(new)
    return found


class _Listed(NamedTuple):
    """What the directory says of a member."""

    name: str
    place: StoredMember
    method: int
    size: int
    crc: int


def _directory(archive: bytes) -> tuple[int, list[_Listed]]:
    """Return where the directory of an archive begins, and its entries."""
    at = archive.rfind(b"PK\x05\x06", -_END.size - _MAX_COMMENT_BYTES)
    if at < 0:
        raise ValueError("its directory is missing")
    *_, count, _, directory, _ = _END.unpack_from(archive, at)
    if count > MAX_MEMBERS:
        raise ValueError(f"it lists {count} members, at most {MAX_MEMBERS} are read")
    place, listed = directory, {}
    for _ in range(count):
        signature, _, _, flags, method, _, _, crc, packed, size, *lengths, _, _, _, start = _ENTRY.unpack_from(
            archive, place
        )
        if signature != b"PK\x01\x02" or flags & _ENCRYPTED:
            raise ValueError("its directory is malformed")
        name = archive[place + _ENTRY.size : place + _ENTRY.size + lengths[0]].decode("utf-8", "backslashreplace")
        key, shown = name.removesuffix(".npy"), name[:40]
        if key in listed:
            raise ValueError(f"it lists `{shown}` twice")
        begin = _content_at(archive, start)
        listed[key] = _Listed(shown, StoredMember(key, place, start, begin, begin + packed), method, size, crc)
        place += _ENTRY.size + sum(lengths)
    return directory, list(listed.values())


def _refuse_shared_bytes(listed: Sequence[_Listed], directory: int) -> None:
    """Refuse members that lie over each other or over the directory: a few bytes would stand for any number of them."""
    places = sorted((member.place.header, member.place.end, f"its member `{member.name}`") for member in listed)
    for (_, end, what), (begin, _, other) in pairwise([*places, (directory, directory, "its directory")]):
        if end > begin:
            raise ValueError(f"{what} shares bytes with {other}")


def _content(archive: bytes, member: _Listed) -> bytes:
    content = archive[member.place.content : member.place.end]
    if member.method == _DEFLATED:
        # One byte more than announced: that is enough to see that there are more.
        content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(content, member.size + 1)
    elif member.method != _STORED:
        raise ValueError(f"its members are packed by method {member.method}")
    if len(content) != member.size or zlib.crc32(content) != member.crc:
        raise ValueError(f"its member `{member.name}` is damaged")
    return content


def _content_at(archive: bytes, start: int) -> int:
    signature, *_, name_bytes, extra_bytes = _LOCAL.unpack_from(archive, start)
    if signature != b"PK\x03\x04":
        raise ValueError("a member is missing")
    return start + _LOCAL.size + int(name_bytes) + int(extra_bytes)


@lru_cache(maxsize=256)
def _layouts(_size: int) -> list[ArchiveLayout]:
    """Return the list of the layouts that were met in archives of this size, to which further ones are added."""
    return []


def array_of(content: bytes) -> Array:
    """Return the array of a `.npy` file; nothing is unpickled, nothing allocated on its word.

    Raises:
        ValueError, SyntaxError, KeyError, TypeError, RecursionError or MemoryError: it is something else.
    """
    if content[: len(_MAGIC)] != _MAGIC or len(content) < _HEADER_AT:
        raise ValueError("it does not begin like an array of version 1.0")
    end = _HEADER_AT + int.from_bytes(content[len(_MAGIC) : _HEADER_AT], "little")
    if end - _HEADER_AT > _MAX_HEADER_BYTES:
        raise ValueError("its header is no description of an array")
    shape, dtype = _described(content[_HEADER_AT:end])
    count, rest = math.prod(shape), content[end:]
    if dtype.itemsize == 0 or len(rest) != count * dtype.itemsize:
        raise ValueError(f"shape {list(shape)} of `{dtype}` is not what {len(rest)} bytes hold")
    found = np.frombuffer(rest, dtype, count).reshape(shape)
    for part in [found] if dtype.names is None else [found[name] for name in dtype.names]:
        _check_characters(part)
    return found


def _check_characters(texts: Array) -> None:
    """Refuse texts with numbers that are no characters: numpy would make strings of them that break Python."""
    if texts.dtype.kind == "U" and texts.dtype.itemsize and texts.size:
        numbers = np.ascontiguousarray(texts).view(np.dtype(np.uint32).newbyteorder(texts.dtype.byteorder))
        if numbers.max() > sys.maxunicode:
            raise ValueError("its texts hold what is no character")


@lru_cache(maxsize=256)
def _described(header: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and dtype; the files of one dump have the same few headers."""
    text = header.decode("latin-1")
    if _nesting(text) > _MAX_NESTING:
        raise ValueError("its header is no description of an array")
    found = ast.literal_eval(text.strip())
    shape, dtype = found["shape"], _dtype(found["descr"])
    if not isinstance(shape, tuple) or not all(type(dim) is int and dim >= 0 for dim in shape):
        raise ValueError("its shape is none")
    if found["fortran_order"] and len(shape) > 1:
        raise ValueError("it holds columns, not rows")
    return shape, dtype


def _nesting(text: str) -> int:
    """Return how deep brackets nest; Python's own parser may run out of stack on absurd ones."""
    depth = deepest = 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        deepest = max(deepest, depth)
    return deepest


def _dtype(descr: object) -> np.dtype[Any]:
    """Return the dtype of plain elements, or of records of such."""
    if isinstance(descr, str) and _PLAIN.fullmatch(descr):
        return np.dtype(descr)
    if isinstance(descr, list) and descr and all(_is_field(field) for field in descr):
        return np.dtype(descr)
    raise ValueError("its elements are Python objects or of an unknown type")


def _is_field(field: object) -> bool:
    if not isinstance(field, tuple) or len(field) != 2 or not all(isinstance(part, str) for part in field):
        return False
    name, kind = field
    return bool(name) and _PLAIN.fullmatch(kind) is not None
