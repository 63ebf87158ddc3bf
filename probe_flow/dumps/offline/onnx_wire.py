"""The graph of an ONNX model as its file has it, read from the bytes without the library.

No element of a constant is read with the graph, only where it lies: `elements` reads those of one.

Source: the published messages of ONNX (ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from probe_flow.files.binary_file import BinaryFile, malformed
from probe_flow.files.protobuf import DELIMITED, FIXED32, VARINT, Field, FileBytes, WireReader, signed

FLOAT, INT, STRING, TENSOR, FLOATS, INTS, STRINGS = 1, 2, 3, 4, 6, 7, 8
"""Kinds of attributes."""

TEXT = 8
"""Number of the element type of texts."""

DTYPES: Mapping[int, str] = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}  # fmt: skip
"""Element types by their numbers."""

_PLAIN = frozenset({"bool", "float16", "float32", "float64"}) | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""Those that numpy has, and scripts can hold."""

_BITS = {"bool": 8, "complex64": 64, "complex128": 128, "bfloat16": 16}

_RAW, _FLOAT_DATA, _INT32_DATA, _INT64_DATA, _DOUBLE_DATA, _UINT64_DATA = 9, 4, 5, 7, 10, 11
_FLOATING = (_RAW, _FLOAT_DATA, _DOUBLE_DATA)
_WHOLE = (_INT32_DATA, _INT64_DATA, _UINT64_DATA)

_MAX_FIELDS = 50_000_000
_MAX_PIECES = 1 << 16
"""Numbers of a constant that are written one by one; writers pack them."""

_MAX_DEPTH = 32
"""Bodies within bodies."""

_HELP = "export the model again"


