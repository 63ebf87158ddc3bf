"""The small network of the offline samples, layer by layer, and what each layer computes, in numpy.

Images are NCHW. Every framework builds its own model from these layers and weights; the device emulation computes with
the kernels here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SEED = 20260101
EPSILON = 1e-5
INPUT = "x"


@dataclass(frozen=True)
class Layer:
    """One layer: its kind, the layers it reads, and its weights.

    Kinds and weights: ``conv`` (OIHW, padded to keep the size) and ``fc`` (in x out): weight, and bias or nothing;
    ``bn``: scale, shift, mean, variance; ``relu``, ``pool`` (2 x 2 maximum), ``add``, ``gap`` (mean over the image),
    ``softmax``: none.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    weights: tuple[Array, ...] = ()


def network() -> tuple[Layer, ...]:
    """Return the layers in the order in which they run."""
    random = np.random.default_rng(SEED)

    def normal(*shape: int, scale: float) -> Array:
        return random.normal(scale=scale, size=shape).astype(np.float32)

    def norm(channels: int) -> tuple[Array, ...]:
        scale, variance = (random.uniform(0.7, 1.3, channels).astype(np.float32) for _ in range(2))
        return scale, normal(channels, scale=0.2), normal(channels, scale=0.2), variance

    return (
        Layer("conv1", "conv", (INPUT,), (normal(8, 3, 3, 3, scale=0.25),)),
        Layer("bn1", "bn", ("conv1",), norm(8)),
        Layer("relu1", "relu", ("bn1",)),
        Layer("pool1", "pool", ("relu1",)),
        Layer("block/shortcut", "conv", ("pool1",), (normal(20, 8, 1, 1, scale=0.3), normal(20, scale=0.1))),
        Layer("block/conv2", "conv", ("pool1",), (normal(20, 8, 3, 3, scale=0.15),)),
        Layer("block/bn2", "bn", ("block/conv2",), norm(20)),
        Layer("block/add", "add", ("block/bn2", "block/shortcut")),
        Layer("block/relu2", "relu", ("block/add",)),
        Layer("gap", "gap", ("block/relu2",)),
        Layer("fc", "fc", ("gap",), (normal(20, 10, scale=0.5), normal(10, scale=0.1))),
        Layer("softmax", "softmax", ("fc",)),
    )


def image() -> Array:
    """Return the network's input, ``(1, 3, 8, 8)`` float32."""
    return np.random.default_rng(SEED + 1).normal(size=(1, 3, 8, 8)).astype(np.float32)


def compute(kind: str, inputs: Sequence[Array], weights: Sequence[Array]) -> Array:
    """Return what a layer gives, in the precision of its inputs."""
    return _KERNELS[kind](list(inputs), list(weights))


def _conv(inputs: list[Array], weights: list[Array]) -> Array:
    (x,), kernel = inputs, weights[0]
    pad = kernel.shape[2] // 2
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    patches = np.lib.stride_tricks.sliding_window_view(padded, kernel.shape[2:], axis=(2, 3))
    found = np.einsum("nchwij,ocij->nohw", patches, kernel)
    return found + weights[1].reshape(1, -1, 1, 1) if len(weights) > 1 else found


def _bn(inputs: list[Array], weights: list[Array]) -> Array:
    scale, shift, mean, variance = (weight.reshape(1, -1, 1, 1) for weight in weights)
    return (inputs[0] - mean) / np.sqrt(variance + inputs[0].dtype.type(EPSILON)) * scale + shift


def _pool(inputs: list[Array], _: list[Array]) -> Array:
    n, c, h, w = inputs[0].shape
    return inputs[0].reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))


def _fc(inputs: list[Array], weights: list[Array]) -> Array:
    return inputs[0].reshape(1, -1) @ weights[0] + weights[1]


def _softmax(inputs: list[Array], _: list[Array]) -> Array:
    raised = np.exp(inputs[0] - inputs[0].max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


_KERNELS: Mapping[str, Callable[[list[Array], list[Array]], Array]] = MappingProxyType(
    {
        "conv": _conv,
        "bn": _bn,
        "relu": lambda inputs, _: np.maximum(inputs[0], 0),
        "pool": _pool,
        "add": lambda inputs, _: inputs[0] + inputs[1],
        "gap": lambda inputs, _: inputs[0].mean(axis=(2, 3), keepdims=True),
        "fc": _fc,
        "softmax": _softmax,
    }
)
