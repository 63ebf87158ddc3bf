"""Layouts of small zip archives: programs write the same few over and over, so each is found out only once.

Two archives have the same layout when they differ in nothing but the contents of their members and the checksums.
Source: APPNOTE 6.3 of the zip format.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

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
