"""Gradients and losses of devices: what a graph of training runs behind its forward pass.

Source: as `device`. The gradients themselves are those of `layer_gradients`; here are the order of inputs, the
attributes and the order of axes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.numpy_core import convolution, elementwise
from probe_flow.apis.numpy_core.forms import device_images as images
from probe_flow.apis.numpy_core.forms.device_moves import strided_slice_d, whole_numbers
from probe_flow.apis.numpy_core.layer_gradients import LAYER_RULES

Array = NDArray[Any]
Ints = Sequence[int]

# -- convolution and pooling


def conv2d_backprop_filter_d(
    x: Array,
    out_backprop: Array,
    *,
    filter_size: Ints,
    strides: Ints,
    pads: Ints,
    dilations: Ints = (1, 1, 1, 1),
    groups: int = 1,
    data_format: str = "NHWC",
) -> Array:
    """Return the gradient of a convolution by its filter, which has the shape ``filter_size``."""
    source, _ = images.as_nchw(x, data_format)
    kernel, back = images.as_kernel(np.zeros(tuple(filter_size)), source.shape[1], groups, data_format)
    given = _conv_given(source, kernel, strides, pads, dilations, groups, data_format)
    return back(LAYER_RULES[convolution.conv](given, images.as_nchw(out_backprop, data_format)[0])["weight"])


def conv2d_backprop_input_d(
    filter: Array,
    out_backprop: Array,
    *,
    input_size: Ints,
    strides: Ints,
    pads: Ints,
    dilations: Ints = (1, 1, 1, 1),
    groups: int = 1,
    data_format: str = "NHWC",
) -> Array:
    """Return the gradient of a convolution by its images, which have the shape ``input_size``."""
    source, back = images.as_nchw(np.zeros(tuple(input_size)), data_format)
    kernel, _ = images.as_kernel(filter, source.shape[1], groups, data_format)
    given = _conv_given(source, kernel, strides, pads, dilations, groups, data_format)
    return back(LAYER_RULES[convolution.conv](given, images.as_nchw(out_backprop, data_format)[0])["input"])


def depthwise_backprop_filter_d(
    input: Array,
    out_backprop: Array,
    *,
    filter_size: Ints,
    strides: Ints,
    pads: Ints,
    dilations: Ints = (1, 1, 1, 1),
    data_format: str = "NHWC",
) -> Array:
    """Return the gradient of `device_images.depthwise_conv2d` by its filter."""
    source, _ = images.as_nchw(input, data_format)
    kernel, back = images.as_depthwise(np.zeros(tuple(filter_size)), source.shape[1], data_format)
    given = _conv_given(source, kernel, strides, pads, dilations, source.shape[1], data_format)
    return back(LAYER_RULES[convolution.conv](given, images.as_nchw(out_backprop, data_format)[0])["weight"])


def depthwise_backprop_input_d(
    filter: Array,
    out_backprop: Array,
    *,
    input_size: Ints,
    strides: Ints,
    pads: Ints,
    dilations: Ints = (1, 1, 1, 1),
    data_format: str = "NHWC",
) -> Array:
    """Return the gradient of `device_images.depthwise_conv2d` by its images."""
    source, back = images.as_nchw(np.zeros(tuple(input_size)), data_format)
    kernel, _ = images.as_depthwise(filter, source.shape[1], data_format)
    given = _conv_given(source, kernel, strides, pads, dilations, source.shape[1], data_format)
    return back(LAYER_RULES[convolution.conv](given, images.as_nchw(out_backprop, data_format)[0])["input"])


def _conv_given(
    source: Array, kernel: Array, strides: Ints, pads: Ints, dilations: Ints, groups: int, data_format: str
) -> Mapping[str, Any]:
    steps, gaps = images.of_image(strides, data_format), images.of_image(dilations, data_format)
    return {
        "input": source, "weight": kernel, "stride": steps, "padding": images.sides(pads), "dilation": gaps,
        "groups": groups,
    }  # fmt: skip


def max_pool_grad(
    x1: Array,
    x2: Array,  # noqa: ARG001
    grad: Array,
    *,
    ksize: Ints,
    strides: Ints,
    padding: str,
    data_format: str = "NHWC",
) -> Array:
    """Return the gradient of `device_images.max_pool` by its images ``x1``; ``x2`` is what it gave."""
    return _pool_grad(convolution.MAX_POOLS[2], x1, grad, ksize, strides, padding, data_format)


def avg_pool_grad_d(
    input_grad: Array, *, orig_input_shape: Ints, ksize: Ints, strides: Ints, padding: str, data_format: str = "NHWC"
) -> Array:
    """Return the gradient of `device_images.avg_pool` by its images, which have the shape ``orig_input_shape``."""
    shape = np.zeros(tuple(orig_input_shape))
    return _pool_grad(convolution.AVG_POOLS[2], shape, input_grad, ksize, strides, padding, data_format)


def _pool_grad(
    pool: Callable[..., Any], x: Array, gradient: Array, ksize: Ints, strides: Ints, padding: str, data_format: str
) -> Array:
    source, back = images.as_nchw(x, data_format)
    kernel, steps = images.of_image(ksize, data_format), images.of_image(strides, data_format)
    sides = images.padding_of(source, kernel, steps, padding, ())
    given = {"input": source, "kernel_size": kernel, "stride": steps, "padding": sides, "count_include_pad": False}
    return back(LAYER_RULES[pool](given, images.as_nchw(gradient, data_format)[0])["input"])


# -- batch norm


def bn_training_update_grad(
    grads: Array, x: Array, batch_mean: Array, batch_variance: Array, *, epsilon: float = 1e-4
) -> tuple[Array, Array]:
    """Return the gradients of a batch norm by scale and offset; channels where the statistics have their length."""
    spread, others = _channels(x, batch_mean)
    centred = (x - spread(batch_mean)) / np.sqrt(spread(batch_variance) + epsilon)
    shape = batch_mean.shape
    return (grads * centred).sum(axis=others).reshape(shape), grads.sum(axis=others).reshape(shape)


def bn_training_reduce_grad(
    grads: Array,
    x: Array,
    diff_scale: Array,
    diff_offset: Array,
    scale: Array,
    batch_mean: Array,
    batch_variance: Array,
    *,
    epsilon: float = 1e-4,
) -> Array:
    """Return the gradient of a batch norm by its input, of those by scale and offset."""
    spread, others = _channels(x, batch_mean)
    count = np.prod([x.shape[axis] for axis in others])
    reciprocal = 1 / np.sqrt(spread(batch_variance) + epsilon)
    centred = (x - spread(batch_mean)) * reciprocal
    common = (spread(diff_offset) + centred * spread(diff_scale)) / count
    return np.asarray(spread(scale) * reciprocal * (grads - common))


def batch_norm_grad(
    y_backprop: Array,
    x: Array,
    scale: Array,
    reserve_space_1: Array,
    reserve_space_2: Array,
    *_more: Array,
    epsilon: float = 1e-4,
    data_format: str = "NHWC",  # noqa: ARG001
    is_training: bool = True,
) -> tuple[Array, Array, Array]:
    """Return the gradients of a batch norm in training by input, scale, offset; by mean and variance of the batch."""
    if not is_training:
        raise UnusableError("the gradient of a batch norm by running statistics is not computed")
    of_scale, of_offset = bn_training_update_grad(y_backprop, x, reserve_space_1, reserve_space_2, epsilon=epsilon)
    of_input = bn_training_reduce_grad(
        y_backprop, x, of_scale, of_offset, scale, reserve_space_1, reserve_space_2, epsilon=epsilon
    )
    return of_input, of_scale, of_offset


def _channels(x: Array, statistics: Array) -> tuple[Callable[[Array], Array], tuple[int, ...]]:
    """Return what spreads one number for each channel over images, and the other axes.

    Where both axes that may hold channels are as long, nothing tells which does.
    """
    fits = [axis for axis in sorted({1, x.ndim - 1}) if x.shape[axis] == statistics.size]
    if len(fits) != 1 or x.ndim < 2:
        raise UnusableError(f"which axis of {list(x.shape)} holds its {statistics.size} channels is not known")
    shape = [statistics.size if axis == fits[0] else 1 for axis in range(x.ndim)]
    return lambda values: values.reshape(shape), tuple(axis for axis in range(x.ndim) if axis != fits[0])


# -- elementwise


def relu6_grad(gradients: Array, features: Array) -> Array:
    """Return the gradient where the input lies between 0 and 6."""
    return np.where((features > 0) & (features < 6), gradients, 0.0)


def elu_grad(grads: Array, activations: Array) -> Array:
    """Return the gradient by the result of `device.elu`, with ``alpha`` 1."""
    return np.where(activations > 0, grads, grads * (activations + 1))


def softplus_grad(gradients: Array, features: Array) -> Array:
    """Return the gradient times the sigmoid of the input."""
    return np.asarray(gradients * elementwise.sigmoid(features))


# -- losses


def sparse_softmax_cross_entropy(features: Array, labels: Array) -> tuple[Array, Array]:
    """Return ``-log softmax`` at the labels, one for each row, and its gradient by the features."""
    classes = features.shape[-1]
    places = np.asarray(labels).astype(np.int64)
    if places.size and (places.min() < 0 or places.max() >= classes):
        raise UnusableError("its labels name classes that there are not")
    return softmax_cross_entropy(features, np.eye(classes)[places])


def softmax_cross_entropy(features: Array, labels: Array) -> tuple[Array, Array]:
    """Return the same for shares of all classes."""
    shifted = features - features.max(axis=-1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return -(labels * logarithms).sum(axis=-1), np.exp(logarithms) - labels


def sigmoid_cross_entropy(predict: Array, target: Array) -> Array:
    """Return the cross entropy of the sigmoid, element by element."""
    return np.asarray(np.maximum(predict, 0) - predict * target + np.log1p(np.exp(-np.abs(predict))))


def sigmoid_cross_entropy_grad(predict: Array, target: Array, dout: Array) -> Array:
    """Return its gradient."""
    return np.asarray((elementwise.sigmoid(predict) - target) * dout)


def l2_loss(x: Array) -> Array:
    """Return half the sum of squares."""
    return np.asarray(np.square(x).sum() / 2)


# -- gradients of moves


def unsorted_segment_sum_d(x: Array, segment_ids: Array, *, num_segments: int) -> Array:
    """Return the sum of what has the same number; the numbers stand for the first axes, what has none below 0."""
    numbers = np.asarray(segment_ids).astype(np.int64)
    rows = x.reshape(-1, *x.shape[numbers.ndim :])
    found = np.zeros((num_segments, *rows.shape[1:]))
    keep = numbers.reshape(-1) >= 0
    if keep.any() and numbers.max() >= num_segments:
        raise UnusableError(f"it names segments beyond {num_segments}")
    np.add.at(found, numbers.reshape(-1)[keep], rows[keep])
    return found


def unsorted_segment_sum(x: Array, segment_ids: Array, num_segments: Array) -> Array:
    """Return the same; how many there are is an input."""
    return unsorted_segment_sum_d(x, segment_ids, num_segments=whole_numbers(num_segments)[0])


def strided_slice_grad_d(
    dy: Array,
    *,
    shape: Ints,
    begin: Ints,
    end: Ints,
    strides: Ints,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Array:
    """Return the gradient where a slice was read, 0 elsewhere."""
    places = strided_slice_d(
        np.arange(np.prod(tuple(shape), dtype=np.int64)).reshape(tuple(shape)),
        begin=begin, end=end, strides=strides, begin_mask=begin_mask, end_mask=end_mask, ellipsis_mask=ellipsis_mask,
        new_axis_mask=new_axis_mask, shrink_axis_mask=shrink_axis_mask,
    )  # fmt: skip
    found = np.zeros(int(np.prod(tuple(shape))))
    found[places.reshape(-1)] = dy.reshape(-1)
    return found.reshape(tuple(shape))


def as_input(operator: Callable[..., Any], name: str, at: int) -> Callable[..., Any]:
    """Return an operator of which a shape, or places, are the input at a place, and no attribute of this name."""

    def found(*inputs: Array, **attributes: Any) -> Any:
        return operator(*inputs[:at], *inputs[at + 1 :], **{name: whole_numbers(inputs[at])}, **attributes)

    known = inspect.signature(operator)
    left = [each for each in known.parameters.values() if each.name != name]
    left.insert(at, inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD))
    found.__signature__ = known.replace(parameters=left)  # type: ignore[attr-defined]  # names attributes
    return found


_PLACES = ("strides", "end", "begin", "shape")
"""What `strided_slice_grad_d` has as attributes, the last input first."""

TRAINING: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "Conv2DBackpropFilter": as_input(conv2d_backprop_filter_d, "filter_size", 1),
        "Conv2DBackpropFilterD": conv2d_backprop_filter_d,
        "Conv2DBackpropInput": as_input(conv2d_backprop_input_d, "input_size", 0),
        "Conv2DBackpropInputD": conv2d_backprop_input_d,
        "DepthwiseConv2DBackpropFilter": as_input(depthwise_backprop_filter_d, "filter_size", 1),
        "DepthwiseConv2DBackpropFilterD": depthwise_backprop_filter_d,
        "DepthwiseConv2DBackpropInput": as_input(depthwise_backprop_input_d, "input_size", 0),
        "DepthwiseConv2DBackpropInputD": depthwise_backprop_input_d,
        "MaxPoolGrad": max_pool_grad, "AvgPoolGrad": as_input(avg_pool_grad_d, "orig_input_shape", 0),
        "AvgPoolGradD": avg_pool_grad_d,
        "BNTrainingUpdateGrad": bn_training_update_grad, "BNTrainingReduceGrad": bn_training_reduce_grad,
        "BatchNormGrad": batch_norm_grad, "Relu6Grad": relu6_grad, "EluGrad": elu_grad, "SoftplusGrad": softplus_grad,
        "SparseSoftmaxCrossEntropyWithLogits": sparse_softmax_cross_entropy,
        "SoftmaxCrossEntropyWithLogits": softmax_cross_entropy,
        "SigmoidCrossEntropyWithLogits": sigmoid_cross_entropy,
        "SigmoidCrossEntropyWithLogitsGrad": sigmoid_cross_entropy_grad, "L2Loss": l2_loss,
        "UnsortedSegmentSum": unsorted_segment_sum, "UnsortedSegmentSumD": unsorted_segment_sum_d,
        "StridedSliceGrad": reduce(lambda made, name: as_input(made, name, 0), _PLACES, strided_slice_grad_d),
        "StridedSliceGradD": strided_slice_grad_d,
    }
)  # fmt: skip
"""By type."""
