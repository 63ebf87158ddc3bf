"""Norms over axes, and softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import UnusableError

Array = NDArray[Any]


def softmax(input: Array, dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Array:  # noqa: ARG001
    """Return the exponentials over their sum along an axis; where all are -inf, NaN."""
    axis = _axis_of_softmax(input, dim)
    with np.errstate(invalid="ignore"):
        powers = np.exp(input - input.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def softmin(input: Array, dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Array:
    """Return `softmax` of what is negated."""
    return softmax(-input, dim, _stacklevel, dtype)


def log_softmax(input: Array, dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Array:  # noqa: ARG001
    """Return the logarithm of `softmax`, without computing that first."""
    axis = _axis_of_softmax(input, dim)
    shifted = input - input.max(axis=axis, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True)))


def _axis_of_softmax(input: Array, dim: int | None) -> int:
    if isinstance(dim, int) and not isinstance(dim, bool):
        return dim
    if dim is not None:
        raise UnusableError(f"`{dim}` is no axis")
    return 0 if input.ndim in (0, 1, 3) else 1  # what torch takes where none is given


def softmax_last(input: Array, axis: int = -1, *, dtype: object = None) -> Array:
    """Return `softmax` along the last axis where none is given."""
    return softmax(input, axis, dtype=dtype)


def log_softmax_last(logits: Array, axis: int = -1) -> Array:
    """Return `log_softmax` along the last axis where none is given."""
    return log_softmax(logits, axis)


def layer_norm(
    input: Array,
    normalized_shape: Sequence[int] | int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    """Return the input less its mean, over its deviation, of the last axes."""
    axes = _last_axes(input, normalized_shape)
    return _affine(_standardised(input, axes, eps), weight, bias)


def rms_norm(
    input: Array, normalized_shape: Sequence[int] | int, weight: Array | None = None, eps: float | None = None
) -> Array:
    """Return the input over its root mean square of the last axes."""
    if eps is None:
        raise UnusableError("its `eps` is that of the element type, which the call does not name")
    axes = _last_axes(input, normalized_shape)
    scaled = input / np.sqrt(np.square(input).mean(axis=axes, keepdims=True) + eps)
    return _affine(scaled, weight, None)


def npu_rms_norm(input: Array, gamma: Array, epsilon: float = 1e-6) -> tuple[Array, Array]:
    """Return the input over its root mean square of the last axis, and the reciprocal of that."""
    reciprocal = 1 / np.sqrt(np.square(input).mean(axis=-1, keepdims=True) + epsilon)
    return input * reciprocal * gamma, reciprocal


def batch_norm(
    input: Array,
    running_mean: Array | None,
    running_var: Array | None,
    weight: Array | None = None,
    bias: Array | None = None,
    training: bool = False,
    momentum: float = 0.1,  # noqa: ARG001
    eps: float = 1e-5,
) -> Array:
    """Return the channels (axis 1) normalised, by the statistics of the batch where it trains, else by the given ones.

    What training does to the running statistics is no result.
    """
    others = (0, *range(2, input.ndim))
    if training:
        return _per_channel(_standardised(input, others, eps), weight, bias)
    if running_mean is None or running_var is None:
        raise UnusableError("it normalises by running statistics, and there are none")
    return _per_channel(
        (input - _of_channels(running_mean, input.ndim)) / np.sqrt(_of_channels(running_var, input.ndim) + eps),
        weight,
        bias,
    )


def in_order_of_torch(norm: Callable[..., Array]) -> Callable[..., Array]:
    """Return `batch_norm` or `instance_norm` with the arguments in the order of ``torch``'s own functions."""

    def operator(
        input: Array,
        weight: Array | None,
        bias: Array | None,
        running_mean: Array | None,
        running_var: Array | None,
        training: bool,
        momentum: float,
        eps: float,
        cudnn_enabled: bool = True,  # noqa: ARG001
    ) -> Array:
        return norm(input, running_mean, running_var, weight, bias, training, momentum, eps)

    return operator


def group_norm(
    input: Array, num_groups: int, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5
) -> Array:
    """Return the channels (axis 1), normalised in groups of neighbours."""
    grouped = input.reshape(input.shape[0], num_groups, -1)
    return _per_channel(_standardised(grouped, (2,), eps).reshape(input.shape), weight, bias)


def instance_norm(
    input: Array,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    weight: Array | None = None,
    bias: Array | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,  # noqa: ARG001
    eps: float = 1e-5,
) -> Array:
    """Return each channel (axis 1) of each element of the batch normalised, or all by the running statistics."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, eps=eps)
    return _per_channel(_standardised(input, tuple(range(2, input.ndim)), eps), weight, bias)


def local_response_norm(input: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Array:
    """Return the input over a power of the mean square of ``size`` neighbouring channels (axis 1)."""
    before = size // 2
    sides = [(0, 0), (before, size - 1 - before), *[(0, 0)] * (input.ndim - 2)]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(np.square(input), sides), size, axis=1)
    return np.asarray(input / np.power(k + alpha * windows.mean(axis=-1), beta))


def cosine_similarity(x1: Array, x2: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    """Return the product of both over their norms along an axis, which are taken for ``eps`` where they are smaller."""
    first, second = np.broadcast_arrays(x1, x2)
    sizes = [np.maximum(_l2(each, dim), eps) for each in (first, second)]
    return np.asarray((first / sizes[0] * (second / sizes[1])).sum(axis=dim))


def normalize(input: Array, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Array:
    """Return the input over its norm along an axis, which is taken for ``eps`` where it is smaller."""
    size = np.linalg.norm(input, ord=p, axis=dim, keepdims=True) if p != 2 else _l2(input, dim)
    return np.asarray(input / np.maximum(size, eps))


def _l2(input: Array, axis: int) -> Array:
    return np.sqrt(np.square(input).sum(axis=axis, keepdims=True))


def _standardised(input: Array, axes: tuple[int, ...], eps: float) -> Array:
    centred = input - input.mean(axis=axes, keepdims=True)
    return np.asarray(centred / np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + eps))


def _last_axes(input: Array, shape: Sequence[int] | int) -> tuple[int, ...]:
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    if input.shape[input.ndim - len(wanted) :] != wanted:
        raise UnusableError(f"it normalises over {list(wanted)}, and its input has shape {list(input.shape)}")
    return tuple(range(input.ndim - len(wanted), input.ndim))


def _affine(values: Array, weight: Array | None, bias: Array | None) -> Array:
    scaled = values if weight is None else values * weight
    return scaled if bias is None else scaled + bias


def _of_channels(values: Array, ndim: int) -> Array:
    return values.reshape(1, -1, *[1] * (ndim - 2))


def _per_channel(values: Array, weight: Array | None, bias: Array | None) -> Array:
    return _affine(values, *(None if each is None else _of_channels(each, values.ndim) for each in (weight, bias)))


torch_batch_norm = in_order_of_torch(batch_norm)
torch_instance_norm = in_order_of_torch(instance_norm)
