"""Operators of ONNX in float64: against formulas in numpy, by whichever of the two evaluators has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx_models import info, model  # noqa: E402

from probe_flow.apis.calls import UnusableError  # noqa: E402
from probe_flow.apis.onnx.double import in_double  # noqa: E402

pytestmark = pytest.mark.frameworks

THIRD = 1 / 3
"""No float32 is as near to it."""


def result(node: Any, **values: Any) -> Any:
    home = model([node], [info("x", shape=[1])], ["y"])
    return in_double(node, values, home)["y"]


def test_onnx_runtime_computes_what_it_has_a_kernel_for() -> None:
    x = np.array([[THIRD, -2.0]])
    found = result(helper.make_node("MatMul", ["x", "w"], ["y"]), x=x, w=np.array([[3.0], [THIRD]]))
    assert found.dtype == np.float64
    assert found.tolist() == [[THIRD * 3.0 - 2.0 * THIRD]]


def test_the_reference_computes_convolutions() -> None:
    x, w = np.array([[[1.0, THIRD, 2.0]]]), np.array([[[THIRD, 1.0]]])
    found = result(helper.make_node("Conv", ["x", "w"], ["y"]), x=x, w=w)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, [[[2 * THIRD, THIRD * THIRD + 2.0]]], rtol=1e-15)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT])
def test_casts_to_narrower_floats_do_not_round(kind: int) -> None:
    assert result(helper.make_node("Cast", ["x"], ["y"], to=kind), x=np.array([THIRD])).tolist() == [THIRD]


def test_casts_to_integers_are_made() -> None:
    found = result(helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT64), x=np.array([2.75]))
    assert (found.dtype, found.tolist()) == (np.int64, [2])


@pytest.mark.parametrize(
    "attribute",
    [
        {"value": numpy_helper.from_array(np.array([0.1], np.float32))},
        {"value_floats": [0.1]},
    ],
)
def test_constants_are_widened(attribute: dict[str, Any]) -> None:
    found = result(helper.make_node("Constant", [], ["y"], **attribute))
    assert found.dtype == np.float64
    assert found.tolist() == [float(np.float32(0.1))]


def test_bodies_compute_in_double_too() -> None:
    body = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["t"])], "body", [], [info("t", shape=[1])],
        [numpy_helper.from_array(np.array([3], np.float32), "w")],
    )  # fmt: skip
    node = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    found = result(node, c=np.array(True), x=np.array([THIRD]))
    assert (found.dtype, found.tolist()) == (np.float64, [1.0])


def test_what_nothing_computes_is_refused_by_name() -> None:
    home = model(
        [helper.make_node("Odd", ["x"], ["y"], domain="mine")], [info("x", shape=[1])], ["y"], domains=["mine"]
    )
    with pytest.raises(UnusableError, match="neither onnxruntime nor the reference of onnx computes `Odd` in float64"):
        in_double(home.graph.node[0], {"x": np.array([1.0])}, home)
