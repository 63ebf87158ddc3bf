"""Run one training step under TensorFlow's debugger: ``python tf_step.py FOLDER`` leaves its runs there.

Three dense layers, softmax with cross entropy, plain gradient descent; weights and inputs are fixed. Rewrites of the
graph are off, so that every operator of the user's graph is dumped under its own name.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

SEED = 20260101


def main(folder: Path) -> None:
    import numpy as np
    import tensorflow as tf
    from tensorflow.python.debug.wrappers.dumping_wrapper import DumpingDebugWrapperSession

    v1 = tf.compat.v1
    v1.disable_eager_execution()
    random = np.random.default_rng(SEED)
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    with tf.Graph().as_default(), v1.Session(config=config) as session:
        x = v1.placeholder(tf.float32, [8, 20], name="input/x")
        labels = v1.placeholder(tf.float32, [8, 5], name="input/labels")
        y = x
        for layer, rows, columns in (("dense1", 20, 32), ("dense2", 32, 16), ("logits", 16, 5)):
            kernel = random.normal(scale=rows**-0.5, size=(rows, columns)).astype("f4")
            bias = random.normal(scale=0.2, size=columns).astype("f4")
            w = v1.get_variable(f"{layer}/kernel", initializer=kernel, use_resource=False)
            b = v1.get_variable(f"{layer}/bias", initializer=bias, use_resource=False)
            y = tf.nn.bias_add(tf.matmul(y, w, name=f"{layer}/MatMul"), b, name=f"{layer}/BiasAdd")
            if layer == "dense1":
                y = tf.nn.relu(y, name=f"{layer}/Relu")
            elif layer == "dense2":
                y = tf.nn.tanh(y, name=f"{layer}/Tanh")
        each = tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=y, labels=labels, name="loss/xent").loss
        loss = tf.reduce_mean(each, name="loss/mean")
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        session.run(v1.global_variables_initializer())
        fed = {x: random.normal(size=(8, 20)).astype("f4"), labels: np.eye(5, dtype="f4")[random.integers(0, 5, 8)]}
        DumpingDebugWrapperSession(session, str(folder)).run([loss, train], fed)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
