"""About how many bytes each tensor of an ONNX model has, by the shapes that can be inferred without running it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import onnx
from onnx import TensorProto, helper
from onnx.external_data_helper import uses_external_data

from probe_flow.dumpers.onnx.values import TYPES

_SMALL_BYTES = 8192
"""Constants up to this size stay in the graph that shapes are inferred of: they may be shapes themselves."""


_FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16})


def tensor_sizes(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], *, is_double: bool = False
) -> dict[str, int]:
    """Return the bytes of the tensors whose types and shapes can be inferred, by name; weights are not looked at.

    Args:
        model: not changed.
        shapes: of its inputs, where they are known.
        is_double: whether floats are computed in float64.
    """
    try:
        inferred = onnx.shape_inference.infer_shapes(_light(model, shapes), data_prop=True)
    except Exception:  # a model that cannot be inferred may still run: its sizes are then unknown
        return {}
    described = (*inferred.graph.value_info, *inferred.graph.output, *inferred.graph.input)
    found = ((each.name, _bytes(each.type, is_double=is_double)) for each in described)
    return {name: size for name, size in found if size is not None}


def _light(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """Return the model with inputs of known shapes, and inputs in the place of large weights."""
    graph = onnx.GraphProto(name="sizes")
    graph.node.extend(model.graph.node)
    graph.output.extend(model.graph.output)
    for given in model.graph.input:
        shape = shapes.get(given.name)
        if shape is not None and given.type.HasField("tensor_type"):
            given = helper.make_tensor_value_info(given.name, given.type.tensor_type.elem_type, list(shape))
        graph.input.append(given)
    names = {given.name for given in graph.input}
    for weight in model.graph.initializer:
        if not uses_external_data(weight) and _size(weight.data_type, weight.dims) <= _SMALL_BYTES:
            graph.initializer.append(weight)
        elif weight.name not in names:
            graph.input.append(helper.make_tensor_value_info(weight.name, weight.data_type, list(weight.dims)))
    light = onnx.ModelProto(ir_version=model.ir_version, graph=graph)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    return light


def _bytes(kind: onnx.TypeProto, *, is_double: bool) -> int | None:
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    if not all(dim.HasField("dim_value") for dim in dims):
        return None
    number = kind.tensor_type.elem_type
    return _size(TensorProto.DOUBLE if is_double and number in _FLOATS else number, [dim.dim_value for dim in dims])


def _size(number: int, dims: Sequence[int]) -> int:
    bits = TYPES[number].bits if number in TYPES else 64
    return -(-math.prod(dims) * bits // 8)


def runs_of(sizes: Sequence[int | None], limit: int, longest: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of runs whose sizes together stay within a limit; one that is larger is a run of its own.

    Args:
        sizes: of the steps; None is not known, and makes the run as short as it can be.
        limit: in bytes.
        longest: most steps of a run, and of one with an unknown size a quarter of it.
    """
    begin, held, count = 0, 0, 0
    for place, size in enumerate(sizes):
        weight = 1 if size is not None else 4
        if place > begin and (held + (size or 0) > limit or count + weight > longest):
            yield begin, place
            begin, held, count = place, 0, 0
        held += size or 0
        count += weight
    if begin < len(sizes):
        yield begin, len(sizes)
