"""Compute an operator of an ONNX graph in float64: by ONNX Runtime where it has the kernel, else by ONNX's reference.

The reference evaluator of the package `onnx` is plain numpy and computes in the type of what it is given. ONNX Runtime
has kernels of float64 for some operators only; convolution is none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np

from probe_flow.apis.calls import UnusableError

RANDOM_TYPES = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)

_TYPE_ATTRIBUTES: Mapping[str, str] = MappingProxyType(
    {
        "Cast": "to",
        "EyeLike": "dtype",
        "RandomNormal": "dtype",
        "RandomNormalLike": "dtype",
        "RandomUniform": "dtype",
        "RandomUniformLike": "dtype",
        "SequenceEmpty": "dtype",
    }
)
"""Operators that name the element type of their result, by an attribute."""


def in_double(node: Any, values: Mapping[str, Any], home: Any) -> dict[str, Any]:
    """Return the results of an operator by their names, floats in float64.

    Args:
        node: ``onnx.NodeProto``.
        values: all tensors that it reads, by name, floats in float64; a list is a sequence of tensors.
        home: ``onnx.ModelProto`` whose versions of operators, and functions, count.

    Raises:
        UnusableError: nothing here computes it in float64.
    """
    wide = widened_node(node)
    names = [name for name in wide.output if name]
    model = model_of([wide], values, names, home)
    found = _by_runtime(model, values, names)
    if found is None:
        found = _by_reference(model, values, names)
    for name, value in found.items():
        _check_is_wide(node, name, value)
    return found


def is_float(value: Any) -> bool:
    """Return True for an array of floats of any width, those that numpy lacks among them."""
    return isinstance(value, np.ndarray) and (value.dtype.kind == "f" or value.dtype.name.startswith(_SMALL_FLOATS))


_SMALL_FLOATS = ("bfloat16", "float8", "float4", "float6")


def _check_is_wide(node: Any, name: str, value: Any) -> None:
    for each in value if isinstance(value, list) else [value]:
        if is_float(each) and each.dtype != np.float64:
            raise UnusableError(f"`{node.op_type}` gives `{name}` in {each.dtype} only, whatever it is given")


def _by_runtime(model: Any, values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any] | None:
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    given = {each.name: values[each.name] for each in model.graph.input}
    try:
        session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return dict(zip(names, session.run(list(names), given), strict=True))
    except Exception:  # the kind of error differs between versions, and the next one is asked anyway
        return None


def _by_reference(model: Any, values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    reference: Any = import_module("onnx.reference")
    given = {each.name: values[each.name] for each in model.graph.input}
    try:
        with np.errstate(all="ignore"):
            found = reference.ReferenceEvaluator(model).run(list(names), given)
    except Exception as error:  # whatever an operator raises
        (node,) = model.graph.node
        why = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        raise UnusableError(
            f"neither onnxruntime nor the reference of onnx computes `{node.op_type}` in float64 ({why})"
        ) from error
    return {name: each if isinstance(each, list) else np.asarray(each) for name, each in zip(names, found, strict=True)}


def model_of(nodes: Sequence[Any], given: Mapping[str, Any], results: Sequence[str], home: Any) -> Any:
    """Return a model of some operators, whose inputs have the types and shapes of the given values."""
    onnx: Any = import_module("onnx")
    model = onnx.ModelProto(ir_version=home.ir_version, producer_name="probe_flow")
    model.opset_import.extend(home.opset_import)
    model.functions.extend(home.functions)
    model.graph.name = "part"
    model.graph.node.extend(nodes)
    for name, value in given.items():
        model.graph.input.append(onnx.ValueInfoProto(name=name, type=_type_of(value)))
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in results)
    return model


def _type_of(value: Any) -> Any:
    helper: Any = import_module("onnx.helper")
    if isinstance(value, list):
        return helper.make_sequence_type_proto(_tensor_type(value[0].dtype if value else np.dtype(np.float64), None))
    return _tensor_type(value.dtype, value.shape)


def _tensor_type(dtype: Any, shape: Any) -> Any:
    helper: Any = import_module("onnx.helper")
    try:
        return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype), shape)
    except (KeyError, ValueError) as error:
        raise UnusableError(f"elements of type {dtype} cannot be given to onnxruntime") from error


def widened_node(node: Any) -> Any:
    """Return an operator whose constants are of float64, and which casts to that where it cast to another float."""
    onnx: Any = import_module("onnx")
    wide = onnx.NodeProto()
    wide.CopyFrom(node)
    for attribute in wide.attribute:
        if attribute.name == _TYPE_ATTRIBUTES.get(wide.op_type) and attribute.i in _float_numbers():
            attribute.i = onnx.TensorProto.DOUBLE
        if attribute.HasField("t"):
            attribute.t.CopyFrom(widened_tensor(attribute.t))
        if attribute.HasField("g"):
            _widen_graph(attribute.g)
        for graph in attribute.graphs:
            _widen_graph(graph)
    if wide.op_type == "Constant":
        for attribute in wide.attribute:
            if attribute.name in ("value_float", "value_floats"):
                number = attribute.f if attribute.name == "value_float" else list(attribute.floats)
                tensor = onnx.numpy_helper.from_array(np.asarray(number, np.float64))
                attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))
    return wide


def _float_numbers() -> frozenset[int]:
    tensor: Any = import_module("onnx").TensorProto
    return frozenset({tensor.FLOAT, tensor.FLOAT16, tensor.BFLOAT16})


def widened_tensor(tensor: Any) -> Any:
    """Return a constant in float64 where its elements are floats, else itself."""
    if tensor.data_type not in _float_numbers():
        return tensor
    helper: Any = import_module("onnx.numpy_helper")
    return helper.from_array(helper.to_array(tensor).astype(np.float64), tensor.name)


def _widen_graph(graph: Any) -> None:
    """Widen what the body of an operator computes with; in place."""
    onnx: Any = import_module("onnx")
    for tensor in graph.initializer:
        tensor.CopyFrom(widened_tensor(tensor))
    for info in (*graph.input, *graph.output, *graph.value_info):
        for kind in _tensor_kinds(info.type):
            if kind.elem_type in _float_numbers():
                kind.elem_type = onnx.TensorProto.DOUBLE
    nodes = [widened_node(node) for node in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def _tensor_kinds(kind: Any) -> Iterator[Any]:
    if kind.HasField("tensor_type"):
        yield kind.tensor_type
    elif kind.HasField("sequence_type"):
        yield from _tensor_kinds(kind.sequence_type.elem_type)
