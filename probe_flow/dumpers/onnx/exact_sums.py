"""Have a model's products of uint8 by int8 added up exactly, on every processor (`apis.onnx.exact`)."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import Any

import onnx

from probe_flow.apis.onnx.exact import exact_products
from probe_flow.files.opening import open_bytes

_X86 = frozenset({"x86_64", "AMD64"})
_VNNI = re.compile(rb"\bavx(512)?_vnni\b")
_CPU_INFO = Path("/proc/cpuinfo")


def exact_sums(model: onnx.ModelProto, folder: Path) -> list[Any]:
    """Change the operators of a model in memory, and return them; other models stay as they are.

    Args:
        model: its weights stay, those that are read from now on are added.
        folder: of weights in other files.
    """
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    types = {each.name: each.type.tensor_type.elem_type for each in (*graph.input, *graph.value_info, *graph.output)}
    made = {node.output[0] for node in graph.node if node.op_type == "DynamicQuantizeLinear"}
    made |= {node.output[0] for node in graph.node if node.op_type == "QuantizeLinear" and _is_uint8(node, weights)}
    points = {node.output[2] for node in graph.node if node.op_type == "DynamicQuantizeLinear" and len(node.output) > 2}
    changed, constants = exact_products(
        graph.node,
        weights,
        lambda name: name in made or name in points or types.get(name) == onnx.TensorProto.UINT8,
        folder=str(folder),
    )
    graph.initializer.extend(constants)
    if model.ir_version < 4:  # before, a weight had to be an input too
        for each in constants:
            graph.input.append(onnx.helper.make_tensor_value_info(each.name, each.data_type, list(each.dims)))
    return changed


def cuts_sums_off() -> bool:
    """Return True if this processor is one on which ONNX Runtime would cut such sums off."""
    if platform.machine() not in _X86:
        return False
    try:
        with open_bytes(_CPU_INFO) as file:
            return _VNNI.search(file.read()) is None
    except OSError:
        return False


def _is_uint8(node: Any, weights: dict[str, Any]) -> bool:
    point = node.input[2] if len(node.input) > 2 else ""
    return not point or (point in weights and weights[point].data_type == onnx.TensorProto.UINT8)
