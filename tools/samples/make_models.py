"""Write the sample of models: ``python tools/samples/make_models.py FOLDER``, to be packed into those of `offline`.

Needs onnx, onnxruntime, opencv and tensorflow.

A small convolution network in float32, and the same quantised by onnxruntime's own tool, with one scale halved: what is
above the new range is cut off behind the second convolution. `sample.onnx`, `sample.prototxt`
with `sample.caffemodel`, and `sample.pb` are the model of the offline samples.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import caffe_golden
import numpy as np
import onnx
import tensorflow_golden
from offline_layers import image
from offline_layers import network as sample_layers
from onnx import TensorProto, helper, numpy_helper
from onnx_golden import network_model
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

SHAPE = (1, 3, 8, 8)
FAULTY = "c1_scale"


def network(layers: int = 3, channels: int = 8, seed: int = 0) -> onnx.ModelProto:
    random = np.random.default_rng(seed)
    nodes, weights, last = [], [], "x"

    def weight(name: str, value: Any) -> None:
        weights.append(numpy_helper.from_array(np.asarray(value, np.float32), name))

    for layer in range(layers):
        width = SHAPE[1] if not layer else channels
        weight(f"w{layer}", random.normal(size=(channels, width, 3, 3)) / np.sqrt(9 * width))
        weight(f"b{layer}", random.normal(size=(1, channels, 1, 1)))
        nodes += [
            helper.make_node("Conv", [last, f"w{layer}"], [f"c{layer}"], name=f"/block.{layer}/conv", pads=[1] * 4),
            helper.make_node("Add", [f"c{layer}", f"b{layer}"], [f"a{layer}"], name=f"/block.{layer}/add"),
            helper.make_node("Relu", [f"a{layer}"], [f"r{layer}"], name=f"/block.{layer}/relu"),
        ]
        last = f"r{layer}"
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["y"], name="/pool"))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, channels, 1, 1))
    graph = helper.make_graph(nodes, "network", [given], [result], weights)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, count: int = 4) -> None:
        self._inputs: Iterator[Any] = (np.random.default_rng(n).random(SHAPE, np.float32) for n in range(count))

    def get_next(self) -> dict[str, Any] | None:
        found = next(self._inputs, None)
        return None if found is None else {"x": found}


def quantised(source: Path, path: Path) -> onnx.ModelProto:
    """Quantise a model with the tool's usual options, and return the result."""
    kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    quantize_static(source, path, Calibration(), quant_format=QuantFormat.QDQ, **kinds)
    return onnx.load(path)


def rescaled(model: onnx.ModelProto, name: str, factor: float) -> onnx.ModelProto:
    """Return a model with one of its constants multiplied."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    (tensor,) = (each for each in changed.graph.initializer if each.name == name)
    value = numpy_helper.to_array(tensor)
    tensor.CopyFrom(numpy_helper.from_array((value * factor).astype(value.dtype), name))
    return changed


def main(root: Path) -> None:
    folder = root / "models"
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(network(), folder / "float.onnx")
    model = quantised(folder / "float.onnx", folder / "quantised.onnx")
    onnx.save(rescaled(model, FAULTY, 0.5), folder / "quantised.onnx")
    sample, _ = network_model(sample_layers(), image())
    del sample.graph.output[:-1]
    onnx.save(sample, folder / "sample.onnx")
    text, content = caffe_golden.model(sample_layers(), image())
    (folder / "sample.prototxt").write_text(text, encoding="utf-8")
    (folder / "sample.caffemodel").write_bytes(content)
    (folder / "sample.pb").write_bytes(tensorflow_golden.frozen(sample_layers(), image()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
