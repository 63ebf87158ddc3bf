"""Read device dump files of an Ascend NPU: which tensors a file holds and where their bytes lie.

Container, version 2: an unsigned 64-bit header length, the header (a protobuf message), then the bytes of all
inputs, outputs, buffers and spaces in this order without gaps, each exactly its ``size``. A slot may hold more bytes
than its shape needs. Version 1 is the bare message with the bytes inside; nano dumps have another header
(`probe_flow.dumps.device.device_file`) and the same payload. All integers are little endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.dumps.device.file_records import GeDump, GeSection, GeTensor
from probe_flow.dumps.device.message import MAX_DIMS, DumpMessage, SectionMessage, parse_dump_message
from probe_flow.dumps.device.refs import ResolvedShape, resolve_shape
from probe_flow.errors import Diagnostic, FormatError, Severity
from probe_flow.files.binary_file import BinaryFile, diagnose, malformed
from probe_flow.files.protobuf import WireReader

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


class _Cursor(Struct):
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


MAX_HEADER_BYTES = 64 * 2**20
"""Real headers hold kilobytes; slice tables of large split operators some megabytes."""

_LENGTH_BYTES = 8
_NANO = 3


def read_ge_header(path: Path | str) -> GeDump:
    """Read the header of one dump file; tensor bytes stay on disk.

    A tensor that is malformed or cut off carries a `problem` and leaves the others readable. Bytes behind the last
    section are a problem of the file: its writers leave none.

    Raises:
        FormatError: PF3001/PF3002 unreadable, PF3010 empty, PF3011 ends inside the header, PF3012 header too large,
            PF3013 header malformed, PF3018 header of a nano dump malformed.
    """
    with BinaryFile(path) as file:
        return ge_header(file)


def ge_header(file: BinaryFile) -> GeDump:
    """Return the header of a file that is open already; see `read_ge_header`."""
    head = file.read_at(0, _LENGTH_BYTES + len(MAGIC))
    if file.size <= _LENGTH_BYTES or len(head) <= _LENGTH_BYTES:
        raise _empty(file)
    is_nano = head[_LENGTH_BYTES:] == MAGIC
    length = int.from_bytes(head[:_LENGTH_BYTES], "little")
    if length == 0:
        raise _empty(file)
    if length > file.size - _LENGTH_BYTES:
        if is_nano:
            raise _ends_in_header(file, length, file.size - _LENGTH_BYTES)
        return _read_bare_message(file, length)
    if length > MAX_HEADER_BYTES:
        raise _too_large(file, length)
    header = file.read_at(_LENGTH_BYTES, length)
    if len(header) < length:
        raise _ends_in_header(file, length, len(header))
    if is_nano:
        return _read_nano(file, header)
    message = parse_dump_message(WireReader(header, file.path, base=_LENGTH_BYTES), 0, length)
    return _place(file, message, _LENGTH_BYTES + length)


def _read_bare_message(file: BinaryFile, length: int) -> GeDump:
    """Try the old form; what is not that either is reported as the container that it most likely was."""
    with closing(file.map()) as data:
        try:
            message = parse_dump_message(WireReader(data, file.path), 0, len(data), is_strict=True)
        except FormatError as exc:
            raise _ends_in_header(file, length, file.size - _LENGTH_BYTES) from exc
    return _place(file, message, None)


def _read_nano(file: BinaryFile, header: bytes) -> GeDump:
    message = parse_nano_header(header, file.path, _LENGTH_BYTES)
    return replace(_place(file, message, _LENGTH_BYTES + len(header)), version=_NANO)


def _place(file: BinaryFile, message: DumpMessage, payload: int | None) -> GeDump:
    """Give every section its place: one behind the other from ``payload`` on, or inside the bare message (None)."""
    position = payload or 0
    tensors: list[list[GeTensor]] = [[], []]
    sections: list[list[GeSection]] = [[], []]
    for role, (word, drafts) in enumerate((("input", message.inputs), ("output", message.outputs))):
        for index, draft in enumerate(drafts):
            size, offset = _slot(draft, position, is_inline=payload is None)
            resolved = resolve_shape(draft, size)
            problem = None
            if resolved.code is not None or offset + resolved.nbytes > file.size:
                label = f"{word} {index} of `{message.op_name or Path(file.path).name}`"
                problem = _problem(file, resolved, label, offset)
            tensors[role].append(_tensor(draft, resolved, problem, size, offset))
            position = max(position, offset + size)
    for group, parts in enumerate((message.buffers, message.spaces)):
        for part in parts:
            size, offset = _slot(part, position, is_inline=payload is None)
            sections[group].append(GeSection(part.data_type, size, offset))
            position = max(position, offset + size)
    problems = [tensor.problem for tensor in (*tensors[0], *tensors[1]) if tensor.problem is not None]
    if position > file.size and not any(problem.code == "PF3015" for problem in problems):
        problems.append(_cut_sections(file, position))
    if payload is not None and position < file.size:
        problems.append(_surplus(file, position))
    return GeDump(
        message.op_name,
        message.dump_time,
        inputs=tuple(tensors[0]),
        outputs=tuple(tensors[1]),
        buffers=tuple(sections[0]),
        spaces=tuple(sections[1]),
        attrs=tuple(message.attrs),
        version=1 if payload is None else 2,
        problems=tuple(problems),
    )


def _slot(draft: SectionMessage, position: int, *, is_inline: bool) -> tuple[int, int]:
    if not is_inline:
        return draft.size, position
    start, stop = draft.data or (position, position)
    return stop - start, start


def _problem(file: BinaryFile, resolved: ResolvedShape, label: str, offset: int) -> Diagnostic:
    """Say why a tensor cannot be read."""
    if resolved.code is not None:
        return diagnose(
            resolved.code,
            file.path,
            f"{label}{resolved.trouble}",
            help_text="dump this operator again, or exclude it with `select.nodes`",
            offset=offset,
        )
    return diagnose(
        "PF3015",
        file.path,
        f"{label} is cut off: bytes {offset} to {offset + resolved.nbytes} are announced, the file ends at {file.size}",
        help_text="wait until the dump is written; if it is, dump again with more free disk",
        offset=offset,
    )


def _tensor(
    draft: SectionMessage, resolved: ResolvedShape, problem: Diagnostic | None, size: int, offset: int
) -> GeTensor:
    return GeTensor(
        draft.data_type,
        draft.format,
        resolved.shape,
        None if draft.original_shape is None else tuple(draft.original_shape),
        draft.sub_format,
        size,
        offset,
        resolved.nbytes,
        address=draft.address,
        original_op=draft.original_op,
        original_output=draft.original_output,
        problem=problem,
    )


def _cut_sections(file: BinaryFile, end: int) -> Diagnostic:
    return Diagnostic(
        "PF3015",
        f"`{Path(file.path).name}` is cut off behind its tensors: {end} bytes are announced, {file.size} are there",
        severity=Severity.WARNING,
        path=file.path,
        help="all tensors are read; dump again when you need the buffers",
    )


def _empty(file: BinaryFile) -> FormatError:
    return malformed(
        "PF3010",
        file.path,
        f"`{Path(file.path).name}` holds {file.size} bytes and no header",
        help_text="wait until the dump is written; if the model has ended, free some disk and dump again",
        offset=0,
    )


def _surplus(file: BinaryFile, end: int) -> Diagnostic:
    return Diagnostic(
        "PF3019",
        f"`{Path(file.path).name}` goes on for {file.size - end} bytes behind what its header describes",
        severity=Severity.WARNING,
        path=file.path,
        help="the tensors are read as the header describes them; dump this operator again if their values look wrong",
    )


def _too_large(file: BinaryFile, length: int) -> FormatError:
    return malformed(
        "PF3012",
        file.path,
        f"the header of `{Path(file.path).name}` claims {length} bytes; at most {MAX_HEADER_BYTES} are read",
        help_text="dump this operator again, or exclude it with `select.nodes`",
        offset=0,
    )


def _ends_in_header(file: BinaryFile, length: int, available: int) -> FormatError:
    return malformed(
        "PF3011",
        file.path,
        f"the header of `{Path(file.path).name}` claims {length} bytes, {available} are there",
        help_text="wait until the dump is written, or dump again; move files of other kinds out of the dump folder",
        offset=0,
    )
