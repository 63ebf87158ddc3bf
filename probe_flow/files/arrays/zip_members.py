"""Where the members of a zip archive lie, read from its directory without trusting it and without unpacking anything.

Source: the public description of the zip format (APPNOTE 6.3), with its 64-bit extension. Archives with a comment of
more than a few kilobytes and archives in several parts are not read.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from probe_flow.errors import FormatError
from probe_flow.files.binary_file import BinaryFile, malformed

FIRST_BYTES = b"PK\x03\x04"
DAMAGED = "PF3421"

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s4B4HL2L5H2L")
_LENGTHS, _LENGTHS_AT = struct.Struct("<3H"), 28
_LOCAL = struct.Struct("<4s5H3L2H")
_TAIL_BYTES = 4096
_MAX_DIRECTORY_BYTES = 16 * 2**20
_SATURATED = 0xFFFFFFFF
_EXTRA_64_BITS = 1
_ENCRYPTED = 1
_STORED = 0


class Member(Struct, frozen=True):
    """One file of an archive.

    Args:
        name: its path in the archive.
        size: its bytes, unpacked.
        header: where its local header begins.
        is_stored: whether its bytes lie there as they are, neither packed nor encrypted.
    """

    name: str
    size: int
    header: int
    is_stored: bool


class ZipArchive:
    """The members of an archive by name.

    Args:
        file: the archive, open; it must begin with `FIRST_BYTES`.

    Raises:
        FormatError: PF3421 when the directory at its end is missing or malformed.
    """

    __slots__ = ("_directory", "_file", "_offset", "_places", "_start", "_tail")

    def __init__(self, file: BinaryFile) -> None:
        self._file = file
        self._start = max(0, file.size - _TAIL_BYTES)
        self._tail = file.read_at(self._start, _TAIL_BYTES)
        self._offset, nbytes = self._directory_place()
        self._directory = self._bytes(self._offset, nbytes)
        self._places = self._listed()

    @property
    def names(self) -> Collection[str]:
        """The names of the members."""
        return self._places.keys()

    def member(self, name: str) -> Member | None:
        """Return what the directory says of a member, None where there is none of that name.

        Raises:
            FormatError: PF3421 when a 64-bit size is missing.
        """
        at = self._places.get(name)
        if at is None:
            return None
        fields = _ENTRY.unpack_from(self._directory, at)
        flags, method, packed, size, name_bytes, extra_bytes = *fields[5:7], *fields[10:14]
        header = fields[-1]
        if _SATURATED in (packed, size, header):
            begin = at + _ENTRY.size + name_bytes
            extra = self._directory[begin : begin + extra_bytes]
            size, packed, header = self._sizes_64(extra, size, packed, header, self._offset + at)
        return Member(name, size, header, method == _STORED and not flags & _ENCRYPTED and packed == size)

    def payload(self, member: Member) -> int:
        """Return where the bytes of a stored member begin, after its local header.

        Raises:
            FormatError: PF3421 when there is no such header, or the member does not fit into the file.
        """
        header = self._bytes(member.header, _LOCAL.size)
        if len(header) < _LOCAL.size or not header.startswith(FIRST_BYTES):
            raise self._damaged(f"`{member.name}` has no header", member.header)
        *_, name_bytes, extra_bytes = _LOCAL.unpack(header)
        begin = member.header + _LOCAL.size + name_bytes + extra_bytes
        if begin + member.size > self._file.size:
            what = f"`{member.name}` needs bytes up to {begin + member.size}, there are {self._file.size}"
            raise self._damaged(what, begin)
        return int(begin)

    def read(self, member: Member) -> bytes:
        """Return the bytes of a stored member; ask for small ones only.

        Raises:
            FormatError: as `payload`.
        """
        return self._bytes(self.payload(member), member.size)

    def _bytes(self, offset: int, count: int) -> bytes:
        if offset >= self._start:
            return self._tail[offset - self._start : offset - self._start + count]
        return self._file.read_at(offset, count)

    def _directory_place(self) -> tuple[int, int]:
        """Return offset and bytes of the directory, from the record at the end of the file."""
        at = self._tail.rfind(b"PK\x05\x06")
        if at < 0 or len(self._tail) - at < _END.size:
            raise self._damaged("its end is missing: the file is cut off", self._file.size)
        *_, nbytes, offset, _ = _END.unpack_from(self._tail, at)
        if _SATURATED in (nbytes, offset):
            offset, nbytes = self._place_64(self._start + at - _LOCATOR64.size)
        if nbytes > _MAX_DIRECTORY_BYTES or offset + nbytes > self._start + at:
            raise self._damaged(f"its directory claims {nbytes} bytes from {offset} on", self._start + at)
        return offset, nbytes

    def _place_64(self, locator: int) -> tuple[int, int]:
        found = self._bytes(max(0, locator), _LOCATOR64.size)
        if locator >= 0 and len(found) == _LOCATOR64.size and found.startswith(b"PK\x06\x07"):
            _, _, record, _ = _LOCATOR64.unpack(found)
            content = self._bytes(record, _END64.size) if record < self._file.size else b""
            if len(content) == _END64.size and content.startswith(b"PK\x06\x06"):
                *_, nbytes, offset = _END64.unpack(content)
                return offset, nbytes
        raise self._damaged("the 64-bit record of its directory is missing", max(0, locator))

    def _listed(self) -> dict[str, int]:
        """Return where in the directory each member stands."""
        directory, places, at = self._directory, {}, 0
        while at < len(directory):
            begin = at + _ENTRY.size
            if begin > len(directory) or not directory.startswith(b"PK\x01\x02", at):
                raise self._damaged("its directory is malformed", self._offset + at)
            name_bytes, extra_bytes, comment_bytes = _LENGTHS.unpack_from(directory, at + _LENGTHS_AT)
            name = directory[begin : begin + name_bytes].decode("utf-8", "replace")
            if name in places:
                raise self._damaged(f"it lists `{name}` twice", self._offset + at)
            places[name] = at
            at = begin + name_bytes + extra_bytes + comment_bytes
        return places

    def _sizes_64(self, extra: bytes, size: int, packed: int, header: int, offset: int) -> tuple[int, int, int]:
        """Replace the saturated ones of three numbers by their 64-bit values, which stand in this order."""
        at = 0
        while at + 4 <= len(extra):
            kind, length = struct.unpack_from("<2H", extra, at)
            body = extra[at + 4 : at + 4 + length]
            if kind == _EXTRA_64_BITS:
                wide = [int.from_bytes(body[place : place + 8], "little") for place in range(0, len(body) - 7, 8)]
                numbers = [size, packed, header]
                if len(wide) >= numbers.count(_SATURATED):
                    values = iter(wide)
                    size, packed, header = (next(values) if each == _SATURATED else each for each in numbers)
                    return size, packed, header
            at += 4 + length
        raise self._damaged("a 64-bit size in its directory is missing", offset)

    def _damaged(self, what: str, offset: int) -> FormatError:
        return malformed(
            DAMAGED,
            self._file.path,
            f"`{Path(self._file.path).name}` is a damaged torch file: {what}",
            help_text="wait until the dump is written; if it is, copy the file again, or dump again",
            offset=offset,
        )
