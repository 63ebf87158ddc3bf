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
from probe_flow.apis.numpy_core import elementwise, losses, moves, normalising, products, reductions
from probe_flow.apis.numpy_core.gradients.combined import COMBINED_RULES
from probe_flow.apis.numpy_core.gradients.moved import MOVED_RULES, Given, Gradients, summed_like
from probe_flow.apis.numpy_core.layer_gradients import LAYER_RULES
from probe_flow.apis.numpy_core.names import OPERATORS, TORCH, Function

Array = NDArray[Any]
Rule: TypeAlias = "Callable[[Given, Array], Gradients]"
RuleByResult: TypeAlias = "Callable[[Given, Array, Array], Array]"


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
        names[0]: summed_like(gradient @ right.swapaxes(-1, -2), left),
        names[1]: summed_like(left.swapaxes(-1, -2) @ gradient, right),
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
    return {**found, "input": summed_like(beta * gradient, given["input"])}


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
    return {name: summed_like(np.asarray(each), given[name]) for name, each in found.items() if _is_tensor(given[name])}


def _slope(slope: Callable[[Array], Array]) -> Rule:
    """Return the rule of a function of one element, by its derivative there."""

    def rule(given: Given, gradient: Array) -> Gradients:
        return {"input": gradient * slope(given["input"])}

    return rule


def _slope_by_result(function: Function, slope: Callable[[Array], Array]) -> Rule:
    """Return the same of a function whose derivative its result tells."""
    return _slope(lambda x: slope(function(x)))


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
    return {"input": _softmax_by_result(given, gradient, normalising.softmax(given["input"], given.get("dim")))}


def _softmax_by_result(given: Given, gradient: Array, result: Array) -> Array:
    axis = given.get("dim")
    axis = axis if isinstance(axis, int) else 0 if gradient.ndim in (0, 1, 3) else 1
    return np.asarray(result * (gradient - (gradient * result).sum(axis=axis, keepdims=True)))


def _log_softmax(given: Given, gradient: Array) -> Gradients:
    axis = given.get("dim")
    result = normalising.softmax(given["input"], axis)
    axis = axis if isinstance(axis, int) else 0 if gradient.ndim in (0, 1, 3) else 1
    return {"input": gradient - result * gradient.sum(axis=axis, keepdims=True)}


def _reshaped(given: Given, gradient: Array) -> Gradients:
    return {"input": gradient.reshape(given["input"].shape)}


def _transpose(given: Given, gradient: Array) -> Gradients:
    return {"input": gradient.swapaxes(given["dim0"], given["dim1"])}


def _permute(given: Given, gradient: Array) -> Gradients:
    dims = given["dims"]
    order = dims[0] if len(dims) == 1 and isinstance(dims[0], tuple | list) else dims
    return {"input": gradient.transpose(np.argsort([each % gradient.ndim for each in order]))}


def _expanded(given: Given, gradient: Array) -> Gradients:
    return {"input": summed_like(gradient, given["input"])}


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


def _masked_fill(given: Given, gradient: Array) -> Gradients:
    return {"input": np.where(given["mask"], 0.0, gradient)}


def _elu(given: Given, gradient: Array) -> Gradients:
    x, alpha = given["input"], given.get("alpha", 1.0)
    return {"input": gradient * np.where(x > 0, 1.0, alpha * np.exp(np.minimum(x, 0)))}


def _selu(given: Given, gradient: Array) -> Gradients:
    return _elu({"input": given["input"], "alpha": elementwise.SELU_ALPHA}, elementwise.SELU * gradient)


def _celu(given: Given, gradient: Array) -> Gradients:
    x, alpha = given["input"], given.get("alpha", 1.0)
    return {"input": gradient * np.where(x > 0, 1.0, np.exp(np.minimum(x, 0) / alpha))}


def _shrink(given: Given, gradient: Array) -> Gradients:
    return {"input": np.where(np.abs(given["input"]) > given.get("lambd", 0.5), gradient, 0.0)}


