"""Operators of devices by hand: what each computes of its inputs and attributes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from probe_flow.apis.calls import Call, Plain, TensorSpec, UnusableError
from probe_flow.apis.numpy_core import names
from probe_flow.apis.numpy_core.compute import computed, own_errors, wide
from probe_flow.apis.numpy_core.forms.device import DEVICE_TYPES
from probe_flow.dumps.rules.facts import MEANING

UNITS = {"float32": 2.0**-20, "float16": 2.0**-11}
IMAGE = np.arange(9.0).reshape(1, 1, 3, 3)
HWC = np.arange(18.0).reshape(1, 3, 3, 2)
SQUARE = {"strides": (1, 1, 1, 1), "pads": (0, 0, 0, 0), "data_format": "NCHW"}
TWO = np.array([[1.0, 2.0], [3.0, 4.0]])
LOG2 = math.log(2)
E = math.exp
SIGMOID1 = 1 / (1 + E(-1))
I = np.array  # noqa: E741


HWC_SQUARE = {**SQUARE, "data_format": "NHWC"}
POOL = {"ksize": (1, 1, 2, 2), "strides": (1, 1, 1, 1), "padding": "VALID", "data_format": "NCHW"}
ONES = np.ones((1, 1, 2, 2))
SUMS = np.array([[[[8.0, 12.0], [20.0, 24.0]]]])
"""Of the four windows of `IMAGE`."""
EACH = np.array([[[[16.0, 20.0], [24.0, 28.0]], [[40.0, 44.0], [48.0, 52.0]]]])
"""Of those of `HWC`, for each of its channels."""
SPREAD = np.array([[[[1.0, 3.0, 2.0], [4.0, 10.0, 6.0], [3.0, 7.0, 4.0]]]])
"""`TWO` at four places, added."""


def image(*rows):
    return np.array([[rows]])


def call_of(op_type, inputs, attributes, results=()):
    specs = [TensorSpec(str(np.asarray(each).dtype), np.shape(each)) for each in inputs]
    kwargs = {name: Plain(value) for name, value in attributes.items()}
    return Call(names.DEVICE, op_type, tuple(specs), kwargs, tuple(results))


def results(op_type, inputs, attributes):
    call = call_of(op_type, inputs, attributes)
    arrays = {(place,): wide(np.asarray(each)) for place, each in enumerate(inputs)}
    return [values for _, values in computed(names.find(names.DEVICE, op_type), call, arrays)]


ONE_STEP = [I([1.0]), I([2.0]), I(0.5), I([4.0])]
"""Variable, what it gathered, rate, gradient."""
ADAM = [I([1.0]), I([2.0]), I([2.0]), I(0.5), I(0.75), I(0.5), I(0.5), I(0.5), I(1.0), I([4.0])]
ADA_MAX = [I([1.0]), I([2.0]), I([2.0]), I(0.5), I(0.5), I(0.5), I(0.5), I(1.0), I([4.0])]
ADAGRAD = [I([1.0]), I([9.0]), I(0.5), I([4.0])]
RMS = [I([1.0]), I([2.0]), I([4.0]), I(0.5)]
ROWS = [I([[1.0], [2.0]]), I([[9.0], [4.0]])]

CASES = [
    ("ApplyMomentum", [*ONE_STEP, I(0.25)], {}, [[-1.25], [4.5]]),
    ("ApplyMomentumD", [*ONE_STEP, I(0.25)], {"use_nesterov": True}, [[-1.5625], [4.5]]),
    ("ApplyKerasMomentum", [*ONE_STEP, I(0.25)], {}, [[-0.5], [-1.5]]),
    ("ApplyKerasMomentumD", [*ONE_STEP, I(0.25)], {"use_nesterov": True}, [[-1.375], [-1.5]]),
    ("ApplyAdam", ADAM, {}, [[0.625], [3.0], [9.0]]),
    ("ApplyAdamD", ADAM, {"use_nesterov": True}, [[0.5625], [3.0], [9.0]]),
    ("ApplyAdaMax", ADA_MAX, {}, [[0.4], [3.0], [4.0]]),
    ("ApplyAdaMaxD", ADA_MAX, {}, [[0.4], [3.0], [4.0]]),
    ("ApplyAdagrad", ADAGRAD, {}, [[0.6], [25.0]]),
    ("ApplyAdagradD", ADAGRAD, {"update_slots": False}, [[1 - 2 / 3], [9.0]]),
    ("ApplyRMSProp", [*RMS, I(0.5), I(0.25), I(7.0), I([4.0])], {}, [[-0.5], [9.0], [1.5]]),
    ("ApplyRMSPropD", [*RMS, I([4.0])], {"rho": 0.5, "momentum": 0.25, "epsilon": 7.0}, [[-0.5], [9.0], [1.5]]),
    (
        "ApplyCenteredRMSProp",
        [I([1.0]), I([0.0]), *RMS[1:], I(0.5), I(0.25), I(4.0), I([4.0])],
        {},
        [[-2 / 3], [2.0], [9.0], [5 / 3]],
    ),
    ("ApplyGradientDescent", [I([1.0]), I(0.5), I([4.0])], {}, [[-1.0]]),
    ("SparseApplyAdagrad", [*ROWS, I(0.5), I([[4.0]]), I([0])], {}, [[[0.6], [2.0]], [[25.0], [4.0]]]),
    ("SparseApplyAdagradD", [*ROWS, I([[4.0]]), I([0])], {"lr": 0.5}, [[[0.6], [2.0]], [[25.0], [4.0]]]),
    ("ScatterAdd", [I([1.0, 2.0]), I([1, 1]), I([10.0, 20.0])], {}, [[1.0, 32.0]]),
    ("ScatterSub", [I([1.0, 2.0]), I([1, 1]), I([10.0, 20.0])], {}, [[1.0, -28.0]]),
    ("ScatterUpdate", [I([1.0, 2.0]), I([1]), I([9.0])], {}, [[1.0, 9.0]]),
    ("AssignAdd", [I([1.0]), I([4.0])], {}, [[5.0]]),
    ("AssignSub", [I([1.0]), I([4.0])], {}, [[-3.0]]),
    ("Cast", [I([1.5, -1.5])], {"dst_type": 3}, [[1, -1]]),
    ("Cast", [I([1.5])], {"dst_type": 1}, [[1.5]]),
    ("Exp", [I([0.0, 1.0])], {}, [[1.0, E(1)]]),
    ("Exp", [I([1.0])], {"base": 2.0, "scale": 2.0, "shift": 1.0}, [[8.0]]),
    ("Log", [I([E(1), 1.0])], {}, [[1.0, 0.0]]),
    ("Log", [I([3.0])], {"base": 2.0, "scale": 2.0, "shift": 2.0}, [[3.0]]),
    ("Power", [I([3.0])], {"power": 2.0, "scale": 2.0, "shift": 1.0}, [[49.0]]),
    ("Muls", [I([3.0])], {"value": 2.0}, [[6.0]]),
    ("Adds", [I([3.0])], {"value": 2.0}, [[5.0]]),
    ("AddN", [I([1.0]), I([2.0]), I([4.0])], {}, [[7.0]]),
    ("Axpy", [I([1.0]), I([2.0])], {"alpha": 3.0}, [[7.0]]),
    ("AxpyV2", [I([1.0]), I([2.0]), I(3.0)], {}, [[7.0]]),
    ("FusedMulAdd", [I([2.0]), I([3.0]), I([4.0])], {}, [[10.0]]),
    ("SquaredDifference", [I([2.0]), I([5.0])], {}, [[9.0]]),
    ("DivNoNan", [I([2.0, 1.0]), I([4.0, 0.0])], {}, [[0.5, 0.0]]),
    ("LeakyRelu", [I([2.0, -2.0])], {"negative_slope": 0.25}, [[2.0, -0.5]]),
    ("LeakyRelu", [I([-2.0])], {}, [[0.0]]),
    ("PRelu", [-IMAGE, I([0.5])], {}, [-IMAGE / 2]),
    ("PRelu", [I([[-2.0, -2.0]]), I([0.5, 1.0])], {}, [[[-1.0, -2.0]]]),
    ("Elu", [I([1.0, -1.0])], {"alpha": 2.0}, [[1.0, 2 * math.expm1(-1)]]),
    ("Gelu", [I([1.0])], {}, [[0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * 1.044715))]]),
    ("GeluV2", [I([1.0])], {"approximate": "none"}, [[0.5 * (1 + math.erf(math.sqrt(0.5)))]]),
    ("Swish", [I([1.0])], {"scale": 2.0}, [[1 / (1 + E(-2))]]),
    ("SwiGlu", [I([[1.0, 3.0]])], {"dim": -1}, [[[3 * SIGMOID1]]]),
    ("HardSigmoid", [I([0.0, 9.0])], {"alpha": 0.2, "beta": 0.5}, [[0.5, 1.0]]),
    ("SoftplusV2", [I([0.0, 30.0])], {"beta": 1.0, "threshold": 20.0}, [[LOG2, 30.0]]),
    ("Softplus", [I([0.0])], {}, [[LOG2]]),
    ("Relu6", [I([-1.0, 9.0])], {}, [[0.0, 6.0]]),
    ("HardSwish", [I([3.0, 1.0])], {}, [[3.0, 4 / 6]]),
    ("Mish", [I([0.0, 1.0])], {}, [[0.0, math.tanh(math.log1p(E(1)))]]),
    ("ClipByValue", [I([-1.0, 9.0]), I(0.0), I(2.0)], {}, [[0.0, 2.0]]),
    ("ClipByValueV2", [I([-1.0, 9.0]), I(0.0), I(2.0)], {}, [[0.0, 2.0]]),
    ("BiasAdd", [IMAGE, I([1.0])], {"data_format": "NCHW"}, [IMAGE + 1]),
    ("BiasAdd", [TWO, I([10.0, 20.0])], {}, [[[11.0, 22.0], [13.0, 24.0]]]),
    ("BiasAddGrad", [TWO], {}, [[4.0, 6.0]]),
    ("BiasAddGrad", [IMAGE], {"data_format": "NCHW"}, [[36.0]]),
    ("MatMul", [TWO, TWO], {"transpose_x1": False, "transpose_x2": True}, [[[5.0, 11.0], [11.0, 25.0]]]),
    ("MatMulV2", [TWO, TWO, I([1.0, 1.0])], {"transpose_x1": True}, [[[11.0, 15.0], [15.0, 21.0]]]),
    ("MatMulV3", [TWO, TWO], {}, [[[7.0, 10.0], [15.0, 22.0]]]),
    ("BatchMatMul", [TWO[None], TWO[None]], {"adj_x2": True}, [[[[5.0, 11.0], [11.0, 25.0]]]]),
    ("MatMulV2", [TWO.reshape(1, 4, 1, 1), I([[1.0], [1.0], [1.0], [2.0]])], {}, [[[14.0]]]),
    ("MatMulV2", [TWO.reshape(1, 2, 1, 2), I([[1.0, 1.0, 1.0, 2.0]])], {"transpose_x2": True}, [[[14.0]]]),
    ("MatMulV2", [TWO[None], TWO], {}, [[[[7.0, 10.0], [15.0, 22.0]]]]),
    ("BatchMatMulV2", [TWO[None], TWO[None], I([1.0, 0.0])], {}, [[[[8.0, 10.0], [16.0, 22.0]]]]),
    ("BatchMatMulV3", [TWO[None], TWO[None]], {"adj_x1": True}, [[[[10.0, 14.0], [14.0, 20.0]]]]),
    ("FullyConnection", [TWO.reshape(1, 2, 2), I([[1.0, 1.0, 1.0, 1.0]]), I([1.0])], {"num_output": 1}, [[[11.0]]]),
    ("FullyConnection", [TWO, TWO], {"num_output": 2, "transpose": True}, [[[7.0, 10.0], [15.0, 22.0]]]),
    ("Conv2D", [IMAGE, np.ones((1, 1, 2, 2))], SQUARE, [image([8.0, 12.0], [20.0, 24.0])]),
    ("Conv2D", [IMAGE, np.ones((1, 1, 2, 2)), I([1.0])], {**SQUARE, "strides": (1, 1, 2, 2)}, [image([9.0])]),
    ("Conv2D", [IMAGE, np.ones((1, 1, 2, 2))], {**SQUARE, "pads": (1, 0, 0, 0)},
     [image([1.0, 3.0], [8.0, 12.0], [20.0, 24.0])]),
    ("Conv2D", [IMAGE, np.ones((1, 1, 2, 2))], {**SQUARE, "dilations": (1, 1, 2, 2)}, [image([16.0])]),
    ("Conv2D", [HWC, np.ones((1, 1, 1, 2))], {"strides": (1, 1, 1, 1), "pads": (0, 0, 0, 0), "groups": 2}, [HWC]),
    ("Conv2D", [HWC, np.ones((3, 3, 2, 1))], {"strides": (1, 1, 1, 1), "pads": (0, 0, 0, 0)}, [image([153.0])]),
    ("MaxPool", [HWC], {"ksize": (1, 2, 2, 1), "strides": (1, 2, 2, 1), "padding": "VALID"}, [[[[[8.0, 9.0]]]]]),
    ("MaxPool", [HWC], {"ksize": (1, 2, 2, 1), "strides": (1, 2, 2, 1), "padding": "SAME"},
     [[[[[8.0, 9.0], [10.0, 11.0]], [[14.0, 15.0], [16.0, 17.0]]]]]),
    ("MaxPoolV3", [IMAGE], {"ksize": (1, 1, 2, 2), "strides": (1, 1, 2, 2), "ceil_mode": True},
     [image([4.0, 5.0], [7.0, 8.0])]),
    ("MaxPoolV3", [IMAGE], {"ksize": (1, 1, 1, 1), "strides": (1, 1, 1, 1), "global_pooling": True}, [image([8.0])]),
    ("MaxPoolV3", [IMAGE], {"ksize": (1, 1, 3, 3), "strides": (1, 1, 2, 2), "pads": (1, 1, 1, 1)},
     [image([4.0, 5.0], [7.0, 8.0])]),
    ("AvgPool", [HWC], {"ksize": (1, 2, 2, 1), "strides": (1, 2, 2, 1), "padding": "SAME"},
     [[[[[4.0, 5.0], [7.0, 8.0]], [[13.0, 14.0], [16.0, 17.0]]]]]),
    ("AvgPoolV2", [IMAGE], {"ksize": (1, 1, 3, 3), "strides": (1, 1, 3, 3), "pads": (1, 0, 1, 0)}, [image([2.0])]),
    ("AvgPoolV2", [IMAGE], {"ksize": (1, 1, 3, 3), "strides": (1, 1, 3, 3), "pads": (1, 0, 1, 0), "exclusive": False},
     [image([8 / 9])]),
    ("AvgPoolV2", [IMAGE], {"ksize": (1, 1, 1, 1), "strides": (1, 1, 1, 1), "global_pooling": True}, [image([4.0])]),
    ("BatchNorm", [np.full((1, 1, 1, 1), 3.0), I([2.0]), I([1.0]), I([1.0]), I([3.0])],
     {"epsilon": 1.0, "data_format": "NCHW", "is_training": False}, [[[[[3.0]]]]]),
    ("BatchNorm", [I([[[[1.0], [3.0]]]]), I([2.0]), I([1.0])], {"epsilon": 3.0}, [[[[[0.0], [2.0]]]]]),
    ("LayerNorm", [I([[1.0, 3.0]]), I([2.0, 2.0]), I([1.0, 1.0])], {"begin_norm_axis": -1, "epsilon": 3.0},
     [[[0.0, 2.0]], [[2.0]], [[1.0]]]),
    ("LayerNormV3", [I([[1.0, 3.0]]), I([2.0, 2.0]), I([1.0, 1.0])], {"begin_norm_axis": 1, "epsilon": 3.0},
     [[[0.0, 2.0]], [[2.0]], [[0.5]]]),
    ("LayerNormV4", [I([[1.0, 3.0]]), I([2]), I([2.0, 2.0])], {"epsilon": 3.0}, [[[-1.0, 1.0]], [[2.0]], [[0.5]]]),
    ("RmsNorm", [I([[1.0, 3.0]]), I([2.0, 4.0])], {"epsilon": 4.0}, [[[2 / 3, 4.0]], [[1 / 3]]]),
    ("AddRmsNorm", [I([[1.0, 1.0]]), I([[0.0, 2.0]]), I([2.0, 4.0])], {"epsilon": 4.0},
     [[[2 / 3, 4.0]], [[1 / 3]], [[1.0, 3.0]]]),
    ("AddLayerNorm", [I([[1.0, 1.0]]), I([[0.0, 2.0]]), I([2.0, 2.0]), I([1.0, 1.0])], {"epsilon": 3.0},
     [[[0.0, 2.0]], [[2.0]], [[0.5]], [[1.0, 3.0]]]),
    ("SoftmaxV2", [np.log([[1.0, 3.0]])], {"axes": (-1,)}, [[[0.25, 0.75]]]),
    ("SoftmaxV2", [np.log([[1.0], [3.0]])], {"axes": (0, 1)}, [[[0.25], [0.75]]]),
    ("LogSoftmaxV2", [np.log([[1.0, 3.0]])], {}, [np.log([[0.25, 0.75]])]),
    ("SoftmaxGrad", [I([[0.25, 0.75]]), I([[1.0, 0.0]])], {}, [[[0.1875, -0.1875]]]),
    ("LeakyReluGrad", [I([1.0, 1.0]), I([1.0, -1.0])], {"negative_slope": 0.5}, [[1.0, 0.5]]),
    ("ReluGrad", [I([1.0, 1.0]), I([1.0, -1.0])], {}, [[1.0, 0.0]]),
    ("SigmoidGrad", [I([0.25]), I([2.0])], {}, [[0.375]]),
    ("TanhGrad", [I([0.5]), I([2.0])], {}, [[1.5]]),
    ("RsqrtGrad", [I([2.0]), I([1.0])], {}, [[-4.0]]),
    ("SqrtGrad", [I([2.0]), I([1.0])], {}, [[0.25]]),
    ("ReciprocalGrad", [I([2.0]), I([1.0])], {}, [[-4.0]]),
    ("AscendQuant", [I([0.6, 900.0])], {"scale": 2.0, "offset": 1.0}, [[2.0, 127.0]]),
    ("AscendQuant", [I([0.6])], {"scale": 2.0, "offset": 1.0, "sqrt_mode": True, "round_mode": "Trunc"}, [[3.0]]),
    ("AscendDequant", [I([[2, -4]]), I([2.0])], {"relu_flag": True}, [[[4.0, 0.0]]]),
    ("AscendDequant", [I([[[[2]], [[4]]]]), np.array([0x40000000, 0x3F800000], np.uint64)], {}, [[[[[4.0]], [[4.0]]]]]),
    ("AscendAntiQuant", [I([2])], {"scale": 0.5, "offset": 2.0}, [[2.0]]),
    ("DynamicQuant", [I([[1.0, -2.0], [0.0, 0.0]])], {}, [[[64.0, -127.0], [0.0, 0.0]], [2 / 127, 0.0]]),
    ("DynamicQuant", [I([[1.0, -2.0]]), I([4.0, 1.0])], {"dst_type": 29}, [[[7.0, -4.0]], [4 / 7]]),
    ("QuantBatchMatmulV3", [I([[1, 2]]), I([[3, 4], [5, 6]]), I([0.5, 0.25])], {}, [[[6.5, 4.0]]]),
    ("QuantBatchMatmulV3", [I([[1, 2]]), I([[3, 4], [5, 6]]), np.array([0x40000000], np.uint64)], {}, [[[26.0, 32.0]]]),
    ("QuantBatchMatmulV3", [I([[1, 2]]), I([[3, 5], [4, 6]]), I([0.5]), np.array([1, 0]), I([2.0]), I([-1.0, 1.0])],
     {"transpose_x2": True}, [[[13.0, 17.0]]]),
    ("QuantBatchMatmulV4", [I([[1, 2]]), I([[3, 4], [5, 6]]), I([0.5, 0.25])], {}, [[[6.5, 4.0]]]),
    ("WeightQuantBatchMatmulV2", [I([[1.0, 2.0]]), I([[1, -2], [3, 4]]), I([0.5, 0.25])], {}, [[[3.5, 1.5]]]),
    ("WeightQuantBatchMatmulV2", [I([[1.0, 2.0]]), I([[1, -2], [3, 4]]), I([0.5]), I([1.0]), I([1.0, -1.0])], {},
     [[[6.0, 3.5]]]),
    ("Expm1", [I([1.0])], {}, [[math.expm1(1)]]),
    ("Log1p", [I([1.0])], {}, [[LOG2]]),
    ("Round", [I([0.5, 1.5])], {}, [[0.0, 2.0]]),
    ("Rint", [I([2.5])], {}, [[2.0]]),
    ("Trunc", [I([-1.5])], {}, [[-1.0]]),
    ("Sign", [I([-2.0, 0.0])], {}, [[-1.0, 0.0]]),
    ("Sinh", [I([1.0])], {}, [[math.sinh(1)]]),
    ("Cosh", [I([1.0])], {}, [[math.cosh(1)]]),
    ("Tan", [I([1.0])], {}, [[math.tan(1)]]),
    ("Atan", [I([1.0])], {}, [[math.pi / 4]]),
    ("IsFinite", [I([1.0, np.inf])], {}, [[True, False]]),
    ("IsInf", [I([1.0, np.inf])], {}, [[False, True]]),
    ("IsNan", [I([1.0, np.nan])], {}, [[False, True]]),
    ("BitwiseNot", [I([1])], {}, [[-2]]),
    ("BitwiseAnd", [I([6]), I([3])], {}, [[2]]),
    ("BitwiseOr", [I([6]), I([3])], {}, [[7]]),
    ("BitwiseXor", [I([6]), I([3])], {}, [[5]]),
    ("FloorMod", [I([-1.0]), I([3.0])], {}, [[2.0]]),
    ("Atan2", [I([1.0]), I([-1.0])], {}, [[3 * math.pi / 4]]),
    ("MaskedFill", [I([1.0, 2.0]), I([True, False]), I(9.0)], {}, [[9.0, 2.0]]),
    ("ReduceSum", [TWO, I([0])], {"keep_dims": True}, [[[4.0, 6.0]]]),
    ("ReduceSum", [TWO, np.zeros(0, np.int64)], {}, [TWO]),
    ("ReduceSum", [TWO, np.zeros(0, np.int64)], {"noop_with_empty_axes": False}, [10.0]),
    ("ReduceSumD", [TWO], {"axes": (1,)}, [[3.0, 7.0]]),
    ("ReduceMean", [TWO, I([-1])], {}, [[1.5, 3.5]]),
    ("ReduceMeanD", [TWO], {"axes": (0, 1), "keep_dims": True}, [[[2.5]]]),
    ("ReduceMax", [TWO, I(0)], {}, [[3.0, 4.0]]),
    ("ReduceMaxD", [TWO], {"axes": ()}, [4.0]),
    ("ReduceMin", [TWO, I(0)], {}, [[1.0, 2.0]]),
    ("ReduceMinD", [TWO], {"axes": (1,)}, [[1.0, 3.0]]),
    ("ReduceProd", [TWO, I(0)], {}, [[3.0, 8.0]]),
    ("ReduceProdD", [TWO], {"axes": (1,)}, [[2.0, 12.0]]),
    ("ReduceAll", [I([[True, False]]), I(1)], {}, [[False]]),
    ("ReduceAllD", [I([[True, True]])], {"axes": (1,)}, [[True]]),
    ("ReduceAny", [I([[True, False]]), I(1)], {}, [[True]]),
    ("ReduceAnyD", [I([[False, False]])], {"axes": (1,)}, [[False]]),
    ("SquareSumV1", [TWO], {"axis": (1,), "keep_dims": True}, [[[5.0], [25.0]]]),
    ("Transpose", [TWO, I([1, 0])], {}, [TWO.T]),
    ("TransposeD", [TWO], {"perm": (1, 0)}, [TWO.T]),
    ("ConfusionTransposeD", [TWO], {"perm": (1, 0), "shape": (4,), "transpose_first": True}, [[1.0, 3.0, 2.0, 4.0]]),
    ("ConfusionTransposeD", [TWO], {"perm": (1, 0), "shape": (4, 1), "transpose_first": False},
     [[[1.0, 2.0, 3.0, 4.0]]]),
    ("ConcatV2", [TWO, TWO, I(1)], {}, [[[1.0, 2.0, 1.0, 2.0], [3.0, 4.0, 3.0, 4.0]]]),
    ("Concat", [I(0), I([1.0]), I([2.0])], {}, [[1.0, 2.0]]),
    ("ConcatD", [I([1.0]), I([2.0])], {"concat_dim": -1}, [[1.0, 2.0]]),
    ("ConcatV2D", [I([1.0]), I([2.0])], {"concat_dim": 0}, [[1.0, 2.0]]),
    ("Pack", [I([1.0]), I([2.0])], {"axis": 1}, [[[1.0, 2.0]]]),
    ("Unpack", [TWO], {"axis": 1}, [[1.0, 3.0], [2.0, 4.0]]),
    ("Split", [I(1), TWO], {"num_split": 2}, [[[1.0], [3.0]], [[2.0], [4.0]]]),
    ("SplitD", [TWO], {"split_dim": 0, "num_split": 2}, [[[1.0, 2.0]], [[3.0, 4.0]]]),
    ("SplitV", [I([1.0, 2.0, 3.0]), I([1, -1]), I(0)], {}, [[1.0], [2.0, 3.0]]),
    ("SplitVD", [I([1.0, 2.0, 3.0])], {"size_splits": (2, 1), "split_dim": 0}, [[1.0, 2.0], [3.0]]),
    ("Slice", [TWO, I([0, 1]), I([2, -1])], {}, [[[2.0], [4.0]]]),
    ("SliceD", [TWO], {"offsets": (1, 0), "size": (1, 2)}, [[[3.0, 4.0]]]),
    ("StridedSlice", [I([1.0, 2.0, 3.0]), I([0]), I([3]), I([2])], {}, [[1.0, 3.0]]),
    ("StridedSlice", [TWO, I([1, 0]), I([2, 1])], {"shrink_axis_mask": 1, "end_mask": 2}, [[3.0, 4.0]]),
    ("StridedSliceD", [TWO], {"begin": (1, 1), "end": (2, 2), "strides": (1, 1), "begin_mask": 2}, [[[3.0, 4.0]]]),
    ("Pad", [I([1.0]), I([[1, 2]])], {}, [[0.0, 1.0, 0.0, 0.0]]),
    ("PadV3", [I([[1.0, 2.0]]), I([[0, 0], [1, 0]]), I(9.0)], {}, [[[9.0, 1.0, 2.0]]]),
    ("PadV3", [I([[1.0, 2.0]]), I([0, 1, 0, 0]), I(9.0)], {"paddings_contiguous": False}, [[[9.0, 1.0, 2.0]]]),
    ("PadV3", [I([[1.0, 2.0]]), I([[0, 0], [1, 0]])], {"mode": "reflect"}, [[[2.0, 1.0, 2.0]]]),
    ("PadV3", [I([[1.0, 2.0]]), I([[0, 0], [1, 0]])], {"mode": "edge"}, [[[1.0, 1.0, 2.0]]]),
    ("Tile", [I([1.0]), I([2])], {}, [[1.0, 1.0]]),
    ("TileD", [I([1.0])], {"multiples": (2,)}, [[1.0, 1.0]]),
    ("BroadcastTo", [I([1.0]), I([2, 1])], {}, [[[1.0], [1.0]]]),
    ("Expand", [I([1.0]), I([2, 1])], {}, [[[1.0], [1.0]]]),
    ("Reshape", [TWO, I([0, -1, 1])], {}, [TWO[..., None]]),
    ("Squeeze", [TWO[None]], {"axis": (0,)}, [TWO]),
    ("Unsqueeze", [TWO], {"axes": (0,)}, [TWO[None]]),
    ("ExpandDims", [TWO, I(-1)], {}, [TWO[..., None]]),
    ("Flatten", [IMAGE], {"axis": 1}, [IMAGE.reshape(1, 9)]),
    ("GatherV2", [TWO, I([1, -2]), I(1)], {}, [[[2.0, 1.0], [4.0, 3.0]]]),
    ("Gather", [TWO, I([[1]])], {}, [[[[3.0, 4.0]]]]),
    ("GatherV2D", [TWO, I([1])], {"axis": 1}, [[[2.0], [4.0]]]),
    ("GatherElements", [TWO, I([[0, -1]])], {"dim": 0}, [[[1.0, 4.0]]]),
    ("GatherNd", [TWO, I([[1, 0]])], {}, [[3.0]]),
    ("OneHot", [I([1]), I(2), I(5.0), I(0.5)], {"axis": -1}, [[[0.5, 5.0]]]),
    ("OneHot", [I([1]), I(2), I(1.0), I(0.0)], {"axis": 0}, [[[0.0], [1.0]]]),
    ("Fill", [I([2]), I(3.0)], {}, [[3.0, 3.0]]),
    ("ArgMaxV2", [TWO, I(1)], {}, [[1, 1]]),
    ("ArgMaxD", [TWO], {"dimension": 0}, [[1, 1]]),
    ("ArgMin", [TWO, I(0)], {}, [[0, 0]]),
    ("ArgMinD", [TWO], {"dimension": 1}, [[0, 0]]),
    ("ArgMaxWithValue", [TWO], {"dimension": 1, "keep_dims": True}, [[[1], [1]], [[2.0], [4.0]]]),
    ("TopKV2", [I([3.0, 1.0, 2.0]), I(2)], {}, [[3.0, 2.0], [0, 2]]),
    ("TopKV2", [I([3.0, 1.0, 2.0]), I(1)], {"largest": False}, [[1.0], [1]]),
    ("Cumsum", [TWO, I(1)], {}, [[[1.0, 3.0], [3.0, 7.0]]]),
    ("CumsumD", [I([1.0, 2.0])], {"axis": 0, "exclusive": True, "reverse": True}, [[2.0, 0.0]]),
    ("Identity", [TWO], {}, [TWO]),
    ("TensorMove", [TWO], {}, [TWO]),
    ("TransData", [TWO], {}, [TWO]),
    ("StopGradient", [TWO], {}, [TWO]),
    ("DepthwiseConv2D", [HWC, np.ones((2, 2, 2, 1))], HWC_SQUARE, [EACH]),
    ("DepthwiseConv2D", [HWC, np.ones((2, 2, 2, 1)), I([1.0, 2.0])], HWC_SQUARE, [np.add(EACH, [1.0, 2.0])]),
    ("Conv2DBackpropFilterD", [IMAGE, ONES], {**SQUARE, "filter_size": (1, 1, 2, 2)}, [SUMS]),
    ("Conv2DBackpropFilter", [IMAGE, I([1, 1, 2, 2]), ONES], SQUARE, [SUMS]),
    ("Conv2DBackpropFilterD", [HWC, np.ones((1, 2, 2, 1))], {**HWC_SQUARE, "filter_size": (2, 2, 2, 1)},
     [EACH.reshape(2, 2, 2, 1)]),
    ("Conv2DBackpropInputD", [image(*TWO), ONES], {**SQUARE, "input_size": (1, 1, 3, 3)}, [SPREAD]),
    ("Conv2DBackpropInput", [I([1, 1, 3, 3]), image(*TWO), ONES], SQUARE, [SPREAD]),
    ("DepthwiseConv2DBackpropFilterD", [HWC, np.ones((1, 2, 2, 2))], {**HWC_SQUARE, "filter_size": (2, 2, 2, 1)},
     [EACH.reshape(2, 2, 2, 1)]),
    ("DepthwiseConv2DBackpropFilter", [HWC, I([2, 2, 2, 1]), np.ones((1, 2, 2, 2))], HWC_SQUARE,
     [EACH.reshape(2, 2, 2, 1)]),
    ("DepthwiseConv2DBackpropInputD", [np.stack([TWO, 2 * TWO], -1)[..., None], np.ones((1, 2, 2, 2))],
     {**HWC_SQUARE, "input_size": (1, 3, 3, 2)}, [np.stack([SPREAD[0, 0], 2 * SPREAD[0, 0]], -1)[None]]),
    ("DepthwiseConv2DBackpropInput", [I([1, 1, 3, 3]), image(*TWO), ONES], SQUARE, [SPREAD]),
    ("MaxPoolGrad", [IMAGE, ONES, ONES], POOL, [image([0.0, 0, 0], [0, 1, 1], [0, 1, 1])]),
    ("AvgPoolGradD", [4 * ONES], {**POOL, "orig_input_shape": (1, 1, 3, 3)},
     [image([1.0, 2, 1], [2, 4, 2], [1, 2, 1])]),
    ("AvgPoolGrad", [I([1, 1, 3, 3]), 4 * ONES], POOL, [image([1.0, 2, 1], [2, 4, 2], [1, 2, 1])]),
    ("BNTrainingUpdateGrad", [TWO, I([[1.0, 2.0], [3.0, 6.0]]), I([2.0, 4.0]), I([1.0, 4.0])], {"epsilon": 0.0},
     [[2.0, 2.0], [4.0, 6.0]]),
    ("BNTrainingReduceGrad",
     [TWO, I([[1.0, 2.0], [3.0, 6.0]]), I([0.0, 0.0]), I([4.0, 6.0]), I([2.0, 2.0]), I([2.0, 4.0]), I([1.0, 4.0])],
     {"epsilon": 0.0}, [[[-2.0, -1.0], [2.0, 1.0]]]),
    ("BatchNormGrad", [TWO, I([[1.0, 2.0], [3.0, 6.0]]), I([2.0, 2.0]), I([2.0, 4.0]), I([1.0, 4.0])],
     {"epsilon": 0.0}, [np.zeros((2, 2)), [2.0, 2.0], [4.0, 6.0]]),
    ("Relu6Grad", [I([1.0, 1.0, 1.0]), I([-1.0, 3.0, 7.0])], {}, [[0.0, 1.0, 0.0]]),
    ("EluGrad", [I([2.0, 2.0]), I([1.0, -0.5])], {}, [[2.0, 1.0]]),
    ("SoftplusGrad", [I([2.0]), I([0.0])], {}, [[1.0]]),
    ("SparseSoftmaxCrossEntropyWithLogits", [I([[0.0, 0.0]]), I([1])], {}, [[LOG2], [[0.5, -0.5]]]),
    ("SoftmaxCrossEntropyWithLogits", [I([[0.0, 0.0]]), I([[0.0, 1.0]])], {}, [[LOG2], [[0.5, -0.5]]]),
    ("SigmoidCrossEntropyWithLogits", [I([0.0, 0.0]), I([1.0, 0.0])], {}, [[LOG2, LOG2]]),
    ("SigmoidCrossEntropyWithLogitsGrad", [I([0.0]), I([1.0]), I([2.0])], {}, [[-1.0]]),
    ("L2Loss", [I([3.0, 4.0])], {}, [12.5]),
    ("UnsortedSegmentSumD", [I([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), I([1, 0, 1])], {"num_segments": 3},
     [[[3.0, 4.0], [6.0, 8.0], [0.0, 0.0]]]),
    ("UnsortedSegmentSum", [I([1.0, 2.0, 4.0]), I([1, -1, 1]), I(2)], {}, [[0.0, 5.0]]),
    ("StridedSliceGradD", [I([5.0])], {"shape": (3,), "begin": (1,), "end": (2,), "strides": (1,)}, [[0.0, 5.0, 0.0]]),
    ("StridedSliceGrad", [I([2, 2]), I([1, 0]), I([2, 2]), I([1, 1]), I([5.0, 6.0])], {"shrink_axis_mask": 1},
     [[[0.0, 0.0], [5.0, 6.0]]]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "due"), CASES, ids=lambda each: each if isinstance(each, str) else ""
)
def test_it_is_computed(op_type, inputs, attributes, due):
    found = results(op_type, inputs, attributes)
    for mine, right in zip(found[: len(due)], due, strict=True):
        assert mine.shape == np.shape(right)
        np.testing.assert_allclose(mine.astype(float), np.asarray(right, float), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("kind", ["Conv2D", "DepthwiseConv2D"])
def test_the_gradients_of_a_convolution_are_its_adjoints(kind, order):
    """It is linear in images and filter: ``<dy, conv(x, v)>`` is ``<gradient by weight, v>``, and for images alike."""
    random = np.random.default_rng(7)
    axes = (0, 1, 2, 3) if order == "NCHW" else (0, 2, 3, 1)
    is_each = kind == "DepthwiseConv2D"
    x = random.standard_normal((2, 4, 7, 6)).transpose(axes)
    shape = (
        ((2, 4, 3, 2) if is_each else (6, 2, 3, 2)) if order == "NCHW" else ((3, 2, 4, 2) if is_each else (3, 2, 2, 6))
    )
    weight = random.standard_normal(shape)
    steps = [(1, 1, 2, 1)[axis] for axis in axes]
    how = {"strides": steps, "pads": (1, 0, 2, 1), "dilations": (1, 1, 1, 1), "data_format": order}
    how |= {} if is_each else {"groups": 2}
    (y,) = results(kind, [x, weight], how)
    dy = random.standard_normal(y.shape)
    (by_weight,) = results(f"{kind}BackpropFilterD", [x, dy], {**how, "filter_size": weight.shape})
    (by_images,) = results(f"{kind}BackpropInputD", [weight, dy], {**how, "input_size": x.shape})
    other_weight, other_x = random.standard_normal(weight.shape), random.standard_normal(x.shape)
    for gradient, other, given in (
        (by_weight, other_weight, [x, other_weight]),
        (by_images, other_x, [other_x, weight]),
    ):
        assert gradient.shape == other.shape
        assert (gradient * other).sum() == pytest.approx((dy * results(kind, given, how)[0]).sum(), rel=1e-10)


def test_the_gradient_of_a_batch_norm_is_its_slope():
    random = np.random.default_rng(8)
    x, dy, scale = random.standard_normal((3, 2, 4, 5)), random.standard_normal((3, 2, 4, 5)), random.uniform(0.5, 2, 5)

    def normed(values):
        mean, variance = values.mean(axis=(0, 1, 2)), values.var(axis=(0, 1, 2))
        return ((values - mean) / np.sqrt(variance + 1e-3) * scale * dy).sum()

    statistics = [x.mean(axis=(0, 1, 2)), x.var(axis=(0, 1, 2))]
    by_input, by_scale, by_offset = results("BatchNormGrad", [dy, x, scale, *statistics], {"epsilon": 1e-3})
    way = random.standard_normal(x.shape)
    slope = (normed(x + 1e-5 * way) - normed(x - 1e-5 * way)) / 2e-5
    assert (by_input * way).sum() == pytest.approx(slope, rel=1e-6)
    assert (by_scale * scale).sum() == pytest.approx(normed(x), rel=1e-10)
    np.testing.assert_allclose(by_offset, dy.sum(axis=(0, 1, 2)), rtol=1e-12)
    parts = results("BNTrainingUpdateGrad", [dy, x, *statistics], {"epsilon": 1e-3})
    (again,) = results("BNTrainingReduceGrad", [dy, x, *parts, scale, *statistics], {"epsilon": 1e-3})
    np.testing.assert_allclose(again, by_input, rtol=1e-12)


def test_every_operator_has_a_case():
    assert {op_type for op_type, *_ in CASES} == DEVICE_TYPES


def test_readers_of_graphs_keep_the_attributes_that_operators_name():
    assert frozenset().union(*(names.attributes_of(names.DEVICE, each).all for each in DEVICE_TYPES)) == MEANING


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "why"),
    [
        ("MyOperator", [TWO], {}, "`MyOperator` is no operator that is computed"),
        ("SoftmaxV2", [TWO], {"axes": (7,)}, "its arguments do not fit each other"),
        ("MatMulV2", [TWO, np.ones((3, 2))], {}, "its arguments do not fit each other"),
        ("Conv2D", [IMAGE, np.ones((1, 1, 2, 2))], {}, "its arguments are not those that are computed"),
        ("Conv2D", [IMAGE, np.ones((1, 1, 2, 2))], {**SQUARE, "pads": (-1, 0, 0, 0)}, "padding [-1, 0, 0, 0]"),
        ("Conv2D", [TWO, TWO], SQUARE, "images of shape [2, 2]"),
        ("Cast", [TWO], {"dst_type": 99}, "casts to `type 99` are not computed"),
        ("GatherV2", [TWO, I([5]), I(0)], {}, "its indices lie outside 0 to 1"),
        ("SplitV", [TWO, I([5]), I(0)], {}, "an axis of length 2 has no parts of [5]"),
        ("StridedSlice", [TWO, I([0]), I([1])], {"new_axis_mask": 1}, "`new_axis_mask` are not computed"),
        ("PadV3", [TWO, I([[0, -1], [0, 0]])], {}, "it cuts off instead of padding"),
        ("Reshape", [TWO, I([2])], {"axis": 1}, "a shape of some axes only is not computed"),
        ("TopKV2", [TWO, I(1)], {"sorted": False}, "its picks come in any order"),
        ("AscendQuant", [TWO], {"scale": 1.0, "offset": 0.0, "round_mode": "Hybrid"}, "rounding `Hybrid` is not known"),
        (
            "BNTrainingUpdateGrad",
            [np.ones((2, 3, 3)), np.ones((2, 3, 3)), np.ones(3), np.ones(3)],
            {},
            "its 3 channels",
        ),
        ("BatchNormGrad", [TWO, TWO, TWO[0], TWO[0], TWO[0]], {"is_training": False}, "running statistics"),
        ("SparseSoftmaxCrossEntropyWithLogits", [TWO, I([0, 2])], {}, "classes that there are not"),
        ("UnsortedSegmentSumD", [I([1.0]), I([3])], {"num_segments": 2}, "segments beyond 2"),
        ("SparseApplyAdagrad", [*ROWS, I(0.5), I([[4.0], [4.0]]), I([0, 0])], {}, "names a row twice"),
        ("ScatterAdd", [I([1.0]), I([3]), I([1.0])], {}, "rows beyond 1"),
        ("DepthwiseConv2D", [HWC, TWO], HWC_SQUARE, "a filter of shape [2, 2]"),
        ("MaxPoolGrad", [np.ones((1, 1, 3, 3)), ONES, ONES], POOL, "which of equal elements"),
        ("RealDiv", [TWO, TWO, TWO], {}, "its arguments are not those that are computed"),
    ],
)
def test_what_cannot_be_computed_says_why(op_type, inputs, attributes, why):
    with pytest.raises(UnusableError) as caught:
        results(op_type, inputs, attributes)
    assert why in caught.value.reason


def scores(op_type, inputs, attributes, dumped):
    specs = [TensorSpec(str(each.dtype), each.shape) for each in dumped]
    call = call_of(op_type, inputs, attributes, specs)
    function = names.find(names.DEVICE, op_type)
    found = own_errors(
        function, call, lambda place, _: inputs[place[0]], lambda place, _: dumped[place[0]], UNITS, limit_bytes=2**30
    )
    return [each.worst[3] for each in found]


def test_int8_values_that_round_the_other_way_are_right_and_those_of_another_scale_are_not():
    x = np.random.default_rng(24).standard_normal(4096).astype(np.float16)
    product = x * np.float16(37.3)  # the device multiplies in float16
    right = np.clip(np.rint(product), -128, 127).astype(np.int8)
    exact = np.clip(np.rint(x.astype(float) * 37.3), -128, 127)
    assert (right != exact).any()
    attributes = {"scale": 37.3, "offset": 0.0}
    assert scores("AscendQuant", [x], attributes, [right])[0] <= 1.0
    wrong = np.clip(np.rint(product * np.float16(1.1)), -128, 127).astype(np.int8)
    assert scores("AscendQuant", [x], attributes, [wrong])[0] > 2.0


def test_a_pick_among_equals_is_right_and_one_of_a_smaller_value_is_not():
    x = np.array([[1.0, 3.0, 3.0]], np.float32)
    assert scores("ArgMaxV2", [x, np.array(1)], {}, [np.array([2], np.int32)]) == [0.0]
    assert scores("ArgMaxV2", [x, np.array(1)], {}, [np.array([0], np.int32)])[0] > 2.0
    assert scores("ArgMaxD", [x], {"dimension": -1}, [np.array([1], np.int32)]) == [0.0]
