"""The header message of a device dump file, field by field, as written: nothing is interpreted here.

Source: the published message of the dump format (DumpData with OpInput, OpOutput, OriginalOp, Shape, OpBuffer, OpAttr
and Workspace). Unknown fields are skipped; a known field of another wire type counts as unknown.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct, field

from probe_flow.errors import FormatError
from probe_flow.files.binary_file import malformed
from probe_flow.files.protobuf import DELIMITED, VARINT, Field, WireReader, signed

MAX_DIMS = 64
"""Device tensors have at most eight dimensions or so; numpy stops at 64."""

_MAX_PARTS = 100_000
_SHORT_BYTES = 512
"""Sections of files of their own rarely reach this; it bounds what is remembered of them."""

_INPUT_FIELDS = {1: "data_type", 2: "format", 3: "shape", 4: "data", 5: "size", 6: "original_shape"}
_INPUT_FIELDS |= {7: "sub_format", 8: "address"}
_OUTPUT_FIELDS = {1: "data_type", 2: "format", 3: "shape", 4: "original_op", 5: "data", 6: "size"}
_OUTPUT_FIELDS |= {7: "original_shape", 8: "sub_format", 9: "address"}
_SECTION_FIELDS = {1: "data_type", 2: "data", 3: "size"}
_DELIMITED_FIELDS = frozenset({"shape", "original_shape", "original_op", "data"})
_SECTIONS = {3: ("outputs", _OUTPUT_FIELDS), 4: ("inputs", _INPUT_FIELDS)}
_SECTIONS |= {5: ("buffers", _SECTION_FIELDS), 8: ("spaces", _SECTION_FIELDS)}
_DUMP_WIRES = {1: DELIMITED, 2: VARINT, 3: DELIMITED, 4: DELIMITED, 5: DELIMITED, 6: DELIMITED, 7: DELIMITED}
_DUMP_WIRES |= {8: DELIMITED}
_VERSION = re.compile(r"\d{1,3}(\.\d{1,3}){0,3}")


class SectionMessage(Struct):
    """An input, output, buffer or space as written; absent fields keep the defaults of the format.

    ``data`` is the byte range of inline data in the buffer that was read, None without any.
    """

    data_type: int = 0
    format: int = 0
    shape: list[int] | None = None
    original_shape: list[int] | None = None
    size: int = 0
    sub_format: int = 0
    address: int = 0
    data: tuple[int, int] | None = None
    original_op: str | None = None
    original_output: int | None = None


class DumpMessage(Struct):
    """The whole header as written."""

    version: str = ""
    dump_time: int = 0
    op_name: str = ""
    inputs: list[SectionMessage] = field(default_factory=list)
    outputs: list[SectionMessage] = field(default_factory=list)
    buffers: list[SectionMessage] = field(default_factory=list)
    spaces: list[SectionMessage] = field(default_factory=list)
    attrs: list[tuple[str, str]] = field(default_factory=list)


def parse_dump_message(reader: WireReader, start: int, stop: int, *, is_strict: bool = False) -> DumpMessage:
    """Parse the header at ``start:stop``.

    Args:
        reader: the bytes.
        start: first byte of the message.
        stop: byte behind its last.
        is_strict: refuse unknown fields and odd version texts; tells an old bare message from other files.

    Raises:
        FormatError: PF3013 malformed, or neither an operator nor a tensor in it; PF3012 more parts than any dump has.
    """
    message = DumpMessage()
    for count, item in enumerate(reader.fields(start, stop)):
        if count == _MAX_PARTS:
            raise malformed(
                "PF3012",
                reader.path,
                f"the dump header has more than {_MAX_PARTS} parts",
                help_text="dump this operator again, or exclude it with `select.nodes`",
                offset=reader.base + item.start,
            )
        if _DUMP_WIRES.get(item.number) == item.wire:
            _take_dump_field(message, reader, item, may_be_known=not is_strict)
        elif is_strict:
            raise _not_a_dump(reader, start)
    if not (message.op_name or message.inputs or message.outputs):
        raise _not_a_dump(reader, start)
    if is_strict and message.version and not _VERSION.fullmatch(message.version):
        raise _not_a_dump(reader, start)
    return message


def _take_dump_field(message: DumpMessage, reader: WireReader, item: Field, *, may_be_known: bool) -> None:
    if item.number in _SECTIONS:
        attribute, names = _SECTIONS[item.number]
        known = None
        if may_be_known and item.stop - item.start <= _SHORT_BYTES:
            known = _known_section(bytes(reader.data[item.start : item.stop]), item.number)
        getattr(message, attribute).append(known or _section(reader, item.start, item.stop, names))
    elif item.number == 1:
        message.version = reader.text(item.start, item.stop)
    elif item.number == 2:
        message.dump_time = item.value
    elif item.number == 6:
        message.op_name = reader.text(item.start, item.stop)
    else:
        parts = reader.fields(item.start, item.stop)
        texts = {part.number: reader.text(part.start, part.stop) for part in parts if part.wire == DELIMITED}
        message.attrs.append((texts.get(1, ""), texts.get(2, "")))


@lru_cache(maxsize=4096)
def _known_section(content: bytes, number: int) -> SectionMessage | None:
    """Return a section by its bytes: the operators of a model have the same few tensors, in every step the same.

    None when it is malformed; whoever parses it in its place can say where. Nobody may change it.
    """
    try:
        return _section(WireReader(content, ""), 0, len(content), _SECTIONS[number][1])
    except FormatError:
        return None


def _section(reader: WireReader, start: int, stop: int, names: dict[int, str]) -> SectionMessage:
    section = SectionMessage()
    for part in reader.fields(start, stop):
        name = names.get(part.number)
        if name is None or part.wire != (DELIMITED if name in _DELIMITED_FIELDS else VARINT):
            continue
        if name == "shape":
            section.shape = _dims(reader, part, section.shape)
        elif name == "original_shape":
            section.original_shape = _dims(reader, part, section.original_shape)
        elif name == "data":
            section.data = (part.start, part.stop)
        elif name == "original_op":
            _take_original_op(section, reader, part)
        else:
            setattr(section, name, signed(part.value) if name == "sub_format" else part.value)
    return section


def _dims(reader: WireReader, item: Field, before: list[int] | None) -> list[int]:
    """Return the dimensions of a Shape, packed or not, behind those of an earlier piece of it."""
    dims = list(before or ())
    for part in reader.fields(item.start, item.stop):
        if part.number != 1 or part.wire not in (VARINT, DELIMITED):
            continue
        if part.wire == VARINT:
            dims.append(signed(part.value))
        else:
            dims += [signed(value) for value in reader.varints(part.start, part.stop, limit=MAX_DIMS + 1)]
        if len(dims) > MAX_DIMS:
            # One more than allowed marks the shape as absurd; the rest is of no use.
            return dims[: MAX_DIMS + 1]
    return dims


def _take_original_op(section: SectionMessage, reader: WireReader, item: Field) -> None:
    section.original_output = 0
    for part in reader.fields(item.start, item.stop):
        if part.number == 1 and part.wire == DELIMITED:
            section.original_op = reader.text(part.start, part.stop)
        elif part.number == 2 and part.wire == VARINT:
            section.original_output = part.value


def _not_a_dump(reader: WireReader, start: int) -> FormatError:
    return malformed(
        "PF3013",
        reader.path,
        "the dump header is malformed: it describes neither an operator nor a tensor",
        help_text="move files of other kinds out of the dump folder",
        offset=reader.base + start,
    )
