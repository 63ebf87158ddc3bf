"""Operators of ONNX: inputs one behind the other, None where one is left out, attributes by their names.

Source: the operator schemas of ONNX. ``opset`` is the version of the set that the model uses, ``result_dtype`` the type
of the first result, where what an operator computes depends on it. Attributes of older versions that became inputs are
taken either way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.numpy_core import convolution, elementwise, moves, normalising, products
from probe_flow.apis.numpy_core.forms.device_images import same_padding
from probe_flow.apis.numpy_core.forms.onnx_moves import ONNX_MOVES

Array = NDArray[Any]
Ints = Sequence[int]
Operator = Callable[..., Any]


# -- elementwise


def variadic(function: Callable[[Any, Any], Array]) -> Operator:
    """Return an operator of one input or more, of which two are taken at a time."""

    def operator(*inputs: Array) -> Array:
        found = inputs[0]
        for each in inputs[1:]:
            found = function(found, each)
        return np.asarray(found)

    return operator


def mean(*inputs: Array) -> Array:
    """Return the mean of tensors."""
    return variadic(np.add)(*inputs) / len(inputs)


def leaky_relu(x: Array, *, alpha: float = 0.01) -> Array:
    """Return the input, times the slope where it is negative."""
    return np.where(x < 0, x * alpha, x)


def prelu(x: Array, slope: Array) -> Array:
    """Return the same with slopes that are broadcast to the input."""
    return np.where(x < 0, x * slope, x)


def elu(x: Array, *, alpha: float = 1.0) -> Array:
    """Return the input, ``alpha * (exp(x) - 1)`` where it is negative."""
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def selu(x: Array, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Array:
    """Return ``gamma`` times `elu`."""
    return gamma * elu(x, alpha=alpha)


def thresholded_relu(x: Array, *, alpha: float = 1.0) -> Array:
    """Return the input where it is above a bound, else 0."""
    return np.where(x > alpha, x, 0.0)


def hard_sigmoid(x: Array, *, alpha: float = 0.2, beta: float = 0.5) -> Array:
    """Return ``alpha * x + beta`` between 0 and 1."""
    return np.clip(alpha * x + beta, 0, 1)


def hard_swish(x: Array) -> Array:
    """Return the input times `hard_sigmoid` with a slope of one sixth."""
    return np.asarray(x * hard_sigmoid(x, alpha=1 / 6))


def gelu(x: Array, *, approximate: str = "none") -> Array:
    """Return ``x * Phi(x)``, exactly or by an approximation."""
    return elementwise.gelu(x, approximate)


def softplus(x: Array) -> Array:
    """Return ``log(1 + exp(x))``."""
    return np.logaddexp(0, x)


def softsign(x: Array) -> Array:
    """Return ``x / (1 + |x|)``."""
    return np.asarray(x / (1 + np.abs(x)))


def clip(
    x: Array, low: Array | None = None, high: Array | None = None, *, min: float | None = None, max: float | None = None
) -> Array:
    """Return the input between two bounds: inputs, attributes of older versions."""
    return elementwise.clamp(x, low if low is not None else min, high if high is not None else max)


def divide(a: Array, b: Array) -> Array:
    """Return the quotient; that of whole numbers without its fraction."""
    if a.dtype.kind in "iu" and b.dtype.kind in "iu":
        return np.trunc(a / b).astype(np.int64)
    return np.asarray(a / b)


def modulo(a: Array, b: Array, *, fmod: int = 0) -> Array:
    """Return the rest of a division, with the sign of the divisor, or of the dividend with ``fmod``."""
    return np.asarray(np.fmod(a, b) if fmod else np.mod(a, b))


def dropout(x: Array, ratio: Array | None = None, training_mode: Array | None = None, *, opset: int = 13) -> Array:  # noqa: ARG001
    """Return the input: what drops none."""
    if training_mode is not None and bool(np.asarray(training_mode)):
        raise UnusableError("its result is random")
    return x


# -- products


def gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803
    transB: int = 0,  # noqa: N803
) -> Array:
    """Return ``alpha * A' @ B' + beta * C``."""
    return products.gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


def einsum(*inputs: Array, equation: str) -> Array:
    """Return the sum over named axes."""
    return products.einsum(equation.replace(" ", ""), *inputs)


def conv(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,  # noqa: ARG001
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Array:
    """Return the convolution over any number of axes."""
    axes = w.ndim - 2
    steps, gaps = strides or [1] * axes, dilations or [1] * axes
    return convolution.conv(x, w, b, steps, _sides(x, w.shape[2:], steps, gaps, auto_pad, pads), gaps, group)


def conv_transpose(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,  # noqa: ARG001
    output_padding: Ints | None = None,
    output_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Array:
    """Return the transposed convolution; what is padded is cut off its result."""
    axes = w.ndim - 2
    if auto_pad != "NOTSET" or output_shape is not None:
        raise UnusableError("its padding is derived from the shape of its result")
    steps, gaps, more = strides or [1] * axes, dilations or [1] * axes, output_padding or [0] * axes
    whole = convolution.conv_transpose(x, w, None, steps, 0, more, group, gaps)
    given = pads or [0] * 2 * axes
    cut = tuple(slice(given[axis], size - given[axis + axes]) for axis, size in enumerate(whole.shape[2:]))
    at: Any = slice(None), slice(None), *cut
    found = np.asarray(whole[at])
    return found if b is None else found + b.reshape(1, -1, *[1] * axes)


def max_pool(
    x: Array,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Array:
    """Return the largest element of each window."""
    axes = len(kernel_shape)
    steps, gaps = strides or [1] * axes, dilations or [1] * axes
    sides = _sides(x, kernel_shape, steps, gaps, auto_pad, pads)
    return convolution.max_pool(axes)(x, kernel_shape, steps, sides, gaps, bool(ceil_mode))


def average_pool(
    x: Array,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints | None = None,
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Array:
    """Return the mean of each window."""
    axes = len(kernel_shape)
    steps = strides or [1] * axes
    if dilations is not None and any(each != 1 for each in dilations):
        raise UnusableError("the mean of windows with gaps is not computed")
    sides = _sides(x, kernel_shape, steps, [1] * axes, auto_pad, pads)
    return convolution.avg_pool(axes)(x, kernel_shape, steps, sides, bool(ceil_mode), bool(count_include_pad))


def _sides(x: Array, kernel: Ints, steps: Ints, gaps: Ints, auto_pad: str, pads: Ints | None) -> list[tuple[int, int]]:
    """Return the padding before and behind each axis: that which is given, or that which keeps the size."""
    axes = len(kernel)
    if auto_pad == "VALID":
        return [(0, 0)] * axes
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        reach = [gap * (length - 1) + 1 for gap, length in zip(gaps, kernel, strict=True)]
        is_lower = auto_pad == "SAME_LOWER"
        return [same_padding(*each, is_lower=is_lower) for each in zip(x.shape[2:], reach, steps, strict=True)]
    given = pads or [0] * 2 * axes
    if len(given) != 2 * axes or any(each < 0 for each in given):
        raise UnusableError(f"padding {list(given)} is not computed")
    return [(given[axis], given[axis + axes]) for axis in range(axes)]


def global_pool(reduce: Callable[..., Any]) -> Operator:
    """Return the pooling whose windows are whole images."""

    def operator(x: Array) -> Array:
        return np.asarray(reduce(x, axis=tuple(range(2, x.ndim)), keepdims=True))

    return operator


# -- norms, softmax


def batch_normalization(
    x: Array,
    scale: Array,
    b: Array,
    input_mean: Array,
    input_var: Array,
    *,
    epsilon: float = 1e-5,
    training_mode: int = 0,
    spatial: int = 1,
) -> Array:
    """Return the channels normalised by given statistics."""
    if training_mode or not spatial:
        raise UnusableError("its statistics are those of the batch, or of each element")
    return normalising.batch_norm(x, input_mean, input_var, scale, b, eps=epsilon)


def instance_normalization(x: Array, scale: Array, b: Array, *, epsilon: float = 1e-5) -> Array:
    """Return each channel of each image normalised."""
    return normalising.group_norm(x, x.shape[1], scale, b, epsilon)


def group_normalization(
    x: Array, scale: Array, bias: Array, *, epsilon: float = 1e-5, num_groups: int, opset: int = 21
) -> Array:
    """Return groups of channels normalised; before opset 21 scales and biases are those of the groups."""
    if opset < 21:
        scale, bias = (np.repeat(each, x.shape[1] // num_groups) for each in (scale, bias))
    return normalising.group_norm(x, num_groups, scale, bias, epsilon)


def layer_normalization(
    x: Array, scale: Array, b: Array | None = None, *, axis: int = -1, epsilon: float = 1e-5
) -> tuple[Array, Array, Array]:
    """Return the input less its mean over its deviation, from an axis on; the mean, and one over the deviation."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    average = x.mean(axis=axes, keepdims=True)
    reciprocal = 1 / np.sqrt(np.square(x - average).mean(axis=axes, keepdims=True) + epsilon)
    found = (x - average) * reciprocal * scale
    return (found if b is None else found + b), average, reciprocal


