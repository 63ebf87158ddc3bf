"""Functions of ``mindspore.ops`` that take their arguments otherwise than torch does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import DtypeName, UnusableError
from probe_flow.apis.numpy_core import convolution, losses, moves, normalising, products, reductions

Array = NDArray[Any]


def conv(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sequence[int] | int = 1,
    pad_mode: str = "valid",
    padding: Sequence[int] | int = 0,
    dilation: Sequence[int] | int = 1,
    groups: int = 1,
) -> Array:
    """Return the convolution; ``same`` pads so that the result has the size of the input over the stride."""
    if pad_mode == "same" and stride not in (1, (1, 1)):
        raise UnusableError("`same` padding with a stride is not computed")
    pads = padding if pad_mode == "pad" else pad_mode
    if pad_mode == "pad" and not isinstance(padding, int) and len(padding) not in (1, weight.ndim - 2):
        raise UnusableError("its padding differs from side to side")
    return convolution.conv(input, weight, bias, stride, pads, dilation, groups)


def mean(x: Array, axis: Any = None, keep_dims: bool = False) -> Array:
    """Return the mean over axes."""
    return reductions.mean(x, axis, keep_dims)


def topk(
    input: Array, k: int, dim: int | None = None, largest: bool = True, sorted: bool = True
) -> tuple[Array, Array]:
    """Return the k largest elements, along the last axis where none is given, and their places."""
    return reductions.topk(input, k, -1 if dim is None else dim, largest, sorted)


def transpose(input: Array, input_perm: Sequence[int]) -> Array:
    """Return the axes in another order."""
    return input.transpose(tuple(input_perm))


def split(tensor: Array, split_size_or_sections: Any, axis: int = 0) -> tuple[Array, ...]:
    """Return parts along an axis."""
    return moves.split(tensor, split_size_or_sections, axis)


def tile(input: Array, dims: Sequence[int]) -> Array:
    """Return the input laid side by side."""
    return np.tile(input, dims)


def expand_dims(input_x: Array, axis: int) -> Array:
    """Return the input with one more axis."""
    return np.expand_dims(input_x, axis)


def cumsum(x: Array, axis: int, dtype: object = None) -> Array:  # noqa: ARG001
    """Return the running sum along an axis."""
    return reductions.cumsum(x, axis)


def cast(input: Array, dtype: DtypeName) -> Array:
    """Return the input in another element type."""
    return moves.cast(input, dtype)


def cross_entropy(
    input: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """Return the cross entropy."""
    return losses.cross_entropy(
        input, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )


def nll_loss(
    inputs: Array, target: Array, weight: Array | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Array:
    """Return the same of logarithms."""
    return losses.nll_loss(inputs, target, weight, ignore_index=ignore_index, reduction=reduction)


def mse_loss(input: Array, target: Array, reduction: str = "mean") -> Array:
    """Return the square of the difference."""
    return losses.mse_loss(input, target, reduction=reduction)


def l1_loss(input: Array, target: Array, reduction: str = "mean") -> Array:
    """Return the size of the difference."""
    return losses.l1_loss(input, target, reduction=reduction)


def select(condition: Array, input: Any, other: Any) -> Array:
    """Return elements of one where the condition holds, of the other where not."""
    return np.where(condition, input, other)


MINDSPORE_FORMS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "conv1d": conv, "conv2d": conv, "conv3d": conv, "mean": mean, "topk": topk, "transpose": transpose,
        "split": split, "tile": tile, "expand_dims": expand_dims, "cumsum": cumsum, "cast": cast,
        "cross_entropy": cross_entropy, "nll_loss": nll_loss, "mse_loss": mse_loss, "l1_loss": l1_loss,
        "select": select, "softmax": normalising.softmax_last, "log_softmax": normalising.log_softmax_last,
        "gather": moves.ms_gather, "dense": products.linear,
    }
)  # fmt: skip
