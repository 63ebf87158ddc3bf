"""The graph of an ONNX model as its file has it, read from the bytes without the library.

No element of a constant is read with the graph, only where it lies.

Source: the published messages of ONNX (ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from probe_flow.dumps.onnx.constants import FLOATING, MAX_FIELDS, WHOLE, WireTensor, varints
from probe_flow.files.binary_file import BinaryFile, malformed
from probe_flow.files.protobuf import DELIMITED, FIXED32, VARINT, Field, FileBytes, WireReader, signed

_KINDS: Mapping[int, str] = {1: "FLOAT", 2: "INT", 3: "STRING", 4: "TENSOR", 6: "FLOATS", 7: "INTS", 8: "STRINGS"}
"""Kinds of attributes that are numbers, texts or constants."""

_MAX_PIECES = 1 << 16
"""Numbers of a constant that are written one by one; writers pack them."""

_MAX_DEPTH = 32
"""Bodies within bodies."""

_HELP = "export the model again"


class WireAttribute(Struct, frozen=True):
    """An attribute.

    Args:
        name: of it.
        kind: ``FLOAT``, ``INT``, ``STRING``, ``TENSOR``, ``FLOATS``, ``INTS`` or ``STRINGS``; empty for all others.
        value: number, bytes of a text, or a tuple of either; None where there is none.
        tensor: of kind ``TENSOR``.
        start, stop: its message in the file.
    """

    name: str
    kind: str
    value: Any
    tensor: WireTensor | None
    start: int
    stop: int


class WireNode(Struct, frozen=True):
    """An operator.

    Args:
        name: as the file has it, maybe empty.
        op_type, domain: of it.
        inputs, outputs: names by their places; empty for those that are left out.
        attributes: in the order of the file.
        captured: names of the tensors that its bodies take from outside, and itself does not.
    """

    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[WireAttribute, ...] = ()
    captured: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of all tensors that it needs, each once."""
        return tuple(dict.fromkeys((*(name for name in self.inputs if name), *self.captured)))


class WireModel(Struct, frozen=True):
    """A model.

    Args:
        path: of its file.
        ir_version: of the format.
        opsets: pairs of domain and version.
        functions: where the messages of its own functions lie.
        nodes: in the order of the file; None = there is no graph.
        weights: constants of the graph.
        inputs: names of its inputs.
    """

    path: str
    ir_version: int
    opsets: tuple[tuple[str, int], ...]
    functions: tuple[tuple[int, int], ...]
    nodes: tuple[WireNode, ...] | None
    weights: tuple[WireTensor, ...]
    inputs: tuple[str, ...]


def read_wire_model(file: BinaryFile) -> WireModel:
    """Return the graph of a model.

    Raises:
        FormatError: PF3012, PF3013 it is no such model.
    """
    return _Reader(file).model()


