"""Device operators whose names do not tell what was fused into them: the header does, or what they read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from torchair_builders import FIRST_US, GeDump, Op, device_tensor, fx_token, write_device_op, write_fx_node
from torchair_checks import check_complete, golden_of, missing

from probe_flow.analysis.silent_graph_operators import silent_on_device
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.matching.torchair.match_torchair import match_torchair
from probe_flow.records import Pairs

A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(12, dtype=np.float32).reshape(3, 4)
BIAS = np.array([1, -9, 3, -40], np.float32)
PRODUCT, SUM = A @ B, A @ B + BIAS
RESULT = np.maximum(SUM, 0)
GRAPH = [
    Op("a", "Data", (), [(None, (2, 3))]),
    Op("b", "Data", (), [(None, (3, 4))]),
    Op("bias", "Data", (), [(None, (4,))]),
    Op("MatMulV2", "MatMulV2", ("a:0", "b:0"), [("mm-aten.mm.default.OUTPUT.0", (2, 4))]),
    Op("Add", "Add", ("MatMulV2:0", "bias:0"), [("add-aten.add.Tensor.OUTPUT.0", (2, 4))]),
    Op("Relu", "Relu", ("Add:0",), [("relu-aten.relu.default.OUTPUT.0", (2, 4))]),
]


@pytest.fixture
def dump(tmp_path) -> GeDump:
    made = GeDump(tmp_path / "msprobe_ge_dump")
    made.graph(GRAPH)
    fx = fx_token(tmp_path, 0)
    write_fx_node(fx, "mm-aten.mm.default", at=1, inputs=[A, B], outputs=[PRODUCT])
    write_fx_node(fx, "add-aten.add.Tensor", at=2, inputs=[PRODUCT, BIAS], outputs=[SUM])
    write_fx_node(fx, "relu-aten.relu.default", at=3, inputs=[SUM], outputs=[RESULT])
    return made


def match(dump: GeDump) -> Pairs:
    target = read_torchair_ge(dump.root, side="target")
    pairs = match_torchair(target, read_torchair_fx(dump.root.parent, side="golden"))
    check_complete(pairs)
    assert list(silent_on_device(target, None)) == []
    return pairs


def of(values: np.ndarray, original: str):
    return replace(device_tensor(values), original_op=original)


def test_a_product_that_reads_a_bias_is_the_sum_behind_it(dump):
    folder = dump.token(0)
    write_device_op(folder, "MatMulV2", "MatMulV2", at=1, inputs=[A, B, BIAS], outputs=[SUM])
    write_device_op(folder, "Relu", "Relu", at=2, inputs=[SUM], outputs=[RESULT])
    pairs = match(dump)
    found = golden_of(pairs)
    assert found["MatMulV2.output.0"] == "add.output.0"
    assert found["MatMulV2.input.2"] == "add.input.1"
    assert found["Relu.input.0"] == "add.output.0"
    assert missing(pairs) == []


def test_a_product_whose_sum_has_a_file_of_its_own_is_no_sum(dump):
    folder = dump.token(0)
    write_device_op(folder, "MatMulV2", "MatMulV2", at=1, inputs=[A, B, BIAS], outputs=[PRODUCT])
    write_device_op(folder, "Add", "Add", at=2, inputs=[PRODUCT, BIAS], outputs=[SUM])
    write_device_op(folder, "Relu", "Relu", at=3, inputs=[SUM], outputs=[RESULT])
    assert golden_of(match(dump))["MatMulV2.output.0"] == "mm.output.0"


@pytest.mark.parametrize("name", ["MatMulV2", "te_fused_matmul_1"])
def test_the_header_says_whose_result_the_output_is(dump, name):
    write_device_op(dump.token(0), "MatMulV2", name, at=1, inputs=[A, B, BIAS], outputs=[of(RESULT, "Relu")])
    pairs = match(dump)
    assert golden_of(pairs) == {
        f"{name}.input.0": "mm.input.0",
        f"{name}.input.1": "mm.input.1",
        f"{name}.input.2": "add.input.1",
        f"{name}.output.0": "relu.output.0",
    }
    assert missing(pairs) == []
    assert pairs.target.nodes[pairs.pairs[0].shown.node].originals == ("MatMulV2", "Add", "Relu")


def test_what_is_fused_reads_nothing_that_nobody_made(dump):
    # Two operators of names that the device made up. By their sizes alone, both could be the relu.
    folder = dump.token(0)
    write_device_op(folder, "Fused", "te_fused_1", at=1, inputs=[A, B], outputs=[of(PRODUCT, "MatMulV2")])
    write_device_op(folder, "Fused", "te_fused_2", at=2, inputs=[PRODUCT, BIAS], outputs=[of(RESULT, "Relu")])
    pairs = match(dump)
    found = golden_of(pairs)
    assert found["te_fused_1.output.0"] == found["te_fused_2.input.0"] == "mm.output.0"
    assert found["te_fused_2.output.0"] == "relu.output.0"
    assert missing(pairs) == []


def test_a_header_that_names_what_the_inputs_cannot_make_is_not_believed(dump):
    write_device_op(dump.token(0), "Fused", "te_fused_1", at=1, inputs=[A], outputs=[of(RESULT, "Relu")])
    target = read_torchair_ge(dump.root, side="target")
    pairs = match_torchair(target, read_torchair_fx(dump.root.parent, side="golden"))
    assert golden_of(pairs)["te_fused_1.output.0"] is None


def test_what_another_fused_operator_made_was_made(tmp_path):
    # The first product ends in a relu, and one file of both names holds it; the second has its bias inside.
    made = GeDump(tmp_path / "msprobe_ge_dump")
    second = [
        Op("c", "Data", (), [(None, (4, 2))]),
        Op("bias_1", "Data", (), [(None, (2,))]),
        Op("MatMulV2_1", "MatMulV2", ("Relu:0", "c:0"), [("mm_1-aten.mm.default.OUTPUT.0", (2, 2))]),
        Op("Add_1", "Add", ("MatMulV2_1:0", "bias_1:0"), [("add_1-aten.add.Tensor.OUTPUT.0", (2, 2))]),
    ]
    made.graph([*GRAPH, *second])
    c, bias = np.arange(8, dtype=np.float32).reshape(4, 2), np.array([5, -7], np.float32)
    fx, folder = fx_token(tmp_path, 0), made.token(0)
    write_fx_node(fx, "mm-aten.mm.default", at=1, inputs=[A, B], outputs=[PRODUCT])
    write_fx_node(fx, "add-aten.add.Tensor", at=2, inputs=[PRODUCT, BIAS], outputs=[SUM])
    write_fx_node(fx, "relu-aten.relu.default", at=3, inputs=[SUM], outputs=[RESULT])
    write_fx_node(fx, "mm_1-aten.mm.default", at=4, inputs=[RESULT, c], outputs=[RESULT @ c])
    write_fx_node(fx, "add_1-aten.add.Tensor", at=5, inputs=[RESULT @ c, bias], outputs=[RESULT @ c + bias])
    write_device_op(folder, "MatMulV2", "MatMulV2", at=1, inputs=[A, B], outputs=[PRODUCT])
    write_device_op(folder, "AutomaticBufferFusionOp", "AddRelu", at=2, inputs=[PRODUCT, BIAS], outputs=[RESULT])
    write_device_op(folder, "MatMulV2", "MatMulV2_1", at=3, inputs=[RESULT, c, bias], outputs=[RESULT @ c + bias])
    pairs = match(made)
    assert golden_of(pairs)["MatMulV2_1.output.0"] == "add_1.output.0"
    assert missing(pairs) == []


def test_fusion_may_keep_the_name_of_the_last(dump):
    folder = dump.token(0)
    write_device_op(folder, "MatMulV2", "Add", at=1, inputs=[A, B, BIAS], outputs=[SUM])
    write_device_op(folder, "Relu", "Relu", at=2, inputs=[SUM], outputs=[RESULT])
    pairs = match(dump)
    found = golden_of(pairs)
    assert found["Add.input.0"] == "mm.input.0"
    assert found["Add.input.2"] == "add.input.1"
    assert found["Add.output.0"] == "add.output.0"
    assert missing(pairs) == []


def test_of_inputs_alone_they_say_it(dump):
    folder = dump.token(0)
    write_device_op(folder, "MatMulV2", "MatMulV2", at=1, inputs=[A, B, BIAS])
    write_device_op(folder, "Relu", "Relu", at=2, inputs=[SUM])
    pairs = match(dump)
    assert golden_of(pairs)["MatMulV2.input.2"] == "add.input.1"
    assert missing(pairs) == []


def test_statistics_of_the_device_say_it_as_tensors_do(dump):
    rows = ["Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,Count"]
    named = [("Input", 0, A), ("Input", 1, B), ("Input", 2, BIAS), ("Output", 0, SUM)]
    for side, index, values in named:
        shape = "x".join(map(str, values.shape))
        figures = f"{values.max():g},{values.min():g},{values.mean():g},{values.size}"
        rows.append(f"{side},{index},{values.nbytes},DT_FLOAT,ND,{shape},{figures}")
    (dump.token(0) / f"MatMulV2.Add.11.7.{FIRST_US}.csv").write_text("\n".join(rows) + "\n")
    write_device_op(dump.token(0), "Relu", "Relu", at=2, inputs=[SUM], outputs=[RESULT])
    pairs = match(dump)
    assert golden_of(pairs)["Add.input.1"] == "mm.input.1"
    assert missing(pairs) == []


def test_as_many_inputs_of_other_sizes_are_not_those_of_the_name(tmp_path):
    """A norm reads a list of axes that its kernel does not; with the sum before it inside, it reads as many again."""
    x, y, gamma = np.float32([[1, 2, 4]]), np.float32([[3, 0, 1]]), np.float32([2, 1, 3])
    total = x + y
    made = GeDump(tmp_path / "msprobe_ge_dump")
    made.graph(
        [
            Op("x", "Data", (), [(None, (1, 3))]),
            Op("y", "Data", (), [(None, (1, 3))]),
            Op("gamma", "Data", (), [(None, (3,))]),
            Op("axes", "Const", (), [(None, (1,))], dtype="int64"),
            Op("Add", "Add", ("x:0", "y:0"), [("add-aten.add.Tensor.OUTPUT.0", (1, 3))]),
            Op("Norm", "Norm", ("Add:0", "axes:0", "gamma:0"), [("norm-aten.norm.default.OUTPUT.0", (1, 3))]),
        ]
    )
    fx = fx_token(tmp_path, 0)
    write_fx_node(fx, "add-aten.add.Tensor", at=1, inputs=[x, y], outputs=[total])
    write_fx_node(fx, "norm-aten.norm.default", at=2, inputs=[total, gamma], outputs=[total * gamma])
    write_device_op(made.token(0), "AddNorm", "Norm", at=1, inputs=[x, y, gamma], outputs=[total * gamma])
    pairs = match(made)
    assert golden_of(pairs) == {
        "Norm.input.0": "add.input.0",
        "Norm.input.1": "add.input.1",
        "Norm.input.2": "norm.input.1",
        "Norm.output.0": "norm.output.0",
    }
    assert missing(pairs) == []


def test_an_operator_that_reads_what_its_name_says_took_in_nothing(dump):
    """Of a part of the operators (``dump_layer``), what the one before it gave has no file either."""
    write_device_op(dump.token(0), "Relu", "Relu", at=1, inputs=[SUM], outputs=[RESULT])
    target = read_torchair_ge(dump.root, side="target")
    assert [node.originals for node in target.nodes.values()] == [()]
