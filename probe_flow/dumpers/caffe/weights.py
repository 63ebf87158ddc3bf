"""The weights in a caffemodel: which layers have some, of which shapes, and whether these fit the network.

Sources: caffe.proto of BVLC Caffe; the shapes that ``LayerSetUp`` gives the blobs of each type of layer there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from probe_flow.dumpers.caffe.network import Layer
from probe_flow.files.binary_file import BinaryFile
from probe_flow.files.protobuf import DELIMITED, VARINT, Field, FileBytes, WireReader

Shape: TypeAlias = "tuple[int, ...]"

WHOLE_FILE = "it is no caffemodel, or was cut off: copy it again"

_NEW_LAYERS, _OLD_LAYERS = 100, 2
_NAME = {_NEW_LAYERS: 1, _OLD_LAYERS: 4}
_BLOBS = {_NEW_LAYERS: 7, _OLD_LAYERS: 6}
"""Fields of a caffemodel: NetParameter{2 layers, 100 layer}, LayerParameter{1 name, 7 blobs}, V1LayerParameter{4 name,
6 blobs}."""

_OLD_SIZES, _SHAPE, _DIM = (1, 2, 3, 4), 7, 1
"""Fields of BlobProto{1 num, 2 channels, 3 height, 4 width, 7 shape{1 dim}}."""

_MAX_AXES = 32
"""Of a blob, in Caffe."""

_CHANNELS = 1
"""The axis of channels."""

_PARTS = {"BatchNorm": ("mean", "variance", "factor"), "Scale": ("factors", "bias")}
_USUAL_PARTS = ("weights", "bias")


def read_shapes(path: Path) -> dict[str, list[Shape | None]]:
    """Return the shapes of the blobs of each layer that has some; None for a blob that does not say its shape.

    Raises:
        FormatError: PF3001 it cannot be read, PF3002 and others it is no such file, or was cut off.
    """
    found: dict[str, list[Shape | None]] = {}
    with BinaryFile(path) as file:
        reader = WireReader(FileBytes(file), file.path, what="the caffemodel", cure=WHOLE_FILE)
        for field in reader.fields(0, file.size):
            if field.number not in _NAME or field.wire != DELIMITED:
                continue
            name, blobs = "", []
            for inner in reader.fields(field.start, field.stop):
                if inner.wire != DELIMITED:
                    continue
                if inner.number == _NAME[field.number]:
                    name = reader.text(inner.start, inner.stop)
                elif inner.number == _BLOBS[field.number]:
                    blobs.append(_shape(reader, inner))
            if blobs:
                found[name] = blobs
    return found


def _shape(reader: WireReader, blob: Field) -> Shape | None:
    old: dict[int, int] = {}
    for field in reader.fields(blob.start, blob.stop):
        if field.number == _SHAPE and field.wire == DELIMITED:
            return _sizes(reader, field)
        if field.number in _OLD_SIZES and field.wire == VARINT:
            old[field.number] = field.value
    return tuple(old.get(number, 1) for number in _OLD_SIZES) if old else None


def _sizes(reader: WireReader, shape: Field) -> Shape:
    sizes: list[int] = []
    for field in reader.fields(shape.start, shape.stop):
        if field.number == _DIM and field.wire == VARINT:
            sizes.append(field.value)
        elif field.number == _DIM and field.wire == DELIMITED:
            sizes += reader.varints(field.start, field.stop, limit=_MAX_AXES)
    return tuple(sizes)


def needed_shapes(layer: Layer, bottom: Shape) -> list[Shape]:
    """Return the shapes of the blobs that a layer needs; none where only Caffe knows.

    Args:
        layer: one with weights.
        bottom: shape of the first blob that it reads.
    """
    outputs = layer.numbers("num_output")[:1]
    channels = bottom[_CHANNELS : _CHANNELS + 1]
    if layer.op_type in ("Convolution", "Deconvolution") and outputs and channels:
        return _of_convolution(layer, outputs[0], channels[0], len(bottom) - 2)
    if layer.op_type == "InnerProduct" and outputs:
        axis = _first(layer, "axis", 1)
        weights = (outputs[0], math.prod(bottom[axis:]))
        return _with_bias(layer, weights[::-1] if layer.flag("transpose", default=False) else weights, outputs[0])
    if layer.op_type == "Scale":
        axis, count = _first(layer, "axis", 1), _first(layer, "num_axes", 1)
        shape = bottom[axis:] if count < 0 else bottom[axis:][:count]
        return [shape, shape] if layer.flag("bias_term", default=False) else [shape]
    if layer.op_type == "PReLU" and channels:
        return [(1,) if layer.flag("channel_shared", default=False) else channels]
    if layer.op_type == "BatchNorm" and channels:
        return [channels, channels, (1,)]
    return []


def _of_convolution(layer: Layer, outputs: int, channels: int, axes: int) -> list[Shape]:
    kernel = [*layer.numbers("kernel_h"), *layer.numbers("kernel_w")] or layer.numbers("kernel_size")
    if len(kernel) == 1:
        kernel *= axes
    group = max(1, _first(layer, "group", 1))
    sides = (outputs, channels // group) if layer.op_type == "Convolution" else (channels, outputs // group)
    return _with_bias(layer, (*sides, *kernel), outputs)


def _with_bias(layer: Layer, weights: Shape, outputs: int) -> list[Shape]:
    return [weights, (outputs,)] if layer.flag("bias_term", default=True) else [weights]


def _first(layer: Layer, key: str, default: int) -> int:
    return (layer.numbers(key) or [default])[0]


def misfit(layer: Layer, found: Sequence[Shape | None], bottom: Shape) -> str:
    """Return what is wrong with the weights of a layer, empty if nothing is.

    Sizes of 1 do not count: older files write each shape with four.

    Args:
        layer: one with weights.
        found: shapes of its blobs in the file.
        bottom: shape of the first blob that it reads.
    """
    needed = needed_shapes(layer, bottom)
    parts = _PARTS.get(layer.op_type, _USUAL_PARTS)
    for part, want, have in zip(parts, needed, found, strict=False):
        if have is not None and _long(have) != _long(want):
            return f"{part} of shape {have}, and the network needs {want}"
    if needed and len(needed) != len(found) and layer.op_type != "BatchNorm":
        listed = " and ".join(part for part, _ in zip(parts, needed, strict=False))
        return f"{len(found)} blob{'s' * (len(found) != 1)}, and the network needs {len(needed)}: {listed}"
    return ""


def _long(shape: Shape) -> Shape:
    return tuple(size for size in shape if size != 1)


def first_misfit(
    layers: Sequence[Layer], weights: Mapping[str, Sequence[Shape | None]], blobs: Mapping[str, Shape]
) -> tuple[Layer, str] | None:
    """Return the first layer whose weights do not fit, and what is wrong with them.

    Args:
        layers: of the network, in order.
        weights: shapes of what the file has, by layer.
        blobs: shapes of what the layers read, as far as they are known.
    """
    for layer in layers:
        bottom = blobs.get(layer.bottoms[0]) if layer.bottoms else None
        if layer.has_weights and bottom is not None and (what := misfit(layer, weights[layer.name], bottom)):
            return layer, what
    return None
