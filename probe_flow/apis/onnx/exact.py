"""Products of uint8 by int8 made products of uint8 by uint8, which ONNX Runtime adds up exactly on all processors.

On x86 processors without VNNI its kernels of uint8 by int8 add two products in 16 bits, and what does not fit there is
cut off (ONNX Runtime's page "Quantize ONNX models"). Its own remedy, `session.x64quantprecision`, works on graphs that
it may optimise. Weights and their zero point, both raised by 128, are uint8 and give the same sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSequence, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np

PRODUCTS: Mapping[str, tuple[int, int | None, int, int]] = MappingProxyType(
    {
        "QLinearConv": (0, 2, 3, 5),
        "QLinearMatMul": (0, 2, 3, 5),
        "QGemm": (0, 2, 3, 5),
        "ConvInteger": (0, 2, 1, 3),
        "MatMulInteger": (0, 2, 1, 3),
        "MatMulIntegerToFloat": (0, 4, 1, 5),
        "DynamicQuantizeMatMul": (0, None, 1, 3),
    }
)
"""Operator -> places of its data, their zero point (None: made inside, of uint8), its weights and their zero point."""

_SUFFIX = "__uint8"
_RAISED = 128


def exact_products(
    nodes: Sequence[Any],
    weights: Mapping[str, Any],
    is_uint8: Callable[[str], bool],
    *,
    folder: str = "",
) -> tuple[list[Any], list[Any]]:
    """Change operators in place, and return those that were changed and the constants that they read from now on.

    Args:
        nodes: ``onnx.NodeProto`` of a graph.
        weights: the constants of the graph by name, ``onnx.TensorProto``; these stay as they are.
        is_uint8: whether a tensor that is no constant is known to be of uint8.
        folder: of weights in other files.
    """
    kinds: Any = import_module("onnx").TensorProto
    changed: list[Any] = []
    made: dict[str, Any] = {}
    for node in nodes:
        places = PRODUCTS.get(node.op_type)
        if places is None or not _takes_uint8(node, places, weights, is_uint8, kinds.UINT8):
            continue
        weight, point = (_input(node, place) for place in places[2:])
        if not _is_of(weights.get(weight), kinds.INT8) or (point and not _is_of(weights.get(point), kinds.INT8)):
            continue
        for name in filter(None, (weight, point)):
            if name not in made:
                made[name] = _raised(weights[name], folder)
        _put(node.input, places[2], f"{weight}{_SUFFIX}")
        if not point:
            point = "zero_point"
            made.setdefault(point, _made(f"{point}{_SUFFIX}", np.array(_RAISED, np.uint8)))
        _put(node.input, places[3], f"{point}{_SUFFIX}")
        changed.append(node)
    return changed, list(made.values())


def _takes_uint8(
    node: Any,
    places: tuple[int, int | None, int, int],
    weights: Mapping[str, Any],
    is_uint8: Callable[[str], bool],
    uint8: int,
) -> bool:
    data, point = places[:2]
    if point is None:
        return True
    name = _input(node, point)
    if name in weights:
        return _is_of(weights[name], uint8)
    return is_uint8(name) if name else is_uint8(_input(node, data))


def _input(node: Any, place: int) -> str:
    return str(node.input[place]) if place < len(node.input) else ""


def _is_of(tensor: Any, kind: int) -> bool:
    return tensor is not None and tensor.data_type == kind


def _raised(tensor: Any, folder: str) -> Any:
    values = import_module("onnx").numpy_helper.to_array(tensor, folder)
    return _made(f"{tensor.name}{_SUFFIX}", (values.astype(np.int16) + _RAISED).astype(np.uint8))


def _made(name: str, values: Any) -> Any:
    return import_module("onnx").numpy_helper.from_array(values, name)


def _put(inputs: MutableSequence[str], place: int, name: str) -> None:
    while len(inputs) <= place:
        inputs.append("")
    inputs[place] = name