def rms_normalization(x: Array, scale: Array, *, axis: int = -1, epsilon: float = 1e-5) -> Array:
    """Return the input over its root mean square from an axis on."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    return x / np.sqrt(np.square(x).mean(axis=axes, keepdims=True) + epsilon) * scale


def softmax(x: Array, *, axis: int | None = None, opset: int = 13) -> Array:
    """Return the exponentials over their sum; before opset 13 over all axes from one on."""
    flat, along = _softmax_axes(x, axis, opset)
    return normalising.softmax(flat, along).reshape(x.shape)


def log_softmax(x: Array, *, axis: int | None = None, opset: int = 13) -> Array:
    """Return the logarithm of that."""
    flat, along = _softmax_axes(x, axis, opset)
    return normalising.log_softmax(flat, along).reshape(x.shape)


def _softmax_axes(x: Array, axis: int | None, opset: int) -> tuple[Array, int]:
    if opset >= 13:
        return x, -1 if axis is None else axis
    first = (1 if axis is None else axis) % x.ndim
    return x.reshape(math.prod(x.shape[:first]), -1), 1


# -- quantisation

_RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1)}


def quantize_linear(
    x: Array,
    y_scale: Array,
    y_zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    result_dtype: str,
) -> Array:
    """Return ``x / scale + zero point`` as whole numbers, in floats: which way they round is no error."""
    if block_size or result_dtype not in _RANGES:
        raise UnusableError(f"scales of blocks, or codes of type `{result_dtype}`, are not computed")
    zero = 0 if y_zero_point is None else _along(y_zero_point, x, axis)
    return np.clip(np.rint(x / _along(y_scale, x, axis)) + zero, *_RANGES[result_dtype])


def dequantize_linear(
    x: Array, x_scale: Array, x_zero_point: Array | None = None, *, axis: int = 1, block_size: int = 0
) -> Array:
    """Return ``(x - zero point) * scale``."""
    if block_size:
        raise UnusableError("scales of blocks are not computed")
    zero = 0 if x_zero_point is None else _along(x_zero_point, x, axis)
    return (x - zero) * _along(x_scale, x, axis)


def _along(values: Array, x: Array, axis: int) -> Array:
    """Return one value for all elements, or one for each place of an axis."""
    if values.size == 1:
        return values.reshape(())
    return values.reshape([-1 if each == axis % x.ndim else 1 for each in range(x.ndim)])


_ONE: Mapping[str, Any] = {
    "Sign": np.sign, "Round": np.rint, "Tan": np.tan, "Atan": np.arctan, "Asin": np.arcsin, "Acos": np.arccos,
    "Sinh": np.sinh, "Cosh": np.cosh, "Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh,
    "IsNaN": np.isnan, "Not": np.logical_not, "BitwiseNot": np.invert,
}  # fmt: skip
_TWO: Mapping[str, Any] = {
    "GreaterOrEqual": np.greater_equal, "LessOrEqual": np.less_equal, "And": np.logical_and, "Or": np.logical_or,
    "Xor": np.logical_xor, "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor,
}  # fmt: skip

ONNX_FORMS: Mapping[str, Operator] = MappingProxyType(
    {name: elementwise.of_one(function) for name, function in _ONE.items()}
    | {name: elementwise.of_two(function) for name, function in _TWO.items()}
    | {
        **ONNX_MOVES,
        "Max": variadic(np.maximum), "Min": variadic(np.minimum), "Sum": variadic(np.add), "Mean": mean,
        "LeakyRelu": leaky_relu, "PRelu": prelu, "Elu": elu, "Selu": selu, "ThresholdedRelu": thresholded_relu,
        "HardSigmoid": hard_sigmoid, "HardSwish": hard_swish, "Gelu": gelu, "Softplus": softplus,
        "Softsign": softsign, "Mish": elementwise.mish, "Clip": clip, "Div": divide, "Mod": modulo, "Dropout": dropout,
        "MatMul": products.matmul, "Gemm": gemm, "Einsum": einsum, "Conv": conv, "ConvTranspose": conv_transpose,
        "MaxPool": max_pool, "AveragePool": average_pool, "GlobalAveragePool": global_pool(np.mean),
        "GlobalMaxPool": global_pool(np.max), "BatchNormalization": batch_normalization,
        "InstanceNormalization": instance_normalization, "GroupNormalization": group_normalization,
        "LayerNormalization": layer_normalization, "RMSNormalization": rms_normalization, "Softmax": softmax,
        "LogSoftmax": log_softmax, "QuantizeLinear": quantize_linear, "DequantizeLinear": dequantize_linear,
        "CastLike": moves.type_as,
    }
)  # fmt: skip
"""By type, of the set of operators of ONNX itself."""