class _Reader:
    def __init__(self, file: BinaryFile) -> None:
        self._file = file
        self._wire = WireReader(FileBytes(file), file.path, fields_left=MAX_FIELDS, what="the ONNX model", cure=_HELP)

    def model(self) -> WireModel:
        version = 0
        opsets: list[tuple[str, int]] = []
        functions: list[tuple[int, int]] = []
        graph = None
        for each in self._wire.fields(0, self._file.size):
            if each.number == 1 and each.wire == VARINT:
                version = signed(each.value)
            elif each.number == 7 and each.wire == DELIMITED:
                graph = each
            elif each.number == 8 and each.wire == DELIMITED:
                opsets.append(self._opset(each))
            elif each.number == 25 and each.wire == DELIMITED:
                functions.append((each.start, each.stop))
        nodes: list[WireNode] = []
        weights: list[WireTensor] = []
        inputs: list[str] = []
        for each in () if graph is None else self._messages(graph):
            if each.number == 1:
                nodes.append(self._node(each, 0))
            elif each.number == 5:
                weights.append(self._tensor(each))
            elif each.number == 11:
                inputs.append(self._name_in(each, 1))
        found = None if graph is None else tuple(nodes)
        return WireModel(
            self._file.path, version, tuple(opsets), tuple(functions), found, tuple(weights), tuple(inputs)
        )

    def _messages(self, message: Field) -> Iterator[Field]:
        return (each for each in self._wire.fields(message.start, message.stop) if each.wire == DELIMITED)

    def _text(self, each: Field) -> str:
        return self._wire.text(each.start, each.stop)

    def _bytes(self, each: Field) -> bytes:
        return bytes(self._wire.data[each.start : each.stop])

    def _name_in(self, message: Field, number: int) -> str:
        return next((self._text(each) for each in self._messages(message) if each.number == number), "")

    def _opset(self, message: Field) -> tuple[str, int]:
        domain, version = "", 0
        for each in self._wire.fields(message.start, message.stop):
            if each.number == 1 and each.wire == DELIMITED:
                domain = self._text(each)
            elif each.number == 2 and each.wire == VARINT:
                version = signed(each.value)
        return domain, version

    def _node(self, message: Field, depth: int) -> WireNode:
        texts: dict[int, list[str]] = {1: [], 2: [], 3: [], 4: [], 7: []}
        attributes: list[WireAttribute] = []
        captured: list[str] = []
        for each in self._messages(message):
            if each.number in texts:
                texts[each.number].append(self._text(each))
            elif each.number == 5:
                attributes.append(self._attribute(each))
                captured += self._captured(each, depth)
        name, op_type, domain = ("".join(texts[number][-1:]) for number in (3, 4, 7))
        own = frozenset(texts[1])
        outside = tuple(dict.fromkeys(each for each in captured if each not in own))
        return WireNode(name, op_type, domain, tuple(texts[1]), tuple(texts[2]), tuple(attributes), outside)

    def _attribute(self, message: Field) -> WireAttribute:
        name, kind = "", 0
        single: Any = None
        several: list[Any] = []
        tensor = None
        for each in self._wire.fields(message.start, message.stop):
            if each.number == 1 and each.wire == DELIMITED:
                name = self._text(each)
            elif each.number == 2 and each.wire == FIXED32:
                single = _float(each.value)
            elif each.number == 3 and each.wire == VARINT:
                single = signed(each.value)
            elif each.number == 4 and each.wire == DELIMITED:
                single = self._bytes(each)
            elif each.number == 5 and each.wire == DELIMITED:
                tensor = self._tensor(each)
            elif each.number == 7 and each.wire in (DELIMITED, FIXED32):
                several += self._floats(each)
            elif each.number == 8:
                several += self._wholes(each)
            elif each.number == 9 and each.wire == DELIMITED:
                several.append(self._bytes(each))
            elif each.number == 20 and each.wire == VARINT:
                kind = each.value
        word = _KINDS.get(kind, "")
        value = tuple(several) if several or word in ("FLOATS", "INTS", "STRINGS") else single
        return WireAttribute(name, word, value, tensor, message.start, message.stop)

    def _captured(self, attribute: Field, depth: int) -> Iterator[str]:
        """Yield the names of the tensors that the bodies of an attribute take from outside."""
        for each in self._messages(attribute):
            if each.number in (6, 11):
                yield from self._taken(each, depth + 1)

    def _taken(self, body: Field, depth: int) -> Iterator[str]:
        if depth > _MAX_DEPTH:
            what = f"bodies of operators nest deeper than {_MAX_DEPTH}"
            raise malformed("PF3013", self._file.path, what, help_text=_HELP, offset=body.start)
        own: set[str] = set()
        nodes: list[Field] = []
        outputs: list[str] = []
        for each in self._messages(body):
            if each.number == 1:
                nodes.append(each)
            elif each.number == 5:
                own.add(self._name_in(each, 8))
            elif each.number == 11:
                own.add(self._name_in(each, 1))
            elif each.number == 12:
                outputs.append(self._name_in(each, 1))
            elif each.number == 15:
                own |= {self._name_in(values, 8) for values in self._messages(each) if values.number == 1}
        for place in nodes:
            node = self._node(place, depth)
            yield from (name for name in node.reads if name not in own)
            own.update(node.outputs)
        yield from (name for name in outputs if name and name not in own)

    def _tensor(self, message: Field) -> WireTensor:
        name, kind = "", 0
        shape: list[int] = []
        pieces: list[Field] = []
        external: dict[str, str] = {}
        for each in self._wire.fields(message.start, message.stop):
            if each.number == 1:
                shape += self._wholes(each)
            elif each.number == 2 and each.wire == VARINT:
                kind = each.value
            elif each.number == 8 and each.wire == DELIMITED:
                name = self._text(each)
            elif each.number in (*FLOATING, *WHOLE) and len(pieces) <= _MAX_PIECES:
                pieces.append(each)
            elif each.number == 13 and each.wire == DELIMITED:
                texts = {inner.number: self._text(inner) for inner in self._messages(each)}
                external[texts.get(1, "")] = texts.get(2, "")
        held = None if len(pieces) > _MAX_PIECES else tuple(pieces)
        return WireTensor(name, kind, tuple(shape), held, external)

    def _wholes(self, each: Field) -> list[int]:
        return [signed(value) for value in varints(self._wire, [each])]

    def _floats(self, each: Field) -> list[float]:
        raw = self._bytes(each) if each.wire == DELIMITED else each.value.to_bytes(4, "little")
        return [value for (value,) in struct.iter_unpack("<f", raw[: len(raw) // 4 * 4])]


def _float(bits: int) -> float:
    return float(struct.unpack("<f", bits.to_bytes(4, "little"))[0])
