"""Gradients of the most frequent operators, in float64 and with numpy alone.

Each function takes the arguments of the call by name and the gradient of its result, and returns gradients by the
names of the arguments. Which of them a dump records, and in which order, is up to the framework.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.numpy_core import convolution, elementwise, moves, normalising, products, reductions
from probe_flow.apis.numpy_core.names import OPERATORS, TORCH, Function

Array = NDArray[Any]
Given = Mapping[str, Any]
Gradients = dict[str, Array]
Rule: TypeAlias = "Callable[[Given, Array], Gradients]"


def rule_of(function: Function) -> Rule:
    """Return what gives the gradients of an operator.

    Raises:
        UnusableError: nothing does.
    """
    if function in _RULES:
        return _RULES[function]
    raise UnusableError("its gradient is not computed", is_expected=True)


def has_gradient(function: Function) -> bool:
    """Return whether the gradients of an operator are computed."""
    return function in _RULES


def _matmul(given: Given, gradient: Array, names: tuple[str, str] = ("input", "other")) -> Gradients:
    left, right = given[names[0]], given[names[1]]
    if left.ndim < 2 or right.ndim < 2:
        raise UnusableError("the gradient of a product with a vector is not computed")
    return {
        names[0]: _like(gradient @ right.swapaxes(-1, -2), left),
        names[1]: _like(left.swapaxes(-1, -2) @ gradient, right),
    }


def _mm(given: Given, gradient: Array) -> Gradients:
    return _matmul(given, gradient, ("input", "mat2"))


def _linear(given: Given, gradient: Array) -> Gradients:
    source, weight = given["input"], given["weight"]
    if weight.ndim != 2:
        raise UnusableError("the gradient of a linear layer with one output is not computed")
    rows, incoming = source.reshape(-1, source.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
    found = {"input": gradient @ weight, "weight": incoming.T @ rows}
    return found if given.get("bias") is None else {**found, "bias": incoming.sum(axis=0)}


def _addmm(given: Given, gradient: Array) -> Gradients:
    alpha, beta = given.get("alpha", 1), given.get("beta", 1)
    first, second = (name for name in given if name.startswith(("mat", "batch")))
    found = _matmul({first: given[first], second: given[second]}, alpha * gradient, (first, second))
    return {**found, "input": _like(beta * gradient, given["input"])}


def _add(given: Given, gradient: Array) -> Gradients:
    alpha = given.get("alpha", 1)
    return _of_operands(given, gradient, np.multiply(alpha, gradient))


def _sub(given: Given, gradient: Array) -> Gradients:
    return _of_operands(given, gradient, np.multiply(-given.get("alpha", 1), gradient))


def _mul(given: Given, gradient: Array) -> Gradients:
    return _of_operands(given, gradient * given["other"], gradient * given["input"])


def _div(given: Given, gradient: Array) -> Gradients:
    one, other = given["input"], given["other"]
    return _of_operands(given, gradient / other, -gradient * one / (np.asarray(other) ** 2))


def _pow(given: Given, gradient: Array) -> Gradients:
    base, power = given["input"], given["exponent"]
    if not isinstance(base, np.ndarray) or isinstance(power, np.ndarray):
        raise UnusableError("only the gradient of a power with a plain exponent is computed")
    return {"input": gradient * power * np.power(base, power - 1) if power else np.zeros_like(base)}


def _of_operands(given: Given, first: Any, second: Any) -> Gradients:
    found = {"input": first, "other": second}
    return {name: _like(np.asarray(each), given[name]) for name, each in found.items() if _is_tensor(given[name])}


def _slope(slope: Callable[[Array], Array]) -> Rule:
    """Return the rule of a function of one element, by its derivative there."""

    def rule(given: Given, gradient: Array) -> Gradients:
        return {"input": gradient * slope(given["input"])}

    return rule


def _gelu(given: Given, gradient: Array) -> Gradients:
    x = given["input"]
    if given.get("approximate", "none") == "tanh":
        factor = math.sqrt(2 / math.pi)
        bent = np.tanh(factor * (x + 0.044715 * x**3))
        slope = 0.5 * (1 + bent) + 0.5 * x * (1 - bent**2) * factor * (1 + 3 * 0.044715 * x**2)
    else:
        slope = 0.5 * (1 + elementwise.erf(x * math.sqrt(0.5))) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return {"input": gradient * slope}


def _leaky_relu(given: Given, gradient: Array) -> Gradients:
    return {"input": gradient * np.where(given["input"] > 0, 1.0, given.get("negative_slope", 0.01))}


def _silu_slope(x: Array) -> Array:
    share = elementwise.sigmoid(x)
    return np.asarray(share * (1 + x * (1 - share)))


def _softmax(given: Given, gradient: Array) -> Gradients:
    axis = given.get("dim")
    result = normalising.softmax(given["input"], axis)
    axis = axis if isinstance(axis, int) else 0 if gradient.ndim in (0, 1, 3) else 1
    return {"input": result * (gradient - (gradient * result).sum(axis=axis, keepdims=True))}


def _log_softmax(given: Given, gradient: Array) -> Gradients:
    axis = given.get("dim")
    result = normalising.softmax(given["input"], axis)
    axis = axis if isinstance(axis, int) else 0 if gradient.ndim in (0, 1, 3) else 1
    return {"input": gradient - result * gradient.sum(axis=axis, keepdims=True)}


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


def _conv(given: Given, gradient: Array) -> Gradients:
    source, weight = given["input"], given["weight"]
    axes = weight.ndim - 2
    padding = given.get("padding", 0)
    if given.get("groups", 1) != 1 or isinstance(padding, str) or source.ndim != weight.ndim:
        raise UnusableError("the gradient of a convolution in groups, or with named padding, is not computed")
    steps, pads, gaps = (
        [each] * axes if isinstance(each, int) else list(each)
        for each in (given.get("stride", 1), padding, given.get("dilation", 1))
    )
    more = [
        size + 2 * pad - gap * (length - 1) - 1 - (out - 1) * step
        for size, pad, gap, length, out, step in zip(
            source.shape[2:], pads, gaps, weight.shape[2:], gradient.shape[2:], steps, strict=True
        )
    ]
    of_input = convolution.conv_transpose(gradient, weight, None, steps, pads, more, 1, gaps)
    swapped = convolution.conv(source.swapaxes(0, 1), gradient.swapaxes(0, 1), None, gaps, pads, steps)
    cut: Any = (slice(None), slice(None), *(slice(length) for length in weight.shape[2:]))
    found = {"input": of_input, "weight": swapped[cut].swapaxes(0, 1)}
    if given.get("bias") is None:
        return found
    return {**found, "bias": gradient.sum(axis=(0, *range(2, gradient.ndim)))}


def _reshaped(given: Given, gradient: Array) -> Gradients:
    return {"input": gradient.reshape(given["input"].shape)}


def _transpose(given: Given, gradient: Array) -> Gradients:
    return {"input": gradient.swapaxes(given["dim0"], given["dim1"])}


def _permute(given: Given, gradient: Array) -> Gradients:
    dims = given["dims"]
    order = dims[0] if len(dims) == 1 and isinstance(dims[0], tuple | list) else dims
    return {"input": gradient.transpose(np.argsort([each % gradient.ndim for each in order]))}


def _expanded(given: Given, gradient: Array) -> Gradients:
    return {"input": _like(gradient, given["input"])}


def _summed(given: Given, gradient: Array) -> Gradients:
    return {"input": np.broadcast_to(_kept(given, gradient), given["input"].shape)}


def _meaned(given: Given, gradient: Array) -> Gradients:
    source = given["input"]
    share = gradient.size / source.size
    return {"input": np.broadcast_to(_kept(given, gradient), source.shape) * share}


def _kept(given: Given, gradient: Array) -> Array:
    """Return the gradient of a reduction with its axes of length 1 again."""
    dim = given.get("dim")
    if dim is None or dim == () or given.get("keepdim"):
        return gradient
    source = given["input"]
    axes = {each % source.ndim for each in (dim if isinstance(dim, tuple | list) else (dim,))}
    return gradient.reshape([1 if axis in axes else size for axis, size in enumerate(source.shape)])


def _embedding(given: Given, gradient: Array) -> Gradients:
    found = np.zeros(given["weight"].shape)
    np.add.at(found, given["input"].astype(np.int64), gradient)
    skipped = given.get("padding_idx")
    if skipped is not None:
        found[skipped] = 0.0
    return {"weight": found}


def _masked_fill(given: Given, gradient: Array) -> Gradients:
    return {"input": np.where(given["mask"], 0.0, gradient)}


def _like(gradient: Array, operand: Array) -> Array:
    """Return a gradient summed over the axes along which its operand was repeated."""
    extra = gradient.ndim - operand.ndim
    summed = gradient.sum(axis=tuple(range(extra))) if extra else gradient
    axes = tuple(axis for axis, size in enumerate(operand.shape) if size == 1 and summed.shape[axis] != 1)
    return summed.sum(axis=axes, keepdims=True) if axes else summed


def _is_tensor(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


_RULES: Mapping[Function, Rule] = MappingProxyType(
    {
        products.matmul: _matmul, products.mm: _mm, products.linear: _linear, products.addmm: _addmm,
        products.baddbmm: _addmm, elementwise.add: _add, elementwise.sub: _sub, TORCH["mul"]: _mul,
        OPERATORS["mul"]: _mul, OPERATORS["rmul"]: _mul, OPERATORS["radd"]: _add, TORCH["multiply"]: _mul,
        elementwise.div: _div, elementwise.pow: _pow,
        elementwise.relu: _slope(lambda x: np.asarray(x > 0, float)), elementwise.gelu: _gelu,
        elementwise.leaky_relu: _leaky_relu, elementwise.silu: _slope(_silu_slope),
        elementwise.sigmoid: _slope(lambda x: elementwise.sigmoid(x) * elementwise.sigmoid(-x)),
        elementwise.rsqrt: _slope(lambda x: -0.5 * x**-1.5), elementwise.reciprocal: _slope(lambda x: -1.0 / (x * x)),
        elementwise.erf: _slope(lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x)),
        TORCH["tanh"]: _slope(lambda x: 1 - np.tanh(x) ** 2), TORCH["exp"]: _slope(np.exp),
        TORCH["log"]: _slope(lambda x: 1.0 / x), TORCH["sqrt"]: _slope(lambda x: 0.5 / np.sqrt(x)),
        TORCH["neg"]: _slope(lambda x: np.full_like(x, -1.0)), TORCH["abs"]: _slope(np.sign),
        TORCH["sin"]: _slope(np.cos), TORCH["cos"]: _slope(lambda x: -np.sin(x)),
        TORCH["square"]: _slope(lambda x: 2.0 * x), elementwise.masked_fill: _masked_fill,
        normalising.softmax: _softmax, normalising.log_softmax: _log_softmax, normalising.layer_norm: _layer_norm,
        normalising.batch_norm: _batch_norm, normalising.torch_batch_norm: _batch_norm, convolution.conv: _conv,
        moves.reshape: _reshaped, moves.view_as: _reshaped, moves.flatten: _reshaped, moves.squeeze: _reshaped,
        moves.unsqueeze: _reshaped, moves.same: _reshaped, moves.transpose: _transpose, moves.permute: _permute,
        moves.expand: _expanded, moves.expand_as: _expanded, moves.embedding: _embedding,
        reductions.total: _summed, reductions.mean: _meaned,
    }
)  # fmt: skip
