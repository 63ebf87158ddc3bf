"""About how many bytes the dump of a Caffe network has, by its shapes, as OpenCV infers them without a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from probe_flow.dumpers.arrays.estimate import SizedTensor, main
from probe_flow.dumpers.base.runner import DeclaredInput
from probe_flow.dumpers.caffe.network import Network, read_network
from probe_flow.dumpers.caffe.runner import INPUT_TYPE, top_shapes
from probe_flow.files.opening import open_bytes

_FLOAT = 4


def sized(path: Path, dump: Mapping[str, Any]) -> Iterator[SizedTensor]:
    """Yield the inputs and the tops of all layers; sizes are those of the prototxt where none are given."""
    network = read_network(path)
    asked: Mapping[str, Any] = dump.get("input_shape") or {}
    given = [DeclaredInput(each.name, each.dtype, tuple(asked.get(each.name, each.shape))) for each in network.inputs]
    text = Network(network.layers, given, (), network.head).text()
    with open_bytes(Path(dump["weights"])) as file:
        weights = np.frombuffer(file.read(), np.uint8)
    net = cv2.dnn.readNetFromCaffe(np.frombuffer(text, np.uint8), weights)
    net.enableFusion(False)  # noqa: FBT003 (it takes no keywords)
    shapes = [[size for size in each.shape or () if isinstance(size, int)] for each in given]
    known = top_shapes(net, net.getLayerNames(), shapes)
    for each, shape in zip(given, shapes, strict=True):
        yield SizedTensor(each.name, INPUT_TYPE, each.name, _FLOAT * math.prod(shape))
    for layer, tops in zip(network.layers, known, strict=True):
        for number, top in enumerate(layer.tops):
            size = _FLOAT * math.prod(tops[number]) if number < len(tops) else None
            yield SizedTensor(layer.name, layer.op_type, top, size)


if __name__ == "__main__":
    main(sized)
