"""What an ONNX dump costs: time and memory beside one run of all outputs, which is what msprobe does.

Run it by ``python -m benchmarks.onnx_dump [FOLDER]`` where onnxruntime is installed; FOLDER is emptied after each run.
The two take turns, each in a process of its own that has imported the same modules; the arrays are compared bit by bit.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ways import run_in_turn, start

TENSORS, SHAPE = 80, (2048, 1024)
OURS, WHOLE = "segments", "one run"


def build() -> Any:
    """Return a chain of operators, each of which gives 8 MiB."""
    from onnx import TensorProto, helper, numpy_helper

    names = ["x", *(f"t{number}" for number in range(TENSORS))]
    nodes = [
        helper.make_node("Add" if number % 2 else "Relu", [before, "w"] if number % 2 else [before], [after], after)
        for number, (before, after) in enumerate(pairwise(names))
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)
    result = helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, SHAPE)
    weight = numpy_helper.from_array(np.ones((1, SHAPE[1]), np.float32), "w")
    graph = helper.make_graph(nodes, "chain", [given], [result], [weight])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def one(way: str, folder: Path) -> None:
    """Make one dump and print CPU seconds, wall seconds and MiB above the process with its imports."""
    import onnx
    import onnxruntime

    from probe_flow.dumpers.base.child import run_job
    from probe_flow.dumpers.base.job import ModelJob
    from probe_flow.dumpers.onnx.runner import OnnxRunner

    model = build()
    onnx.save(model, folder / "model.onnx")
    x = np.random.default_rng(0).random(SHAPE, np.float32)
    np.save(folder / "x.npy", x)
    before, cpu, wall = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time(), time.perf_counter()
    if way == OURS:
        job = ModelJob("onnx", str(folder / "model.onnx"), {"files": [str(folder / "x.npy")]}, str(folder))
        run_job(job, OnnxRunner(job, folder / "onnx_dump"))
    else:
        (folder / "onnx_dump").mkdir()
        del model.graph.output[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=node.output[0]) for node in model.graph.node)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_outputs()]
        for name, value in zip(names, session.run(names, {"x": x}), strict=True):
            np.save(folder / "onnx_dump" / f"{name}.0.{time.time_ns() // 1000}.npy", value)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(time.process_time() - cpu, time.perf_counter() - wall, peak / 1024)


def compared(folders: Mapping[str, Path]) -> str:
    """Return how many tensors of the two dumps are not equal bit by bit."""
    ours, theirs = (
        {path.name.split(".")[0]: path for path in (each / "onnx_dump").glob("t*.npy")} for each in folders.values()
    )
    assert ours.keys() == theirs.keys()
    differing = sum(path.read_bytes() != theirs[name].read_bytes() for name, path in ours.items())
    return f"{differing} of {TENSORS} tensors differ"


def main(root: Path) -> None:
    for way, (cpu, wall, memory) in run_in_turn("benchmarks.onnx_dump", (OURS, WHOLE), root, compared):
        print(f"{way:9}  CPU {cpu:.2f} s  wall {wall:.2f} s  {memory:.0f} MiB above the bare process")


if __name__ == "__main__":
    start(one, main)
