"""The header of a nano dump, the container of some edge devices: tagged blocks in place of a message.

A 32-bit magic and a version, then blocks of tag, length and value (32 bits each before the value): tag 4 holds the
inputs, tag 5 the outputs, each as a count and so many records of fixed fields. A record ends with a list of blocks of
its own, bounded in bytes: tag 0 the stored dimensions, tag 1 the original ones, tag 2 the name before fusion. Element
types have another numbering than the message has. The payload follows as in the ordinary container. All integers are
little endian. Source: the published layout of the format; unknown tags are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType

from probe_flow.dumps.device.message import MAX_DIMS, DumpMessage, SectionMessage
from probe_flow.errors import FormatError
from probe_flow.files.binary_file import malformed

MAGIC = b"\x5a\x5a\x5a\x5a"

_INPUTS, _OUTPUTS = 4, 5
_DIMS, _ORIGINAL_DIMS, _ORIGINAL_NAME = range(3)
_HEAD = struct.Struct("<4sI")
_BLOCK = struct.Struct("<II")
_COUNT = struct.Struct("<I")
_INPUT = struct.Struct("<IiiQQQI")
_OUTPUT = struct.Struct("<IiiiiiQQQI")

MESSAGE_TYPES = MappingProxyType(
    {0: 1, 1: 2, 2: 3, 3: 7, 4: 4, 6: 5, 7: 6, 8: 9, 9: 8, 10: 10, 11: 12, 12: 11, 28: 0}
    | {number: number for number in range(13, 28)}
    | {number: number - 1 for number in range(29, 42)}
)
"""Element type number of nano dumps (the numbering of the graph compiler) -> number of the dump message."""


def parse_nano_header(header: bytes, path: str, base: int) -> DumpMessage:
    """Parse the header, magic included, into what the ordinary one would say; it names no operator.

    Args:
        header: its bytes.
        path: the file, for errors.
        base: place of the header in the file, for errors.

    Raises:
        FormatError: PF3018 when a block or a record does not fit into what holds it.
    """
    cursor = _Cursor(header, path, base)
    cursor.take(_HEAD, "the magic and the version")
    message = DumpMessage()
    is_described = False
    for tag, inner in cursor.blocks():
        if tag in (_INPUTS, _OUTPUTS):
            is_described = True
            records = message.inputs if tag == _INPUTS else message.outputs
            records.extend(_records(inner, is_output=tag == _OUTPUTS))
    if not is_described:
        raise cursor.error("it describes neither inputs nor outputs")
    return message


def _records(cursor: _Cursor, *, is_output: bool) -> Iterator[SectionMessage]:
    what = "output" if is_output else "input"
    (count,) = cursor.take(_COUNT, f"the number of {what}s")
    for index in range(count):
        yield _record(cursor, f"{what} {index}", is_output=is_output)


def _record(cursor: _Cursor, what: str, *, is_output: bool) -> SectionMessage:
    fields = cursor.take(_OUTPUT if is_output else _INPUT, what)
    address, _, size, list_size = fields[-4:]
    # Numbers that the message has no counterpart of stay apart from its own below zero.
    section = SectionMessage(MESSAGE_TYPES.get(fields[0], -1 - fields[0]), fields[1], size=size, address=address)
    if is_output:
        section.original_output = fields[3]
    for tag, inner in cursor.within(list_size, f"the lists of {what}").blocks():
        if tag == _DIMS:
            section.shape = inner.dims(what)
        elif tag == _ORIGINAL_DIMS:
            section.original_shape = inner.dims(what)
        elif tag == _ORIGINAL_NAME and is_output:
            section.original_op = inner.text()
    return section


@dataclass(slots=True)
class _Cursor:
    """Takes fields from ``data[at:stop]``, each checked against ``stop`` first."""

    data: bytes
    path: str
    base: int
    at: int = 0
    stop: int = -1

    def __post_init__(self) -> None:
        if self.stop < 0:
            self.stop = len(self.data)

    def take(self, layout: struct.Struct, what: str) -> tuple[int, ...]:
        if layout.size > self.stop - self.at:
            raise self.error(f"{what} needs {layout.size} bytes, {self.stop - self.at} are left")
        fields = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return fields

    def within(self, size: int, what: str) -> _Cursor:
        """Return a cursor over the next ``size`` bytes and step over them."""
        if size > self.stop - self.at:
            raise self.error(f"{what} claims {size} bytes, {self.stop - self.at} are left")
        inner = _Cursor(self.data, self.path, self.base, self.at, self.at + size)
        self.at += size
        return inner

    def blocks(self) -> Iterator[tuple[int, _Cursor]]:
        while self.at < self.stop:
            tag, length = self.take(_BLOCK, "a block")
            yield tag, self.within(length, f"the block of tag {tag}")

    def dims(self, what: str) -> list[int]:
        size = self.stop - self.at
        if size % 8:
            raise self.error(f"the dimensions of {what} take {size} bytes, no multiple of 8")
        # One more than allowed marks the shape as absurd; the rest is of no use.
        return list(struct.unpack_from(f"<{min(size // 8, MAX_DIMS + 1)}q", self.data, self.at))

    def text(self) -> str:
        return self.data[self.at : self.stop].rstrip(b"\0").decode("utf-8", "backslashreplace")

    def error(self, what: str) -> FormatError:
        return malformed(
            "PF3018",
            self.path,
            f"the header of the nano dump is malformed: {what}",
            help_text="dump this operator again, or exclude it with `select.nodes`",
            offset=self.base + self.at,
        )
