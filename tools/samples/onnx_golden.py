"""Build the sample network as an ONNX model and run it with onnxruntime, every intermediate included."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnxruntime
from offline_golden import Golden
from offline_layers import EPSILON, INPUT, Array, Layer
from onnx import TensorProto, helper, numpy_helper

_TYPES = {
    "conv": "Conv", "bn": "BatchNormalization", "relu": "Relu", "pool": "MaxPool", "add": "Add",
    "gap": "GlobalAveragePool", "fc": "Gemm", "softmax": "Softmax",
}  # fmt: skip


def run(layers: Sequence[Layer], x: Array) -> Golden:
    """Return the outputs of all nodes."""
    model, originals = network_model(layers, x)
    names = [each.name for each in model.graph.output]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return Golden(dict(zip(names, session.run(names, {INPUT: x}), strict=True)), originals)


def network_model(layers: Sequence[Layer], x: Array) -> tuple[onnx.ModelProto, dict[str, tuple[str, ...]]]:
    """Return the model, whose outputs are those of all nodes, and the nodes of each layer."""
    nodes, weights, originals = [], [], {}
    for layer in layers:
        inputs, originals[layer.name] = list(layer.inputs), (layer.name,)
        if layer.kind == "fc":
            nodes.append(helper.make_node("Flatten", inputs, ["flatten"], name="flatten"))
            inputs, originals[layer.name] = ["flatten"], ("flatten", layer.name)
        for number, weight in enumerate(layer.weights):
            inputs.append(f"{layer.name}.{number}")
            weights.append(numpy_helper.from_array(weight, inputs[-1]))
        nodes.append(helper.make_node(_TYPES[layer.kind], inputs, [layer.name], name=layer.name, **_attributes(layer)))
    names = [node.output[0] for node in nodes]
    graph = helper.make_graph(
        nodes,
        "sample",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, x.shape)],
        [helper.make_empty_tensor_value_info(name) for name in names],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model), originals


def _attributes(layer: Layer) -> dict[str, object]:
    if layer.kind == "conv":
        return {"pads": [layer.weights[0].shape[2] // 2] * 4}
    if layer.kind == "pool":
        return {"kernel_shape": [2, 2], "strides": [2, 2]}
    return {"epsilon": EPSILON} if layer.kind == "bn" else {}
