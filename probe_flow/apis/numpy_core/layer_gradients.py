"""Gradients of layers: convolution, pooling, norms, look-ups, losses. As `gradients`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.numpy_core import convolution, losses, moves, normalising
from probe_flow.apis.numpy_core.convolution import each_axis, padded_sides
from probe_flow.apis.numpy_core.elementwise import sigmoid

Array = NDArray[Any]
Given = Mapping[str, Any]
Gradients = dict[str, Array]

# -- convolution and pooling


def _conv(given: Given, gradient: Array) -> Gradients:
    source, weight = given["input"], given["weight"]
    axes, groups = weight.ndim - 2, given.get("groups", 1)
    is_single = source.ndim == axes + 1
    x, incoming = (source[None], gradient[None]) if is_single else (source, gradient)
    steps, gaps = each_axis(given.get("stride", 1), axes), each_axis(given.get("dilation", 1), axes)
    reach = [gap * (size - 1) + 1 for gap, size in zip(gaps, weight.shape[2:], strict=True)]
    pads = padded_sides(given.get("padding", 0), reach, axes)
    padded = np.pad(x, [(0, 0), (0, 0), *pads])
    whole, of_weight = np.zeros(padded.shape), np.zeros(weight.shape)
    given_channels, made = weight.shape[1], weight.shape[0] // groups
    for group, place in itertools.product(range(groups), np.ndindex(*weight.shape[2:])):
        at = _windows_at(place, gaps, steps, incoming.shape[2:])
        part = incoming[:, group * made : (group + 1) * made]
        read: Any = (slice(None), slice(group * given_channels, (group + 1) * given_channels), *at)
        kernel: Any = (slice(group * made, (group + 1) * made), slice(None), *place)
        whole[read] += np.moveaxis(np.tensordot(part, weight[kernel], axes=([1], [0])), -1, 1)
        others = [0, *range(2, x.ndim)]
        of_weight[kernel] = np.tensordot(part, padded[read], axes=(others, others))
    cut: Any = (slice(None), slice(None), *(slice(a, a + n) for (a, _), n in zip(pads, x.shape[2:], strict=True)))
    of_input = whole[cut]
    found = {"input": of_input[0] if is_single else of_input, "weight": of_weight}
    return _with_bias(found, given, incoming)


def _conv_transpose(given: Given, gradient: Array) -> Gradients:
    source, weight, groups = given["input"], given["weight"], given.get("groups", 1)
    if source.ndim != weight.ndim:
        raise UnusableError("the gradient of a transposed convolution of one image is not computed")
    more = each_axis(given.get("output_padding", 0), weight.ndim - 2)
    how = {name: given.get(name, default) for name, default in (("stride", 1), ("padding", 0), ("dilation", 1))}
    of_input = convolution.conv(gradient, weight, None, how["stride"], how["padding"], how["dilation"], groups)
    if of_input.shape != source.shape:  # what is padded behind was read by nothing
        of_input = of_input[tuple(slice(size) for size in source.shape)]
    turned = {"input": gradient, "weight": weight, "groups": groups, **how}
    found = {"input": of_input, "weight": _conv(turned, _widened(source, gradient, weight, how, more))["weight"]}
    return _with_bias(found, given, gradient)


def _widened(source: Array, gradient: Array, weight: Array, how: Given, more: Sequence[int]) -> Array:
    """Return what a convolution gives of the gradient in shape: the input, and 0 where it has less."""
    if not any(more):
        return source
    axes = weight.ndim - 2
    steps, pads, gaps = (each_axis(how[name], axes) for name in ("stride", "padding", "dilation"))
    sizes = [
        (size + 2 * pad - gap * (length - 1) - 1) // step + 1
        for size, pad, gap, length, step in zip(gradient.shape[2:], pads, gaps, weight.shape[2:], steps, strict=True)
    ]
    lacking = [(0, size - own) for size, own in zip(sizes, source.shape[2:], strict=True)]
    return np.pad(source, [(0, 0), (0, 0), *lacking])


def _with_bias(found: Gradients, given: Given, gradient: Array) -> Gradients:
    if given.get("bias") is None:
        return found
    return {**found, "bias": gradient.sum(axis=(0, *range(2, gradient.ndim)))}


def _windows_at(
    place: Sequence[int], gaps: Sequence[int], steps: Sequence[int], counts: Sequence[int]
) -> tuple[slice, ...]:
    """Return where the elements at one place of all windows lie."""
    return tuple(
        slice(at * gap, at * gap + (count - 1) * step + 1, step)
        for at, gap, step, count in zip(place, gaps, steps, counts, strict=True)
    )


def _pool(axes: int, share: Callable[[Given, Array, Array], Array]) -> Callable[[Given, Array], Gradients]:
    """Return the rule of a pooling over so many axes.

    ``share`` gives, of the gradient, what the elements at one place of all windows get.
    """

    def rule(given: Given, gradient: Array) -> Gradients:
        source = given["input"]
        if given.get("ceil_mode"):
            raise UnusableError("the gradient of a pooling with `ceil_mode` is not computed")
        kernel = each_axis(given["kernel_size"], axes)
        stride = given.get("stride")
        steps = kernel if stride in (None, (), []) else each_axis(stride, axes)
        gaps = each_axis(given.get("dilation", 1), axes)
        reach = [gap * (size - 1) + 1 for gap, size in zip(gaps, kernel, strict=True)]
        pads = padded_sides(given.get("padding", 0), reach, axes)
        none = [(0, 0)] * (source.ndim - axes)
        whole = np.zeros([size + sum(pair) for size, pair in zip(source.shape, [*none, *pads], strict=True)])
        slices: list[Any] = [
            (..., *_windows_at(place, gaps, steps, gradient.shape[-axes:])) for place in np.ndindex(*kernel)
        ]
        padded = np.pad(source, [*none, *pads], constant_values=-np.inf)
        parts = np.stack([padded[at] for at in slices])
        for at, part in zip(slices, share(given, gradient, parts), strict=True):
            whole[at] += part
        cut = tuple(slice(a, a + n) for (a, _), n in zip([*none, *pads], source.shape, strict=True))
        return {"input": whole[cut]}

    return rule


def _to_largest(given: Given, gradient: Array, parts: Array) -> Array:  # noqa: ARG001
    largest = parts.max(axis=0)
    if (((parts == largest).sum(axis=0) > 1) & (gradient != 0)).any():
        raise UnusableError("which of equal elements gets a gradient is up to the kernel")
    chosen = parts.argmax(axis=0)
    return np.stack([np.where(chosen == place, gradient, 0.0) for place in range(len(parts))])


def _to_all(given: Given, gradient: Array, parts: Array) -> Array:
    divisor = given.get("divisor_override")
    inside = ~np.isneginf(parts)  # what is padded is that, so an input of -inf counts as padding
    counts: Any = len(parts) if given.get("count_include_pad", True) else inside.sum(axis=0)
    return np.where(inside, gradient / (counts if divisor is None else divisor), 0.0)


def _adaptive(axes: int) -> Callable[[Given, Array], Gradients]:
    def rule(given: Given, gradient: Array) -> Gradients:
        found = gradient
        for axis in range(-axes, 0):
            size, parts = given["input"].shape[axis], gradient.shape[axis]
            spread = np.zeros((parts, size))
            for part in range(parts):
                first, last = part * size // parts, -(-(part + 1) * size // parts)
                spread[part, first:last] = 1 / (last - first)
            found = np.moveaxis(np.tensordot(found, spread, axes=([axis], [0])), -1, axis)
        return {"input": found}

    return rule


# -- norms


def _layer_norm(given: Given, gradient: Array) -> Gradients:
    source, shape = given["input"], given["normalized_shape"]
    count = 1 if isinstance(shape, int) else len(shape)
    axes = tuple(range(source.ndim - count, source.ndim))
    others = tuple(range(source.ndim - count))
    return _standardised(given, gradient, axes, lambda values: values.sum(axis=others), lambda values: values)


def _batch_norm(given: Given, gradient: Array) -> Gradients:
    source = given["input"]
    others = (0, *range(2, source.ndim))

    def spread(values: Array) -> Array:
        return values.reshape(1, -1, *[1] * (source.ndim - 2))

    if given.get("training", False):
        return _standardised(given, gradient, others, lambda values: values.sum(axis=others), spread)
    scale = 1 / np.sqrt(given["running_var"] + given.get("eps", 1e-5))
    centred = (source - spread(given["running_mean"])) * spread(scale)
    weight = given.get("weight")
    found = {"input": gradient * spread(scale if weight is None else scale * weight)}
    if weight is not None:
        found |= {"weight": (gradient * centred).sum(axis=others)}
    return found if given.get("bias") is None else {**found, "bias": gradient.sum(axis=others)}


def _standardised(
    given: Given,
    gradient: Array,
    axes: tuple[int, ...],
    of_parameter: Callable[[Array], Array],
    spread: Callable[[Array], Array],
) -> Gradients:
    """Return the gradients of what is centred, divided by its deviation over axes, scaled and moved."""
    source, weight = given["input"], given.get("weight")
    centred = source - source.mean(axis=axes, keepdims=True)
    scale = 1 / np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + given.get("eps", 1e-5))
    shaped = centred * scale
    inner = gradient if weight is None else gradient * spread(weight)
    mean, common = (each.mean(axis=axes, keepdims=True) for each in (inner, inner * shaped))
    found = {"input": scale * (inner - mean - shaped * common)}
    if weight is not None:
        found |= {"weight": of_parameter(gradient * shaped)}
    return found if given.get("bias") is None else {**found, "bias": of_parameter(gradient)}


def _group_norm(given: Given, gradient: Array) -> Gradients:
    source, groups, weight = given["input"], given["num_groups"], given.get("weight")
    others = (0, *range(2, source.ndim))

    def spread(values: Array) -> Array:
        return values.reshape(1, -1, *[1] * (source.ndim - 2))

    grouped = source.reshape(source.shape[0], groups, -1)
    inner = gradient if weight is None else gradient * spread(weight)
    plain = {"input": grouped, "eps": given.get("eps", 1e-5)}
    found = _standardised(plain, inner.reshape(grouped.shape), (2,), lambda values: values, lambda values: values)
    result = {"input": found["input"].reshape(source.shape)}
    if weight is not None:
        shaped = normalising.group_norm(source, groups, eps=given.get("eps", 1e-5))
        result["weight"] = (gradient * shaped).sum(axis=others)
    return result if given.get("bias") is None else {**result, "bias": gradient.sum(axis=others)}


def _instance_norm(given: Given, gradient: Array) -> Gradients:
    source, weight, bias = given["input"], given.get("weight"), given.get("bias")
    if not given.get("use_input_stats", True):
        return _batch_norm({**given, "training": False}, gradient)
    channels = source.shape[1]
    plain = {"input": source, "num_groups": channels, "eps": given.get("eps", 1e-5), "weight": weight, "bias": bias}
    return _group_norm(plain, gradient)


def _rms_norm(given: Given, gradient: Array) -> Gradients:
    source, weight, shape = given["input"], given.get("weight"), given["normalized_shape"]
    if given.get("eps") is None:
        raise UnusableError("its `eps` is that of the element type, which the call does not name")
    count = 1 if isinstance(shape, int) else len(shape)
    axes, others = tuple(range(source.ndim - count, source.ndim)), tuple(range(source.ndim - count))
    scale = 1 / np.sqrt(np.square(source).mean(axis=axes, keepdims=True) + given["eps"])
    inner = gradient if weight is None else gradient * weight
    common = (inner * source).mean(axis=axes, keepdims=True)
    found = {"input": scale * inner - source * scale**3 * common}
    return found if weight is None else {**found, "weight": (gradient * source * scale).sum(axis=others)}


# -- look-ups and losses


def _embedding(given: Given, gradient: Array) -> Gradients:
    found = np.zeros(given["weight"].shape)
    np.add.at(found, given["input"].astype(np.int64), gradient)
    skipped = given.get("padding_idx")
    if skipped is not None:
        found[skipped] = 0.0
    return {"weight": found}


def _cross_entropy(given: Given, gradient: Array) -> Gradients:
    scores, target = given["input"], given["target"]
    smoothing = given.get("label_smoothing") or 0.0
    if target.dtype.kind == "f" or (smoothing and given.get("weight") is not None):
        raise UnusableError("the gradient by probabilities, or by weights and smoothed labels, is not computed")
    axis = 0 if scores.ndim == 1 else 1
    shares = normalising.softmax(scores, axis)
    due, factor = _due(given, gradient, axis)
    smoothed = (1 - smoothing) * due + smoothing / scores.shape[axis]
    return {"input": (shares - smoothed) * factor}


def _nll_loss(given: Given, gradient: Array) -> Gradients:
    axis = 0 if given["input"].ndim == 1 else 1
    due, factor = _due(given, gradient, axis)
    return {"input": -due * factor}


def _due(given: Given, gradient: Array, axis: int) -> tuple[Array, Array]:
    """Return 1 at the classes that are due, and the weight of each in the loss, times the gradient of that."""
    scores, target, weight = given["input"], given["target"], given.get("weight")
    if given.get("size_average") is not None or given.get("reduce") is not None:
        raise UnusableError("`size_average` and `reduce` are not computed")
    classes = scores.shape[axis]
    counts = target != given.get("ignore_index", -100)
    places = np.where(counts, target, 0).astype(np.int64)
    if places.size and (places.min() < 0 or places.max() >= classes):
        raise UnusableError("its target names classes that there are not")
    due = np.moveaxis(np.eye(classes)[places], -1, axis)
    share = np.where(counts, 1.0 if weight is None else weight[places], 0.0)
    whole = share.sum() if given.get("reduction", "mean") == "mean" else 1.0
    return due, np.expand_dims(share * gradient / whole, axis)


def _difference(slope: Callable[[Given, Array], Array]) -> Callable[[Given, Array], Gradients]:
    """Return the rule of a loss of differences, by its derivative there."""

    def rule(given: Given, gradient: Array) -> Gradients:
        if given.get("size_average") is not None or given.get("reduce") is not None:
            raise UnusableError("`size_average` and `reduce` are not computed")
        gap = given["input"] - given["target"]
        if gap.shape != given["input"].shape or gap.shape != given["target"].shape:
            raise UnusableError("the gradient of a loss of which one side is repeated is not computed")
        found = gradient * slope(given, gap) / (gap.size if given.get("reduction", "mean") == "mean" else 1)
        return {"input": found, "target": -found}

    return rule


def _smooth(given: Given, gap: Array) -> Array:
    beta = given.get("beta", 1.0)
    return np.where(np.abs(gap) < beta, gap / (beta or 1.0), np.sign(gap))


def _huber(given: Given, gap: Array) -> Array:
    delta = given.get("delta", 1.0)
    return np.clip(gap, -delta, delta) * (1.0 if given.get("weight") is None else given["weight"])


def _binary_cross_entropy(given: Given, gap: Array) -> Array:
    share = given["input"]
    return gap / np.maximum(share * (1 - share), 1e-12) * (1.0 if given.get("weight") is None else given["weight"])


def _of_input(rule: Callable[[Given, Array], Gradients]) -> Callable[[Given, Array], Gradients]:
    """Return the rule of a loss whose target has another gradient than its input turned."""
    return lambda given, gradient: {"input": rule(given, gradient)["input"]}


def _kl_div(given: Given, gradient: Array) -> Gradients:
    scores, target, reduction = given["input"], given["target"], given.get("reduction", "mean")
    if given.get("size_average") is not None or given.get("reduce") is not None or scores.shape != target.shape:
        raise UnusableError("`size_average`, `reduce` and a side that is repeated are not computed")
    whole = {"mean": scores.size, "batchmean": len(scores)}.get(reduction, 1)
    return {"input": -gradient * (np.exp(target) if given.get("log_target") else target) / whole}


def _bce_with_logits(given: Given, gradient: Array) -> Gradients:
    scores, target, weight, positive = (given.get(name) for name in ("input", "target", "weight", "pos_weight"))
    if scores is None or target is None or given.get("size_average") is not None or given.get("reduce") is not None:
        raise UnusableError("`size_average` and `reduce` are not computed")
    factor = 1.0 if positive is None else 1 + (positive - 1) * target
    slope = (1 - target) - factor * sigmoid(-scores)
    whole = scores.size if given.get("reduction", "mean") == "mean" else 1
    return {"input": gradient * slope * (1.0 if weight is None else weight) / whole}


LAYER_RULES: Mapping[Callable[..., Any], Callable[[Given, Array], Gradients]] = MappingProxyType(
    {
        convolution.conv: _conv, convolution.conv_transpose: _conv_transpose,
        **{convolution.MAX_POOLS[axes]: _pool(axes, _to_largest) for axes in convolution.MAX_POOLS},
        **{convolution.AVG_POOLS[axes]: _pool(axes, _to_all) for axes in convolution.AVG_POOLS},
        **{convolution.ADAPTIVE_POOLS[axes]: _adaptive(axes) for axes in convolution.ADAPTIVE_POOLS},
        normalising.layer_norm: _layer_norm, normalising.batch_norm: _batch_norm,
        normalising.torch_batch_norm: _batch_norm, normalising.group_norm: _group_norm,
        normalising.rms_norm: _rms_norm, moves.embedding: _embedding,
        losses.cross_entropy: _cross_entropy, losses.nll_loss: _nll_loss,
        losses.mse_loss: _difference(lambda _, gap: 2 * gap), losses.l1_loss: _difference(lambda _, gap: np.sign(gap)),
        losses.smooth_l1_loss: _difference(_smooth), losses.bce_with_logits: _bce_with_logits,
        losses.huber_loss: _difference(_huber), losses.kl_div: _kl_div,
        losses.binary_cross_entropy: _of_input(_difference(_binary_cross_entropy)),
        normalising.instance_norm: _instance_norm, normalising.torch_instance_norm: _instance_norm,
    }
)  # fmt: skip
