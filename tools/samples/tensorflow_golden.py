"""Build the sample network as a TensorFlow graph, channels last, and run it, every operator included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from offline_golden import Golden
from offline_layers import EPSILON, INPUT, Array, Layer


def run(layers: Sequence[Layer], x: Array) -> Golden:
    """Return the outputs of all operators that compute something."""
    graph, originals = network_graph(layers, x)
    outputs = {name: f"{name}:0" for names in originals.values() for name in names}
    with tf.compat.v1.Session(graph=graph) as session:
        found = session.run(outputs, {f"{INPUT}:0": np.ascontiguousarray(x.transpose(0, 2, 3, 1))})
    return Golden(found, originals, layout="NHWC")


def frozen(layers: Sequence[Layer], x: Array) -> bytes:
    """Return the model as a frozen graph, the same bytes each time."""
    graph, _ = network_graph(layers, x)
    return bytes(graph.as_graph_def().SerializeToString(deterministic=True))


def network_graph(layers: Sequence[Layer], x: Array) -> tuple[tf.Graph, dict[str, tuple[str, ...]]]:
    """Return the graph, and the operators of each layer."""
    graph, originals = tf.Graph(), {}
    with graph.as_default():
        start = tf.compat.v1.placeholder(tf.float32, (1, *x.shape[2:], x.shape[1]), name=INPUT)
        tensors = {INPUT: start}
        for layer in layers:
            before = set(_names(graph))
            tensors[layer.name] = _build(layer, [tensors[name] for name in layer.inputs])
            originals[layer.name] = tuple(name for name in _names(graph) if name not in before)
    return graph, originals


def _names(graph: tf.Graph) -> list[str]:
    return [op.name for op in graph.get_operations() if op.type not in ("Const", "Identity", "Placeholder")]


def _build(layer: Layer, inputs: list[tf.Tensor]) -> tf.Tensor:
    name, weights = layer.name, layer.weights
    if layer.kind == "conv":
        kernel = tf.constant(weights[0].transpose(2, 3, 1, 0), name=f"{name}/kernel")
        if len(weights) == 1:
            return tf.raw_ops.Conv2D(input=inputs[0], filter=kernel, strides=[1] * 4, padding="SAME", name=name)
        found = tf.raw_ops.Conv2D(
            input=inputs[0], filter=kernel, strides=[1] * 4, padding="SAME", name=f"{name}/Conv2D"
        )
        return tf.raw_ops.BiasAdd(value=found, bias=tf.constant(weights[1]), name=name)
    if layer.kind == "bn":
        scale, shift, mean, variance = map(tf.constant, weights)
        return tf.raw_ops.FusedBatchNormV3(
            x=inputs[0], scale=scale, offset=shift, mean=mean, variance=variance, epsilon=EPSILON, is_training=False,
            name=name,
        ).y  # fmt: skip
    if layer.kind == "fc":
        flat = tf.reshape(inputs[0], [1, -1], name="flatten")
        return tf.raw_ops.BiasAdd(
            value=tf.raw_ops.MatMul(a=flat, b=tf.constant(weights[0]), name=f"{name}/MatMul"),
            bias=tf.constant(weights[1]),
            name=name,
        )
    return {
        "relu": lambda: tf.raw_ops.Relu(features=inputs[0], name=name),
        "pool": lambda: tf.raw_ops.MaxPool(
            input=inputs[0], ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID", name=name
        ),
        "add": lambda: tf.raw_ops.AddV2(x=inputs[0], y=inputs[1], name=name),
        "gap": lambda: tf.raw_ops.Mean(input=inputs[0], axis=[1, 2], keep_dims=True, name=name),
        "softmax": lambda: tf.raw_ops.Softmax(logits=inputs[0], name=name),
    }[layer.kind]()
