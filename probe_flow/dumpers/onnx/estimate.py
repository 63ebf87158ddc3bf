"""About how many bytes the dump of an ONNX model has, by its shapes: a process of its own, which imports onnx only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from probe_flow.dumpers.arrays.estimate import SizedTensor, main
from probe_flow.dumpers.onnx.codes import OP_TYPE, SUFFIX, quantisations
from probe_flow.dumpers.onnx.graph import operators
from probe_flow.dumpers.onnx.model_file import read_model
from probe_flow.dumpers.onnx.sizes import tensor_sizes


def sized(path: Path, dump: Mapping[str, Any]) -> Iterator[SizedTensor]:
    """Yield the tensors that nodes give, and the inputs."""
    model = read_model(path)
    given = {each.name for each in model.graph.input}
    shapes = {name: shape for name, shape in (dump.get("input_shape") or {}).items() if name in given}
    is_double = dump.get("precision") == "float64"
    known = tensor_sizes(model, shapes, is_double=is_double)
    weights = {each.name for each in model.graph.initializer}
    for name in (each.name for each in model.graph.input if each.name not in weights):
        yield SizedTensor(name, "Input", name, known.get(name))
    order = operators(model.graph)
    codes = {} if is_double else quantisations(model, order)
    for operator in order:
        for name in operator.gives:
            size = known.get(name)
            yield SizedTensor(operator.name, str(operator.proto.op_type), name, size)
            if name in codes:
                wide = size * codes[name].scale.itemsize if size is not None else None
                yield SizedTensor(f"{operator.name}{SUFFIX}", OP_TYPE, f"{name}{SUFFIX}", wide)


if __name__ == "__main__":
    main(sized)
