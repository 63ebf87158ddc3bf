"""Fusion rules from the text that the graph compiler prints of a graph (``ge_proto_*_Build.txt``), without ATC.

Source: the published messages of the graph compiler in the protobuf text format: a model with its graphs, or one graph.
Operators are taken one after the other; attributes that say nothing about rules, which are nine tenths of the text, are
passed over without being parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import BinaryIO, NoReturn

from msgspec.structs import replace

from probe_flow.dumps.rules.facts import (
    KERNEL_NAME,
    OP_ATTRS,
    OUTPUT_ATTRS,
    WrongKindError,
    fraction,
    is_model_attribute,
    is_op_attribute,
    is_output_attribute,
    rule_op,
    rule_output,
)
from probe_flow.dumps.rules.records import RuleFile, RuleGraph, RuleOp, RuleOutput
from probe_flow.errors import FormatError
from probe_flow.files.text_format import Kind, TextFields, surplus, unquote
from probe_flow.tensors.dtypes import DEVICE_DTYPE_NAMES

MAX_ITEMS = 8_000_000
"""Operators, inputs, outputs and attributes of one text; graphs of the largest models have a tenth of it."""

FEW_ITEMS = 4096
"""So many are read before the pattern is made by which others are passed over: that takes 5 ms, as reading these."""

_MEMBERS = {b"s": "s", b"i": "i", b"f": "f", b"b": "b", b"dt": "dt"}
_WHOLE = re.compile(rb"[+-]?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})")
_TRUTHS = {b"true": True, b"t": True, b"True": True, b"1": True, b"false": False, b"f": False, b"False": False}
_TRUTHS[b"0"] = False
_WRONG_ESCAPE = re.compile(rb"\\(?:[^abfnrtvxXuU0-7'\"\\?]|x(?![0-9A-Fa-f])|u(?![0-9A-Fa-f]{4})|U(?![0-9A-Fa-f]{8}))")
_PAIRS = re.compile(rb"\\\\")


@cache
def _surplus() -> re.Pattern[bytes]:
    """Return the pattern of what nobody wants of operators and outputs: what only one has is not in the other."""
    return surplus(
        ("name", "type", "input", "id", "subgraph_name", "output_desc", "dtype", "layout", "shape"),
        keys=sorted(OP_ATTRS | OUTPUT_ATTRS),
        endings=[KERNEL_NAME],
    )


def read_rule_text(stream: BinaryIO, path: str) -> RuleFile:
    """Return the rules of a graph's text.

    Raises:
        FormatError: PF3220 the text is cut off, PF3221 it is no such text or a value is of another kind, both with the
            line; PF4304 no operators, PF4311 none of them has attributes.
    """
    try:
        return _Reader(stream, path).file()
    except FormatError as error:
        found = error.diagnostic
        if found.code not in ("PF3220", "PF3221"):
            raise
        cure = "copy the text again, or dump the graph again with DUMP_GE_GRAPH=2"
        raise FormatError(replace(found, path=path, help=cure)) from error


class _Reader:
    """Reads one text; each method leaves the block that it reads."""

    def __init__(self, stream: BinaryIO, path: str) -> None:
        self._path = path
        self._name = path.rpartition("/")[2]
        self._fields = TextFields(stream, self._name)
        self._items = 0
        self._has_attributes = False
        self._texts: dict[bytes, str] = {}
        """Texts that recur (types, layouts, producers) are one object each."""

    def file(self) -> RuleFile:
        graphs: list[RuleGraph] = []
        attrs: dict[str, object] = {}
        own_name, own_ops = "", []
        while (field := self._fields.next()) is not None:
            key, kind, raw = field
            if kind == "close":
                self._fields.fail(f"`{self._name}` closes a block that was never opened")
            elif kind == "open" and key == b"graph":
                graphs.append(self._graph())
            elif kind == "open" and key == b"op":
                own_ops.append(self._op(own_name))
            elif kind == "open" and key == b"attr":
                self._entry(attrs, is_model_attribute)
            elif kind == "open":
                self._fields.skip()
            elif key == b"name":
                own_name = self._text(kind, raw)
        if own_ops:
            graphs.append(RuleGraph(own_name, tuple(own_ops)))
        if not self._has_attributes or not any(graph.ops for graph in graphs):
            from probe_flow.dumps.rules.problems import no_attributes, no_rules

            if any(graph.ops for graph in graphs):
                raise no_attributes(self._path)
            raise no_rules(self._path, "its graphs have no operators")
        return RuleFile(self._path, tuple(graphs), {key: value for key, value in attrs.items() if value is not None})

    def _graph(self) -> RuleGraph:
        name, ops = "", []
        for key, kind, raw in self._fields.block():
            if kind == "open" and key == b"op":
                ops.append(self._op(name))
            elif kind == "open":
                self._fields.skip()
            elif key == b"name":
                name = self._text(kind, raw)
        return RuleGraph(name, tuple(op if op.graph == name else replace(op, graph=name) for op in ops))

    def _op(self, graph: str) -> RuleOp:
        self._count()
        name = op_type = ""
        op_id = 0
        inputs: list[str] = []
        subgraphs: list[str] = []
        outputs: list[RuleOutput] = []
        attrs: dict[str, object] = {}
        self._pass_over()
        for key, kind, raw in self._fields.block():
            if kind == "open":
                if key == b"attr":
                    self._entry(attrs, is_op_attribute)
                elif key == b"output_desc":
                    outputs.append(self._output(len(outputs)))
                else:
                    self._fields.skip()
            elif key == b"input":
                inputs.append(self._text(kind, raw))
            elif key == b"name":
                name = self._text(kind, raw)
            elif key == b"type":
                op_type = self._text(kind, raw)
            elif key == b"id":
                op_id = self._whole(kind, raw)
            elif key == b"subgraph_name":
                subgraphs.append(self._text(kind, raw))
            self._pass_over()
        if not name or not op_type:
            self._fields.fail(f"`{self._name}` has an operator without a name or without a type")
        try:
            return rule_op(
                name,
                op_type,
                op_id=op_id,
                graph=graph,
                inputs=inputs,
                outputs=outputs,
                attrs=attrs,
                subgraphs=subgraphs,
            )
        except WrongKindError as error:
            self._fields.fail(f"of operator `{name}` in `{self._name}`, {error}")

    def _output(self, position: int) -> RuleOutput:
        self._count()
        dtype = layout = ""
        shape: tuple[int, ...] | None = None
        attrs: dict[str, object] = {}
        self._pass_over()
        for key, kind, raw in self._fields.block():
            if kind == "open":
                if key == b"attr":
                    self._entry(attrs, is_output_attribute)
                elif key == b"shape":
                    shape = self._shape()
                else:
                    self._fields.skip()
            elif key == b"dtype":
                dtype = self._dtype(kind, raw)
            elif key == b"layout":
                layout = self._text(kind, raw)
            self._pass_over()
        try:
            return rule_output(position, dtype=dtype, layout=layout, shape=shape, attrs=attrs)
        except WrongKindError as error:
            self._fields.fail(f"of an output in `{self._name}`, {error}")

    def _pass_over(self) -> None:
        if self._items < FEW_ITEMS:
            return
        passed = self._fields.pass_over(_surplus())
        if not self._has_attributes and b"attr" in passed:
            self._has_attributes = True

    def _shape(self) -> tuple[int, ...]:
        dims: list[int] = []
        for key, kind, raw in self._fields.block():
            if kind == "open":
                self._fields.skip()
            elif key == b"dim":
                dims.append(self._whole(kind, raw))
                self._count()
        return tuple(dims)

    def _entry(self, attrs: dict[str, object], is_wanted: Callable[[str], bool]) -> None:
        """Read one entry of an attribute map into ``attrs`` if it says something about rules."""
        self._has_attributes = True
        field = self._fields.next()
        if field is not None and field[0] == b"key":  # first, as in all that was ever printed
            name = self._text(field[1], field[2])
            if not is_wanted(name):
                self._fields.skip()
                return
        elif field is None or field[1] != "close":
            self._fields.fail(f"`{self._name}` has an attribute that does not begin with its key")
        else:
            return
        is_known, value = True, None
        for key, kind, _ in self._fields.block():
            if kind == "open" and key == b"value":
                is_known, value = self._value()
            elif kind == "open":
                self._fields.skip()
        if is_known:
            self._count()
            attrs[name] = value

    def _value(self) -> tuple[bool, object]:
        """Return whether an attribute's value is of a kind that is kept, and the value."""
        is_known = True
        value: object = None
        for key, kind, raw in self._fields.block():
            if kind == "open" and key == b"list":
                is_known, value = True, self._list()
            elif kind == "open":
                self._fields.skip()
                is_known = False
            else:
                is_known = key in _MEMBERS
                value = self._item(_MEMBERS[key], kind, raw) if is_known else value
        return is_known, value

    def _list(self) -> tuple[object, ...]:
        items: list[object] = []
        for key, kind, raw in self._fields.block():
            if kind == "open":
                self._fields.skip()
            elif key in _MEMBERS:
                items.append(self._item(_MEMBERS[key], kind, raw))
                self._count()
        return tuple(items)

    def _item(self, member: str, kind: Kind, raw: bytes) -> object:
        if member == "s":
            return self._text(kind, raw)
        if member == "b":
            if kind != "word" or raw not in _TRUTHS:
                self._wrong(raw, "true or false")
            return _TRUTHS[raw]
        if member == "f":
            with suppress(ValueError, OverflowError):
                return fraction(float(raw.rstrip(b"fF") if raw.lower() not in (b"inf", b"-inf") else raw))
            self._wrong(raw, "a number")
        return self._whole(kind, raw)

    def _text(self, kind: Kind, raw: bytes) -> str:
        if kind != "string":
            self._wrong(raw, "a quoted text")
        found = self._texts.get(raw)
        if found is None:
            if b"\\" in raw and _WRONG_ESCAPE.search(_PAIRS.sub(b"", raw)):
                self._wrong(raw, "a text: it has an escape that the format does not know")
            found = self._texts[raw] = unquote(raw)
        return found

    def _whole(self, kind: Kind, raw: bytes) -> int:
        if kind != "word" or not _WHOLE.fullmatch(raw):
            self._wrong(raw, "a whole number")
        number = int(raw, 0 if b"x" in raw.lower() else 10)
        if not -(1 << 63) <= number < 1 << 64:
            self._wrong(raw, "a whole number of 64 bits")
        return number

    def _dtype(self, kind: Kind, raw: bytes) -> str:
        if kind != "word":
            self._wrong(raw, "a data type")
        if _WHOLE.fullmatch(raw):
            return DEVICE_DTYPE_NAMES.get(self._whole(kind, raw), raw.decode("ascii"))
        found = self._texts.get(raw)
        if found is None:
            found = self._texts[raw] = raw.decode("utf-8", "backslashreplace")
        return found

    def _count(self) -> None:
        self._items += 1
        if self._items > MAX_ITEMS:
            self._fields.fail(f"`{self._name}` has more than {MAX_ITEMS} operators, inputs, outputs and attributes")

    def _wrong(self, raw: bytes, wanted: str) -> NoReturn:
        shown = raw[:40].decode("utf-8", "backslashreplace")
        self._fields.fail(f"`{self._name}` has `{shown}`, not {wanted}")
