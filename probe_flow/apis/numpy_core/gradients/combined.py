"""Gradients of what combines elements: what is added up or spread along axes, gates of two halves, einsum.

Left out are those that healthy kernels of 16 bits make of values that they rounded on the way (products of an axis,
cosines, fused attention): held against these, they are off by more than one rounding of what they read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.numpy_core import elementwise, normalising, products, reductions
from probe_flow.apis.numpy_core.elementwise import sigmoid
from probe_flow.apis.numpy_core.gradients.moved import Given, Gradients, Rule, summed_like
from probe_flow.apis.numpy_core.names import OPERATORS

Array = NDArray[Any]


def _of_tensors(given: Given, parts: Mapping[str, Any]) -> Gradients:
    """Return the gradients of those arguments that are tensors, each in the shape of its own."""
    tensors = {name: part for name, part in parts.items() if isinstance(given[name], np.ndarray)}
    return {name: summed_like(np.asarray(part), given[name]) for name, part in tensors.items()}


def _addcmul(given: Given, gradient: Array) -> Gradients:
    one, two, factor = given["tensor1"], given["tensor2"], given.get("value", 1)
    return _of_tensors(
        given, {"input": gradient, "tensor1": factor * gradient * two, "tensor2": factor * gradient * one}
    )


def _addcdiv(given: Given, gradient: Array) -> Gradients:
    one, two, factor = given["tensor1"], given["tensor2"], given.get("value", 1)
    parts = {
        "input": gradient,
        "tensor1": factor * gradient / two,
        "tensor2": -factor * gradient * one / np.square(two),
    }
    return _of_tensors(given, parts)


def _lerp(given: Given, gradient: Array) -> Gradients:
    start, end, weight = given["input"], given["end"], given["weight"]
    parts = {"input": gradient * (1 - weight), "end": gradient * weight, "weight": gradient * np.subtract(end, start)}
    return _of_tensors(given, parts)


def _turned_sub(given: Given, gradient: Array) -> Gradients:
    return _of_tensors(given, {"input": -given.get("alpha", 1) * gradient, "other": gradient})


def _turned_div(given: Given, gradient: Array) -> Gradients:
    divisor = given["input"]
    return _of_tensors(given, {"input": -gradient * given["other"] / np.square(divisor), "other": gradient / divisor})


def _glu(given: Given, gradient: Array) -> Gradients:
    axis = given.get("dim", -1)
    first, second = np.split(given["input"], 2, axis=axis)
    share = sigmoid(second)
    return {"input": np.concatenate([gradient * share, gradient * first * share * (1 - share)], axis=axis)}


def _cumprod(given: Given, gradient: Array) -> Gradients:
    source, axis = _without_zeros(given["input"]), given["dim"]
    terms = gradient * reductions.cumprod(source, axis)
    return {"input": np.flip(np.flip(terms, axis).cumsum(axis=axis), axis) / source}


def _without_zeros(source: Array) -> Array:
    if not source.all():
        raise UnusableError("the gradient of a product with a zero is not computed")
    return source


def _norm(given: Given, gradient: Array) -> Gradients:
    source = given["input"]
    size = reductions.norm(source, given.get("p", given.get("ord", 2)), given.get("dim"), keepdim=True)
    return {"input": gradient.reshape(size.shape) * source / np.where(size > 0, size, 1.0)}


def _variance(given: Given, gradient: Array) -> Gradients:
    slope, variance = _of_spread(given)
    return {"input": slope * gradient.reshape(variance.shape)}


def _deviation(given: Given, gradient: Array) -> Gradients:
    slope, variance = _of_spread(given)
    return {"input": slope * gradient.reshape(variance.shape) / (2 * np.sqrt(variance))}


def _of_spread(given: Given) -> tuple[Array, Array]:
    """Return the slope of a variance at each element, and the variance with its axes."""
    source, dim = given["input"], given.get("dim")
    correction = given.get("correction")
    off = float(dim if isinstance(dim, bool) else given.get("unbiased", True)) if correction is None else correction
    axes = None if isinstance(dim, bool) else dim
    centred = source - reductions.mean(source, axes, keepdim=True)
    variance = reductions.variance(source, axes, keepdim=True, correction=off)
    return 2 * centred / (source.size / variance.size - off), variance


def _normalize(given: Given, gradient: Array) -> Gradients:
    source, axis, least = given["input"], given.get("dim", 1), given.get("eps", 1e-12)
    if given.get("p", 2.0) != 2:
        raise UnusableError("only the gradient by the root of the sum of squares is computed")
    size = reductions.norm(source, 2, axis, keepdim=True)
    result = normalising.normalize(source, 2.0, axis, least)
    common = np.where(size > least, (gradient * result).sum(axis=axis, keepdims=True), 0.0)
    return {"input": (gradient - result * common) / np.maximum(size, least)}


def _local_response_norm(given: Given, gradient: Array) -> Gradients:
    source, size, power = given["input"], given["size"], given.get("beta", 0.75)
    factor, before = given.get("alpha", 1e-4), size // 2
    level = given.get("k", 1.0) + factor * _mean_of_channels(np.square(source), before, size)
    through = _mean_of_channels(gradient * source * level ** (-power - 1), size - 1 - before, size)
    return {"input": gradient * level**-power - 2 * power * factor * source * through}


def _mean_of_channels(values: Array, before: int, size: int) -> Array:
    sides = [(0, 0), (before, size - 1 - before), *[(0, 0)] * (values.ndim - 2)]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(values, sides), size, axis=1)
    return np.asarray(windows.mean(axis=-1))


def _einsum(given: Given, gradient: Array) -> Gradients:
    """Return the gradient of each operand: the product of all others and what came in, over the axes that it has."""
    several = given["operands"]
    operands = several[0] if len(several) == 1 and isinstance(several[0], tuple | list) else several
    inner, arrow, outer = given["equation"].replace(" ", "").partition("->")
    terms = inner.split(",")
    if not arrow or "." in inner or any(len(set(term)) < len(term) for term in (*terms, outer)):
        raise UnusableError("the gradient by an equation that is short, or takes diagonals, is not computed")
    found = {}
    for place, term in enumerate(terms):
        others = [each for number, each in enumerate(operands) if number != place]
        of_others = [each for number, each in enumerate(terms) if number != place]
        known = "".join(axis for axis in term if axis in outer or any(axis in each for each in of_others))
        part = np.einsum(f"{','.join([outer, *of_others])}->{known}", gradient, *others, optimize=True)
        shape = [size if axis in known else 1 for axis, size in zip(term, operands[place].shape, strict=True)]
        name = f"operands.{place}" if operands is several else f"operands.0.{place}"
        found[name] = np.broadcast_to(part.reshape(shape), operands[place].shape)
    return found


def _bilinear(given: Given, gradient: Array) -> Gradients:
    one, two, weight = given["input1"], given["input2"], given["weight"]
    rows = [each.reshape(-1, each.shape[-1]) for each in (one, two, gradient)]
    parts = {
        "input1": np.einsum("bo,oij,bj->bi", rows[2], weight, rows[1], optimize=True).reshape(one.shape),
        "input2": np.einsum("bo,oij,bi->bj", rows[2], weight, rows[0], optimize=True).reshape(two.shape),
        "weight": np.einsum("bo,bi,bj->oij", rows[2], rows[0], rows[1], optimize=True),
    }
    return parts if given.get("bias") is None else {**parts, "bias": rows[2].sum(axis=0)}


COMBINED_RULES: Mapping[Callable[..., Any], Rule] = MappingProxyType(
    {
        elementwise.addcmul: _addcmul, elementwise.addcdiv: _addcdiv, elementwise.lerp: _lerp,
        elementwise.rsub: _turned_sub, OPERATORS["rsub"]: _turned_sub, OPERATORS["rtruediv"]: _turned_div,
        OPERATORS["rdiv"]: _turned_div, elementwise.glu: _glu,
        reductions.cumprod: _cumprod, reductions.norm: _norm,
        reductions.vector_norm: _norm, reductions.variance: _variance, reductions.deviation: _deviation,
        normalising.normalize: _normalize,
        normalising.local_response_norm: _local_response_norm, products.einsum: _einsum,
        products.bilinear: _bilinear,
    }
)  # fmt: skip
