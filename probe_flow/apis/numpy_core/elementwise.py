"""Operators that make each element of those at the same place."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import UnusableError

Array = NDArray[Any]
Operand = Array | float

SELU, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772
"""Scale and alpha of Klambauer et al. (2017), by which activations keep a mean of 0 and a variance of 1."""

_erf = np.frompyfunc(math.erf, 1, 1)


def of_one(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a function of numpy as an operator with one input."""

    def operator(input: Array) -> Array:
        return np.asarray(function(input))

    return operator


def of_two(function: Callable[[Any, Any], Array]) -> Callable[[Operand, Operand], Array]:
    """Return a function of numpy as an operator with two operands."""

    def operator(input: Operand, other: Operand) -> Array:
        return np.asarray(function(input, other))

    return operator


def turned(function: Callable[..., Array]) -> Callable[[Operand, Operand], Array]:
    """Return an operator with its operands the other way round, as ``__rsub__`` has them."""

    def operator(input: Operand, other: Operand) -> Array:
        return function(other, input)

    return operator


def add(input: Operand, other: Operand, *, alpha: float = 1) -> Array:
    """Return ``input + alpha * other``; of booleans, whether either is true."""
    return np.asarray(np.add(input, other if alpha == 1 else np.multiply(alpha, other)))


def sub(input: Operand, other: Operand, *, alpha: float = 1) -> Array:
    """Return ``input - alpha * other``."""
    return np.asarray(np.subtract(input, other if alpha == 1 else np.multiply(alpha, other)))


def rsub(input: Operand, other: Operand, *, alpha: float = 1) -> Array:
    """Return ``other - alpha * input``."""
    return sub(other, input, alpha=alpha)


def div(input: Operand, other: Operand, *, rounding_mode: str | None = None) -> Array:
    """Return the quotient, not rounded: a quotient that is rounded to whole numbers is not computed."""
    if rounding_mode is not None:
        raise UnusableError("it rounds the quotient, as the kernel rounds it")
    return np.asarray(np.true_divide(input, other))


def pow(input: Operand, exponent: Operand) -> Array:
    """Return the power; of two integers only where no exponent is negative."""
    base, power = np.asarray(input), np.asarray(exponent)
    if base.dtype.kind in "iu" and power.dtype.kind in "iu" and (power < 0).any():
        raise UnusableError("negative powers of integers")
    return np.asarray(np.power(base, power))


def rsqrt(input: Array) -> Array:
    """Return one over the square root."""
    return np.asarray(1 / np.sqrt(input))


def reciprocal(input: Array) -> Array:
    """Return one over the input."""
    return np.asarray(1.0 / input)


def sigmoid(input: Array) -> Array:
    """Return ``1 / (1 + exp(-input))``, without overflow on either side."""
    small = np.exp(-np.abs(input))
    return np.where(input >= 0, 1.0, small) / (1.0 + small)


def relu(input: Array, inplace: bool = False) -> Array:
    """Return the input where it is positive, else 0."""
    _not_in_place(inplace)
    return np.maximum(input, 0)


def relu6(input: Array, inplace: bool = False) -> Array:
    """Return the input between 0 and 6."""
    _not_in_place(inplace)
    return np.clip(input, 0, 6)


def leaky_relu(input: Array, negative_slope: float = 0.01, inplace: bool = False) -> Array:
    """Return the input, times the slope where it is negative."""
    _not_in_place(inplace)
    return np.where(input > 0, input, input * negative_slope)


def elu(input: Array, alpha: float = 1.0, inplace: bool = False) -> Array:
    """Return the input, ``alpha * (exp(input) - 1)`` where it is negative."""
    _not_in_place(inplace)
    return np.where(input > 0, input, alpha * np.expm1(np.minimum(input, 0)))


def gelu(input: Array, approximate: str = "none") -> Array:
    """Return ``input * Phi(input)``, or its approximation by ``tanh``."""
    if approximate == "tanh":
        return np.asarray(0.5 * input * (1 + np.tanh(math.sqrt(2 / math.pi) * (input + 0.044715 * np.power(input, 3)))))
    if approximate != "none":
        raise UnusableError(f"approximation `{approximate}` is not known")
    return np.asarray(0.5 * input * (1 + erf(input * math.sqrt(0.5))))


