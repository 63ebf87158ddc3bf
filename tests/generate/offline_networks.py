"""The networks of generated offline pairs: small ones of the kinds that people convert for a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from generate.offline_layers import INPUT, Array, Layer, Network, compute, edge


class _Builder:
    """Collects layers and draws their weights."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.layers: list[Layer] = []

    def add(self, name: str, kind: str, *inputs: str, weights: tuple[Array, ...] = (), number: float = 1) -> str:
        self.layers.append(Layer(name, kind, inputs, weights, number))
        return name

    def normal(self, *shape: int, scale: float = 1.0) -> Array:
        return self.random.normal(scale=scale, size=shape).astype(np.float32)

    def conv(self, name: str, source: str, shape: tuple[int, int, int], *, bias: bool = False, groups: int = 1) -> str:
        out, inner, side = shape
        weights = [self.normal(out, inner // groups, side, side, scale=(2 * groups / (inner * side * side)) ** 0.5)]
        if bias:
            weights.append(self.normal(out, scale=0.3))
        return self.add(name, "conv", source, weights=tuple(weights), number=groups)

    def bn(self, name: str, source: str, channels: int) -> str:
        scale, variance = (self.random.uniform(0.7, 1.3, channels).astype(np.float32) for _ in range(2))
        weights = (scale, self.normal(channels, scale=0.2), self.normal(channels, scale=0.2), variance)
        return self.add(name, "bn", source, weights=weights)

    def conv_bn_relu(self, name: str, source: str, shape: tuple[int, int, int], *, groups: int = 1) -> str:
        found = self.bn(f"{name}/bn", self.conv(f"{name}/conv", source, shape, groups=groups), shape[0])
        return self.add(f"{name}/relu", "relu", found)

    def dense(self, name: str, source: str, inner: int, out: int) -> str:
        found = self.add(f"{name}/matmul", "matmul", source, weights=(self.normal(inner, out, scale=inner**-0.5),))
        return self.add(f"{name}/bias", "bias", found, weights=(self.normal(out, scale=0.3),))

    def norm(self, name: str, source: str, width: int) -> str:
        weights = (self.random.uniform(0.7, 1.3, width).astype(np.float32), self.normal(width, scale=0.2))
        return self.add(name, "norm", source, weights=weights)


def calibrated(network: Network, random: np.random.Generator) -> Network:
    """Return the network with the statistics of its batch norms as training leaves them: those of what they read."""
    found = {f"{INPUT}:0": network.feed(random).astype(np.float64)}
    layers: list[Layer] = []
    for layer in network.layers:
        inputs = [found[edge(name)] for name in layer.inputs]
        if layer.kind == "bn":
            scale, shift, _, _ = layer.weights
            read = inputs[0].astype(np.float32)
            layer = replace(layer, weights=(scale, shift, read.mean(axis=(0, 2, 3)), read.var(axis=(0, 2, 3))))
        layers.append(layer)
        found.update((f"{layer.name}:{n}", values) for n, values in enumerate(compute(layer, inputs)))
    return Network(tuple(layers), network.feed, network.is_image)


def _image(random: np.random.Generator) -> Array:
    return (random.normal(size=(2, 3, 8, 8)) + 0.3).astype(np.float32)


def _cnn(random: np.random.Generator) -> Network:
    """Two blocks with a shortcut, a classifier: the network of the bundled samples, a little wider."""
    net = _Builder(random)
    found = net.add("pool1", "pool", net.conv_bn_relu("stem", INPUT, (12, 3, 3)))
    short = net.conv("block/shortcut", found, (20, 12, 1), bias=True)
    found = net.bn("block/bn2", net.conv("block/conv2", found, (20, 12, 3)), 20)
    found = net.add("block/relu2", "relu", net.add("block/add", "add", found, short))
    found = net.add("flatten", "flatten", net.add("gap", "gap", found))
    net.add("softmax", "softmax", net.dense("fc", found, 20, 10))
    return Network(tuple(net.layers), _image, is_image=True)


def _residual(random: np.random.Generator, blocks: int = 4) -> Network:
    """Residual blocks whose middle convolution has groups."""
    net = _Builder(random)
    found = net.conv_bn_relu("stem", INPUT, (24, 3, 3))
    for number in range(blocks):
        name = f"stage{number}"
        inner = net.conv_bn_relu(f"{name}/a", found, (24, 24, 1))
        inner = net.conv_bn_relu(f"{name}/b", inner, (24, 24, 3), groups=4)
        inner = net.bn(f"{name}/c/bn", net.conv(f"{name}/c/conv", inner, (24, 24, 1)), 24)
        found = net.add(f"{name}/relu", "relu", net.add(f"{name}/add", "add", inner, found))
    found = net.add("flatten", "flatten", net.add("gap", "gap", found))
    net.dense("fc", found, 24, 10)
    return Network(tuple(net.layers), _image, is_image=True)


def _detector(random: np.random.Generator) -> Network:
    """Swish activations, split and concatenated channels, two scales, two heads."""
    net = _Builder(random)

    def block(name: str, source: str, shape: tuple[int, int, int]) -> str:
        found = net.bn(f"{name}/bn", net.conv(f"{name}/conv", source, shape), shape[0])
        return net.add(f"{name}/mul", "mul", found, net.add(f"{name}/sigmoid", "sigmoid", found))

    found = block("stem", INPUT, (16, 3, 3))
    halves = net.add("csp/split", "split", found, number=2)
    inner = block("csp/cv1", f"{halves}:1", (8, 8, 3))
    inner = net.add("csp/add", "add", inner, f"{halves}:1")
    fine = block("csp/cv2", net.add("csp/concat", "concat", f"{halves}:0", inner, number=1), (24, 16, 1))
    coarse = block("down/cv", net.add("down/pool", "pool", fine), (24, 24, 3))
    up = net.add("neck/upsample", "upsample", coarse)
    merged = block("neck/cv", net.add("neck/concat", "concat", up, fine, number=1), (20, 48, 1))
    net.add("head0/sigmoid", "sigmoid", net.conv("head0/conv", merged, (18, 20, 1), bias=True))
    net.add("head1/sigmoid", "sigmoid", net.conv("head1/conv", coarse, (18, 24, 1), bias=True))
    return Network(tuple(net.layers), _image, is_image=True)


LENGTH, WIDTH, HEADS = 24, 48, 4


def _tokens(random: np.random.Generator) -> Array:
    return random.normal(size=(LENGTH, WIDTH)).astype(np.float32)


def _transformer(random: np.random.Generator, layers: int = 2, *, is_masked: bool = False) -> Network:
    """Pre-norm attention and feed-forward blocks."""
    net = _Builder(random)
    found = INPUT
    for number in range(layers):
        name = f"layer{number}"
        normed = net.norm(f"{name}/ln1", found, WIDTH)
        query, key, value = (
            net.add(f"{name}/{part}/heads", "heads", net.dense(f"{name}/{part}", normed, WIDTH, WIDTH), number=HEADS)
            for part in ("q", "k", "v")
        )
        scores = net.add(f"{name}/qk", "matmul", query, net.add(f"{name}/kt", "transpose", key))
        scores = net.add(f"{name}/scale", "scale", scores, number=(WIDTH / HEADS) ** -0.5)
        if is_masked:
            mask = np.triu(np.full((LENGTH, LENGTH), -10000.0, np.float32), 1)
            scores = net.add(f"{name}/mask", "mask", scores, weights=(mask,))
        mixed = net.add(f"{name}/sv", "matmul", net.add(f"{name}/softmax", "softmax", scores), value)
        mixed = net.dense(f"{name}/o", net.add(f"{name}/merge", "merge", mixed), WIDTH, WIDTH)
        found = net.add(f"{name}/add1", "add", found, mixed)
        inner = net.dense(f"{name}/up", net.norm(f"{name}/ln2", found, WIDTH), WIDTH, 2 * WIDTH)
        inner = net.dense(f"{name}/down", net.add(f"{name}/gelu", "gelu", inner), 2 * WIDTH, WIDTH)
        found = net.add(f"{name}/add2", "add", found, inner)
    net.dense("head", net.norm("ln", found, WIDTH), WIDTH, 40)
    return Network(tuple(net.layers), _tokens, is_image=False)


def _mlp(random: np.random.Generator, layers: int = 5) -> Network:
    """A plain stack of products with bias and relu."""
    net = _Builder(random)
    found = INPUT
    for number in range(layers):
        found = net.add(f"relu{number}", "relu", net.dense(f"fc{number}", found, WIDTH, WIDTH))
    net.dense("out", found, WIDTH, 20)
    return Network(tuple(net.layers), _tokens, is_image=False)


NETWORKS: Mapping[str, Callable[[np.random.Generator], Network]] = {
    "cnn": _cnn,
    "residual": _residual,
    "deep": partial(_residual, blocks=12),
    "detector": _detector,
    "transformer": _transformer,
    "masked": partial(_transformer, is_masked=True),
    "mlp": _mlp,
}
