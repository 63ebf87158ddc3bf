"""Codes of quantised values: what they stand for, which tensors hold them, and what the graph of the dump says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper  # noqa: E402
from onnx_models import info, model  # noqa: E402

from probe_flow.dumpers.onnx.codes import Quantisation, quantisations, with_values  # noqa: E402
from probe_flow.dumpers.onnx.graph import operators  # noqa: E402

pytestmark = pytest.mark.frameworks


def test_values_are_codes_less_their_zero_point_times_their_scale() -> None:
    plain = Quantisation(np.float32(0.5), np.uint8(10))
    found = plain.values(np.array([[0, 10, 255]], np.uint8))
    assert (found.dtype, found.tolist()) == (np.float32, [[-5.0, 0.0, 122.5]])


def test_scales_of_an_axis_are_taken_along_it() -> None:
    each = Quantisation(np.array([0.5, 2.0], np.float32), np.array([0, -1], np.int8), axis=0)
    assert each.values(np.array([[4, -4], [4, -4]], np.int8)).tolist() == [[2.0, -2.0], [10.0, -6.0]]


def chain() -> Any:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["x_q"], name="q"),
        helper.make_node("QLinearMatMul", ["x_q", "sx", "zx", "w", "sw", "zw", "sy", "zy"], ["y_q"], name="mm_quant"),
        helper.make_node("Reshape", ["y_q", "shape"], ["r_q"], name="reshape"),
        helper.make_node("QLinearMatMul", ["r_q", "sy", "zy", "v", "sw", "zw", "so", "zy"], ["o_q"], name="last_quant"),
        helper.make_node("DequantizeLinear", ["o_q", "so", "zy"], ["o"], name="dq"),
    ]
    weights = {
        "sx": np.float32(0.1), "zx": np.uint8(3), "sw": np.float32(0.2), "zw": np.uint8(0), "sy": np.float32(0.3),
        "zy": np.uint8(5), "so": np.float32(0.4), "w": np.ones((2, 2), np.uint8), "v": np.ones((4, 1), np.uint8),
        "shape": np.array([1, 4]),
    }  # fmt: skip
    return model(nodes, [info("x", TensorProto.FLOAT, [2, 2])], ["o"], weights)


def test_codes_that_stay_codes_are_known_and_those_that_are_dequantised_anyway_are_not() -> None:
    made = chain()
    known = quantisations(made, operators(made.graph))
    assert {name: (float(each.scale), int(each.zero_point)) for name, each in known.items()} == {
        "x_q": (float(np.float32(0.1)), 3),
        "y_q": (float(np.float32(0.3)), 5),
        "r_q": (float(np.float32(0.3)), 5),
    }


def test_a_model_without_such_operators_has_no_codes() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("Reshape", ["q", "shape"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    weights = {"s": np.float32(1), "z": np.uint8(0), "shape": np.array([4])}
    made = model(nodes, [info("x", shape=[2, 2])], ["y"], weights)
    assert quantisations(made, operators(made.graph)) == {}


def test_a_scale_that_is_computed_is_not_guessed() -> None:
    made = chain()
    (scale,) = (each for each in made.graph.initializer if each.name == "sy")
    made.graph.initializer.remove(scale)
    made.graph.input.append(info("sy", shape=[]))
    assert quantisations(made, operators(made.graph)).keys() == {"x_q"}


def test_operators_read_values_in_the_graph_of_the_dump() -> None:
    made = chain()
    order = operators(made.graph)
    nodes = with_values([each.described() for each in order], quantisations(made, order))
    told = {node.name: (node.op_type, node.inputs[0], node.outputs) for node in nodes}
    assert told["mm_quant"] == ("QLinearMatMul", "x_q__dequantised", ("y_q",))
    assert told["mm_quant__dequantised"] == ("DequantizeLinear", "y_q", ("y_q__dequantised",))
    assert told["last_quant"][1] == "r_q__dequantised"
    assert told["dq"] == ("DequantizeLinear", "o_q", ("o",))
    assert "last_quant__dequantised" not in told
