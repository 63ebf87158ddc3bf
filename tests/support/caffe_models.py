"""Small Caffe models: the text of a network, and its caffemodel written from the format, both from a seed.

NetParameter{1 name, 2 layers (V1), 100 layer}; LayerParameter{1 name, 2 type, 7 blobs}; V1LayerParameter{4 name, 6
blobs}; BlobProto{5 data, packed floats; 7 shape{1 dim, packed}}.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

NETWORK = """
name: "net"  # one blob for four layers
input: "data"
input_shape { dim: 1 dim: 3 dim: 6 dim: 6 }
layer { name: "label" type: "Data" top: "label" include { phase: TRAIN } }
layer { name: "conv1/a.b" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
layer { name: "bn1" type: "BatchNorm" bottom: "conv1" top: "conv1"
  batch_norm_param { use_global_stats: true eps: 1e-5 } }
layer { name: "scale1" type: "Scale" bottom: "conv1" top: "conv1" scale_param { bias_term: true } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "drop1" type: "Dropout" bottom: "conv1" top: "conv1" dropout_param { dropout_ratio: 0.5 } }
layer { name: "cut" type: "Slice" bottom: "conv1" top: "first" top: "rest" slice_param { axis: 1 slice_point: 1 } }
layer { name: "pool" type: "Pooling" bottom: "rest" top: "pool" pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "fc" type: "InnerProduct" bottom: "pool" top: "fc" inner_product_param { num_output: 5 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "fc" bottom: "label" top: "accuracy" include { phase: TEST } }
"""

OLD_NETWORK = """
name: "old"
input: "data" input_dim: 1 input_dim: 2 input_dim: 4 input_dim: 4
layers { name: "conv" type: CONVOLUTION bottom: "data" top: "conv" blobs_lr: 1
  convolution_param { num_output: 2 kernel_size: 1 } }
layers { name: "relu" type: RELU bottom: "conv" top: "conv" }
layers { name: "prob" type: SOFTMAX bottom: "conv" top: "prob" }
"""


def weights(seed: int = 0) -> dict[str, list[Any]]:
    """Return the blobs of `NETWORK` by layer."""
    random = np.random.default_rng(seed)
    return {
        "conv1/a.b": [random.normal(size=(4, 3, 3, 3)), random.normal(size=4)],
        "bn1": [random.normal(size=4), random.uniform(0.5, 2, 4), np.array([2.0])],
        "scale1": [random.uniform(0.5, 2, 4), random.normal(size=4)],
        "fc": [random.normal(size=(5, 27)), random.normal(size=5)],
    }


def caffemodel(blobs: Mapping[str, Sequence[Any]], *, is_old: bool = False) -> bytes:
    name_field, blob_field, layer_field = (4, 6, 2) if is_old else (1, 7, 100)
    content = _field(1, b"net")
    for name, values in blobs.items():
        message = _field(name_field, name.encode())
        for value in values:
            shape = b"".join(_varint(size) for size in np.shape(value))
            message += _field(blob_field, _field(5, np.asarray(value, "<f4").tobytes()) + _field(7, _field(1, shape)))
        content += _field(layer_field, message)
    return content


def old_shaped_blob(layer: str, sizes: tuple[int, int, int, int]) -> bytes:
    """Return a caffemodel of one layer of the older form, whose blob has its shape in BlobProto{1 num, ... 4 width}."""
    shape = b"".join(_varint(number << 3) + _varint(size) for number, size in enumerate(sizes, 1))
    blob = shape + _field(5, b"\0" * (4 * int(np.prod(sizes))))
    return _field(2, _field(4, layer.encode()) + _field(6, blob))


def write_model(
    folder: Path, text: str = NETWORK, blobs: Mapping[str, Sequence[Any]] | None = None
) -> tuple[Path, Path]:
    """Write both files and return their paths."""
    is_old = "layers {" in text
    (folder / "net.prototxt").write_text(text, encoding="utf-8")
    (folder / "net.caffemodel").write_bytes(caffemodel(weights() if blobs is None else blobs, is_old=is_old))
    return folder / "net.prototxt", folder / "net.caffemodel"


def expected(x: Any, blobs: Mapping[str, Sequence[Any]]) -> dict[tuple[str, int], Any]:
    """Return what each layer of `NETWORK` gives, by Caffe's formulas in float64."""
    values = {name: [np.asarray(each, np.float32).astype(np.float64) for each in of] for name, of in blobs.items()}
    x = np.asarray(x, np.float64)
    kernel, bias = values["conv1/a.b"]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    conv = np.einsum("nchwij,ocij->nohw", windows, kernel) + bias[:, None, None]
    mean, variance, factor = values["bn1"]
    mean, variance = mean / factor, variance / factor
    normal = (conv - mean[:, None, None]) / np.sqrt(variance[:, None, None] + 1e-5)
    scaled = normal * values["scale1"][0][:, None, None] + values["scale1"][1][:, None, None]
    relu = np.maximum(scaled, 0.0)
    rest = relu[:, 1:]
    wide = np.pad(rest, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=-np.inf)  # pooling rounds sizes up
    pool = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::2, ::2].max((-1, -2))
    fc = pool.reshape(1, -1) @ values["fc"][0].T + values["fc"][1]
    power = np.exp(fc - fc.max())
    return {
        ("conv1/a.b", 0): conv, ("bn1", 0): normal, ("scale1", 0): scaled, ("relu1", 0): relu, ("drop1", 0): relu,
        ("cut", 0): relu[:, :1], ("cut", 1): rest, ("pool", 0): pool, ("fc", 0): fc, ("loss", 0): power / power.sum(),
    }  # fmt: skip


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = b""
    while value > 0x7F:
        encoded += struct.pack("B", value & 0x7F | 0x80)
        value >>= 7
    return encoded + struct.pack("B", value)
