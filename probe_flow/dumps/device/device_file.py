"""Read device dump files of an Ascend NPU: which tensors a file holds and where their bytes lie.

Container, version 2: an unsigned 64-bit header length, the header (a protobuf message), then the bytes of all
inputs, outputs, buffers and spaces in this order without gaps, each exactly its ``size``. A slot may hold more bytes
than its shape needs. Version 1 is the bare message with the bytes inside; nano dumps have another header
(`probe_flow.dumps.device.nano_dump`) and the same payload. All integers are little endian.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from probe_flow.dumps.device.file_records import GeDump, GeSection, GeTensor
from probe_flow.dumps.device.message import DumpMessage, SectionMessage, parse_dump_message
from probe_flow.dumps.device.nano_dump import MAGIC, parse_nano_header
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.dumps.device.shapes import ResolvedShape, resolve_shape
from probe_flow.errors import Diagnostic, FormatError, Severity
from probe_flow.files.binary_file import BinaryFile, diagnose, malformed
from probe_flow.files.protobuf import WireReader

__all__ = ["MAX_HEADER_BYTES", "GeDump", "GeSection", "GeTensor", "ge_header", "read_ge_header", "tensor_refs"]

MAX_HEADER_BYTES = 64 * 2**20
"""Real headers hold kilobytes; slice tables of large split operators some megabytes."""

_LENGTH_BYTES = 8
_NANO = 3


def read_ge_header(path: Path | str) -> GeDump:
    """Read the header of one dump file; tensor bytes stay on disk.

    A tensor that is malformed or cut off carries a `problem` and leaves the others readable. Bytes after the last
    section are ignored.

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
    """Place the tensors of a nano dump; its writers leave no byte behind them, so one that is there is suspicious."""
    message = parse_nano_header(header, file.path, _LENGTH_BYTES)
    payload = _LENGTH_BYTES + len(header)
    dump = replace(_place(file, message, payload), version=_NANO)
    end = payload + sum(part.size for part in (*message.inputs, *message.outputs))
    return dump if end >= file.size else replace(dump, problems=(*dump.problems, _surplus(file, end)))


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
        f"the nano dump `{Path(file.path).name}` goes on for {file.size - end} bytes behind its last tensor",
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
