"""Read the text print of a GE graph (`dynamo_original_graph_*.txt`): operators, their edges and their FX names.

The file is the protobuf text format of a graph definition: top level ``name``, repeated ``op { ... }`` and attributes.
Of every top-level operator this reader takes ``name``, ``type``, the data inputs (``"producer:index"``; control edges
end in ``:-1``) and, per output descriptor, dtype, shape and the text attribute ``_fx_tensor_name``: the FX tensor that
the output is; and a checksum of its attributes. The rest, nested graphs included, is skipped.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from probe_flow.errors import Diagnostic, FormatError, Severity
from probe_flow.files.opening import open_bytes
from probe_flow.files.text_format import TextFields, unquote
from probe_flow.records import GraphOp, GraphTensor, shared_numbers

MAX_PARTS = 4_000_000
"""Operators of one text and what is kept of each: inputs, outputs, dimensions, attributes. Graphs of the largest models
have a tenth of it; each part takes some hundred bytes of memory."""


FX_NAME = "_fx_tensor_name"


class GraphText(Struct, frozen=True):
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
        with open_bytes(path) as stream:
            return parse_ge_graph(stream, label)
    except OSError as error:
        problem = Diagnostic("PF3204", f"the graph text `{label}` cannot be read: {error.strerror}", path=label)
        return GraphText("", (), problem)


def parse_ge_graph(stream: BinaryIO, label: str) -> GraphText:
    """Return the top-level operators of a graph text, in file order.

    A text that ends or breaks midway keeps its complete operators; the problem (PF3220, PF3221) names the line.
    """
    text = _Text(stream, label)
    problem = None
    try:
        text.read()
    except FormatError as error:
        problem = _stopped(error.diagnostic, len(text.ops))
    return GraphText(text.name, tuple(text.ops), problem)


def _stopped(reason: Diagnostic, kept: int) -> Diagnostic:
    return Diagnostic(
        reason.code,
        f"{reason.message}; {kept} complete operators before it are used",
        severity=Severity.WARNING,
        span=reason.span,
        help="dump again, or copy the file again; operators after this place have no names and no edges",
        path=reason.span.file if reason.span else None,
    )


class _Text:
    """The operators of one text, as far as it has been read; the number of their parts is bounded.

    Texts that recur (types, names of attributes, producers) are the same object for all operators.
    """

    def __init__(self, stream: BinaryIO, label: str) -> None:
        self.name = ""
        self.ops: list[GraphOp] = []
        self._label = label
        self._fields = TextFields(stream, label)
        self._parts = 0
        self._texts: dict[str, str] = {}
        self._settings: dict[int, int] = {}

    def read(self) -> None:
        fields = self._fields
        while (field := fields.next()) is not None:
            key, kind, raw = field
            if kind == "open":
                if key == b"op":
                    self.ops.append(self._read_op())
                else:
                    fields.skip()
            elif kind == "close":
                fields.fail(f"`{self._label}` closes a block that was never opened")
            elif key == b"name":
                self.name = _text(kind, raw)

    def _count(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            self._fields.fail(f"`{self._label}` has more than {MAX_PARTS} operators, inputs, outputs and attributes")

    def _read_op(self) -> GraphOp:
        self._count()
        name = op_type = ""
        inputs: list[tuple[str, int] | None] = []
        outputs: list[GraphTensor] = []
        settings = 0
        for key, kind, raw in self._fields.block():
            if kind == "open":
                if key == b"output_desc":
                    outputs.append(self._read_output())
                elif key == b"attr":
                    settings ^= self._read_setting()
                else:
                    self._fields.skip()
            elif key == b"name":
                name = self._shared(_text(kind, raw))
            elif key == b"type":
                op_type = self._shared(_text(kind, raw))
            elif key == b"input":
                self._count()
                self._add_input(inputs, _text(kind, raw))
        position = len(self.ops)
        return GraphOp.of(
            name,
            op_type,
            shared_numbers(position + 1)[position],
            inputs,
            outputs,
            settings=self._settings.setdefault(settings, settings),
        )

    def _read_output(self) -> GraphTensor:
        self._count()
        dtype = shape = fx_name = None
        for key, kind, raw in self._fields.block():
            if kind == "open":
                if key == b"attr":
                    found = self._read_attr()
                    fx_name = found if fx_name is None else fx_name
                elif key == b"shape":
                    dims = self._block().get(b"dim", ())
                    shape = self._shared(",".join(dim.decode("ascii", "replace") for dim in dims))
                else:
                    self._fields.skip()
            elif key == b"dtype":
                dtype = self._shared(_text(kind, raw))
        return GraphTensor(dtype, shape, fx_name)

    def _read_setting(self) -> int:
        """Return the checksum of an attribute; 0 of those by which the compiler notes something for itself."""
        name, checksum = b"", 0
        for key, kind, raw in self._fields.block():
            if kind == "open":
                checksum = self._fields.skip()
            elif key == b"key":
                name = raw
        return 0 if name[1:2] == b"_" else zlib.crc32(name, checksum)

    def _read_attr(self) -> str | None:
        """Read one entry of an attribute map; return the text of the one that names an FX tensor."""
        name, value = "", None
        for key, kind, raw in self._fields.block():
            if kind == "open":
                if key == b"value":
                    texts = self._block().get(b"s")
                    value = _text("string", texts[-1]) if texts else None
                else:
                    self._fields.skip()
            elif key == b"key":
                name = _text(kind, raw)
        return value if name == FX_NAME else None

    def _block(self) -> Mapping[bytes, list[bytes]]:
        """Read a small block of plain values (a shape); blocks inside it are skipped."""
        values: dict[bytes, list[bytes]] = {}
        for key, kind, raw in self._fields.block():
            if kind == "open":
                self._fields.skip()
            else:
                self._count()
                values.setdefault(key, []).append(raw)
        return values

    def _add_input(self, inputs: list[tuple[str, int] | None], text: str) -> None:
        if not text:
            inputs.append(None)
            return
        producer, colon, index = text.rpartition(":")
        if index == "-1" or text.startswith("^"):
            return
        if colon and index.isascii() and index.isdigit():
            inputs.append((self._shared(producer), int(index[:9])))
        else:
            inputs.append((self._shared(text), 0))

    def _shared(self, text: str) -> str:
        return self._texts.setdefault(text, text)


def _text(kind: str, raw: bytes) -> str:
    return unquote(raw) if kind == "string" and raw[:1] in (b'"', b"'") else raw.decode("utf-8", "backslashreplace")
