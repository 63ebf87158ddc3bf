"""Fusion rules from the model definition inside an offline model, read from its bytes without generated code.

Source: the published messages of the graph compiler (ModelDef, GraphDef, OpDef, TensorDescriptor, AttrDef). Only what
rules need is opened; weights, tasks and kernels are passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from probe_flow.dumps.rules.facts import (
    WrongKindError,
    fraction,
    is_model_attribute,
    is_op_attribute,
    is_output_attribute,
    rule_op,
    rule_output,
)
from probe_flow.dumps.rules.om_partitions import Partition, model_definitions
from probe_flow.dumps.rules.problems import broken_model, no_rules, too_large
from probe_flow.dumps.rules.records import RuleFile, RuleGraph, RuleOp, RuleOutput
from probe_flow.errors import FormatError
from probe_flow.files.binary_file import BinaryFile
from probe_flow.files.protobuf import DELIMITED, FIXED32, VARINT, Field, WireReader, signed
from probe_flow.tensors.dtypes import DEVICE_DTYPE_NAMES

_MODEL_GRAPH, _MODEL_ATTR = 7, 11
_GRAPH_NAME, _GRAPH_OP = 1, 6
_OP_NAME, _OP_TYPE, _OP_INPUT, _OP_ATTR, _OP_ID, _OP_OUTPUT, _OP_SUBGRAPH = 1, 2, 5, 10, 21, 34, 35
_DESC_DTYPE, _DESC_SHAPE, _DESC_LAYOUT, _DESC_ATTR = 2, 3, 4, 5
_SHAPE_DIM = 1
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_KEY_TAG = _ENTRY_KEY << 3 | DELIMITED
_LIST, _TEXT, _WHOLE, _FRACTION, _TRUTH, _DTYPE = 1, 2, 3, 4, 5, 15
_ITEM_TEXT, _ITEM_WHOLE, _ITEM_FRACTION, _ITEM_TRUTH, _ITEM_DTYPE = 2, 3, 4, 5, 12

_MAX_ITEMS = 1_000_000
_MAX_DIMS = 64

_T = TypeVar("_T")


def read_om_model(file: BinaryFile, *, max_bytes: int) -> RuleFile:
    """Return the rules of an offline model.

    Args:
        file: the model.
        max_bytes: the largest definition that is read.

    Raises:
        FormatError: PF4302 too large, PF4304 no operators, PF4306 damaged, PF4307 encrypted.
    """
    graphs: list[RuleGraph] = []
    attrs: dict[str, object] = {}
    for partition in model_definitions(file):
        if partition.size > max_bytes:
            raise too_large(file.path, partition.size, max_bytes)
        definition = _Definition.read(file, partition)
        graphs += definition.graphs()
        attrs = definition.attrs() | attrs
    if not any(graph.ops for graph in graphs):
        raise no_rules(file.path, "it has no model definition with operators")
    return RuleFile(file.path, tuple(graphs), attrs)


class _Definition:
    """One ModelDef message."""

    def __init__(self, wire: WireReader) -> None:
        self._wire = wire
        self._end = len(wire.data)

    @classmethod
    def read(cls, file: BinaryFile, partition: Partition) -> _Definition:
        raw = file.read_at(partition.offset, partition.size)
        if len(raw) < partition.size:
            raise broken_model(file.path, "it became shorter while it was read", partition.offset)
        # A field has two bytes or more and is gone through three times at most, so this refuses no definition.
        return cls(WireReader(raw, file.path, base=partition.offset, fields_left=4 * len(raw)))

    def graphs(self) -> list[RuleGraph]:
        return [self._graph(field) for field in self._messages(0, self._end, _MODEL_GRAPH)]

    def attrs(self) -> dict[str, object]:
        attrs = self._attrs(self._messages(0, self._end, _MODEL_ATTR), is_model_attribute)
        return {key: value for key, value in attrs.items() if value is not None}

    def _graph(self, graph: Field) -> RuleGraph:
        name = self._last_text(graph, _GRAPH_NAME)
        ops = self._messages(graph.start, graph.stop, _GRAPH_OP)
        return RuleGraph(name, tuple(self._op(op, name) for op in ops))

    def _op(self, op: Field, graph: str) -> RuleOp:
        name = op_type = ""
        op_id = 0
        inputs: list[str] = []
        subgraphs: list[str] = []
        outputs: list[RuleOutput] = []
        entries: list[Field] = []
        for field in self._fields(op.start, op.stop):
            if field.wire == VARINT and field.number == _OP_ID:
                op_id = signed(field.value)
            elif field.wire != DELIMITED:
                continue
            elif field.number == _OP_NAME:
                name = self._text(field)
            elif field.number == _OP_TYPE:
                op_type = self._text(field)
            elif field.number == _OP_INPUT:
                inputs.append(self._text(field))
            elif field.number == _OP_SUBGRAPH:
                subgraphs.append(self._text(field))
            elif field.number == _OP_OUTPUT:
                outputs.append(self._output(field, len(outputs)))
            elif field.number == _OP_ATTR:
                entries.append(field)
        if not name or not op_type:
            raise self._broken("an operator has no name or no type", op)
        attrs = self._attrs(entries, is_op_attribute)
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
            raise self._broken(f"of operator `{name}`, {error}", op) from error

    def _output(self, desc: Field, position: int) -> RuleOutput:
        dtype = layout = ""
        shape: tuple[int, ...] | None = None
        entries: list[Field] = []
        for field in self._fields(desc.start, desc.stop):
            if field.number == _DESC_DTYPE and field.wire == VARINT:
                dtype = DEVICE_DTYPE_NAMES.get(field.value, str(field.value))
            elif field.number == _DESC_LAYOUT and field.wire == DELIMITED:
                layout = self._text(field)
            elif field.number == _DESC_SHAPE and field.wire == DELIMITED:
                dims = self._fields(field.start, field.stop)
                parts = (self._wholes(part) for part in dims if part.number == _SHAPE_DIM)
                shape = tuple(self._limited(parts, field, _MAX_DIMS))
            elif field.number == _DESC_ATTR and field.wire == DELIMITED:
                entries.append(field)
        attrs = self._attrs(entries, is_output_attribute)
        try:
            return rule_output(position, dtype=dtype, layout=layout, shape=shape, attrs=attrs)
        except WrongKindError as error:
            raise self._broken(f"of an output, {error}", desc) from error

    def _attrs(self, entries: Iterable[Field], is_wanted: Callable[[str], bool]) -> dict[str, object]:
        """Return the wanted entries of an attribute map; values of further kinds say nothing about rules."""
        attrs: dict[str, object] = {}
        for entry in entries:
            key = self._key(entry)
            if not is_wanted(key):
                continue
            values = list(self._messages(entry.start, entry.stop, _ENTRY_VALUE))
            is_known, value = self._value(values[-1]) if values else (True, None)
            if is_known:
                attrs[key] = value
        return attrs

    def _key(self, entry: Field) -> str:
        """Return the key of an entry; nearly always it stands first and is short."""
        data, begin = self._wire.data, entry.start + 2
        if entry.stop > begin and data[entry.start] == _KEY_TAG:
            end = begin + data[begin - 1]
            if data[begin - 1] < 0x80 and end <= entry.stop:
                return self._wire.text(begin, end)
        return self._last_text(entry, _ENTRY_KEY)

    def _value(self, value: Field) -> tuple[bool, object]:
        """Return whether an attribute's value is of a kind that is kept, and the value."""
        is_known = True
        found: object = None
        for field in self._fields(value.start, value.stop):
            is_known = True
            if field.number == _LIST and field.wire == DELIMITED:
                found = self._items(field)
            elif field.number == _TEXT and field.wire == DELIMITED:
                found = self._text(field)
            elif field.number in (_WHOLE, _DTYPE) and field.wire == VARINT:
                found = signed(field.value)
            elif field.number == _TRUTH and field.wire == VARINT:
                found = bool(field.value)
            elif field.number == _FRACTION and field.wire == FIXED32:
                found = _fraction(field.value)
            else:
                is_known = False
        return is_known, found

    def _items(self, items: Field) -> tuple[object, ...]:
        parts = (self._item(field) for field in self._fields(items.start, items.stop))
        return tuple(self._limited(parts, items, _MAX_ITEMS))

    def _item(self, field: Field) -> Sequence[object]:
        if field.number == _ITEM_TEXT and field.wire == DELIMITED:
            return [self._text(field)]
        if field.number in (_ITEM_WHOLE, _ITEM_DTYPE):
            return self._wholes(field)
        if field.number == _ITEM_TRUTH:
            return [bool(value) for value in self._wholes(field)]
        return self._fractions(field) if field.number == _ITEM_FRACTION else ()

    def _limited(self, parts: Iterable[Sequence[_T]], owner: Field, limit: int) -> list[_T]:
        """Return the items of all parts; no rule has as many as the limit, and each takes more memory than its byte."""
        found: list[_T] = []
        for part in parts:
            found += part
            if len(found) > limit:
                raise self._broken(f"a list has more than {limit} items", owner)
        return found

    def _wholes(self, field: Field) -> list[int]:
        """Return the whole numbers of a repeated field, packed or not."""
        if field.wire == VARINT:
            return [signed(field.value)]
        if field.wire != DELIMITED:
            return []
        try:
            return [signed(value) for value in self._wire.varints(field.start, field.stop, limit=_MAX_ITEMS + 1)]
        except FormatError as error:
            raise self._damaged(error) from error

    def _fractions(self, field: Field) -> list[float]:
        if field.wire == FIXED32:
            return [_fraction(field.value)]
        if field.wire != DELIMITED:
            return []
        raw = self._wire.data[field.start : field.stop]
        return [value for (value,) in struct.iter_unpack("<f", raw[: len(raw) // 4 * 4])]

    def _last_text(self, message: Field, number: int) -> str:
        text = ""
        for field in self._messages(message.start, message.stop, number):
            text = self._text(field)
        return text

    def _messages(self, start: int, stop: int, number: int) -> Iterator[Field]:
        return (field for field in self._fields(start, stop) if field.number == number and field.wire == DELIMITED)

    def _fields(self, start: int, stop: int) -> Iterator[Field]:
        try:
            yield from self._wire.fields(start, stop)
        except FormatError as error:
            raise self._damaged(error) from error

    def _text(self, field: Field) -> str:
        return self._wire.text(field.start, field.stop)

    def _damaged(self, error: FormatError) -> FormatError:
        """Return the wire reader's error as one of an offline model: it speaks of dumps."""
        if error.diagnostic.code == "PF4306":
            return error
        offset = error.diagnostic.fields.get("offset")
        what = error.diagnostic.message.partition(": ")[2]
        return broken_model(self._wire.path, what, offset if isinstance(offset, int) else None)

    def _broken(self, what: str, field: Field) -> FormatError:
        return broken_model(self._wire.path, what, self._wire.base + field.start)


def _fraction(bits: int) -> float:
    return fraction(struct.unpack("<f", bits.to_bytes(4, "little"))[0])
