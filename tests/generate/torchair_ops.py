"""Converters of the aten targets that the generated models use beside those of the bundled sample."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from fx_writer import Array, FxNode, Ref
from ge_kernels import Arithmetic
from ge_lowering import Converter, Lowered, Result, elementwise


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _swish(x: Array) -> Array:
    return np.asarray(x * _sigmoid(x))


def _relu(x: Array) -> Array:
    return np.maximum(x, np.float32(0))


def _rsqrt(x: Array) -> Array:
    return np.asarray(1 / np.sqrt(x))


def _convert_rsub(lowered: Lowered, node: FxNode) -> None:
    """Lower ``number - x``: the device has the operands the other way round than the arguments."""
    x, number = node.args
    op = lowered.emit("Sub", [lowered.constant(number), lowered.edge(x)], _subtract, node=node)
    lowered.returns(node, op)


def _subtract(_: Arithmetic, a: Array, b: Array) -> Array:
    return np.subtract(a, b)


def _convert_alias(lowered: Lowered, node: FxNode) -> None:
    """Emit nothing: the producer's output takes the name of the last node that returns it."""
    (source,) = node.args
    assert isinstance(source, Ref)
    producer, _, index = lowered.edges[source].rpartition(":")
    (op,) = (op for op in lowered.ops if op.name == producer)
    op.fx_names[int(index)] = f"{node.key}.OUTPUT.0"
    lowered.edges[Ref(node.name)] = lowered.edges[source]


def _convert_cat(lowered: Lowered, node: FxNode) -> None:
    parts, axis = node.args
    assert isinstance(parts, Sequence)
    kernel = partial(_concatenated, axis)
    lowered.returns(node, lowered.emit("ConcatV2", [lowered.edge(part) for part in parts], kernel, node=node))


def _concatenated(axis: int, _: Arithmetic, *parts: Array) -> Array:
    return np.concatenate(parts, axis=axis)


def _convert_slice(lowered: Lowered, node: FxNode) -> None:
    x, axis, begin, end = node.args
    kernel = partial(_sliced, axis, slice(begin, end))
    lowered.returns(node, lowered.emit("StridedSlice", [lowered.edge(x)], kernel, node=node))


def _convert_select(lowered: Lowered, node: FxNode) -> None:
    x, axis, index = node.args
    lowered.returns(node, lowered.emit("StridedSlice", [lowered.edge(x)], partial(_sliced, axis, index), node=node))


def _sliced(axis: int, where: slice | int, _: Arithmetic, x: Array) -> Array:
    return np.moveaxis(x, axis, 0)[where] if isinstance(where, int) else x[(slice(None),) * (axis % x.ndim) + (where,)]


def _convert_reduction(op_type: str, *, is_mean: bool) -> Converter:
    def convert(lowered: Lowered, node: FxNode) -> None:
        x, axes, keep = node.args
        kernel = partial(_reduced, tuple(axes), keep=keep, is_mean=is_mean)
        inputs = [lowered.edge(x), lowered.constant(axes, np.int64)]
        lowered.returns(node, lowered.emit(op_type, inputs, kernel, node=node))

    return convert


def _reduced(axes: tuple[int, ...], arithmetic: Arithmetic, x: Array, _: Array, *, keep: bool, is_mean: bool) -> Array:
    result, count = x, 1
    for axis in axes:
        count *= x.shape[axis]
        result = arithmetic.total(result, axis)
    result = result / np.float32(count) if is_mean else result
    return result if keep else result.squeeze(axes)


def _convert_convolution(lowered: Lowered, node: FxNode) -> None:
    x, weight, bias, stride, padding, *_ = node.args
    kernel = partial(_convolved, stride[0], padding[0])
    inputs = [lowered.edge(argument) for argument in (x, weight, bias)]
    lowered.returns(node, lowered.emit("Conv2D", inputs, kernel, node=node))


def _convolved(stride: int, padding: int, arithmetic: Arithmetic, x: Array, weight: Array, bias: Array) -> Result:
    edges = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    size = weight.shape[2:]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, edges), size, (2, 3))[:, :, ::stride, ::stride]
    n, _, height, width = windows.shape[:4]
    columns = np.ascontiguousarray(windows.transpose(0, 2, 3, 1, 4, 5)).reshape(n * height * width, -1)
    product = arithmetic.matmul(columns, np.ascontiguousarray(weight.reshape(len(weight), -1).T)) + bias
    return product.reshape(n, height, width, -1).transpose(0, 3, 1, 2)


def _convert_pool(lowered: Lowered, node: FxNode) -> None:
    x, size, _ = node.args
    lowered.returns(node, lowered.emit("AvgPoolV2", [lowered.edge(x)], partial(_pooled, size[0]), node=node))


def _pooled(size: int, _: Arithmetic, x: Array) -> Array:
    n, c, height, width = x.shape
    return np.asarray(x.reshape(n, c, height // size, size, width // size, size).mean((3, 5)), np.float32)


CONVERTERS: dict[str, Converter] = {
    "aten.sub.Tensor": elementwise("Sub", np.subtract),
    "aten.rsub.Scalar": _convert_rsub,
    "aten.div.Tensor": elementwise("RealDiv", np.divide),
    "aten.neg.default": elementwise("Neg", np.negative),
    "aten.relu.default": elementwise("Relu", _relu),
    "aten.sigmoid.default": elementwise("Sigmoid", _sigmoid),
    "aten.tanh.default": elementwise("Tanh", np.tanh),
    "aten.silu.default": elementwise("Swish", _swish),
    "aten.exp.default": elementwise("Exp", np.exp),
    "aten.log.default": elementwise("Log", np.log),
    "aten.rsqrt.default": elementwise("Rsqrt", _rsqrt),
    "aten.pow.Tensor_Scalar": elementwise("Pow", np.power),
    "aten.mean.dim": _convert_reduction("ReduceMean", is_mean=True),
    "aten.sum.dim_IntList": _convert_reduction("ReduceSum", is_mean=False),
    "aten.cat.default": _convert_cat,
    "aten.slice.Tensor": _convert_slice,
    "aten.select.int": _convert_select,
    "aten.convolution.default": _convert_convolution,
    "aten.avg_pool2d.default": _convert_pool,
    "aten.alias.default": _convert_alias,
}
