"""Losses over classes and over differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.numpy_core.normalising import log_softmax

Array = NDArray[Any]


def cross_entropy(
    input: Array,
    target: Array,
    weight: Array | None = None,
    size_average: object = None,
    ignore_index: int = -100,
    reduce: object = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """Return the negative logarithm of the probability of the class that is due, or of a mixture of classes.

    Args:
        input: scores, ``(classes,)`` or ``(batch, classes, ...)``.
        target: numbers of classes, ``()`` or ``(batch, ...)``, or probabilities of the shape of the input.
        weight: of each class.
        size_average, reduce: older words for the reduction, which are refused.
        ignore_index: class that does not count.
        reduction: ``mean``, ``sum`` or ``none``.
        label_smoothing: share of the classes that are not due.
    """
    _not_older(size_average, reduce)
    axis = 0 if input.ndim == 1 else 1
    logs, classes = log_softmax(input, axis), input.shape[axis]
    of_classes = np.ones(classes) if weight is None else weight
    shaped = of_classes.reshape([-1 if each == axis else 1 for each in range(input.ndim)])
    if target.dtype.kind == "f":
        due = target * (1 - label_smoothing) + label_smoothing / classes
        losses = -(due * logs * shaped).sum(axis=axis)
        return _reduced(losses, reduction)
    one, counts = _of_class(logs * shaped, target, axis, ignore_index)
    share = np.where(counts, of_classes[np.where(counts, target, 0).astype(np.int64)], 0.0)
    losses = -(1 - label_smoothing) * one
    if label_smoothing:
        losses = losses - np.where(counts, (logs * shaped).sum(axis=axis), 0.0) * label_smoothing / classes
    return _reduced(losses, reduction, share.sum())


def nll_loss(
    input: Array,
    target: Array,
    weight: Array | None = None,
    size_average: object = None,
    ignore_index: int = -100,
    reduce: object = None,
    reduction: str = "mean",
) -> Array:
    """Return the same of logarithms of probabilities."""
    _not_older(size_average, reduce)
    axis = 0 if input.ndim == 1 else 1
    of_classes = np.ones(input.shape[axis]) if weight is None else weight
    one, counts = _of_class(input, target, axis, ignore_index)
    share = np.where(counts, of_classes[np.where(counts, target, 0).astype(np.int64)], 0.0)
    return _reduced(-one * share, reduction, share.sum())


def mse_loss(
    input: Array, target: Array, size_average: object = None, reduce: object = None, reduction: str = "mean"
) -> Array:
    """Return the square of the difference."""
    _not_older(size_average, reduce)
    return _reduced(np.square(input - target), reduction)


def l1_loss(
    input: Array, target: Array, size_average: object = None, reduce: object = None, reduction: str = "mean"
) -> Array:
    """Return the size of the difference."""
    _not_older(size_average, reduce)
    return _reduced(np.abs(input - target), reduction)


def smooth_l1_loss(
    input: Array,
    target: Array,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Array:
    """Return the size of the difference less half of beta, half its square over beta where it is smaller than that."""
    _not_older(size_average, reduce)
    gap = np.abs(input - target)
    return _reduced(np.where(gap < beta, 0.5 * gap * gap / (beta or 1.0), gap - 0.5 * beta), reduction)


def bce_with_logits(
    input: Array,
    target: Array,
    weight: Array | None = None,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
    pos_weight: Array | None = None,
) -> Array:
    """Return the cross entropy of two classes by the score of one."""
    _not_older(size_average, reduce)
    factor = 1.0 if pos_weight is None else 1 + (pos_weight - 1) * target
    losses = (1 - target) * input + factor * np.logaddexp(0, -input)
    return _reduced(losses if weight is None else losses * weight, reduction)


def binary_cross_entropy(
    input: Array,
    target: Array,
    weight: Array | None = None,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
) -> Array:
    """Return the cross entropy of two classes by the probability of one; no logarithm counts below -100."""
    _not_older(size_average, reduce)
    with np.errstate(divide="ignore"):
        logs = [np.maximum(np.log(each), -100.0) for each in (input, 1 - input)]
    losses = -(target * logs[0] + (1 - target) * logs[1])
    return _reduced(losses if weight is None else losses * weight, reduction)


def kl_div(
    input: Array,
    target: Array,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Array:
    """Return ``target * (log(target) - input)``, 0 where the target is; ``batchmean`` divides by the first axis."""
    _not_older(size_average, reduce)
    if log_target:
        losses = np.exp(target) * (target - input)
    else:
        known = np.where(target > 0, target, 1.0)
        losses = np.where(target > 0, known * np.log(known), 0.0) - target * input
    return _reduced(losses, "sum", None) / input.shape[0] if reduction == "batchmean" else _reduced(losses, reduction)


def huber_loss(
    input: Array, target: Array, reduction: str = "mean", delta: float = 1.0, weight: Array | None = None
) -> Array:
    """Return half the square of the difference; beyond delta, delta times its size less half of delta."""
    gap = np.abs(input - target)
    losses = np.where(gap <= delta, 0.5 * gap * gap, delta * (gap - 0.5 * delta))
    return _reduced(losses if weight is None else losses * weight, reduction)


def pairwise_distance(x1: Array, x2: Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Array:
    """Return the norm along the last axis of the difference, to which ``eps`` is added."""
    return np.asarray(np.linalg.norm(x1 - x2 + eps, ord=p, axis=-1, keepdims=keepdim))


def triplet_margin_loss(
    anchor: Array,
    positive: Array,
    negative: Array,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
) -> Array:
    """Return by how much less than the margin the negative is further away than the positive."""
    _not_older(size_average, reduce)
    near, far = (pairwise_distance(anchor, each, p, eps) for each in (positive, negative))
    if swap:
        far = np.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduced(np.maximum(margin + near - far, 0), reduction)


def _of_class(values: Array, target: Array, axis: int, ignored: int) -> tuple[Array, Array]:
    """Return the values of the classes that are due, and which of these count."""
    counts = target != ignored
    due = np.where(counts, target, 0).astype(np.int64)
    if due.size and (due.min() < 0 or due.max() >= values.shape[axis]):
        raise UnusableError("its target names classes that there are not")
    found = np.take_along_axis(values, np.expand_dims(due, axis), axis=axis).squeeze(axis)
    return np.where(counts, found, 0.0), counts


def _reduced(losses: Array, reduction: str, count: float | None = None) -> Array:
    if reduction == "none":
        return losses
    if reduction == "sum":
        return np.asarray(losses.sum())
    if reduction == "mean":
        return np.asarray(losses.sum() / (losses.size if count is None else count))
    raise UnusableError(f"reduction `{reduction}` is not known")


def _not_older(*given: object) -> None:
    if any(each is not None for each in given):
        raise UnusableError("`size_average` and `reduce` are not computed")
