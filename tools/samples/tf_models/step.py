"""A training step as `dump.tensorflow_training` runs it: three dense layers, cross entropy, plain gradient descent.

`model` builds the graph, and returns what the step is asked for and what it is fed. Weights and inputs are fixed. With
`use_resource=False` the variables are those of TensorFlow 1, as they are in a script that begins with
`tf.disable_v2_behavior()`.
"""

import numpy as np
import tensorflow.compat.v1 as tf

SEED = 20260101


def model():
    random = np.random.default_rng(SEED)
    x = tf.placeholder(tf.float32, [8, 20], name="input/x")
    labels = tf.placeholder(tf.float32, [8, 5], name="input/labels")
    y = x
    for layer, rows, columns in (("dense1", 20, 32), ("dense2", 32, 16), ("logits", 16, 5)):
        kernel = random.normal(scale=rows**-0.5, size=(rows, columns)).astype("f4")
        bias = random.normal(scale=0.2, size=columns).astype("f4")
        w = tf.get_variable(f"{layer}/kernel", initializer=kernel, use_resource=False)
        b = tf.get_variable(f"{layer}/bias", initializer=bias, use_resource=False)
        y = tf.nn.bias_add(tf.matmul(y, w, name=f"{layer}/MatMul"), b, name=f"{layer}/BiasAdd")
        if layer == "dense1":
            y = tf.nn.relu(y, name=f"{layer}/Relu")
        elif layer == "dense2":
            y = tf.nn.tanh(y, name=f"{layer}/Tanh")
    each = tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=y, labels=labels, name="loss/xent").loss
    loss = tf.reduce_mean(each, name="loss/mean")
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return [loss, train], {
        x: random.normal(size=(8, 20)).astype("f4"),
        labels: np.eye(5, dtype="f4")[random.integers(0, 5, 8)],
    }
