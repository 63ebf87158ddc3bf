"""Run a graph in segments: a small model each, fed with the tensors that are still needed, so that none is held longer.

All outputs of a model asked for at once are held until its run ends; a segment's are given out, and go when nothing
behind them reads them. A segment has the initializers that it reads; those in other files stay there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx
import onnxruntime as ort
from msgspec import Struct

from probe_flow.dumpers.onnx.graph import Operator
from probe_flow.dumpers.onnx.values import type_proto

SessionOf = Callable[[onnx.ModelProto], ort.InferenceSession]
Values = Mapping[str, ort.OrtValue]
Given = Callable[[Operator, Values], None]

EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"


class Plan(Struct, frozen=True):
    """The operators of a model, and where their run is cut.

    Args:
        model: whose functions, opsets and weights are used.
        order: all operators, each behind those that it reads.
        cuts: begin and end of each segment in ``order``.
    """

    model: onnx.ModelProto
    order: Sequence[Operator]
    cuts: Sequence[tuple[int, int]]


def run_segments(plan: Plan, inputs: Values, session_of: SessionOf, given: Given) -> int:
    """Run all operators, hand over what each gives in their order, and return the number of segments.

    A tensor that no graph can be given from outside (an optional output that was not made, a map) never crosses from
    one segment to the next: the segment grows until nothing behind it reads one.

    Args:
        plan: of the run.
        inputs: of the model, by name.
        session_of: makes the session of a model.
        given: is handed an operator and the values of its outputs, which it must not keep.
    """
    weights = _weights(plan.model.graph)
    last = _last_reads(plan.order)
    live: dict[str, ort.OrtValue] = dict(inputs)
    count = 0
    begin = 0
    ends = iter([end for _, end in plan.cuts])
    end = next(ends, len(plan.order))
    while begin < len(plan.order):
        part = plan.order[begin:end]
        values = _run(plan.model, part, live, weights, session_of)
        needed = {name for name in values if last.get(name, -1) >= end}
        if end < len(plan.order) and any(type_proto(values[name]) is None for name in needed):
            del values
            end = next(ends, len(plan.order))
            continue
        for operator in part:
            given(operator, {name: values[name] for name in operator.gives})
        live = {name: value for name, value in live.items() if last.get(name, -1) >= end}
        live |= {name: values[name] for name in needed}
        del values
        begin, count = end, count + 1
        end = next(ends, len(plan.order))
    return count


def _last_reads(order: Sequence[Operator]) -> dict[str, int]:
    """Return the place of the last operator that reads a tensor."""
    return {name: place for place, operator in enumerate(order) for name in operator.reads}


def _run(
    model: onnx.ModelProto,
    part: Sequence[Operator],
    live: Values,
    weights: Mapping[str, onnx.TensorProto | onnx.SparseTensorProto],
    session_of: SessionOf,
) -> dict[str, ort.OrtValue]:
    """Return all outputs of some operators."""
    outputs = [name for operator in part for name in operator.gives]
    made = set(outputs)
    read = dict.fromkeys(name for operator in part for name in operator.reads if name not in made)
    feeds = {name: live[name] for name in read if name in live}
    segment = _model(
        model, part, feeds, [weights[name] for name in read if name in weights and name not in feeds], outputs
    )
    if not outputs:
        return {}
    session = session_of(segment)
    del segment
    return dict(zip(outputs, session.run_with_ort_values(outputs, dict(feeds)), strict=True))


def _model(
    model: onnx.ModelProto,
    part: Sequence[Operator],
    feeds: Values,
    weights: Sequence[onnx.TensorProto | onnx.SparseTensorProto],
    outputs: Sequence[str],
) -> onnx.ModelProto:
    found = onnx.ModelProto(ir_version=model.ir_version, producer_name="probe_flow")
    found.opset_import.extend(model.opset_import)
    found.functions.extend(model.functions)
    graph = found.graph
    graph.name = model.graph.name or "graph"
    graph.node.extend(operator.proto for operator in part)
    for name, value in feeds.items():
        graph.input.append(onnx.ValueInfoProto(name=name, type=type_proto(value)))
    for weight in weights:
        if isinstance(weight, onnx.TensorProto):
            graph.initializer.append(weight)
        else:
            graph.sparse_initializer.append(weight)
    if model.ir_version < 4:  # before, an initializer had to be an input too
        for weight in graph.initializer:
            graph.input.append(onnx.helper.make_tensor_value_info(weight.name, weight.data_type, list(weight.dims)))
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    return found


def _weights(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto | onnx.SparseTensorProto]:
    return {
        **{tensor.name: tensor for tensor in graph.initializer},
        **{sparse.values.name: sparse for sparse in graph.sparse_initializer},
    }
