"""Operators of devices (GE graphs, offline models): inputs one behind the other, attributes by their names.

Source: the published prototypes of the operators of CANN (``REG_OP``: order of inputs, attributes, their defaults) and
what their descriptions say. Attributes that a function does not name do not change what it computes here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import DtypeName
from probe_flow.apis.numpy_core import elementwise, moves
from probe_flow.apis.numpy_core.forms import device_images as images
from probe_flow.apis.numpy_core.forms.device_moves import DEVICE_MOVES
from probe_flow.apis.numpy_core.forms.device_quantised import QUANTISED

Array = NDArray[Any]
Ints = Sequence[int]

_DTYPES = {
    0: "float32", 1: "float16", 2: "int8", 3: "int32", 4: "uint8", 6: "int16", 7: "uint16", 8: "uint32", 9: "int64",
    10: "uint64", 11: "float64", 12: "bool", 27: "bfloat16",
}  # fmt: skip
"""Numbers of element types in attributes."""


def cast(x: Array, *, dst_type: int) -> Array:
    """Return the elements in another type; those of floats are rounded where the result is held."""
    return moves.cast(x, DtypeName(_DTYPES.get(dst_type, f"type {dst_type}")))


# -- elementwise


def exp(x: Array, *, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Array:
    """Return ``base ** (scale * x + shift)``; a base of -1 is e."""
    inner = scale * x + shift
    return np.asarray(np.exp(inner) if base == -1.0 else np.power(base, inner))


def log(x: Array, *, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Array:
    """Return the logarithm of ``scale * x + shift``; a base of -1 is e."""
    found = np.log(scale * x + shift)
    return np.asarray(found if base == -1.0 else found / math.log(base))


def power(x: Array, *, power: float = 1.0, scale: float = 1.0, shift: float = 0.0) -> Array:
    """Return ``(scale * x + shift) ** power``."""
    return np.asarray(np.power(scale * x + shift, power))


def muls(x: Array, *, value: float) -> Array:
    """Return each element times a number."""
    return np.asarray(x * value)


def adds(x: Array, *, value: float) -> Array:
    """Return each element and a number more."""
    return np.asarray(x + value)


def add_n(*x: Array) -> Array:
    """Return the sum of tensors of one shape."""
    return np.asarray(sum(x[1:], start=x[0]))


def axpy(x1: Array, x2: Array, *, alpha: float) -> Array:
    """Return ``x1 + alpha * x2``."""
    return np.asarray(x1 + alpha * x2)


def axpy_v2(x1: Array, x2: Array, alpha: Array) -> Array:
    """Return the same with a tensor of one element as factor."""
    return np.asarray(x1 + alpha * x2)


def fused_mul_add(x1: Array, x2: Array, x3: Array) -> Array:
    """Return ``x1 * x2 + x3``."""
    return np.asarray(x1 * x2 + x3)


def squared_difference(x1: Array, x2: Array) -> Array:
    """Return the square of the difference."""
    return np.square(x1 - x2)


def div_no_nan(x1: Array, x2: Array) -> Array:
    """Return the quotient, 0 where the divisor is 0."""
    return np.where(x2 == 0, 0.0, x1 / np.where(x2 == 0, 1.0, x2))


def leaky_relu(x: Array, *, negative_slope: float = 0.0) -> Array:
    """Return the input, times the slope where it is negative."""
    return elementwise.leaky_relu(x, negative_slope)


def prelu(x: Array, weight: Array) -> Array:
    """Return the same with a slope for each channel (axis 1), or one for all."""
    slope = weight.reshape(-1)
    return np.where(x > 0, x, x * (slope if slope.size == 1 else slope.reshape(1, -1, *[1] * (x.ndim - 2))))


def elu(x: Array, *, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    """Return ``scale * x`` where it is positive, else ``scale * alpha * (exp(input_scale * x) - 1)``."""
    return np.where(x > 0, scale * x, scale * alpha * np.expm1(input_scale * np.minimum(x, 0)))


def gelu(x: Array) -> Array:
    """Return ``x * Phi(x)`` as approximated by ``tanh``."""
    return elementwise.gelu(x, "tanh")


def gelu_v2(x: Array, *, approximate: str = "none") -> Array:
    """Return ``x * Phi(x)``, exactly or by an approximation."""
    return elementwise.gelu(x, approximate)


def swish(x: Array, *, scale: float = 1.0) -> Array:
    """Return ``x * sigmoid(scale * x)``."""
    return np.asarray(x * elementwise.sigmoid(scale * x))


def swiglu(x: Array, *, dim: int = -1) -> Array:
    """Return the first half of an axis, times its sigmoid and the second half."""
    return elementwise.swiglu(x, dim)


def hard_sigmoid(x: Array, *, alpha: float = 0.16666666, beta: float = 0.5) -> Array:
    """Return ``alpha * x + beta`` between 0 and 1."""
    return np.clip(alpha * x + beta, 0, 1)


def softplus_v2(x: Array, *, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """Return ``log(1 + exp(beta * x)) / beta``, the input itself beyond the threshold."""
    return elementwise.softplus(x, beta, threshold)


def bias_add(x: Array, bias: Array, *, data_format: str = "NHWC") -> Array:
    """Return the input and one number for each channel more: of the second axis, or the last one."""
    return np.asarray(x + (bias.reshape(-1, *[1] * (x.ndim - 2)) if data_format.startswith("NC") else bias))


def bias_add_grad(x: Array, *, data_format: str = "NHWC") -> Array:
    """Return the sum for each channel."""
    channel = 1 if data_format.startswith("NC") else x.ndim - 1
    return np.asarray(x.sum(axis=tuple(axis for axis in range(x.ndim) if axis != channel)))


# -- products


def matmul(
    x1: Array, x2: Array, bias: Array | None = None, *, transpose_x1: bool = False, transpose_x2: bool = False
) -> Array:
    """Return the product of two matrices, either turned first, and a bias.

    An image is a matrix of one row each, where its flattening was fused: ``(n, c, h, w)`` times ``(c * h * w, k)``.
    """
    is_image = x1.ndim > x2.ndim == 2 and not transpose_x1 and x1.shape[-1] != x2.shape[-1 if transpose_x2 else -2]
    return _product(x1.reshape(len(x1), -1) if is_image else x1, x2, bias, transpose_x1, transpose_x2)


def batch_matmul(
    x1: Array, x2: Array, bias: Array | None = None, *, adj_x1: bool = False, adj_x2: bool = False
) -> Array:
    """Return the same for each matrix of a batch."""
    return _product(x1, x2, bias, adj_x1, adj_x2)


def _product(left: Array, right: Array, bias: Array | None, turns_left: bool, turns_right: bool) -> Array:
    a, b = left.swapaxes(-1, -2) if turns_left else left, right.swapaxes(-1, -2) if turns_right else right
    product = np.asarray(a @ b)
    return product if bias is None else product + bias


def fully_connection(
    x: Array, w: Array, b: Array | None = None, *, num_output: int, transpose: bool = False, axis: int = 1
) -> Array:
    """Return a linear layer over all axes from ``axis``, which become one."""
    rows = x.reshape(*x.shape[:axis], -1)
    weight = w.reshape(-1, num_output).T if transpose else w.reshape(num_output, -1)
    product = rows @ weight.T
    return np.asarray(product if b is None else product + b.reshape(-1))


# -- norms, softmax


def layer_norm(
    x: Array,
    gamma: Array,
    beta: Array,
    *,
    begin_norm_axis: int = 0,
    begin_params_axis: int = 0,  # noqa: ARG001
    epsilon: float = 1e-7,
) -> tuple[Array, Array, Array]:
    """Return the input less its mean over its deviation, over all axes from the first named; the mean; the variance."""
    y, mean, variance = _normed(x, tuple(range(begin_norm_axis % x.ndim, x.ndim)), epsilon)
    return y * gamma + beta, mean, variance


def layer_norm_v3(
    x: Array,
    gamma: Array,
    beta: Array,
    *,
    begin_norm_axis: int = 0,
    begin_params_axis: int = 0,
    epsilon: float = 1e-5,
) -> tuple[Array, Array, Array]:
    """Return the same with one over the deviation in the place of the variance."""
    y, mean, variance = layer_norm(
        x, gamma, beta, begin_norm_axis=begin_norm_axis, begin_params_axis=begin_params_axis, epsilon=epsilon
    )
    return y, mean, 1 / np.sqrt(variance + epsilon)


def layer_norm_v4(
    x: Array, normalized_shape: Array, gamma: Array | None = None, beta: Array | None = None, *, epsilon: float = 1e-5
) -> tuple[Array, Array, Array]:
    """Return the same over as many of the last axes as a shape has."""
    y, mean, variance = _normed(x, tuple(range(x.ndim - normalized_shape.size, x.ndim)), epsilon)
    scaled = y if gamma is None else y * gamma
    return scaled if beta is None else scaled + beta, mean, 1 / np.sqrt(variance + epsilon)


def _normed(x: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Array, Array, Array]:
    mean = x.mean(axis=axes, keepdims=True)
    variance = np.square(x - mean).mean(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon), mean, variance


def rms_norm(x: Array, gamma: Array, *, epsilon: float = 1e-6) -> tuple[Array, Array]:
    """Return the input over its root mean square over the axes of ``gamma``, and one over that."""
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    reciprocal = 1 / np.sqrt(np.square(x).mean(axis=axes, keepdims=True) + epsilon)
    return x * reciprocal * gamma, reciprocal


def add_rms_norm(x1: Array, x2: Array, gamma: Array, *, epsilon: float = 1e-6) -> tuple[Array, Array, Array]:
    """Return the same of a sum, and the sum."""
    whole = x1 + x2
    return *rms_norm(whole, gamma, epsilon=epsilon), whole


def add_layer_norm(
    x1: Array, x2: Array, gamma: Array, beta: Array, bias: Array | None = None, *, epsilon: float = 1e-5
) -> tuple[Array, Array, Array, Array]:
    """Return `layer_norm_v3` of a sum over its last axis, and the sum."""
    whole = x1 + x2 if bias is None else x1 + x2 + bias
    y, mean, variance = _normed(whole, (whole.ndim - 1,), epsilon)
    return y * gamma + beta, mean, 1 / np.sqrt(variance + epsilon), whole


def softmax(x: Array, *, axes: Ints = (-1,)) -> Array:
    """Return the exponentials over their sum, over one axis or several."""
    along = tuple(axes)
    powers = np.exp(x - x.max(axis=along, keepdims=True))
    return np.asarray(powers / powers.sum(axis=along, keepdims=True))


def log_softmax(logits: Array, *, axes: Ints = (-1,)) -> Array:
    """Return the logarithm of that."""
    along = tuple(axes)
    shifted = logits - logits.max(axis=along, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=along, keepdims=True)))


# -- gradients


def softmax_grad(softmax: Array, grad_softmax: Array, *, axes: Ints = (-1,)) -> Array:
    """Return the gradient of softmax by its result."""
    return np.asarray(softmax * (grad_softmax - (grad_softmax * softmax).sum(axis=tuple(axes), keepdims=True)))


def leaky_relu_grad(gradients: Array, features: Array, *, negative_slope: float = 0.0) -> Array:
    """Return the gradient, times the slope where the input is not positive."""
    return np.where(features > 0, gradients, gradients * negative_slope)


def by_result(slope: Callable[[Array], Array]) -> Callable[..., Array]:
    """Return the gradient of a function of one element, by its derivative in terms of its result."""

    def operator(y: Array, dy: Array) -> Array:
        return np.asarray(dy * slope(y))

    return operator


_TRAINING = frozenset(
    (
        "Conv2DBackpropFilter", "Conv2DBackpropFilterD", "Conv2DBackpropInput", "Conv2DBackpropInputD",
        "DepthwiseConv2DBackpropFilter", "DepthwiseConv2DBackpropFilterD", "DepthwiseConv2DBackpropInput",
        "DepthwiseConv2DBackpropInputD", "MaxPoolGrad", "AvgPoolGrad", "AvgPoolGradD", "BNTrainingUpdateGrad",
        "BNTrainingReduceGrad", "BatchNormGrad", "Relu6Grad", "EluGrad", "SoftplusGrad",
        "SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits", "SigmoidCrossEntropyWithLogits",
        "SigmoidCrossEntropyWithLogitsGrad", "L2Loss", "UnsortedSegmentSum", "UnsortedSegmentSumD", "StridedSliceGrad",
        "StridedSliceGradD",
    )
)  # fmt: skip
"""Types that `device_training` computes, which graphs without a backward pass do not load."""

OPTIMIZERS = frozenset(
    (
        "ApplyMomentum", "ApplyMomentumD", "ApplyKerasMomentum", "ApplyKerasMomentumD", "ApplyAdam", "ApplyAdamD",
        "ApplyAdaMax", "ApplyAdaMaxD", "ApplyAdagrad", "ApplyAdagradD", "ApplyRMSProp", "ApplyRMSPropD",
        "ApplyCenteredRMSProp", "ApplyGradientDescent", "AssignAdd", "AssignSub", "SparseApplyAdagrad",
        "SparseApplyAdagradD", "ScatterAdd", "ScatterSub", "ScatterUpdate",
    )
)  # fmt: skip
"""Types that write a variable: those of `device_updates`."""

_FORMS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **DEVICE_MOVES,
        **QUANTISED,
        "Cast": cast, "Exp": exp, "Log": log, "Power": power, "Muls": muls, "Adds": adds, "AddN": add_n, "Axpy": axpy,
        "AxpyV2": axpy_v2, "FusedMulAdd": fused_mul_add, "SquaredDifference": squared_difference,
        "DivNoNan": div_no_nan, "LeakyRelu": leaky_relu, "PRelu": prelu, "Elu": elu, "Gelu": gelu, "GeluV2": gelu_v2,
        "Swish": swish, "SwiGlu": swiglu, "HardSigmoid": hard_sigmoid, "SoftplusV2": softplus_v2,
        "Softplus": elementwise.softplus, "Relu6": elementwise.relu6, "HardSwish": elementwise.hardswish,
        "Mish": elementwise.mish, "ClipByValue": elementwise.clamp, "ClipByValueV2": elementwise.clamp,
        "BiasAdd": bias_add, "BiasAddGrad": bias_add_grad,
        "MatMul": matmul, "MatMulV2": matmul, "MatMulV3": matmul, "BatchMatMul": batch_matmul,
        "BatchMatMulV2": batch_matmul, "BatchMatMulV3": batch_matmul, "FullyConnection": fully_connection,
        "Conv2D": images.conv2d, "DepthwiseConv2D": images.depthwise_conv2d, "MaxPool": images.max_pool,
        "MaxPoolV3": images.max_pool_v3,
        "AvgPool": images.avg_pool, "AvgPoolV2": images.avg_pool_v2, "BatchNorm": images.batch_norm,
        "LayerNorm": layer_norm, "LayerNormV3": layer_norm_v3, "LayerNormV4": layer_norm_v4, "RmsNorm": rms_norm,
        "AddRmsNorm": add_rms_norm, "AddLayerNorm": add_layer_norm, "SoftmaxV2": softmax, "LogSoftmaxV2": log_softmax,
        "SoftmaxGrad": softmax_grad, "LeakyReluGrad": leaky_relu_grad,
        "ReluGrad": leaky_relu_grad, "SigmoidGrad": by_result(lambda y: y * (1 - y)),
        "TanhGrad": by_result(lambda y: 1 - y * y), "RsqrtGrad": by_result(lambda y: -0.5 * y**3),
        "SqrtGrad": by_result(lambda y: 0.5 / y), "ReciprocalGrad": by_result(lambda y: -y * y),
        "Expm1": elementwise.of_one(np.expm1), "Log1p": elementwise.of_one(np.log1p),
        "Round": elementwise.of_one(np.rint), "Rint": elementwise.of_one(np.rint),
        "Trunc": elementwise.of_one(np.trunc), "Sign": elementwise.of_one(np.sign),
        "Sinh": elementwise.of_one(np.sinh), "Cosh": elementwise.of_one(np.cosh),
        "Tan": elementwise.of_one(np.tan), "Atan": elementwise.of_one(np.arctan),
        "IsFinite": elementwise.of_one(np.isfinite), "IsInf": elementwise.of_one(np.isinf),
        "IsNan": elementwise.of_one(np.isnan), "BitwiseNot": elementwise.of_one(np.invert),
        "BitwiseAnd": elementwise.of_two(np.bitwise_and), "BitwiseOr": elementwise.of_two(np.bitwise_or),
        "BitwiseXor": elementwise.of_two(np.bitwise_xor), "FloorMod": elementwise.of_two(np.mod),
        "Atan2": elementwise.of_two(np.arctan2), "MaskedFill": elementwise.masked_fill,
    }
)  # fmt: skip
"""By type."""

BOUNDED_DEVICE_FORMS = (
    _FORMS.keys()
    - DEVICE_MOVES.keys()
    - {"AvgPool", "AvgPoolV2", "Conv2D", "DepthwiseConv2D", "FullyConnection", "MaxPool", "MaxPoolV3"}
    - {name for name in QUANTISED if "Matmul" in name}
) | {name for name in DEVICE_MOVES if name.startswith(("Reduce", "Transpose", "Slice", "Split", "StridedSlice"))}
BOUNDED_DEVICE_FORMS |= {name for name in OPTIMIZERS if name.startswith(("Apply", "Assign"))}
"""Types of which each tensor has as many elements as the inputs repeated to one shape, at most."""


DEVICE_TYPES = _FORMS.keys() | _TRAINING | OPTIMIZERS
"""Types of operators that are computed."""


def device_form(op_type: str) -> Callable[..., Any] | None:
    """Return what computes a type of operator; None where nothing does.

    Where it names attributes, the graph must be known; see `needs_attributes`.
    """
    if op_type in _TRAINING:
        from probe_flow.apis.numpy_core.forms.device_training import TRAINING

        return TRAINING[op_type]
    if op_type in OPTIMIZERS:
        from probe_flow.apis.numpy_core.forms.device_updates import UPDATES

        return UPDATES[op_type]
    return _FORMS.get(op_type)
