"""Build the sample network as a Caffe model, in Caffe's own two files, and run it with OpenCV's reader of them.

Layers are not computed in place: an in-place layer overwrites what the layer before it gave, and nothing would be left
to compare that with. A batch norm of inference is a ``Scale`` layer here: one factor and one shift a channel.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import cv2
import numpy as np
from offline_golden import Golden
from offline_layers import EPSILON, INPUT, Array, Layer

_TEXTS = {
    "conv": "Convolution", "bn": "Scale", "relu": "ReLU", "pool": "Pooling", "add": "Eltwise", "gap": "Pooling",
    "fc": "InnerProduct", "softmax": "Softmax",
}  # fmt: skip


def run(layers: Sequence[Layer], x: Array) -> Golden:
    """Return the outputs of all layers."""
    text, content = model(layers, x)
    files = (np.frombuffer(each, np.uint8) for each in (text.encode(), content))
    net = cv2.dnn.readNetFromCaffe(*files)
    net.enableFusion(fusion=False)
    net.setInput(x, INPUT)
    names = [layer.name for layer in layers]
    found = [np.array(values) for values in net.forward(names)]
    return Golden(dict(zip(names, found, strict=True)), {name: (name,) for name in names})


def model(layers: Sequence[Layer], x: Array) -> tuple[str, bytes]:
    """Return the text of the network, and its weights."""
    return _prototxt(layers, x), _weights(layers)


def _prototxt(layers: Sequence[Layer], x: Array) -> str:
    dims = " ".join(f"dim: {size}" for size in x.shape)
    lines = [f'name: "sample" input: "{INPUT}" input_shape {{ {dims} }}']
    for layer in layers:
        bottoms = " ".join(f'bottom: "{name}"' for name in layer.inputs)
        head = f'name: "{layer.name}" type: "{_TEXTS[layer.kind]}"'
        lines.append(f'layer {{ {head} {bottoms} top: "{layer.name}" {_options(layer)} }}')
    return "\n".join(lines)


def _options(layer: Layer) -> str:
    if layer.kind == "conv":
        count, _, size, _ = layer.weights[0].shape
        has_bias = "true" if len(layer.weights) > 1 else "false"
        return f"convolution_param {{ num_output: {count} kernel_size: {size} pad: {size // 2} bias_term: {has_bias} }}"
    if layer.kind == "fc":
        return f"inner_product_param {{ num_output: {layer.weights[0].shape[1]} }}"
    return {
        "bn": "scale_param { bias_term: true }",
        "pool": "pooling_param { pool: MAX kernel_size: 2 stride: 2 }",
        "gap": "pooling_param { pool: AVE global_pooling: true }",
        "add": "eltwise_param { operation: SUM }",
    }.get(layer.kind, "")


def _weights(layers: Sequence[Layer]) -> bytes:
    """Return a NetParameter message: layer = 100 {name = 1, type = 2, blobs = 7 {data = 5, shape = 7 {dim = 1}}}."""
    content = b""
    for layer in layers:
        message = _field(1, layer.name.encode()) + _field(2, _TEXTS[layer.kind].encode())
        for blob in _blobs(layer):
            shape = b"".join(_varint(size) for size in blob.shape)
            data = np.ascontiguousarray(blob, "<f4").tobytes()
            message += _field(7, _field(5, data) + _field(7, _field(1, shape)))
        content += _field(100, message)
    return content


def _blobs(layer: Layer) -> tuple[Array, ...]:
    if layer.kind == "fc":
        return layer.weights[0].T, layer.weights[1]
    if layer.kind == "bn":
        scale, shift, mean, variance = layer.weights
        factor = scale / np.sqrt(variance + np.float32(EPSILON))
        return factor, shift - mean * factor
    return layer.weights


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = b""
    while value > 0x7F:
        encoded += struct.pack("B", value & 0x7F | 0x80)
        value >>= 7
    return encoded + struct.pack("B", value)
