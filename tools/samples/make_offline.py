"""Make the bundled offline samples: ``python make_offline.py OUTPUT``; needs onnx, onnxruntime, opencv and tensorflow.

The golden sides are real: the sample network, built and run once in ONNX, Caffe and TensorFlow. The device side is the
same network as a graph compiler leaves it, run in float16. ``onnx``, ``caffe`` and ``tensorflow`` hold one target each
with a fault of its own, and ``healthy``; ``om`` holds the network with fusion off, as golden for the target of
``onnx``; ``quantised`` the network with an int8 convolution; ``training`` two devices of a training run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import caffe_golden
import numpy as np
import onnx_golden
import tensorflow_golden
from offline_golden import FIRST_US, Golden, write_golden
from offline_layers import INPUT, Array, image, network
from om_device import (
    FUSION_OFF,
    FUSION_ON,
    INT8_SCALE,
    QUANTISED,
    DeviceOp,
    rules,
    run_device,
    with_weights,
    write_rules,
)
from om_device import write_device as write_files

LAYERS = network()
LATER_US = FIRST_US + 500_000_000
TIME, GRAPH = "20260101000000", "ge_default_20260101000000_11"


def wrong_column(x: Array) -> Array:
    """One column of the fully connected layer is a third too large."""
    wrong = x.copy()
    wrong[:, 3] *= 1.3
    return wrong


def wrong_border(x: Array) -> Array:
    """The last row of each image was padded with what lay there before."""
    wrong = x.copy()
    wrong[:, :, -1, :] = wrong[:, :, 0, :]
    return wrong


def lost_relu(x: Array) -> Array:
    """Channels from 16 on, the second block of 16, are shifted."""
    wrong = x.copy()
    wrong[:, 16:] += 0.25
    return wrong


FAULTS: dict[str, dict[str, Callable[[Array], Array]]] = {
    "onnx": {"fc": wrong_column},
    "caffe": {"pool1": wrong_border},
    "tensorflow": {"block/conv2relu2": lost_relu},
}


def target(
    ops: Sequence[DeviceOp],
    golden: Golden,
    folder: Path,
    *,
    tamper: dict[str, Any] | None = None,
    first_us: int = FIRST_US,
) -> dict[str, Any]:
    """Write a device dump and return its rules."""
    listed = with_weights(ops, LAYERS)
    found = run_device(listed, LAYERS, image(), tamper or {})
    write_files(listed, found, folder, layout=golden.layout, first_us=first_us)
    return rules("sample", listed, found, golden)


def make_framework(name: str, golden: Golden, root: Path) -> None:
    """Write golden, a faulty target, a healthy one and their rules."""
    write_golden(golden, root / "golden")
    write_rules(target(FUSION_ON, golden, root / "target", tamper=FAULTS[name]), root / "fusion_rule.json")
    target(FUSION_ON, golden, root / "healthy")


def make_om(golden: Golden, root: Path) -> None:
    """Write the golden side of a comparison between two device dumps, and the rules of its graph."""
    root.mkdir(parents=True)
    found = target(FUSION_OFF, golden, root / "golden", first_us=LATER_US)
    write_rules(found, root / "close_fusion_rule.json")


def make_quantised(golden: Golden, root: Path) -> None:
    """Write a device dump with an int8 convolution, its rules, and those of the quantisation."""
    write_rules(target(QUANTISED, golden, root / "target"), root / "fusion_rule.json")
    write_rules(quantisation(golden), root / "quant_fusion_rule.json")


def quantisation(golden: Golden) -> dict[str, Any]:
    """Return the rules that a quantisation tool writes: the quantised network with the names before it."""

    def described(dtype: str, values: Array, origin: str | None) -> dict[str, Any]:
        words = [
            {"key": "origin_format", "value": {"s": "NCHW"}},
            {"key": "origin_shape", "value": {"list": {"val_type": 2, "i": [*values.shape]}}},
        ]
        if origin is not None:
            words[:0] = [
                {"key": "_datadump_origin_name", "value": {"s": origin}},
                {"key": "_datadump_origin_output_index", "value": {"i": 0}},
                {"key": "_datadump_origin_format", "value": {"s": "NCHW"}},
            ]
        return {"dtype": dtype, "layout": "NCHW", "shape": {"dim": [*values.shape]}, "attr": words}

    def op(name: str, kind: str, inputs: list[str], originals: list[str], output: dict[str, Any]) -> dict[str, Any]:
        listed = {"key": "_datadump_original_op_names", "value": {"list": {"val_type": 1, "s": originals}}}
        several = [{"key": "_datadump_is_multiop", "value": {"b": True}}] if len(originals) > 1 else []
        return {"name": name, "type": kind, "input": inputs, "attr": [listed, *several], "output_desc": [output]}

    x, values = image(), golden.outputs
    both = ["conv1", "bn1"]
    ops = [
        op(INPUT, "Input", [], [INPUT], described("DT_FLOAT", x, INPUT)),
        op("conv1_quant_layer", "Quant", [f"{INPUT}:0"], both, described("DT_INT8", x, None)),
        op("conv1", "Convolution", ["conv1_quant_layer:0"], both, described("DT_INT32", values["conv1"], None)),
        op("conv1_dequant_layer", "DeQuant", ["conv1:0"], both, described("DT_FLOAT16", values["bn1"], "bn1")),
    ]
    inputs = {"relu1": "conv1_dequant_layer"}
    for layer in LAYERS[2:]:
        read = [f"{inputs.get(layer.name, name)}:0" for name in layer.inputs]
        ops.append(
            op(layer.name, layer.kind, read, [layer.name], described("DT_FLOAT", values[layer.name], layer.name))
        )
    for number, item in enumerate(ops, start=1):
        item["id"] = number
    return {"name": "sample", "graph": [{"name": "sample", "op": ops}]}


def make_training(golden: Golden, root: Path) -> None:
    """Write dumps of two devices of a training run, of which the second has a fault, and the rules of its graph."""
    write_golden(golden, root / "golden")
    (root / "rules").mkdir()
    content: dict[str, Any] = {}
    for device, tamper in enumerate(({}, {"block/shortcut": wrong_border})):
        folder = root / "target" / TIME / str(device) / GRAPH / "1" / "0"
        content = target(FUSION_ON, golden, folder, tamper=dict(tamper))
    content["name"] = content["graph"][0]["name"] = GRAPH
    write_rules(content, root / "rules" / f"{GRAPH}.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    output = parser.parse_args().output
    x = image()
    assert np.abs(x).max() < 128 * INT8_SCALE, "the scale of the int8 input is that of this image"
    runs = {"onnx": onnx_golden.run(LAYERS, x), "caffe": caffe_golden.run(LAYERS, x)}
    runs["tensorflow"] = tensorflow_golden.run(LAYERS, x)
    for name, golden in runs.items():
        make_framework(name, golden, output / name)
    make_om(runs["onnx"], output / "om")
    make_quantised(runs["onnx"], output / "quantised")
    make_training(runs["tensorflow"], output / "training")


if __name__ == "__main__":
    main()