def erf(input: Array) -> Array:
    """Return the error function."""
    return np.asarray(_erf(input), dtype=np.float64)


def silu(input: Array, inplace: bool = False) -> Array:
    """Return ``input * sigmoid(input)``."""
    _not_in_place(inplace)
    return np.asarray(input * sigmoid(input))


def mish(input: Array, inplace: bool = False) -> Array:
    """Return ``input * tanh(log(1 + exp(input)))``."""
    _not_in_place(inplace)
    return np.asarray(input * np.tanh(np.logaddexp(0, input)))


def softplus(input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """Return ``log(1 + exp(beta * input)) / beta``, the input itself beyond the threshold."""
    return np.where(input * beta > threshold, input, np.logaddexp(0, beta * input) / beta)


def hardtanh(input: Array, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Array:
    """Return the input between two bounds."""
    _not_in_place(inplace)
    return np.clip(input, min_val, max_val)


def hardsigmoid(input: Array, inplace: bool = False) -> Array:
    """Return ``input / 6 + 1 / 2`` between 0 and 1."""
    _not_in_place(inplace)
    return np.clip(input / 6 + 0.5, 0, 1)


def hardswish(input: Array, inplace: bool = False) -> Array:
    """Return ``input * hardsigmoid(input)``."""
    return np.asarray(input * hardsigmoid(input, inplace))


def angle(input: Array) -> Array:
    """Return the angle of complex numbers, from -pi to pi; of others 0, or pi where they are negative."""
    return np.asarray(np.angle(input))


def selu(input: Array, inplace: bool = False) -> Array:
    """Return the input scaled by 1.0507, of what is negative its `elu` of 1.6733."""
    return np.asarray(SELU * elu(input, SELU_ALPHA, inplace))


def celu(input: Array, alpha: float = 1.0, inplace: bool = False) -> Array:
    """Return the input, ``alpha * (exp(input / alpha) - 1)`` where it is negative."""
    _not_in_place(inplace)
    return np.where(input > 0, input, alpha * np.expm1(np.minimum(input, 0) / alpha))


def softsign(input: Array) -> Array:
    """Return ``input / (1 + |input|)``."""
    return np.asarray(input / (1 + np.abs(input)))


def tanhshrink(input: Array) -> Array:
    """Return ``input - tanh(input)``."""
    return np.asarray(input - np.tanh(input))


def hardshrink(input: Array, lambd: float = 0.5) -> Array:
    """Return the input, 0 where its size is ``lambd`` at most."""
    return np.where(np.abs(input) > lambd, input, 0)


def softshrink(input: Array, lambd: float = 0.5) -> Array:
    """Return the input, ``lambd`` nearer to 0, and 0 where its size is less than that."""
    return np.asarray(np.sign(input) * np.maximum(np.abs(input) - lambd, 0))


def threshold(input: Array, threshold: float, value: float, inplace: bool = False) -> Array:
    """Return the input where it is above the threshold, else the value."""
    _not_in_place(inplace)
    return np.where(input > threshold, input, value)


def logsigmoid(input: Array) -> Array:
    """Return the logarithm of `sigmoid`, without overflow on either side."""
    return np.asarray(-np.logaddexp(0, -input))


def prelu(input: Array, weight: Array) -> Array:
    """Return the input, times the weight where it is negative: one for all, or one for each channel (axis 1)."""
    shaped = weight.reshape(1, -1, *[1] * (input.ndim - 2)) if weight.size > 1 else weight.reshape(())
    return np.where(input > 0, input, input * shaped)


def glu(input: Array, dim: int = -1) -> Array:
    """Return the first half along an axis times the `sigmoid` of the second."""
    first, second = np.split(input, 2, axis=dim)
    return np.asarray(first * sigmoid(second))


def swiglu(input: Array, dim: int = -1) -> Array:
    """Return the first half along an axis, times its sigmoid and the second half."""
    first, second = np.split(input, 2, axis=dim)
    return silu(first) * second


def clamp(input: Array, min: Operand | None = None, max: Operand | None = None) -> Array:
    """Return the input between two bounds, of which either may be missing."""
    bounded = input if min is None else np.maximum(input, min)
    return np.asarray(bounded if max is None else np.minimum(bounded, max))


def clamp_min(input: Array, min: Operand) -> Array:
    """Return the input, or the bound where that is larger."""
    return clamp(input, min)


def clamp_max(input: Array, max: Operand) -> Array:
    """Return the input, or the bound where that is smaller."""
    return clamp(input, None, max)


def where(condition: Array, input: Operand, other: Operand) -> Array:
    """Return elements of one where the condition holds, of the other where not."""
    return np.where(condition, input, other)


def tensor_where(input: Operand, condition: Array, other: Operand) -> Array:
    """Return the same with the condition second, as a method of a tensor has it."""
    return np.where(condition, input, other)


def masked_fill(input: Array, mask: Array, value: Operand) -> Array:
    """Return the input with one value wherever the mask is true."""
    return np.where(mask, value, input)


def addcmul(input: Array, tensor1: Operand, tensor2: Operand, *, value: float = 1) -> Array:
    """Return ``input + value * tensor1 * tensor2``."""
    return np.asarray(input + value * np.multiply(tensor1, tensor2))


def addcdiv(input: Array, tensor1: Operand, tensor2: Operand, *, value: float = 1) -> Array:
    """Return ``input + value * tensor1 / tensor2``."""
    return np.asarray(input + value * np.true_divide(tensor1, tensor2))


def lerp(input: Array, end: Operand, weight: Operand) -> Array:
    """Return ``input + weight * (end - input)``."""
    return np.asarray(input + np.multiply(weight, np.subtract(end, input)))


def bias_add(input: Array, bias: Array) -> Array:
    """Return the input and one number more for each channel: of the second axis, else of the last one, by its size."""
    is_second = input.ndim > 1 and input.shape[1] == bias.size
    return np.asarray(input + (bias.reshape(-1, *[1] * (input.ndim - 2)) if is_second else bias))


def dropout(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    """Return what is kept of each element where none is dropped: the input over ``1 - p``; itself outside training."""
    _not_in_place(inplace)
    if not training or p == 0:
        return input
    if not 0 < p < 1:
        raise UnusableError(f"its probability is {p}")
    return np.asarray(input / (1 - p))


def _not_in_place(inplace: bool) -> None:
    if inplace:
        raise UnusableError("it changes its inputs in place, and what they were before is not known")


_ACTIVATIONS = (relu, relu6, hardswish, silu, sigmoid, np.tanh, gelu)
_JOINED: tuple[Callable[[Array, Array], Array], ...] = (
    np.multiply, np.add, np.subtract, lambda made, other: other - made, np.divide, lambda made, other: other / made,
)  # fmt: skip


def fused_ends(function: Callable[..., Any], inputs: int) -> list[Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """Return what compilers may have fused behind an operator, each as what makes both of one function.

    It is an activation behind a function that takes all that the operator reads (a product, with its bias or without),
    and behind one that takes all but the last, what joins its result with that.

    Args:
        function: of its type.
        inputs: how many it reads.
    """
    known = inspect.signature(function).parameters.values()
    places = [each for each in known if each.kind is each.POSITIONAL_OR_KEYWORD]
    taken = range(sum(each.default is each.empty for each in places), len(places) + 1)
    followed = [partial(_followed, last) for last in _ACTIVATIONS] if inputs in taken else []
    return followed + ([partial(_joined, last, inputs - 1) for last in _JOINED] if inputs - 1 in taken else [])


def _followed(last: Callable[[Array], Array], function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def both(*args: Any, **kwargs: Any) -> Any:
        return last(function(*args, **kwargs))

    return both


def _joined(last: Callable[[Array, Array], Array], own: int, function: Callable[..., Any]) -> Callable[..., Any]:
    def both(*args: Any, **kwargs: Any) -> Any:
        return last(function(*args[:own], **kwargs), args[own])

    return both
