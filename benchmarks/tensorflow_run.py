"""One step of a network of 30 layers under TensorFlow's debugger: ``python tensorflow_run.py FOLDER LAYERS``.

It leaves ``FOLDER/run_...``: 5 tensors a layer and the input, 106 MB of 30 layers. It is a process of its own, since
TensorFlow changes the process that imports it.
"""

from __future__ import annotations

import os
import sys

WIDTH, BATCH = 420, 560


def main(folder: str, layers: int) -> None:
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    import numpy as np
    import tensorflow as tf
    from tensorflow.python.debug.wrappers.dumping_wrapper import DumpingDebugWrapperSession

    v1 = tf.compat.v1
    v1.disable_eager_execution()
    random = np.random.default_rng(1)
    x = v1.placeholder(tf.float32, [BATCH, WIDTH], name="x")
    y = x
    for number in range(layers):
        weights = random.standard_normal((WIDTH, WIDTH)).astype("f4") / WIDTH**0.5
        kernel = tf.constant(weights, name=f"layer{number}/kernel")
        bias = tf.constant(random.standard_normal(WIDTH).astype("f4"), name=f"layer{number}/bias")
        product = tf.matmul(y, kernel, name=f"layer{number}/MatMul")
        y = tf.nn.relu(tf.nn.bias_add(product, bias, name=f"layer{number}/BiasAdd"), name=f"layer{number}/Relu")
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    with v1.Session(config=config) as plain:
        session = DumpingDebugWrapperSession(plain, folder)
        session.run(y, {x: random.standard_normal((BATCH, WIDTH)).astype("f4")})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
