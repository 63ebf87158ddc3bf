"""Read the text print of a GE graph (`dynamo_original_graph_*.txt`): operators, their edges and their FX names.

The file is the protobuf text format of a graph definition: top level ``name``, repeated ``op { ... }`` and attributes.
Of every top-level operator this reader keeps ``name``, ``type``, the data inputs (``"producer:index"``; control edges
end in ``:-1``) and, per output descriptor, dtype, shape and the text attributes: ``_fx_tensor_name`` is the FX tensor
that the output is, ``_meta`` its torch type. The rest, nested graphs included, is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from probe_flow.errors import Diagnostic, FormatError, Severity
from probe_flow.formats.text_format import TextFields, unquote
from probe_flow.records import GraphOp


@dataclass(frozen=True, slots=True)
class GraphText:
    """What a graph file holds: the graph's own name, the complete operators, and why reading stopped early."""

    name: str
    ops: tuple[GraphOp, ...]
    problem: Diagnostic | None = None


def read_ge_graph(path: Path, *, label: str) -> GraphText:
    """Read a graph file; a file that cannot be opened gives no operators and a problem PF3204.

    Args:
        path: the file.
        label: its name in messages, usually relative to the dump folder.
    """
    try:
        with path.open("rb") as stream:
            return parse_ge_graph(stream, label)
    except OSError as error:
        problem = Diagnostic("PF3204", f"the graph text `{label}` cannot be read: {error.strerror}", path=label)
        return GraphText("", (), problem)


def parse_ge_graph(stream: BinaryIO, label: str) -> GraphText:
    """Return the top-level operators of a graph text, in file order.

    A text that ends or breaks midway keeps its complete operators; the problem (PF3220, PF3221) names the line.
    """
    name = ""
    ops: list[GraphOp] = []
    problem = None
    try:
        fields = TextFields(stream, label)
        while (field := fields.next()) is not None:
            key, kind, raw = field
            if kind == "open":
                if key == b"op":
                    ops.append(_read_op(fields, len(ops)))
                else:
                    fields.skip()
            elif kind == "close":
                fields.fail(f"`{label}` closes a block that was never opened")
            elif key == b"name":
                name = _text(kind, raw)
    except FormatError as error:
        problem = _stopped(error.diagnostic, len(ops))
    return GraphText(name, tuple(ops), problem)


def _stopped(reason: Diagnostic, kept: int) -> Diagnostic:
    return Diagnostic(
        reason.code,
        f"{reason.message}; {kept} complete operators before it are used",
        severity=Severity.WARNING,
        span=reason.span,
        help="dump again, or copy the file again; operators after this place have no names and no edges",
        path=reason.span.file if reason.span else None,
    )


def _block(fields: TextFields) -> Mapping[bytes, list[bytes]]:
    """Read a small block of plain values (a shape); blocks inside it are skipped."""
    values: dict[bytes, list[bytes]] = {}
    for key, kind, raw in fields.block():
        if kind == "open":
            fields.skip()
        else:
            values.setdefault(key, []).append(raw)
    return values


def _read_op(fields: TextFields, position: int) -> GraphOp:
    name = op_type = ""
    inputs: list[tuple[str, int] | None] = []
    outputs: list[Mapping[str, str]] = []
    for key, kind, raw in fields.block():
        if kind == "open":
            if key == b"output_desc":
                outputs.append(_read_output(fields))
            else:
                fields.skip()
        elif key == b"name":
            name = _text(kind, raw)
        elif key == b"type":
            op_type = _text(kind, raw)
        elif key == b"input":
            _add_input(inputs, _text(kind, raw))
    return GraphOp(name, op_type, position, tuple(inputs), tuple(outputs))


def _add_input(inputs: list[tuple[str, int] | None], text: str) -> None:
    if not text:
        inputs.append(None)
        return
    producer, colon, index = text.rpartition(":")
    if index == "-1" or text.startswith("^"):
        return
    if colon and index.isascii() and index.isdigit():
        inputs.append((producer, int(index[:9])))
    else:
        inputs.append((text, 0))


def _read_output(fields: TextFields) -> Mapping[str, str]:
    output: dict[str, str] = {}
    for key, kind, raw in fields.block():
        if kind == "open":
            if key == b"attr":
                _read_attr(fields, output)
            elif key == b"shape":
                output["shape"] = ",".join(dim.decode("ascii", "replace") for dim in _block(fields).get(b"dim", ()))
            else:
                fields.skip()
        elif key == b"dtype":
            output["dtype"] = _text(kind, raw)
    return output


def _read_attr(fields: TextFields, output: dict[str, str]) -> None:
    """Read one entry of an attribute map; only text values are kept."""
    name, value = "", None
    for key, kind, raw in fields.block():
        if kind == "open":
            if key == b"value":
                texts = _block(fields).get(b"s")
                value = _text("string", texts[-1]) if texts else None
            else:
                fields.skip()
        elif key == b"key":
            name = _text(kind, raw)
    if value is not None:
        # An attribute of that name never hides the descriptor's own dtype or shape.
        output.setdefault(name, value)


def _text(kind: str, raw: bytes) -> str:
    return unquote(raw) if kind == "string" and raw[:1] in (b'"', b"'") else raw.decode("utf-8", "backslashreplace")
