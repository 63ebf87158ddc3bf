"""One training step of a small TensorFlow graph under its debugger: ``python tensorflow_steps.py FOLDER CASE``.

Leaves ``FOLDER/runs`` (what the debugger wrote) and ``FOLDER/values.npz``: every tensor that the step needs as the same
session returns it when it is asked for it, under the keys ``name:slot``. It runs in a process of its own, since
TensorFlow changes the process that imports it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

LOWERED = {"While", "StatelessWhile", "If", "StatelessIf"}
"""Operators that TensorFlow replaces by the plain control flow in them before it runs."""

NUMERIC = {
    "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool", "complex64", "complex128",
}  # fmt: skip


def graph_of(case, tf, np):
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [4, 6], name="input/x")
    if case == "loop_v2":
        _, looped = tf.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, tf.multiply(a, 2.0, name="mul")), [tf.constant(0), x], name="loop"
        )
        branch = tf.cond(tf.reduce_sum(x) > 0, lambda: x * 3.0, lambda: x, name="branch")
        return x, [looped, branch]
    rng = np.random.default_rng(23)
    weight = v1.get_variable("dense/kernel", initializer=rng.normal(size=(6, 5)).astype("f4"), use_resource=False)
    bias = v1.get_variable("dense/bias", initializer=rng.normal(size=5).astype("f4"), use_resource=False)
    product = tf.matmul(x, weight, name="dense/MatMul")
    y = tf.nn.relu(tf.nn.bias_add(product, bias, name="dense/BiasAdd"), name="dense/Relu")
    parts = tf.split(y, [2, 3], axis=1, name="s.c/split")
    casts = [tf.cast(y * 3, name, name=f"cast/{name}") for name in sorted(NUMERIC - {"bool", "float32"})]
    found = [*parts, *casts, y > 1.0, tf.strings.as_string(y, name="text"), tf.identity(y[:0], name="empty")]
    loss = tf.reduce_mean(tf.square(y), name="loss")
    _, looped = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.0), [tf.constant(0), loss], name="loop")
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    return x, [*found, looped, train]


def events(folder: Path) -> None:
    """Run a function under TensorFlow 2's debugger; values are those that TensorFlow's own reader gives."""
    import numpy as np
    import tensorflow as tf
    from tensorflow.python.debug.lib.debug_events_reader import DebugDataReader

    tf.debugging.experimental.enable_dump_debug_info(str(folder / "runs"), "FULL_TENSOR", circular_buffer_size=-1)

    @tf.function
    def step(x, w):
        y = tf.nn.relu(tf.matmul(x, w, name="mm"), name="act")
        parts = tf.split(y, 2, axis=1, name="parts")
        return tf.reduce_sum(parts[1], name="sum"), tf.cast(y, tf.bfloat16, name="half")

    step(tf.ones([2, 3]), tf.reshape(tf.range(12.0), [3, 4]))
    tf.debugging.experimental.disable_dump_debug_info()
    values = {}
    with DebugDataReader(str(folder / "runs")) as reader:
        reader.update()
        for trace in reader.graph_execution_traces():
            value = np.asarray(reader.graph_execution_trace_to_tensor_value(trace))
            kept = value.view(np.uint16) if value.dtype.name == "bfloat16" else value
            values.setdefault(f"{trace.op_name}:{trace.output_slot}", kept)
    np.savez_compressed(folder / "values.npz", **values)


def main(folder: Path, case: str) -> None:
    if case == "events":
        events(folder)
        return
    import numpy as np
    import tensorflow as tf
    from tensorflow.python.debug.wrappers.dumping_wrapper import DumpingDebugWrapperSession

    v1 = tf.compat.v1
    v1.disable_eager_execution()
    (v1.enable_control_flow_v2 if case == "loop_v2" else v1.disable_control_flow_v2)()
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    with tf.Graph().as_default() as graph, v1.Session(config=config) as session:
        x, fetches = graph_of(case, tf, np)
        fed = {x: np.random.default_rng(24).normal(size=(4, 6)).astype("f4")}
        asked = [each if isinstance(each, tf.Operation) else each.op for each in tf.nest.flatten(fetches)]
        part = v1.graph_util.extract_sub_graph(graph.as_graph_def(), [op.name for op in asked])
        needed = {node.name for node in part.node}
        outside = [
            tensor
            for op in graph.get_operations()
            if op.name in needed and graph.is_fetchable(op) and op.type not in LOWERED
            if not op.name.endswith("maximum_iterations")  # goes with the loop
            for tensor in op.outputs
            if tensor.dtype.base_dtype.name in NUMERIC
            and not tensor.dtype._is_ref_dtype
            and op.type != "Merge"
            and op._get_control_flow_context() is None
            and not op.name.startswith(("Greater", "init"))
        ]
        session.run(v1.global_variables_initializer())
        # Before the step changes the variables.
        values = {tensor.name: session.run(tensor, fed) for tensor in outside}
        wrapped = DumpingDebugWrapperSession(session, str(folder / "runs"))
        wrapped.run(fetches, fed)
        if case == "two_runs":
            wrapped.run(fetches[-2:], fed)
        # numpy has no bfloat16 of its own: its bits are kept
        kept = {
            name: value.view(np.uint16) if value.dtype.name == "bfloat16" else value for name, value in values.items()
        }
        np.savez_compressed(folder / "values.npz", **kept)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
