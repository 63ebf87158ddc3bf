"""Small ONNX models, made by code from a seed, and what ONNX Runtime itself gives for them when asked directly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

IR, OPSET = 10, 21


def info(name: str, kind: int = TensorProto.FLOAT, shape: Sequence[int | str] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    weights: Mapping[str, Any] | None = None,
    **more: Any,
) -> onnx.ModelProto:
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in (weights or {}).items()]
    described = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, described, constants)
    domains = [helper.make_opsetid("", OPSET), *(helper.make_opsetid(name, 1) for name in more.pop("domains", ()))]
    return helper.make_model(graph, ir_version=more.pop("ir_version", IR), opset_imports=domains, **more)


def convolutions(layers: int = 3, channels: int = 8, seed: int = 0) -> onnx.ModelProto:
    """Layers of convolution, shift and rectifier, with names as exporters give them, then a mean."""
    random = np.random.default_rng(seed)
    nodes, weights, last = [], {}, "x"
    for layer in range(layers):
        width = 3 if not layer else channels
        weights[f"w{layer}"] = (random.normal(size=(channels, width, 3, 3)) / np.sqrt(9 * width)).astype(np.float32)
        weights[f"b{layer}"] = random.normal(size=(1, channels, 1, 1)).astype(np.float32)
        nodes += [
            helper.make_node("Conv", [last, f"w{layer}"], [f"c{layer}"], name=f"/block.{layer}/conv", pads=[1] * 4),
            helper.make_node("Add", [f"c{layer}", f"b{layer}"], [f"a{layer}"], name=f"/block.{layer}/add"),
            helper.make_node("Relu", [f"a{layer}"], [f"r{layer}"], name=f"/block.{layer}/relu"),
        ]
        last = f"r{layer}"
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["y"], name="/pool"))
    return model(nodes, [info("x", shape=["N", 3, 8, 8])], ["y"], weights)


def asked_directly(made: onnx.ModelProto, feeds: Mapping[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """Return all tensors of a model by name: all outputs of one run, optimisations off."""
    whole = onnx.ModelProto()
    whole.CopyFrom(made)
    names = {each.name for each in whole.graph.output}
    for node in whole.graph.node:
        for name in node.output:
            if name and name not in names:
                names.add(name)
                whole.graph.output.append(onnx.ValueInfoProto(name=name))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    if folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    session = ort.InferenceSession(whole.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs = [each.name for each in session.get_outputs()]
    return dict(zip(outputs, session.run(outputs, dict(feeds)), strict=True))
