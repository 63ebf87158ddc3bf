"""Operators and weights of an ONNX model, read from its bytes without the library: for those that are computed again.

Source: the published messages of ONNX (ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto). Bodies of
operators (loops, branches) are passed over, and no weight is read, only where it lies.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from probe_flow.files.binary_file import BinaryFile
from probe_flow.files.protobuf import DELIMITED, FIXED32, VARINT, Field, FileBytes, WireReader, signed
from probe_flow.records import Extent

MODEL_FILE = "model_file"
"""Attribute of a catalog with the path of the model that was run, and its SHA-256, where the manifest tells them."""

_GRAPH, _OPSETS = 7, 8
_NODE, _INITIALIZER = 1, 5
_INPUT, _OUTPUT, _OP_TYPE, _ATTRIBUTE, _DOMAIN = 1, 2, 4, 5, 7
_NAME, _FLOAT, _INT, _TEXT, _TENSOR, _FLOATS, _INTS, _TEXTS = 1, 2, 3, 4, 5, 7, 8, 9
_DIMS, _DATA_TYPE, _FLOAT_DATA, _INT32_DATA, _INT64_DATA, _TENSOR_NAME, _RAW, _DOUBLE_DATA, _EXTERNAL = (
    1, 2, 4, 5, 7, 8, 9, 10, 13,
)  # fmt: skip
_DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16", 17: "float8_e4m3fn", 19: "float8_e5m2",
}  # fmt: skip
_ITEM_BYTES = {
    "float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4, "float16": 2, "bfloat16": 2,
    "int16": 2, "uint16": 2,
}  # fmt: skip
_MAX_FIELDS = 50_000_000
_MAX_NUMBERS = 1024
_CHUNK = 1 << 20


class OnnxWeight(Struct, frozen=True):
    """A weight of a model.

    Args:
        dtype, shape: of it.
        extent: where its bytes lie; None where they are written number by number.
        numbers: then these, where they are whole and few.
    """

    dtype: str
    shape: tuple[int, ...]
    extent: Extent | None = None
    numbers: tuple[int, ...] | None = None


class OnnxOperator(Struct, frozen=True):
    """An operator of a model: its type, with the domain in front of one that is not of ONNX itself, and attributes."""

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    opset: int


class OnnxModel(Struct, frozen=True):
    """A model: operators by the name of each of their outputs, weights by name."""

    operators: Mapping[str, OnnxOperator]
    weights: Mapping[str, OnnxWeight] = field(default_factory=dict)


class OtherModelError(ValueError):
    """The file holds another model than the one that was run."""


def read_onnx_model(path: str, sha256: str) -> OnnxModel:
    """Return the operators and weights of a model.

    Args:
        path: of the file.
        sha256: of the file when it was run, in hexadecimal.

    Raises:
        FormatError: PF3001 it cannot be read, PF3013 it is no such model.
        OtherModelError: it is another one now.
    """
    with BinaryFile(path) as file:
        if _digest(file) != sha256:
            raise OtherModelError(f"the model `{Path(path).name}` is not the one that was run: it was written again")
        return _Reader(file).model()


def _digest(file: BinaryFile) -> str:
    found = hashlib.sha256()
    for start in range(0, file.size, _CHUNK):
        found.update(file.read_at(start, min(_CHUNK, file.size - start)))
    return found.hexdigest()


class _Reader:
    def __init__(self, file: BinaryFile) -> None:
        self._path = file.path
        self._size = file.size
        self._wire = WireReader(FileBytes(file), file.path, fields_left=_MAX_FIELDS)

    def model(self) -> OnnxModel:
        opsets: dict[str, int] = {}
        graph = None
        for each in self._wire.fields(0, self._size):
            if each.number == _GRAPH and each.wire == DELIMITED:
                graph = each
            elif each.number == _OPSETS and each.wire == DELIMITED:
                domain, version = self._opset(each)
                opsets[domain] = version
        operators: dict[str, OnnxOperator] = {}
        weights: dict[str, OnnxWeight] = {}
        for each in () if graph is None else self._wire.fields(graph.start, graph.stop):
            if each.wire != DELIMITED:
                continue
            if each.number == _NODE:
                operator = self._operator(each, opsets, weights)
                operators.update((name, operator) for name in operator.outputs if name)
            elif each.number == _INITIALIZER:
                name, weight = self._weight(each)
                if weight is not None:
                    weights[name] = weight
        return OnnxModel(operators, weights)

    def _opset(self, message: Field) -> tuple[str, int]:
        domain, version = "", 0
        for each in self._wire.fields(message.start, message.stop):
            if each.number == 1 and each.wire == DELIMITED:
                domain = self._text(each)
            elif each.number == 2 and each.wire == VARINT:
                version = each.value
        return "" if domain == "ai.onnx" else domain, version

    def _operator(self, message: Field, opsets: Mapping[str, int], weights: dict[str, OnnxWeight]) -> OnnxOperator:
        inputs: list[str] = []
        outputs: list[str] = []
        op_type = domain = ""
        attributes: dict[str, Any] = {}
        constant = None
        for each in self._wire.fields(message.start, message.stop):
            if each.wire != DELIMITED:
                continue
            if each.number == _INPUT:
                inputs.append(self._text(each))
            elif each.number == _OUTPUT:
                outputs.append(self._text(each))
            elif each.number == _OP_TYPE:
                op_type = self._text(each)
            elif each.number == _DOMAIN:
                domain = self._text(each)
            elif each.number == _ATTRIBUTE:
                name, value, tensor = self._attribute(each)
                constant = tensor or constant
                if value is not None:
                    attributes[name] = value
        if op_type == "Constant" and constant is not None and outputs:
            weights[outputs[0]] = constant
        domain = "" if domain == "ai.onnx" else domain
        shown = f"{domain}.{op_type}" if domain else op_type
        return OnnxOperator(shown, tuple(inputs), tuple(outputs), attributes, opsets.get(domain, 0))

    def _attribute(self, message: Field) -> tuple[str, Any, OnnxWeight | None]:
        name = ""
        value: Any = None
        items: list[Any] = []
        weight = None
        for each in self._wire.fields(message.start, message.stop):
            if each.number == _NAME and each.wire == DELIMITED:
                name = self._text(each)
            elif each.number == _FLOAT and each.wire == FIXED32:
                value = _float(each.value)
            elif each.number == _INT and each.wire == VARINT:
                value = signed(each.value)
            elif each.number == _TEXT and each.wire == DELIMITED:
                value = self._text(each)
            elif each.number == _TENSOR and each.wire == DELIMITED:
                weight = self._weight(each)[1]
            elif each.number == _INTS:
                items += self._wholes(each)
            elif each.number == _FLOATS:
                items += self._floats(each)
            elif each.number == _TEXTS and each.wire == DELIMITED:
                items.append(self._text(each))
        return name, tuple(items) if items else value, weight

    def _weight(self, message: Field) -> tuple[str, OnnxWeight | None]:
        name, kind = "", 0
        shape: list[int] = []
        data: Field | None = None
        whole: list[int] = []
        external: dict[str, str] = {}
        for each in self._wire.fields(message.start, message.stop):
            if each.number == _DIMS:
                shape += self._wholes(each)
            elif each.number == _DATA_TYPE and each.wire == VARINT:
                kind = each.value
            elif each.number == _TENSOR_NAME and each.wire == DELIMITED:
                name = self._text(each)
            elif each.number in (_RAW, _FLOAT_DATA, _DOUBLE_DATA) and each.wire == DELIMITED:
                data = each
            elif each.number in (_INT32_DATA, _INT64_DATA) and len(whole) <= _MAX_NUMBERS:
                whole += self._wholes(each)
            elif each.number == _EXTERNAL and each.wire == DELIMITED:
                key, value = self._entry(each)
                external[key] = value
        return name, self._held(kind, tuple(shape), data, whole, external)

    def _held(
        self, kind: int, shape: tuple[int, ...], data: Field | None, whole: list[int], external: Mapping[str, str]
    ) -> OnnxWeight | None:
        """Return where a weight lies; None where it has no numbers, or lies outside the folder of the model."""
        dtype = _DTYPES.get(kind, "")
        if not dtype:
            return None
        nbytes = math.prod(shape) * _ITEM_BYTES.get(dtype, 1)
        if external:
            place = external.get("location", "")
            if not place or Path(place).is_absolute() or ".." in Path(place).parts:
                return None
            offset = external.get("offset", "0")
            file = str(Path(self._path).parent / place)
            return OnnxWeight(dtype, shape, Extent(file, int(offset) if offset.isdecimal() else 0, nbytes))
        if data is not None and data.stop - data.start == nbytes:
            return OnnxWeight(dtype, shape, Extent(self._path, data.start, nbytes))
        is_whole = "int" in dtype and len(whole) == math.prod(shape) <= _MAX_NUMBERS
        return OnnxWeight(dtype, shape, numbers=tuple(whole)) if is_whole else None

    def _entry(self, message: Field) -> tuple[str, str]:
        texts = {each.number: self._text(each) for each in self._wire.fields(message.start, message.stop)}
        return texts.get(1, ""), texts.get(2, "")

    def _wholes(self, each: Field) -> list[int]:
        if each.wire == VARINT:
            return [signed(each.value)]
        return [signed(value) for value in self._wire.varints(each.start, each.stop, limit=_MAX_NUMBERS + 1)]

    def _floats(self, each: Field) -> list[float]:
        if each.wire == FIXED32:
            return [_float(each.value)]
        raw = bytes(self._wire.data[each.start : min(each.stop, each.start + 4 * _MAX_NUMBERS)])
        return [value for (value,) in struct.iter_unpack("<f", raw[: len(raw) // 4 * 4])]

    def _text(self, each: Field) -> str:
        return self._wire.text(each.start, each.stop)


def _float(bits: int) -> float:
    return float(struct.unpack("<f", bits.to_bytes(4, "little"))[0])
