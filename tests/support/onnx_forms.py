"""Operators of ONNX with inputs and attributes, and what they give where that is computed by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from probe_flow.apis.calls import Call, Plain, TensorSpec
from probe_flow.apis.numpy_core import names
from probe_flow.apis.numpy_core.compute import computed, wide

LATEST = 21


@dataclass(frozen=True)
class OnnxForm:
    """One operator.

    Args:
        op_type, inputs, attributes: of it; None stands for an input that is left out.
        due: what it gives, by hand; None where only the library says.
        opset: version of the set of operators.
        result_dtype: element type of its first result, where that decides.
        is_unknown: the library's reference has no such operator, or computes it in float32.
    """

    op_type: str
    inputs: Sequence[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    due: Sequence[Any] | None = None
    opset: int = LATEST
    result_dtype: str = "float64"
    is_unknown: bool = False

    @property
    def label(self) -> str:
        shapes = ",".join("x".join(map(str, np.shape(each))) if each is not None else "-" for each in self.inputs)
        return f"{self.op_type}-{self.opset}({shapes}){self.attributes or ''}"


def results(form: OnnxForm) -> list[np.ndarray]:
    """Return what the numpy core makes of a form."""
    given = [None if each is None else np.asarray(each) for each in form.inputs]
    specs = [Plain(None) if each is None else TensorSpec(str(each.dtype), each.shape) for each in given]
    known = {**form.attributes, "opset": form.opset, "result_dtype": form.result_dtype}
    wanted = names.attributes_of(names.ONNX, form.op_type).all
    kwargs = {
        name: Plain(tuple(value) if isinstance(value, list) else value)
        for name, value in known.items()
        if name in wanted
    }
    call = Call(names.ONNX, form.op_type, tuple(specs), kwargs, ())
    arrays = {(place,): wide(each) for place, each in enumerate(given) if each is not None}
    return [values for _, values in computed(names.find(names.ONNX, form.op_type), call, arrays)]


def a(*values: Any) -> np.ndarray:
    return np.array(values)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def image(*rows: Sequence[float]) -> np.ndarray:
    return np.array([[rows]], float)


RANDOM = np.random.default_rng(24)
X = RANDOM.standard_normal((2, 4, 6, 5))
KERNEL = RANDOM.standard_normal((6, 2, 3, 2))
VECTOR = RANDOM.standard_normal(4)
ROWS = RANDOM.standard_normal((3, 4))
TWO = np.array([[1.0, 2.0], [3.0, 4.0]])
NINE = image([0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0])
F = OnnxForm

FORMS = [
    F("Sign", [a(-2.0, 0.0)], due=[[-1.0, 0.0]]), F("Round", [a(0.5, 1.5)], due=[[0.0, 2.0]]),
    F("Tan", [ROWS]), F("Atan", [ROWS]), F("Asin", [ROWS / 9]), F("Acos", [ROWS / 9]), F("Sinh", [ROWS]),
    F("Cosh", [ROWS]), F("Asinh", [ROWS]), F("Acosh", [ROWS**2 + 1]), F("Atanh", [ROWS / 9]),
    F("IsNaN", [a(1.0, np.nan)], due=[[False, True]]), F("Not", [a(True, False)], due=[[False, True]]),
    F("BitwiseNot", [ints(1)], due=[[-2]]),
    F("GreaterOrEqual", [a(1.0, 2.0), a(2.0, 2.0)], due=[[False, True]]),
    F("LessOrEqual", [a(1.0, 3.0), a(2.0, 2.0)], due=[[True, False]]),
    F("And", [a(True, True), a(True, False)], due=[[True, False]]),
    F("Or", [a(False, True), a(False, False)], due=[[False, True]]),
    F("Xor", [a(True, True), a(True, False)], due=[[False, True]]),
    F("BitwiseAnd", [ints(6), ints(3)], due=[[2]]), F("BitwiseOr", [ints(6), ints(3)], due=[[7]]),
    F("BitwiseXor", [ints(6), ints(3)], due=[[5]]),
    F("Max", [a(1.0), a(3.0), a(2.0)], due=[[3.0]]), F("Min", [a(2.0), a(1.0)], due=[[1.0]]),
    F("Sum", [a(1.0), a(2.0), a(4.0)], due=[[7.0]]), F("Mean", [a(1.0), a(3.0)], due=[[2.0]]),
    F("LeakyRelu", [a(1.0, -1.0)], due=[[1.0, -0.01]]), F("LeakyRelu", [ROWS], {"alpha": 0.3}),
    F("PRelu", [a(2.0, -2.0), a(0.5, 0.25)], due=[[2.0, -0.5]]),
    F("Elu", [a(1.0, -1.0)], {"alpha": 2.0}, [[1.0, 2 * math.expm1(-1)]]), F("Selu", [ROWS]),
    F("ThresholdedRelu", [a(0.5, 2.0)], due=[[0.0, 2.0]]),
    F("HardSigmoid", [a(0.0, 9.0)], due=[[0.5, 1.0]]), F("HardSwish", [a(3.0, 1.0)], due=[[3.0, 4 / 6]]),
    F("Gelu", [a(1.0)], due=[[0.5 * (1 + math.erf(math.sqrt(0.5)))]]), F("Gelu", [ROWS], {"approximate": "tanh"}),
    F("Softplus", [a(0.0)], due=[[math.log(2)]]), F("Softsign", [a(-1.0)], due=[[-0.5]]), F("Mish", [ROWS]),
    F("Clip", [a(-1.0, 9.0), np.array(0.0), np.array(2.0)], due=[[0.0, 2.0]]),
    F("Clip", [a(-1.0, 9.0), None, np.array(2.0)], due=[[-1.0, 2.0]]),
    F("Clip", [a(-1.0, 9.0)], {"min": 0.0, "max": 2.0}, [[0.0, 2.0]], opset=6),
    F("Div", [ints(7, -7), ints(2, 2)], due=[[3, -3]]), F("Div", [ROWS, ROWS + 9]),
    F("Mod", [a(-1.0), a(3.0)], {"fmod": 1}, [[-1.0]]), F("Mod", [ints(-1), ints(3)], due=[[2]]),
    F("Dropout", [TWO], due=[TWO]), F("CastLike", [a(1.5), ints(1)], due=[[1]]),
    F("MatMul", [TWO, TWO], due=[[[7.0, 10.0], [15.0, 22.0]]]),
    F("Gemm", [TWO, TWO, a(1.0, 0.0)], {"alpha": 2.0, "beta": 3.0, "transB": 1}, [[[13.0, 22.0], [25.0, 50.0]]]),
    F("Gemm", [ROWS, ROWS], {"transA": 1}), F("Einsum", [TWO, TWO], {"equation": "ij , jk -> ki"}),
    F("Conv", [NINE, np.ones((1, 1, 2, 2))], due=[image([8.0, 12.0], [20.0, 24.0])]),
    F("Conv", [X, KERNEL, np.arange(6.0)], {"group": 2, "pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}),
    F("Conv", [X, KERNEL], {"group": 2, "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    F("Conv", [X[0], RANDOM.standard_normal((3, 6, 2))], {"kernel_shape": [2], "auto_pad": "VALID"}),
    F("ConvTranspose", [X, RANDOM.standard_normal((4, 3, 3, 2)), np.arange(6.0)],
      {"group": 2, "strides": [2, 1], "pads": [1, 0, 0, 1], "output_padding": [1, 0]}),
    F("MaxPool", [NINE], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, [image([4.0, 5.0], [7.0, 8.0])]),
    F("MaxPool", [X], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1], "dilations": [2, 1]}),
    F("MaxPool", [X], {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER"}),
    F("AveragePool", [NINE], {"kernel_shape": [3, 3], "pads": [1, 1, 0, 0], "strides": [3, 3]}, [image([2.0])]),
    F("AveragePool", [X], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2], "count_include_pad": 1}),
    F("AveragePool", [NINE], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
      [image([2.0, 3.5], [6.5, 8.0])]),
    F("GlobalAveragePool", [NINE], due=[image([4.0])]), F("GlobalMaxPool", [NINE], due=[image([8.0])]),
    F("BatchNormalization", [X, VECTOR, VECTOR + 1, VECTOR * 2, VECTOR**2 + 1], {"epsilon": 0.1}),
    F("BatchNormalization", [image([3.0]), a(2.0), a(1.0), a(1.0), a(3.0)], {"epsilon": 1.0}, [image([3.0])]),
    F("InstanceNormalization", [X, VECTOR, VECTOR + 1], {"epsilon": 0.1}),
    F("InstanceNormalization", [image([1.0, 3.0]), a(2.0), a(1.0)], {"epsilon": 3.0}, [image([0.0, 2.0])]),
    F("GroupNormalization", [X, VECTOR, VECTOR + 1], {"num_groups": 2, "epsilon": 0.1}),
    F("GroupNormalization", [X, VECTOR[:2], VECTOR[2:]], {"num_groups": 2}, opset=18),
    F("LayerNormalization", [a([1.0, 3.0]), a(2.0, 2.0), a(1.0, 1.0)], {"epsilon": 3.0},
      [[[0.0, 2.0]], [[2.0]], [[0.5]]]),
    F("LayerNormalization", [X, RANDOM.standard_normal((6, 5))], {"axis": 2}),
    F("RMSNormalization", [a([1.0, 3.0]), a(2.0, 4.0)], {"epsilon": 4.0}, [[[2 / 3, 4.0]]], opset=23),
    F("Softmax", [np.log(a([1.0, 3.0]))], due=[[[0.25, 0.75]]]), F("Softmax", [X], {"axis": 1}),
    F("Softmax", [np.log(a([[1.0], [3.0]]))], {}, [[[[0.25], [0.75]]]], opset=11),
    F("Softmax", [X], {"axis": 2}, opset=11),
    F("LogSoftmax", [X], {"axis": 0}), F("LogSoftmax", [X], {"axis": 2}, opset=11),
    F("LogSoftmax", [np.log(a([1.0, 3.0]))], due=[np.log(a([0.25, 0.75]))]),
    F("QuantizeLinear", [a(0.6, 900.0), np.array(0.5), np.array(1, np.uint8)], {}, [[2, 255]], result_dtype="uint8"),
    F("QuantizeLinear", [a([1.0, 1.0]), a(0.5, 0.25), np.array([0, -3], np.int8)], {"axis": 1}, [[[2, 1]]],
      result_dtype="int8"),
    F("DequantizeLinear", [np.array([3], np.int8), np.array(0.5), np.array(1, np.int8)], {}, [[1.0]]),
    F("DequantizeLinear", [np.array([[2, 2]], np.int8), a(0.5, 0.25)], {"axis": 1}, [[[1.0, 0.5]]]),
    F("Cast", [a(1.5, -1.5)], {"to": 7}, [[1, -1]]), F("Cast", [a(0.0, 2.0)], {"to": 9}, [[False, True]]),
    F("Reshape", [TWO, ints(0, -1, 1)], {}, [TWO[..., None]]),
    F("Reshape", [np.zeros((0, 2)), ints(2, 0)], {"allowzero": 1}, [np.zeros((2, 0))]),
    F("Flatten", [X], {"axis": -2}), F("Flatten", [NINE], due=[NINE.reshape(1, 9)]), F("Flatten", [TWO], {"axis": 0}),
    F("Squeeze", [TWO[None], ints(0)], due=[TWO]), F("Squeeze", [TWO[None]], due=[TWO]),
    F("Squeeze", [TWO[None]], {"axes": [0]}, [TWO], opset=11),
    F("Unsqueeze", [TWO, ints(0, 2)], due=[TWO[None, :, None]]),
    F("Unsqueeze", [TWO], {"axes": [0]}, [TWO[None]], opset=11),
    F("Transpose", [X], {"perm": [2, 0, 3, 1]}), F("Transpose", [TWO], due=[TWO.T]),
    F("Concat", [TWO, TWO], {"axis": 1}, [[[1.0, 2.0, 1.0, 2.0], [3.0, 4.0, 3.0, 4.0]]]),
    F("Split", [a(1.0, 2.0, 3.0), ints(1, 2)], {}, [[1.0], [2.0, 3.0]]),
    F("Split", [a(1.0, 2.0, 3.0)], {"num_outputs": 2}, [[1.0, 2.0], [3.0]]),
    F("Split", [TWO], {"axis": 1, "split": [1, 1]}, [[[1.0], [3.0]], [[2.0], [4.0]]], opset=11),
    F("Slice", [a(1.0, 2.0, 3.0, 4.0), ints(3), ints(-9), ints(0), ints(-2)], {}, [[4.0, 2.0]]),
    F("Slice", [X, ints(1, 0), ints(9, -1), ints(2, 1)]), F("Slice", [TWO, ints(1), ints(2)], due=[[[3.0, 4.0]]]),
    F("Slice", [TWO], {"starts": [1], "ends": [2], "axes": [1]}, [[[2.0], [4.0]]], opset=9),
    F("Gather", [TWO, ints(1, -2)], {"axis": 1}, [[[2.0, 1.0], [4.0, 3.0]]]),
    F("Gather", [TWO, np.array(1)], due=[[3.0, 4.0]]),
    F("GatherElements", [TWO, a([0, -1])], {"axis": 0}, [[[1.0, 4.0]]]), F("GatherND", [TWO, a([1, 0])], {}, [[3.0]]),
    F("Expand", [a([1.0], [2.0]), ints(3, 1, 2)]), F("Expand", [a(1.0), ints(2)], due=[[1.0, 1.0]]),
    F("Tile", [a(1.0, 2.0), ints(2)], due=[[1.0, 2.0, 1.0, 2.0]]),
    F("Pad", [TWO, ints(0, 1, 0, 0), np.array(9.0)], {}, [[[9.0, 1.0, 2.0], [9.0, 3.0, 4.0]]]),
    F("Pad", [TWO, ints(1, 1), None, ints(-1)], {"mode": "reflect"}, [[[2.0, 1.0, 2.0, 1.0], [4.0, 3.0, 4.0, 3.0]]]),
    F("Pad", [a(1.0), ints(1, 0)], {"mode": "edge"}, [[1.0, 1.0]]),
    F("Pad", [a(1.0)], {"pads": [0, 1], "value": 2.0}, [[1.0, 2.0]], opset=2, is_unknown=True),
    F("DepthToSpace", [RANDOM.standard_normal((1, 8, 2, 3))], {"blocksize": 2}),
    F("DepthToSpace", [np.arange(4.0).reshape(1, 4, 1, 1)], {"blocksize": 2, "mode": "CRD"}, [image([0.0, 1.0],
      [2.0, 3.0])]),
    F("SpaceToDepth", [image([0.0, 1.0], [2.0, 3.0])], {"blocksize": 2}, [np.arange(4.0).reshape(1, 4, 1, 1)]),
    F("SpaceToDepth", [RANDOM.standard_normal((1, 2, 4, 6))], {"blocksize": 2}),
    F("Trilu", [ROWS], {"upper": 0}), F("Trilu", [TWO, np.array(1)], {}, [[[0.0, 2.0], [0.0, 0.0]]]),
    F("OneHot", [ints(1, -1), np.array(3), a(0.5, 2.0)], {}, [[[0.5, 2.0, 0.5], [0.5, 0.5, 2.0]]]),
    F("OneHot", [ints(1), np.array(2), a(0.0, 1.0)], {"axis": 0}, [[[0.0], [1.0]]]),
    F("Resize", [image([1.0, 2.0]), None, a(1.0, 1.0, 2.0, 2.0)],
      {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
      [image([1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0])]),
    F("Resize", [X, None, None, ints(2, 4, 9, 3)], {"mode": "nearest"}),
    F("Resize", [X, None, None, ints(2, 4, 9, 3)], {"coordinate_transformation_mode": "align_corners"}),
    F("ReduceSum", [TWO, ints(1)], {"keepdims": 0}, [[3.0, 7.0]]), F("ReduceSum", [TWO], due=[[[10.0]]]),
    F("ReduceSum", [TWO], {"noop_with_empty_axes": 1}, [TWO]),
    F("ReduceSum", [TWO], {"axes": [0]}, [[[4.0, 6.0]]], opset=11),
    F("ReduceMean", [X, ints(1, -1)]), F("ReduceMean", [TWO], {"axes": [1], "keepdims": 0}, [[1.5, 3.5]], opset=13),
    F("ReduceMax", [X, ints(2)], {"keepdims": 0}), F("ReduceMax", [TWO], due=[[[4.0]]]),
    F("ReduceMin", [X, ints(2)]), F("ReduceMin", [TWO], due=[[[1.0]]]),
    F("ReduceProd", [X, ints(3)]), F("ReduceProd", [TWO], due=[[[24.0]]]),
    F("ReduceL1", [X, ints(3)]), F("ReduceL1", [-TWO], due=[[[10.0]]]),
    F("ReduceL2", [X, ints(3)]), F("ReduceL2", [a(3.0, 4.0)], due=[[5.0]]),
    F("ReduceSumSquare", [X, ints(3)]), F("ReduceSumSquare", [a(3.0, 4.0)], due=[[25.0]]),
    F("ReduceLogSum", [X**2, ints(3)]), F("ReduceLogSum", [a(1.0, 3.0)], due=[[math.log(4)]]),
    F("ReduceLogSumExp", [X, ints(3)]), F("ReduceLogSumExp", [np.log(a(1.0, 3.0))], due=[[math.log(4)]]),
    F("ArgMax", [X], {"axis": 2}), F("ArgMax", [TWO], {"axis": 1, "keepdims": 0}, [[1, 1]]),
    F("ArgMin", [X], {"axis": -1, "keepdims": 0}), F("ArgMin", [TWO], due=[[[0, 0]]]),
    F("TopK", [a(3.0, 1.0, 2.0), ints(2)], {}, [[3.0, 2.0], [0, 2]]),
    F("TopK", [X, ints(3)], {"axis": 1, "largest": 0}),
    F("TopK", [a(3.0, 1.0, 2.0)], {"k": 1}, [[3.0], [0]], opset=9),
    F("CumSum", [a(1.0, 2.0, 4.0), np.array(0)], {"exclusive": 1, "reverse": 1}, [[6.0, 4.0, 0.0]]),
    F("CumSum", [X, np.array(-2)]),
]  # fmt: skip
