"""About how many bytes the dump of a TensorFlow graph has, by the shapes that TensorFlow infers without a run."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

from probe_flow.dumpers.arrays.estimate import SizedTensor, main
from probe_flow.dumpers.tensorflow.graphs import inputs_of, load, needed_operations, tensors_of
from probe_flow.dumpers.tensorflow.runner import INPUT_TYPE


def sized(path: Path, dump: Mapping[str, Any]) -> Iterator[SizedTensor]:
    """Yield the inputs and all tensors that can be fetched."""
    loaded = load(path, dump)
    operations = needed_operations(loaded)
    shapes: Mapping[str, Any] = dump.get("input_shape") or {}
    graph = _with_shapes(loaded.graph, shapes) if shapes else loaded.graph
    for each in inputs_of(operations):
        tensor = graph.get_tensor_by_name(f"{each.name}:0")
        yield SizedTensor(each.name, INPUT_TYPE, each.name, _bytes(tensor))
    found = [graph.get_operation_by_name(op.name) for op in operations]
    for tensor, reason in tensors_of(graph, found):
        if not reason:
            yield SizedTensor(tensor.op.name, tensor.op.type, tensor.name, _bytes(tensor))


def _with_shapes(graph: Any, shapes: Mapping[str, Sequence[int]]) -> Any:
    """Return the graph with inputs of some shapes: imported again, for shapes are inferred when operators are made."""
    definition = graph.as_graph_def()
    for node in definition.node:
        node.attr.pop("_output_shapes", None)
        if node.name in shapes:
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(shapes[node.name]).as_proto())
    again = tf.Graph()
    with again.as_default():
        tf.graph_util.import_graph_def(definition, name="")
    return again


def _bytes(tensor: Any) -> int | None:
    if tensor.shape.rank is None or None in tensor.shape.as_list():
        return None
    sizes: list[int] = tensor.shape.as_list()
    return math.prod(sizes) * max(1, int(tensor.dtype.size))


if __name__ == "__main__":
    main(sized)
