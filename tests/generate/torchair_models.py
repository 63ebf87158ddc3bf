"""Small models as captured graphs, each with a character that makes diagnosis hard in its own way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from fx_writer import Argument, Array, FxNode, Ref, Trace

Draw = Callable[[np.random.Generator], Array]


@dataclass(slots=True)
class Model:
    """A graph with its parameters; ``inputs`` draw the network inputs of one step."""

    trace: Trace
    parameters: dict[str, Array]
    inputs: dict[str, Draw]
    is_image: bool = False

    def feeds(self, random: np.random.Generator) -> dict[str, Array]:
        """Return all placeholders of one step, in float32 and int64."""
        return {**self.parameters, **{name: draw(random) for name, draw in self.inputs.items()}}


@dataclass(slots=True)
class Builder:
    """Collects nodes with torch's names: the operator's name with a counter."""

    random: np.random.Generator
    parameters: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, Draw] = field(default_factory=dict)
    nodes: list[FxNode] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def parameter(self, value: Array) -> Ref:
        name = f"params_{len(self.parameters) + 1}"
        self.parameters[name] = np.asarray(value, np.float32)
        return Ref(name)

    def normal(self, *shape: int, scale: float = 1.0, offset: float = 0.0) -> Ref:
        return self.parameter(offset + scale * self.random.standard_normal(shape))

    def input(self, name: str, draw: Draw) -> Ref:
        self.inputs[name] = draw
        return Ref(name)

    def call(self, operator: str, *args: Argument, overload: str = "default") -> Ref:
        return self.calls(1, operator, *args, overload=overload)[0]

    def calls(self, outputs: int, operator: str, *args: Argument, overload: str = "default") -> list[Ref]:
        count = self.counts[operator]
        self.counts[operator] += 1
        name = f"{operator}_{count}" if count else operator
        self.nodes.append(FxNode(name, f"aten.{operator}.{overload}", args, outputs))
        return [Ref(name, index) for index in range(outputs)]

    def binary(self, operator: str, a: Argument, b: Argument) -> Ref:
        return self.call(operator, a, b, overload="Tensor")

    def linear(self, x: Ref, features: int, out: int, *, gain: float = 1.0) -> Ref:
        """Apply a weight stored (out, features), transposed before use, and a bias."""
        weight = self.normal(out, features, scale=gain / features**0.5)
        bias = self.normal(out, scale=0.2 * gain)
        return self.call("addmm", bias, x, self.call("t", weight))

    def norm(self, x: Ref, width: int) -> Ref:
        gamma, beta = self.normal(width, scale=0.1, offset=1), self.normal(width, scale=0.1)
        return self.calls(3, "native_layer_norm", x, [width], gamma, beta, 1e-5)[0]

    def done(self, *, is_image: bool = False) -> Model:
        trace = Trace((*self.parameters, *self.inputs), tuple(self.nodes))
        return Model(trace, self.parameters, self.inputs, is_image)


def _ids(count: int, vocabulary: int) -> Draw:
    return lambda random: random.integers(0, vocabulary, count)


def _normal(*shape: int, scale: float = 1.0, offset: float = 0.0) -> Draw:
    return lambda random: (offset + scale * random.standard_normal(shape)).astype(np.float32)


def _heads(b: Builder, x: Ref, rows: int, heads: int, width: int) -> list[Ref]:
    qkv = b.linear(x, width, 3 * width)
    split = b.call("view", qkv, [rows, 3, heads, width // heads])
    return b.calls(3, "unbind", b.call("permute", split, [1, 2, 0, 3]), overload="int")


def _attention(b: Builder, x: Ref, rows: int, heads: int, width: int, mask: Ref | None) -> Ref:
    query, key, value = _heads(b, x, rows, heads, width)
    scores = b.call("bmm", query, b.call("transpose", key, 1, 2, overload="int"))
    scores = b.binary("mul", scores, (width // heads) ** -0.5)
    if mask is not None:
        scores = b.binary("add", scores, mask)
    mixed = b.call("bmm", b.call("_softmax", scores, -1, False), value)
    rows_first = b.call("clone", b.call("transpose", mixed, 0, 1, overload="int"))
    return b.linear(b.call("_unsafe_view", rows_first, [rows, width]), width, width)


def _mlp(b: Builder, x: Ref, width: int, wide: int, *, gain: float = 1.0) -> Ref:
    return b.linear(b.call("gelu", b.linear(x, width, wide)), wide, width, gain=gain)


def transformer(random: np.random.Generator) -> Model:
    """Two blocks with layer scale. Small embeddings: the first norms amplify."""
    b, rows, width = Builder(random), 12, 32
    table = b.normal(24, width, scale=0.12)
    x = b.call("embedding", table, b.input("ids_1", _ids(rows, 24)))
    for _ in range(2):
        branch = _attention(b, b.norm(x, width), rows, 4, width, None)
        x = b.binary("add", x, b.binary("mul", branch, b.normal(width, scale=0.1, offset=0.3)))
        x = b.binary("add", x, _mlp(b, b.norm(x, width), width, 2 * width))
    b.linear(b.norm(x, width), width, 24)
    return b.done()


def convolution(random: np.random.Generator) -> Model:
    """Convolutions with folded batch norm, relu, a residual and pooling; NC1HWC0 on the device."""
    b = Builder(random)
    x = b.input("pixels_1", _normal(2, 3, 12, 12))
    x = _conv_norm(b, x, 3, 20)
    x = b.call("avg_pool2d", b.call("relu", x), [2, 2], [2, 2])
    for _ in range(2):
        branch = b.call("relu", _conv_norm(b, x, 20, 20))
        x = b.call("relu", b.binary("add", x, _conv_norm(b, branch, 20, 20)))
    x = b.call("relu", _conv_norm(b, x, 20, 32))
    b.linear(b.call("mean", x, [2, 3], False, overload="dim"), 32, 10)
    return b.done(is_image=True)


def _conv_norm(b: Builder, x: Ref, channels: int, out: int) -> Ref:
    weight = b.normal(out, channels, 3, 3, scale=(1.5 / (9 * channels)) ** 0.5)
    settings: list[Argument] = [[1, 1], [1, 1], [1, 1], False, [0, 0], 1]
    x = b.call("convolution", x, weight, b.normal(out, scale=0.05), *settings)
    x = b.binary("mul", x, b.normal(out, 1, 1, scale=0.1, offset=1))
    return b.binary("add", x, b.normal(out, 1, 1, scale=0.1))


def deep(random: np.random.Generator) -> Model:
    """Residual network of 24 layers: the error grows slowly with no jump."""
    b, width = Builder(random), 24
    x = b.linear(b.input("features_1", _normal(10, 16)), 16, width)
    for _ in range(24):
        x = b.binary("add", x, _mlp(b, b.norm(x, width), width, 32, gain=0.7))
    b.linear(b.norm(x, width), width, 8)
    return b.done()


def recurrent(random: np.random.Generator) -> Model:
    """GRU over six steps: many small gates, errors travel through time."""
    b, batch, width, features = Builder(random), 8, 24, 16
    sequence = b.input("sequence_1", _normal(6, batch, features))
    hidden = b.input("hidden_1", _normal(batch, width, scale=0.3))
    weights = [b.call("t", b.normal(3 * width, size, scale=size**-0.5)) for size in (features, width)]
    biases = [b.normal(3 * width, scale=0.2) for _ in weights]
    for step in range(6):
        x = b.call("select", sequence, 0, step, overload="int")
        ours, theirs = (b.call("addmm", *part) for part in zip(biases, (x, hidden), weights, strict=True))
        reset = b.call("sigmoid", b.binary("add", _gate(b, ours, 0, width), _gate(b, theirs, 0, width)))
        update = b.call("sigmoid", b.binary("add", _gate(b, ours, 1, width), _gate(b, theirs, 1, width)))
        gated = b.binary("mul", reset, _gate(b, theirs, 2, width))
        fresh = b.call("tanh", b.binary("add", _gate(b, ours, 2, width), gated))
        kept = b.binary("mul", update, hidden)
        hidden = b.binary("add", b.binary("mul", b.call("rsub", update, 1, overload="Scalar"), fresh), kept)
    b.linear(b.call("alias", hidden), width, 6)
    return b.done()


def _gate(b: Builder, x: Ref, index: int, width: int) -> Ref:
    return b.call("slice", x, 1, index * width, (index + 1) * width, overload="Tensor")


def masked(random: np.random.Generator) -> Model:
    """Causal attention in three layers: -inf on both sides above the diagonal.

    The first norm makes exact zero means, so the mean that the next one computes is pure rounding noise.
    """
    b, rows, width = Builder(random), 10, 32
    triangle = np.where(np.tri(rows, dtype=bool), 0, -np.inf)
    mask = b.parameter(triangle)
    ones, zeros = b.parameter(np.ones(width)), b.parameter(np.zeros(width))
    x = b.calls(3, "native_layer_norm", b.input("states_1", _normal(rows, width)), [width], ones, zeros, 1e-5)[0]
    for _ in range(3):
        x = b.binary("add", x, _attention(b, b.norm(x, width), rows, 2, width, mask))
        x = b.call("alias", b.binary("add", x, _mlp(b, b.norm(x, width), width, 48)))
    b.linear(x, width, 12)
    return b.done()


def rotary(random: np.random.Generator) -> Model:
    """Decoder with root-mean-square norms from single operators, rotated heads and gated silu."""
    b, rows, width, heads = Builder(random), 8, 32, 2
    angles = np.arange(rows)[:, None] * 10.0 ** (-np.arange(8) / 4)
    cosine, sine = (b.parameter(np.tile(function(angles), (1, 2))) for function in (np.cos, np.sin))
    x = b.call("embedding", b.normal(20, width, scale=0.5), b.input("ids_1", _ids(rows, 20)))
    for _ in range(2):
        query, key, value = _heads(b, _rms_norm(b, x, width), rows, heads, width)
        query, key = (_rotated(b, part, cosine, sine) for part in (query, key))
        scores = b.binary("mul", b.call("bmm", query, b.call("transpose", key, 1, 2, overload="int")), 0.25)
        mixed = b.call("transpose", b.call("bmm", b.call("_softmax", scores, -1, False), value), 0, 1, overload="int")
        x = b.binary("add", x, b.linear(b.call("_unsafe_view", b.call("clone", mixed), [rows, width]), width, width))
        inner = _rms_norm(b, x, width)
        gate = b.call("silu", b.call("mm", inner, b.call("t", b.normal(48, width, scale=width**-0.5))))
        wide = b.binary("mul", gate, b.call("mm", inner, b.call("t", b.normal(48, width, scale=width**-0.5))))
        x = b.binary("add", x, b.call("mm", wide, b.call("t", b.normal(width, 48, scale=48**-0.5))))
    b.call("mm", _rms_norm(b, x, width), b.call("t", b.normal(20, width, scale=width**-0.5)))
    return b.done()


def _rms_norm(b: Builder, x: Ref, width: int) -> Ref:
    mean = b.call("mean", b.call("pow", x, 2, overload="Tensor_Scalar"), [-1], True, overload="dim")
    scale = b.call("rsqrt", b.binary("add", mean, 1e-5))
    return b.binary("mul", b.binary("mul", x, scale), b.normal(width, scale=0.1, offset=1))


def _rotated(b: Builder, x: Ref, cosine: Ref, sine: Ref) -> Ref:
    first, second = (b.call("slice", x, 2, k, k + 8, overload="Tensor") for k in (0, 8))
    turned = b.call("cat", [b.call("neg", second), first], -1)
    return b.binary("add", b.binary("mul", x, cosine), b.binary("mul", turned, sine))


def reduction(random: np.random.Generator) -> Model:
    """Long sums, cancellation, a tensor that is zero but for rounding, and one that is exactly zero."""
    b, rows, long = Builder(random), 8, 1536
    x = b.input("signal_1", _normal(rows, long, offset=0.5))
    weight = b.normal(long, 24, scale=long**-0.5)
    projected = b.call("mm", x, weight)
    total = b.call("sum", x, [1], True, overload="dim_IntList")
    centred = b.binary("sub", x, b.call("mean", x, [1], True, overload="dim"))
    rest = b.call("mean", centred, [1], True, overload="dim")
    tripled = b.binary("div", b.binary("mul", projected, 3.0), 3.0)
    noise = b.binary("sub", projected, tripled)
    silent = b.call("relu", b.call("neg", b.call("exp", projected)))
    joined = b.binary("add", b.binary("add", projected, noise), silent)
    joined = b.binary("add", joined, b.binary("mul", rest, b.binary("div", total, float(long))))
    weights = b.call("_softmax", joined, -1, False)
    b.linear(b.binary("mul", b.call("mm", b.call("pow", centred, 2, overload="Tensor_Scalar"), weight), weights), 24, 8)
    return b.done()


def mixer(random: np.random.Generator) -> Model:
    """Token mixing through transposes, a gate, a branch near underflow, and log-softmax from single operators."""
    b, rows, width = Builder(random), 12, 20
    x = b.input("patches_1", _normal(rows, width))
    for _ in range(3):
        mixed = b.linear(b.call("t", b.norm(x, width)), rows, rows)
        x = b.binary("add", x, b.call("t", b.call("gelu", mixed)))
        gate = b.call("sigmoid", b.linear(b.call("mean", x, [0], True, overload="dim"), width, width))
        x = b.binary("add", x, b.binary("mul", _mlp(b, b.norm(x, width), width, 32), gate))
    tiny = b.binary("mul", b.binary("mul", x, 1e-5), 0.5)
    x = b.binary("add", x, b.binary("mul", tiny, 1000.0))
    scores = b.linear(b.norm(x, width), width, 9)
    mass = b.call("sum", b.call("exp", scores), [1], True, overload="dim_IntList")
    b.binary("sub", scores, b.call("log", mass))
    return b.done()


MODELS: dict[str, Callable[[np.random.Generator], Model]] = {
    "transformer": transformer,
    "convolution": convolution,
    "deep": deep,
    "recurrent": recurrent,
    "masked": masked,
    "rotary": rotary,
    "reduction": reduction,
    "mixer": mixer,
}
"""Builders by name; the generator draws the parameters."""
