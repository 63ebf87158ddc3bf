"""Codes of quantised values between `QLinear` operators, and the values that they stand for.

Such operators read and give integers; nothing in the graph turns them into floats before its end. Their scale and zero
point are inputs of the operator that gives them, and mostly constants.
Source: onnx's `QLinearConv`, `QLinearMatMul`, `QuantizeLinear`; ONNX Runtime's operators of the domain com.microsoft.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.dumpers.onnx.graph import Operator
from probe_flow.dumps.manifest import ManifestNode

SUFFIX = "__dequantised"
"""Of the node and the tensor that a dump has of the values behind codes."""

OP_TYPE = "DequantizeLinear"

_SCALE_OF: Mapping[str, int] = MappingProxyType(
    {
        "QuantizeLinear": 1,
        "QLinearConv": 6,
        "QLinearMatMul": 6,
        "QLinearAdd": 6,
        "QLinearMul": 6,
        "QGemm": 7,
        "QLinearAveragePool": 3,
        "QLinearGlobalAveragePool": 3,
        "QLinearLeakyRelu": 3,
        "QLinearSigmoid": 3,
        "QLinearSoftmax": 3,
        "QLinearConcat": 0,
    }
)
"""Type of an operator that gives codes -> place of their scale among its inputs; their zero point is the next."""

_MOVES = frozenset(
    {"Concat", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice", "Split", "Squeeze", "Tile",
     "Transpose", "Unsqueeze"}
)  # fmt: skip
"""Operators that give codes as they read them."""


class Quantisation(Struct, frozen=True):
    """What codes stand for: ``(code - zero_point) * scale``, along an axis where there are several."""

    scale: NDArray[Any]
    zero_point: NDArray[Any]
    axis: int = 1

    def values(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Return the values, in the type of the scale."""
        shape = [1] * codes.ndim
        if self.scale.ndim == 1 and codes.ndim:
            shape[self.axis] = -1
        scale, zero = self.scale.reshape(shape), self.zero_point.astype(self.scale.dtype).reshape(shape)
        found: NDArray[Any] = (codes.astype(self.scale.dtype) - zero) * scale
        return found


def quantisations(model: onnx.ModelProto, order: Sequence[Operator]) -> dict[str, Quantisation]:
    """Return what the tensors of codes stand for, by name; those that only a `DequantizeLinear` reads are left out.

    Args:
        model: with the constants.
        order: its operators, each behind those that it reads.
    """
    if not any(each.proto.op_type.startswith(("QLinear", "QGemm")) for each in order):
        return {}
    constants = {each.name: each for each in model.graph.initializer}
    found: dict[str, Quantisation] = {}
    for operator in order:
        known = _own(operator.proto, constants)
        if known is None and operator.proto.op_type in _MOVES and operator.proto.input:
            read = found.get(operator.proto.input[0])
            known = read if read is not None and read.scale.size == 1 else None
        if known is not None:
            found |= dict.fromkeys(operator.gives, known)
    readers: dict[str, set[str]] = {}
    for operator in order:
        for name in operator.proto.input:
            readers.setdefault(name, set()).add(operator.proto.op_type)
    return {name: each for name, each in found.items() if readers.get(name) != {OP_TYPE}}


def _own(node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto]) -> Quantisation | None:
    place = _SCALE_OF.get(node.op_type)
    if place is None or len(node.input) <= place:
        return None
    try:
        scale = onnx.numpy_helper.to_array(constants[node.input[place]])
        has_zero = len(node.input) > place + 1 and node.input[place + 1]
        zero = onnx.numpy_helper.to_array(constants[node.input[place + 1]]) if has_zero else np.zeros_like(scale)
    except (KeyError, OSError, ValueError, TypeError):  # computed, or in another file
        return None
    axis = next((int(each.i) for each in node.attribute if each.name == "axis"), 1)
    is_plain = scale.dtype in (np.float32, np.float64) and scale.ndim <= 1 and zero.shape == scale.shape
    return Quantisation(scale, zero, axis) if is_plain else None


def with_values(nodes: Iterable[ManifestNode], known: Mapping[str, Quantisation]) -> list[ManifestNode]:
    """Return the nodes of a graph in which operators read the values of codes in place of the codes."""
    found: list[ManifestNode] = []
    for node in nodes:
        inputs = tuple(f"{name}{SUFFIX}" if name in known else name for name in node.inputs)
        found.append(ManifestNode(node.name, node.op_type, inputs, node.outputs))
        if known.keys() & set(node.outputs):
            outputs = tuple(f"{name}{SUFFIX}" if name in known else "" for name in node.outputs)
            found.append(ManifestNode(f"{node.name}{SUFFIX}", OP_TYPE, node.outputs, outputs))
    return found
