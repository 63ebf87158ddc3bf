"""About how many bytes the dump of an ONNX model has, by its shapes: a process of its own, which imports onnx only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from probe_flow.dumpers.arrays.estimate import SizedTensor, main
from probe_flow.dumpers.onnx.graph import operators
from probe_flow.dumpers.onnx.model_file import read_model
from probe_flow.dumpers.onnx.sizes import tensor_sizes


def sized(path: Path, dump: Mapping[str, Any]) -> Iterator[SizedTensor]:
    """Yield the tensors that nodes give, and the inputs."""
    model = read_model(path)
    given = {each.name for each in model.graph.input}
    shapes = {name: shape for name, shape in (dump.get("input_shape") or {}).items() if name in given}
    known = tensor_sizes(model, shapes)
    weights = {each.name for each in model.graph.initializer}
    for name in (each.name for each in model.graph.input if each.name not in weights):
        yield SizedTensor(name, "Input", name, known.get(name))
    for operator in operators(model.graph):
        for name in operator.gives:
            yield SizedTensor(operator.name, str(operator.proto.op_type), name, known.get(name))


if __name__ == "__main__":
    main(sized)