def _threshold(given: Given, gradient: Array) -> Gradients:
    return {"input": np.where(given["input"] > given["threshold"], gradient, 0.0)}


def _hardtanh(given: Given, gradient: Array) -> Gradients:
    x = given["input"]
    return {"input": gradient * ((x > given.get("min_val", -1.0)) & (x < given.get("max_val", 1.0)))}


def _softplus(given: Given, gradient: Array) -> Gradients:
    x, beta = given["input"], given.get("beta", 1.0)
    return {"input": gradient * np.where(x * beta > given.get("threshold", 20.0), 1.0, elementwise.sigmoid(beta * x))}


def _mish_slope(x: Array) -> Array:
    bent = np.tanh(np.logaddexp(0, x))
    return np.asarray(bent + x * (1 - bent**2) * elementwise.sigmoid(x))


def _clamp(given: Given, gradient: Array) -> Gradients:
    x, low, high = given["input"], given.get("min"), given.get("max")
    if isinstance(low, np.ndarray) or isinstance(high, np.ndarray):
        raise UnusableError("the gradient of bounds that are tensors is not computed")
    inside = (x >= (-np.inf if low is None else low)) & (x <= (np.inf if high is None else high))
    return {"input": gradient * inside}


def _where(given: Given, gradient: Array) -> Gradients:
    holds = given["condition"]
    return _of_operands(given, np.where(holds, gradient, 0.0), np.where(holds, 0.0, gradient))


def _swiglu(given: Given, gradient: Array) -> Gradients:
    axis = given.get("dim", -1)
    first, second = np.split(given["input"], 2, axis=axis)
    parts = gradient * second * _silu_slope(first), gradient * elementwise.silu(first)
    return {"input": np.concatenate(parts, axis=axis)}


def _logsumexp(given: Given, gradient: Array) -> Gradients:
    source = given["input"]
    found = _kept(given, reductions.logsumexp(source, given["dim"], given.get("keepdim", False)))
    return {"input": np.exp(source - found) * _kept(given, gradient)}


def _cumsum(given: Given, gradient: Array) -> Gradients:
    axis = given["dim"]
    return {"input": np.flip(np.flip(gradient, axis).cumsum(axis=axis), axis)}


def rule_by_result(function: Function) -> RuleByResult | None:
    """Return what makes the gradient of the input of the stored result and its gradient, where frameworks do so."""
    if function is normalising.softmax:  # the only one whose elements are made of several
        return _softmax_by_result
    slope = _SLOPES_BY_RESULT.get(function)
    return None if slope is None else lambda _, gradient, result: gradient * slope(result)


def rule_of_last_step(function: Function) -> Rule | None:
    """Return what makes the gradient of what the last step of a call reads, where several make it and one is recorded.

    A cross entropy picks of a log softmax; a product of more than two axes ends with a view of that of two.
    """
    return _LAST_STEPS.get(function)


_LAST_STEPS: Mapping[Function, Rule] = MappingProxyType(
    {
        losses.cross_entropy: LAYER_RULES[losses.nll_loss],
        **dict.fromkeys((products.linear, products.matmul), lambda _, gradient: {"result": gradient}),
    }
)

_SLOPES_BY_RESULT: Mapping[Function, Callable[[Array], Array]] = MappingProxyType(
    {
        elementwise.sigmoid: lambda y: y * (1 - y), elementwise.rsqrt: lambda y: -0.5 * y**3,
        elementwise.reciprocal: lambda y: -y * y, TORCH["tanh"]: lambda y: 1 - y * y, TORCH["exp"]: lambda y: y,
        TORCH["sqrt"]: lambda y: 0.5 / y, TORCH["exp2"]: lambda y: math.log(2) * y, TORCH["expm1"]: lambda y: y + 1,
    }
)  # fmt: skip