class WireTensor(Struct, frozen=True):
    """A constant.

    Args:
        name: empty in attributes.
        kind: number of its element type.
        shape: of it.
        pieces: fields that hold the elements; None = there are too many.
        external: where else they lie: ``location``, ``offset``, ``length``.
    """

    name: str
    kind: int
    shape: tuple[int, ...]
    pieces: tuple[Field, ...] | None = ()
    external: Mapping[str, str] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """Name of its element type; empty for texts and unknown ones."""
        return DTYPES.get(self.kind, "")

    @property
    def nbytes(self) -> int:
        """Bytes that its elements take."""
        return -(-math.prod(self.shape) * bits_of(self.dtype) // 8)


class WireAttribute(Struct, frozen=True):
    """An attribute.

    Args:
        name: of it.
        kind: number of its kind; 0 where the file does not say.
        value: number, bytes of a text, or a tuple of either; None for all other kinds.
        tensor: of kind ``TENSOR``.
        start, stop: its message in the file.
    """

    name: str
    kind: int
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


def bits_of(dtype: str) -> int:
    """Return the bits of one element."""
    if dtype.startswith("float8"):
        return 8
    if dtype.startswith("float4"):
        return 4
    return _BITS.get(dtype) or int("".join(filter(str.isdigit, dtype)) or 0)


def read_wire_model(file: BinaryFile) -> WireModel:
    """Return the graph of a model.

    Raises:
        FormatError: PF3012, PF3013 it is no such model.
    """
    return _Reader(file).model()


class _Reader:
    def __init__(self, file: BinaryFile) -> None:
        self._file = file
        self._wire = WireReader(FileBytes(file), file.path, fields_left=_MAX_FIELDS)

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
            elif each.number == 7:
                several += self._floats(each)
            elif each.number == 8:
                several += self._wholes(each)
            elif each.number == 9 and each.wire == DELIMITED:
                several.append(self._bytes(each))
            elif each.number == 20 and each.wire == VARINT:
                kind = each.value
        value = tuple(several) if several or kind in (FLOATS, INTS, STRINGS) else single
        return WireAttribute(name, kind, value, tensor, message.start, message.stop)

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
            elif each.number in (*_FLOATING, *_WHOLE) and len(pieces) <= _MAX_PIECES:
                pieces.append(each)
            elif each.number == 13 and each.wire == DELIMITED:
                texts = {inner.number: self._text(inner) for inner in self._messages(each)}
                external[texts.get(1, "")] = texts.get(2, "")
        held = None if len(pieces) > _MAX_PIECES else tuple(pieces)
        return WireTensor(name, kind, tuple(shape), held, external)

    def _wholes(self, each: Field) -> list[int]:
        return [signed(value) for value in _varints(self._wire, [each])]

    def _floats(self, each: Field) -> list[float]:
        raw = self._bytes(each) if each.wire == DELIMITED else each.value.to_bytes(4, "little")
        return [value for (value,) in struct.iter_unpack("<f", raw[: len(raw) // 4 * 4])]


def external_file(model: str, tensor: WireTensor) -> tuple[str, int] | None:
    """Return file and offset of elements that lie outside the model's own file; None where that is no place beside it.

    Args:
        model: path of the model.
        tensor: one that has such a place.
    """
    place = tensor.external.get("location", "")
    if not place or Path(place).is_absolute() or ".." in Path(place).parts:
        return None
    offset = tensor.external.get("offset", "0")
    return str(Path(model).parent / place), int(offset) if offset.isdecimal() else 0


def elements(model: str, tensor: WireTensor) -> NDArray[Any]:
    """Return the elements of a constant in its shape; those of types that numpy lacks as bytes, in one row.

    Args:
        model: path of the model.
        tensor: one of it.

    Raises:
        ValueError: they cannot be read, and why.
        FormatError: PF3001, PF3002, PF3013 a file cannot be read, or its content.
    """
    if tensor.kind == TEXT:
        raise ValueError(f"`{tensor.name}` holds texts")
    if not tensor.dtype or tensor.pieces is None or any(axis < 0 for axis in tensor.shape):
        raise ValueError(f"`{tensor.name}` is of element type {tensor.kind}, or written in another way than known")
    raw = _external_bytes(model, tensor) if tensor.external else _own_bytes(model, tensor)
    if len(raw) != tensor.nbytes:
        raise ValueError(f"`{tensor.name}` has {len(raw):,} bytes where its shape takes {tensor.nbytes:,}")
    if tensor.dtype not in _PLAIN:
        return np.frombuffer(raw, np.uint8)
    return np.frombuffer(raw, np.dtype(tensor.dtype).newbyteorder("<")).reshape(tensor.shape)


def _external_bytes(model: str, tensor: WireTensor) -> bytes:
    place = external_file(model, tensor)
    if place is None:
        where = tensor.external.get("location", "")
        raise ValueError(f"`{tensor.name}` lies in `{where}`, outside the folder of the model")
    path, offset = place
    with BinaryFile(path) as file:
        end = offset + tensor.nbytes
        if end > file.size:  # before room is made for what a file claims
            raise ValueError(f"`{tensor.name}` lies in `{file.name}` up to byte {end:,}, and that has {file.size:,}")
        raw = bytearray(tensor.nbytes)
        return bytes(raw[: file.read_into(offset, memoryview(raw))])


def _own_bytes(model: str, tensor: WireTensor) -> bytes:
    pieces = tensor.pieces or ()
    with BinaryFile(model) as file:
        wire = WireReader(FileBytes(file), file.path, fields_left=_MAX_FIELDS)
        whole = [each for each in pieces if each.number in _WHOLE]
        if whole:
            numbers = np.array([*_varints(wire, whole)], np.uint64)
            return numbers.astype(f"<u{max(1, bits_of(tensor.dtype) // 8)}").tobytes()
        return b"".join(_bytes_of(wire, pieces))


def _bytes_of(wire: WireReader, pieces: Iterable[Field]) -> Iterator[bytes]:
    """Yield the bytes of elements: all of them in one field, or packed, or one by one; of raw bytes the last counts."""
    raw = [each for each in pieces if each.number == _RAW]
    for each in raw[-1:] or pieces:
        if each.wire == DELIMITED:
            yield bytes(wire.data[each.start : each.stop])
        else:
            yield each.value.to_bytes(4 if each.wire == FIXED32 else 8, "little")


def _varints(wire: WireReader, fields: Sequence[Field]) -> Iterator[int]:
    for each in fields:
        if each.wire == VARINT:
            yield each.value
        elif each.wire == DELIMITED:
            yield from wire.varints(each.start, each.stop, limit=each.stop - each.start)


def _float(bits: int) -> float:
    return float(struct.unpack("<f", bits.to_bytes(4, "little"))[0])
