"""About how many bytes the dump of an ONNX model has, by its shapes: a process of its own, which imports onnx only.

``python -m probe_flow.dumpers.onnx.estimate MODEL SHAPES``, with the shapes of inputs as JSON; prints the number, or
nothing where shapes leave it open.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from probe_flow.dumpers.onnx.model_file import read_model
from probe_flow.dumpers.onnx.sizes import tensor_sizes


def dumped_bytes(path: Path, shapes: dict[str, list[int]]) -> int | None:
    """Return the bytes of all tensors that nodes give; None where some are not known."""
    model = read_model(path)
    given = {each.name: each for each in model.graph.input}
    known = tensor_sizes(model, {name: shape for name, shape in shapes.items() if name in given})
    names = [name for node in model.graph.node for name in node.output if name]
    return sum(known[name] for name in names) if all(name in known for name in names) else None


if __name__ == "__main__":
    found = dumped_bytes(Path(sys.argv[1]), json.loads(sys.argv[2]))
    sys.stdout.write("" if found is None else str(found))