def _is_tensor(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


_RULES: Mapping[Function, Rule] = MappingProxyType(
    {
        **{function: _slope_by_result(function, slope) for function, slope in _SLOPES_BY_RESULT.items()},
        products.matmul: _matmul, products.mm: _mm, products.linear: _linear, products.addmm: _addmm,
        products.baddbmm: _addmm, elementwise.add: _add, elementwise.sub: _sub, TORCH["mul"]: _mul,
        OPERATORS["mul"]: _mul, OPERATORS["rmul"]: _mul, OPERATORS["radd"]: _add, TORCH["multiply"]: _mul,
        elementwise.div: _div, elementwise.pow: _pow,
        elementwise.relu: _slope(lambda x: np.asarray(x > 0, float)), elementwise.gelu: _gelu,
        elementwise.leaky_relu: _leaky_relu, elementwise.silu: _slope(_silu_slope),
        elementwise.erf: _slope(lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x)),
        TORCH["log"]: _slope(lambda x: 1.0 / x),
        TORCH["neg"]: _slope(lambda x: np.full_like(x, -1.0)), TORCH["abs"]: _slope(np.sign),
        TORCH["sin"]: _slope(np.cos), TORCH["cos"]: _slope(lambda x: -np.sin(x)),
        TORCH["square"]: _slope(lambda x: 2.0 * x), elementwise.masked_fill: _masked_fill,
        normalising.softmax: _softmax, normalising.log_softmax: _log_softmax,
        moves.reshape: _reshaped, moves.view_as: _reshaped, moves.flatten: _reshaped, moves.squeeze: _reshaped,
        moves.unsqueeze: _reshaped, moves.same: _reshaped, moves.transpose: _transpose, moves.permute: _permute,
        moves.expand: _expanded, moves.expand_as: _expanded,
        reductions.total: _summed, reductions.mean: _meaned,
        TORCH["log2"]: _slope(lambda x: 1 / (x * math.log(2))),
        TORCH["log10"]: _slope(lambda x: 1 / (x * math.log(10))),
        TORCH["log1p"]: _slope(lambda x: 1 / (1 + x)), TORCH["tan"]: _slope(lambda x: 1 + np.tan(x) ** 2),
        TORCH["sinh"]: _slope(np.cosh), TORCH["cosh"]: _slope(np.sinh),
        TORCH["atan"]: _slope(lambda x: 1 / (1 + x * x)),
        elementwise.relu6: _slope(lambda x: np.asarray((x > 0) & (x < 6), float)), elementwise.elu: _elu,
        elementwise.hardtanh: _hardtanh, elementwise.softplus: _softplus, elementwise.mish: _slope(_mish_slope),
        elementwise.hardsigmoid: _slope(lambda x: np.where(np.abs(x) < 3, 1 / 6, 0.0)),
        elementwise.hardswish: _slope(lambda x: np.where(x <= -3, 0.0, np.where(x < 3, x / 3 + 0.5, 1.0))),
        elementwise.clamp: _clamp, elementwise.where: _where, elementwise.swiglu: _swiglu,
        moves.turn: lambda _, gradient: {"input": gradient.T},
        reductions.logsumexp: _logsumexp, reductions.cumsum: _cumsum,
        elementwise.selu: _selu,
        elementwise.celu: _celu, elementwise.logsigmoid: _slope(lambda x: elementwise.sigmoid(-x)),
        elementwise.softsign: _slope(lambda x: 1 / np.square(1 + np.abs(x))),
        elementwise.tanhshrink: _slope(lambda x: np.square(np.tanh(x))),
        elementwise.hardshrink: _shrink, elementwise.softshrink: _shrink, elementwise.threshold: _threshold,
        TORCH["asin"]: _slope(lambda x: 1 / np.sqrt(1 - x * x)),
        TORCH["acos"]: _slope(lambda x: -1 / np.sqrt(1 - x * x)),
        TORCH["asinh"]: _slope(lambda x: 1 / np.sqrt(1 + x * x)), TORCH["atanh"]: _slope(lambda x: 1 / (1 - x * x)),
        **MOVED_RULES,
        **COMBINED_RULES,
        **LAYER_RULES,
    }
)  # fmt: skip
