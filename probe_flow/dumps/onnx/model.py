"""Operators and weights of an ONNX model for those that are computed again: by the tensors that they give.

Bodies of operators (loops, branches) are passed over, and no weight is read, only where it lies.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from probe_flow.dumps.onnx.constants import WireTensor, elements, external_file
from probe_flow.dumps.onnx.wire import WireAttribute, WireNode, read_wire_model
from probe_flow.files.binary_file import BinaryFile
from probe_flow.files.protobuf import DELIMITED
from probe_flow.records import Extent

MODEL_FILE = "model_file"
"""Attribute of a catalog with the path of the model that was run, and its SHA-256, where the manifest tells them."""

_DTYPES = frozenset({
    "bool", "float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
})  # fmt: skip
_RAW, _FLOAT_DATA, _DOUBLE_DATA = 9, 4, 10
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
            raise OtherModelError(f"the model `{file.name}` is not the one that was run: it was written again")
        model = read_wire_model(file)
    opsets = {_domain(domain): version for domain, version in model.opsets}
    operators: dict[str, OnnxOperator] = {}
    weights: dict[str, OnnxWeight | None] = {}
    for node in model.nodes or ():
        operator = _operator(node, opsets)
        operators.update((name, operator) for name in operator.outputs if name)
        constant = next((each.tensor for each in node.attributes if each.tensor is not None), None)
        if node.op_type == "Constant" and constant is not None and node.outputs:
            weights[node.outputs[0]] = _weight(path, constant)
    weights.update((tensor.name, _weight(path, tensor)) for tensor in model.weights)
    return OnnxModel(operators, {name: weight for name, weight in weights.items() if weight is not None})


def _digest(file: BinaryFile) -> str:
    found = hashlib.sha256()
    for start in range(0, file.size, _CHUNK):
        found.update(file.read_at(start, min(_CHUNK, file.size - start)))
    return found.hexdigest()


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _operator(node: WireNode, opsets: Mapping[str, int]) -> OnnxOperator:
    domain = _domain(node.domain)
    shown = f"{domain}.{node.op_type}" if domain else node.op_type
    attributes = {each.name: value for each in node.attributes if (value := _value(each)) is not None}
    return OnnxOperator(shown, node.inputs, node.outputs, attributes, opsets.get(domain, 0))


def _value(attribute: WireAttribute) -> Any:
    value = attribute.value
    if isinstance(value, tuple):
        return tuple(map(_plain, value)) or None
    return _plain(value)


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _weight(path: str, tensor: WireTensor) -> OnnxWeight | None:
    """Return where a weight lies; None where it has no numbers, or lies outside the folder of the model."""
    if tensor.dtype not in _DTYPES:
        return None
    dtype, shape = tensor.dtype, tensor.shape
    if tensor.external:
        place = external_file(path, tensor)
        return None if place is None else OnnxWeight(dtype, shape, Extent(*place, tensor.nbytes))
    whole = [each for each in tensor.pieces or () if each.number in (_RAW, _FLOAT_DATA, _DOUBLE_DATA)]
    if whole:
        data = whole[-1]
        if data.wire != DELIMITED or data.stop - data.start != tensor.nbytes:
            return None
        return OnnxWeight(dtype, shape, Extent(path, data.start, tensor.nbytes))
    if "int" not in dtype or not 0 <= math.prod(shape) <= _MAX_NUMBERS:
        return None
    try:
        return OnnxWeight(dtype, shape, numbers=tuple(elements(path, tensor).reshape(-1).tolist()))
    except ValueError:
        return None
