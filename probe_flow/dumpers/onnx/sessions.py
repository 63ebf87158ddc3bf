"""How sessions of ONNX Runtime compute: options of them, and what makes their sums the same on every processor."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort

from probe_flow.apis.onnx.exact import exact_products
from probe_flow.dumpers.onnx.segments import EXTERNAL_FOLDER
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.files.opening import open_bytes

_X86 = frozenset({"x86_64", "AMD64"})
_VNNI = re.compile(rb"\bavx(512)?_vnni\b")
_CPU_INFO = Path("/proc/cpuinfo")


_LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}


def session_options(
    dump: Mapping[str, Any], threads: int, folder: Path, *, is_deterministic: bool
) -> ort.SessionOptions:
    """Return the options of a dump's sessions.

    Args:
        dump: options of the dump.
        threads: of an operator.
        folder: of weights in other files.
        is_deterministic: whether kernels have to repeat themselves.

    Raises:
        UsageError: PF6322 for a library of operators that cannot be loaded.
    """
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, _LEVELS[dump.get("optimizations", "none")])
    options.intra_op_num_threads = threads
    options.use_deterministic_compute = is_deterministic
    options.enable_cpu_mem_arena = False  # it would keep the memory of the largest tensors for good
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    options.add_session_config_entry(EXTERNAL_FOLDER, str(folder))
    # Where it fuses operators itself, it makes such products of them that `exact_sums` has not seen.
    options.add_session_config_entry("session.x64quantprecision", "1")
    for library in dump.get("custom_ops_library") or ():
        _register(options, str(library))
    return options


def _register(options: ort.SessionOptions, library: str) -> None:
    """Load a library of operators."""
    try:
        options.register_custom_ops_library(library)
    except Exception as error:  # what the loader of libraries says
        what = f"`custom_ops_library`: `{library}` cannot be loaded: {str(error).splitlines()[0]}"
        raise UsageError(Diagnostic("PF6322", what, help="build it for this machine and this onnxruntime")) from error


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
