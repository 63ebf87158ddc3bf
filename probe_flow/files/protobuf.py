"""The protobuf wire format, read without generated code: enough for small untrusted headers.

A message is a run of fields, each a varint key (``number << 3 | wire type``) and a value. Every length is checked
against the bytes that are there before anything is taken; nested messages are ranges of the same buffer, which the
caller opens itself, so there is no recursion. Source: the public Protocol Buffers encoding guide.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias, overload

from msgspec import Struct

from probe_flow.errors import FormatError
from probe_flow.files.binary_file import AHEAD_BYTES, BinaryFile, malformed

VARINT, FIXED64, DELIMITED, GROUP_START, GROUP_END, FIXED32 = range(6)

_MAX_VARINT_BYTES = 10
_MAX_GROUP_DEPTH = 32
_MASK64 = 2**64 - 1
_HELP = "dump this operator again, or exclude it with `select.nodes`"


class Field(NamedTuple):
    """One field: ``value`` of a varint or fixed one (unsigned), else the range ``start:stop`` of its bytes."""

    number: int
    wire: int
    value: int
    start: int
    stop: int


class FileBytes:
    """The bytes of an open file, read a window at a time: for messages whose long values nobody wants.

    Unlike a map of the file it may become shorter meanwhile: bytes that are gone read as an end of the message.
    """

    def __init__(self, file: BinaryFile) -> None:
        self._file = file
        self._start = 0
        self._window = file.read_at(0, AHEAD_BYTES)

    def __len__(self) -> int:
        return self._file.size

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> bytes: ...
    def __getitem__(self, at: int | slice) -> int | bytes:
        if isinstance(at, slice):
            start, stop, _ = at.indices(self._file.size)
            begin = start - self._start
            if begin >= 0 and stop - self._start <= len(self._window):
                return self._window[begin : stop - self._start]
            return self._file.read_at(start, stop - start)
        begin = at - self._start
        if not 0 <= begin < len(self._window):
            self._start, self._window, begin = at, self._file.read_at(at, AHEAD_BYTES), 0
        return self._window[begin] if self._window else 0


Source: TypeAlias = "bytes | mmap.mmap | FileBytes"


class WireReader(Struct):
    """Reads fields from a buffer.

    Args:
        data: the bytes, or a file's; indexed piece by piece, never copied whole.
        path: file that they come from, for errors.
        base: place of ``data[0]`` in the file, for errors.
        fields_left: how many more fields are read before the file is refused; bounds the time.
        what: the message, for errors.
        cure: the next step where it is no such message.
    """

    data: Source
    path: str
    base: int = 0
    fields_left: int = 1_000_000
    what: str = "the dump header"
    cure: str = _HELP

    def fields(self, start: int, stop: int) -> Iterator[Field]:
        """Yield the fields of the message at ``start:stop``; groups (a retired feature) are skipped.

        Raises:
            FormatError: PF3013 with the byte offset of the first thing that is wrong, PF3012 for too many fields.
        """
        position = start
        groups: list[int] = []
        while position < stop:
            at = position
            self.fields_left -= 1
            if self.fields_left < 0:
                raise self._too_many(at)
            key, position = self.varint(position, stop)
            number, wire = key >> 3, key & 7
            if not 0 < number < 2**29:
                raise self._error(f"field number {number} is out of range", at)
            if wire in (GROUP_START, GROUP_END):
                self._follow_group(groups, number, wire, at)
                continue
            field, position = self._value(number, wire, position, stop)
            if not groups:
                yield field
        if groups:
            raise self._error("a group does not end", stop)

    def varint(self, position: int, stop: int) -> tuple[int, int]:
        """Return the unsigned 64-bit integer at ``position`` and the place behind it.

        Raises:
            FormatError: PF3013 when it runs past ``stop`` or over ten bytes.
        """
        if position < stop and (byte := self.data[position]) < 0x80:
            return byte, position + 1
        value = 0
        for count in range(_MAX_VARINT_BYTES):
            if position + count >= stop:
                raise self._error("an integer runs past the end of its message", position)
            byte = self.data[position + count]
            value |= (byte & 0x7F) << 7 * count
            if byte < 0x80:
                return value & _MASK64, position + count + 1
        raise self._error("an integer is longer than ten bytes", position)

    def varints(self, start: int, stop: int, *, limit: int) -> list[int]:
        """Return the packed integers at ``start:stop``, at most the first ``limit`` of them.

        Raises:
            FormatError: PF3013 for a broken one.
        """
        values: list[int] = []
        position = start
        while position < stop and len(values) < limit:
            value, position = self.varint(position, stop)
            values.append(value)
        return values

    def text(self, start: int, stop: int) -> str:
        """Return the text at ``start:stop``; bytes that are no UTF-8 show as escapes."""
        return bytes(self.data[start:stop]).decode("utf-8", "backslashreplace")

    def _value(self, number: int, wire: int, position: int, stop: int) -> tuple[Field, int]:
        if wire == VARINT:
            value, end = self.varint(position, stop)
            return Field(number, wire, value, position, end), end
        if wire == DELIMITED:
            length, begin = self.varint(position, stop)
            if length > stop - begin:
                raise self._error(f"field {number} claims {length} bytes, {stop - begin} are left", position)
            return Field(number, wire, 0, begin, begin + length), begin + length
        if wire not in (FIXED32, FIXED64):
            raise self._error(f"field {number} has the unknown wire type {wire}", position)
        end = position + (8 if wire == FIXED64 else 4)
        if end > stop:
            raise self._error(f"field {number} runs past the end of its message", position)
        return Field(number, wire, int.from_bytes(self.data[position:end], "little"), position, end), end

    def _follow_group(self, groups: list[int], number: int, wire: int, at: int) -> None:
        if wire == GROUP_START:
            if len(groups) == _MAX_GROUP_DEPTH:
                raise self._error(f"groups nest deeper than {_MAX_GROUP_DEPTH}", at)
            groups.append(number)
        elif not groups or groups.pop() != number:
            raise self._error(f"group {number} ends without a beginning", at)

    def _too_many(self, at: int) -> FormatError:
        return malformed(
            "PF3012",
            self.path,
            f"{self.what} has more fields than any dump",
            help_text=self.cure,
            offset=self.base + at,
        )

    def _error(self, what: str, position: int) -> FormatError:
        return malformed(
            "PF3013",
            self.path,
            f"{self.what} is malformed: {what}",
            help_text=self.cure,
            offset=self.base + position,
        )


def signed(value: int) -> int:
    """Return a 64-bit varint as the signed integer that it may stand for."""
    return value - 2**64 if value >= 2**63 else value
