"""Where the members of a zip archive lie, read from its directory without trusting it and without unpacking anything.

Source: the public description of the zip format (APPNOTE 6.3), with its 64-bit extension. Archives with a comment of
more than a few kilobytes and archives in several parts are not read.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from probe_flow.errors import FormatError
from probe_flow.formats.binary_file import BinaryFile, malformed

FIRST_BYTES = b"PK\x03\x04"
DAMAGED = "PF3421"

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s4B4HL2L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_TAIL_BYTES = 4096
_MAX_DIRECTORY_BYTES = 16 * 2**20
_SATURATED = 0xFFFFFFFF
_EXTRA_64_BITS = 1
_ENCRYPTED = 1
_STORED = 0


@dataclass(frozen=True, slots=True)
class Member:
    """One file of an archive.

    Args:
        size: its bytes, unpacked.
        header: where its local header begins.
        is_stored: whether its bytes lie there as they are, neither packed nor encrypted.
    """

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

    __slots__ = ("_file", "_start", "_tail", "members")

    def __init__(self, file: BinaryFile) -> None:
        self._file = file
        self._start = max(0, file.size - _TAIL_BYTES)
        self._tail = file.read_at(self._start, _TAIL_BYTES)
        offset, nbytes = self._directory_place()
        self.members: Mapping[str, Member] = self._listed(self._bytes(offset, nbytes), offset)

    def payload(self, name: str) -> int:
        """Return where the bytes of a stored member begin, after its local header.

        Raises:
            FormatError: PF3421 when there is no such header, or the member does not fit into the file.
        """
        member = self.members[name]
        header = self._bytes(member.header, _LOCAL.size)
        if len(header) < _LOCAL.size or not header.startswith(FIRST_BYTES):
            raise self._damaged(f"`{name}` has no header", member.header)
        *_, name_bytes, extra_bytes = _LOCAL.unpack(header)
        begin = member.header + _LOCAL.size + name_bytes + extra_bytes
        if begin + member.size > self._file.size:
            raise self._damaged(f"`{name}` needs bytes up to {begin + member.size}, there are {self._file.size}", begin)
        return int(begin)

    def read(self, name: str) -> bytes:
        """Return the bytes of a stored member; ask for small ones only.

        Raises:
            FormatError: as `payload`.
        """
        return self._bytes(self.payload(name), self.members[name].size)

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

    def _listed(self, directory: bytes, offset: int) -> dict[str, Member]:
        members: dict[str, Member] = {}
        at = 0
        while at < len(directory):
            if len(directory) - at < _ENTRY.size or not directory.startswith(b"PK\x01\x02", at):
                raise self._damaged("its directory is malformed", offset + at)
            fields = _ENTRY.unpack_from(directory, at)
            flags, method = fields[5], fields[6]
            packed, size, name_bytes, extra_bytes, comment_bytes = fields[10:15]
            header = fields[-1]
            begin = at + _ENTRY.size
            extra = directory[begin + name_bytes : begin + name_bytes + extra_bytes]
            if _SATURATED in (packed, size, header):
                size, packed, header = self._sizes_64(extra, size, packed, header, offset + at)
            name = directory[begin : begin + name_bytes].decode("utf-8", "replace")
            is_stored = method == _STORED and not flags & _ENCRYPTED and packed == size
            if name in members:
                raise self._damaged(f"it lists `{name}` twice", offset + at)
            members[name] = Member(size, header, is_stored)
            at = begin + name_bytes + extra_bytes + comment_bytes
        return members

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
