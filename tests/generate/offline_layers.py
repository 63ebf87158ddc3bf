"""What the networks of generated offline pairs are made of: layers, and what each computes, in numpy.

Images are NCHW, matrices have the features last. A kernel computes in the precision of what it gets: golden outputs
come from float64, those of the device from float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

EPSILON = 1e-5
INPUT = "x"


@dataclass(frozen=True)
class Layer:
    """One layer.

    Args:
        name: in the framework's model.
        kind: a key of `KERNELS`.
        inputs: the layers it reads; ``name:1`` is the second output.
        weights: what it holds.
        number: groups of ``conv``, parts of ``split``, axis of ``concat``, factor of ``scale``, heads of ``heads``.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    weights: tuple[Array, ...] = ()
    number: float = 1


@dataclass(frozen=True)
class Network:
    """Layers in the order in which they run, and what one run is fed."""

    layers: tuple[Layer, ...]
    feed: Callable[[np.random.Generator], Array]
    is_image: bool


def compute(layer: Layer, inputs: Sequence[Array], weights: Sequence[Array] | None = None) -> list[Array]:
    """Return the outputs of a layer."""
    found = KERNELS[layer.kind](list(inputs), list(layer.weights if weights is None else weights), layer.number)
    return list(found) if isinstance(found, tuple) else [found]


def run_golden(layers: Sequence[Layer], x: Array) -> dict[str, Array]:
    """Return every output by ``name:index``: computed in float64, kept in float32."""
    found = {f"{INPUT}:0": x}
    for layer in layers:
        inputs = [found[edge(name)].astype(np.float64) for name in layer.inputs]
        for index, values in enumerate(compute(layer, inputs, [w.astype(np.float64) for w in layer.weights])):
            found[f"{layer.name}:{index}"] = values.astype(np.float32)
    return found


def edge(name: str) -> str:
    """Return the name of an output with its index."""
    return name if ":" in name else f"{name}:0"


def conv(x: Array, kernel: Array, *, groups: int = 1, mode: str = "constant") -> Array:
    """Convolve NCHW with OIHW, padded to keep the size."""
    pad = kernel.shape[2] // 2
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), mode=mode)  # type: ignore[call-overload]
    n, _, h, w = x.shape
    parts = []
    for values, weight in zip(np.split(padded, groups, axis=1), np.split(kernel, groups), strict=True):
        patches = np.lib.stride_tricks.sliding_window_view(values, kernel.shape[2:], axis=(2, 3))
        rows = patches.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * w, -1)
        parts.append((rows @ weight.reshape(len(weight), -1).T).reshape(n, h, w, -1).transpose(0, 3, 1, 2))
    return np.concatenate(parts, axis=1)


def _conv(inputs: list[Array], weights: list[Array], groups: float) -> Array:
    found = conv(inputs[0], weights[0], groups=int(groups))
    return found + weights[1].reshape(1, -1, 1, 1) if len(weights) > 1 else found


def _bn(inputs: list[Array], weights: list[Array], _: float) -> Array:
    scale, shift, mean, variance = (weight.reshape(1, -1, 1, 1) for weight in weights)
    return (inputs[0] - mean) / np.sqrt(variance + inputs[0].dtype.type(EPSILON)) * scale + shift


def _pool(inputs: list[Array], _weights: list[Array], _: float) -> Array:
    n, c, h, w = inputs[0].shape
    return inputs[0].reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))


def softmax(x: Array) -> Array:
    """Return the softmax over the last axis."""
    raised = np.exp(x - x.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def _norm(inputs: list[Array], weights: list[Array], _: float) -> Array:
    x = inputs[0]
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + x.dtype.type(EPSILON)) * weights[0] + weights[1]


def gelu(x: Array) -> Array:
    """Return the tanh form of gelu."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _heads(inputs: list[Array], _weights: list[Array], heads: float) -> Array:
    length, width = inputs[0].shape
    return inputs[0].reshape(length, int(heads), width // int(heads)).transpose(1, 0, 2)


def _merge(inputs: list[Array], _weights: list[Array], _: float) -> Array:
    heads, length, width = inputs[0].shape
    return inputs[0].transpose(1, 0, 2).reshape(length, heads * width)


KERNELS: Mapping[str, Callable[[list[Array], list[Array], float], Array | tuple[Array, ...]]] = {
    "conv": _conv,
    "bn": _bn,
    "pool": _pool,
    "relu": lambda inputs, _, __: np.maximum(inputs[0], 0),
    "sigmoid": lambda inputs, _, __: 1 / (1 + np.exp(-inputs[0])),
    "mul": lambda inputs, _, __: inputs[0] * inputs[1],
    "add": lambda inputs, _, __: inputs[0] + inputs[1],
    "gap": lambda inputs, _, __: inputs[0].mean(axis=(2, 3), keepdims=True),
    "flatten": lambda inputs, _, __: inputs[0].reshape(inputs[0].shape[0], -1),
    "upsample": lambda inputs, _, __: inputs[0].repeat(2, axis=2).repeat(2, axis=3),
    "concat": lambda inputs, _, axis: np.concatenate(inputs, axis=int(axis)),
    "split": lambda inputs, _, parts: tuple(np.split(inputs[0], int(parts), axis=1 if inputs[0].ndim == 4 else -1)),
    "matmul": lambda inputs, weights, _: inputs[0] @ (weights[0] if weights else inputs[1]),
    "bias": lambda inputs, weights, _: inputs[0] + weights[0],
    "gelu": lambda inputs, _, __: gelu(inputs[0]),
    "norm": _norm,
    "scale": lambda inputs, _, factor: inputs[0] * inputs[0].dtype.type(factor),
    "mask": lambda inputs, weights, _: inputs[0] + weights[0],
    "softmax": lambda inputs, _, __: softmax(inputs[0]),
    "heads": _heads,
    "transpose": lambda inputs, _, __: inputs[0].swapaxes(-1, -2),
    "merge": _merge,
}
