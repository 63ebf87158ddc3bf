"""What a TensorFlow dump costs, beside the way of msprobe's manual: a session in tfdbg, then one `pt` for each tensor.

Run it by ``python -m benchmarks.tensorflow_dump [FOLDER]`` where TensorFlow is installed; FOLDER is emptied after each
run. The two take turns, each in a process of its own that has imported TensorFlow. `extract` is the tool itself,
``python -m tensorflow.python.debug.cli.offline_analyzer``, which imports TensorFlow again; `print` the same commands in
the process that ran the session. The arrays are compared bit by bit.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ways import run_in_turn, start

LAYERS, WIDTH, BATCH = 30, 512, 512
OURS, EXTRACT, PRINT = "dump.tensorflow", "tfdbg, extract", "tfdbg, print"
_ANALYZER = "tensorflow.python.debug.cli.offline_analyzer"


def build(tf: Any) -> bytes:
    """Return a frozen graph: 30 dense layers, each of which gives three tensors of 1 MiB."""
    random = np.random.default_rng(0)
    graph = tf.Graph()
    with graph.as_default():
        value = tf.compat.v1.placeholder(tf.float32, (BATCH, WIDTH), name="x")
        for layer in range(LAYERS):
            weight = tf.constant(
                (random.normal(size=(WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32), name=f"{layer}/w"
            )
            bias = tf.constant(random.normal(size=WIDTH).astype(np.float32), name=f"{layer}/b")
            value = tf.nn.bias_add(tf.matmul(value, weight, name=f"{layer}/product"), bias, name=f"{layer}/sum")
            value = tf.nn.relu(value, name=f"{layer}/relu")
        tf.reduce_sum(value, name="y")
    return graph.as_graph_def().SerializeToString()  # type: ignore[no-any-return]


def cpu_s() -> float:
    """Return the CPU seconds of this process and of those that it waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def dump(folder: Path) -> tuple[float, float]:
    """Run our stage's job, and return the CPU seconds of its step and of everything."""
    from probe_flow.dumpers.base.child import run_job
    from probe_flow.dumpers.base.job import ModelJob
    from probe_flow.dumpers.tensorflow.runner import TensorFlowRunner

    step = []

    class Timed(TensorFlowRunner):
        def step(self, args: Any, kwargs: Any) -> None:
            before = cpu_s()
            super().step(args, kwargs)
            step.append(cpu_s() - before)

    job = ModelJob("tensorflow", str(folder / "net.pb"), {"files": [str(folder / "x.npy")]}, str(folder), threads=1)
    before = cpu_s()
    run_job(job, Timed(job, folder / "arrays"))
    return step[0], cpu_s() - before


def debug(tf: Any, folder: Path, *, in_process: bool) -> tuple[float, float]:
    """Run the graph in tfdbg, extract each tensor, and return the CPU seconds without and with the graph's import."""
    from tensorflow.python.debug.wrappers.dumping_wrapper import DumpingDebugWrapperSession

    from probe_flow.dumpers.tensorflow.graphs import load

    begin = cpu_s()
    graph = load(folder / "net.pb", {}).graph
    before = cpu_s()
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    session = DumpingDebugWrapperSession(tf.compat.v1.Session(graph=graph, config=config), str(folder / "runs"))
    session.run("y:0", {"x:0": np.load(folder / "x.npy")})
    (run,) = (folder / "runs").glob("run_*")
    (folder / "arrays").mkdir()
    names = [tensor.name for op in graph.get_operations() for tensor in op.outputs if op.type != "Placeholder"]
    files = [folder / "arrays" / f"{name.replace('/', '_').replace(':', '.')}.1.npy" for name in names]
    commands = [f"pt {name} -n 0 -w {file}" for name, file in zip(names, files, strict=True)]
    if in_process:
        _print(run, commands)
    else:
        tool = [sys.executable, "-m", _ANALYZER, "--ui_type", "readline", "--dump_dir", str(run)]
        given = "\n".join(["lt", *commands, "exit", ""])
        subprocess.run(tool, input=given, check=True, capture_output=True, text=True)
    return cpu_s() - before, cpu_s() - begin


def _print(run: Path, commands: list[str]) -> None:
    from tensorflow.python.debug.cli import analyzer_cli
    from tensorflow.python.debug.lib.debug_data import DebugDumpDir

    prompt = analyzer_cli.create_analyzer_ui(DebugDumpDir(str(run)), ui_type="readline")
    with contextlib.redirect_stdout(io.StringIO()):
        for command in commands:
            prompt._dispatch_command(command)


def one(way: str, folder: Path) -> None:
    """Make one dump and print the CPU seconds of the step and of everything behind the import of TensorFlow."""
    from probe_flow.dumpers.tensorflow.library import tf

    (folder / "net.pb").write_bytes(build(tf))
    np.save(folder / "x.npy", np.random.default_rng(1).random((BATCH, WIDTH), np.float32))
    print(*(dump(folder) if way == OURS else debug(tf, folder, in_process=way == PRINT)))


def arrays(folder: Path) -> dict[str, bytes]:
    """Return what was dumped of each tensor that is computed."""
    found = {path.name.rsplit(".", 2)[0]: path.read_bytes() for path in (folder / "arrays").glob("*.npy")}
    return {name: content for name, content in found.items() if name != "x.0"}


def compared(folders: Mapping[str, Path]) -> str:
    """Return how many tensors of all dumps are equal bit by bit."""
    ours, *others = map(arrays, folders.values())
    same = sum(all(each == other.get(name) for other in others) for name, each in ours.items())
    return f"{same} of {len(ours)} tensors are equal"


def main(root: Path) -> None:
    for way, (step, whole) in run_in_turn("benchmarks.tensorflow_dump", (OURS, EXTRACT, PRINT), root, compared):
        print(f"{way:16} CPU of the step {step:.2f} s, with the import of the graph {whole:.2f} s")


if __name__ == "__main__":
    start(one, main)
