"""Pairing TorchAir device dumps with FX dumps."""

from __future__ import annotations

import csv
import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from torchair_builders import (
    GeDump,
    Op,
    X,
    Y,
    Z,
    device_tensor,
    fx_token,
    mul_add_relu,
    write_device_op,
    write_fx_node,
    write_mul_add_relu,
)
from torchair_checks import by_target, check_complete, golden_of, missing, reasons

from probe_flow.dumps.selection import Selection
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.errors import UsageError
from probe_flow.matching.torchair.match_torchair import match_torchair
from probe_flow.records import Catalog, Expectation, Pairs, Relation
from probe_flow.records.frameworks import PYTORCH

DATA = Path(__file__).parents[3] / "data" / "torchair"
SHAPE = (2, 3)


def match(root: Path, *, target_options=None, golden_options=None, **options) -> Pairs:
    target = read_torchair_ge(root / "msprobe_ge_dump", side="target", **(target_options or {}))
    golden = read_torchair_fx(root, side="golden", **(golden_options or {}))
    pairs = match_torchair(target, golden, **options)
    check_complete(pairs)
    return pairs


@pytest.fixture
def dump(tmp_path) -> GeDump:
    made = GeDump(tmp_path / "msprobe_ge_dump")
    made.graph(mul_add_relu())
    return made


def write_both(dump: GeDump, *, fused: bool = False, step: int = 0, layout: str = "new", graph: int = 1) -> None:
    fx = fx_token(dump.root.parent, step, layout=layout, graph=graph)
    write_mul_add_relu(dump.token(step, graph=graph), fx, fused=fused)


class TestRules:
    def test_outputs_pair_by_name_and_inputs_through_edges(self, dump):
        write_both(dump)
        pairs = match(dump.root.parent)
        assert golden_of(pairs) == {
            "Mul.input.0": "mul.input.0",
            "Mul.input.1": "mul.input.1",
            "Mul.output.0": "mul.output.0",
            "Add.input.0": "mul.output.0",
            "Add.input.1": "add.input.1",
            "Add.output.0": "add.output.0",
            "Relu.input.0": "add.output.0",
            "Relu.output.0": "relu.output.0",
        }
        rules = {name: pair.rule.name for name, pair in by_target(pairs).items()}
        assert rules["Mul.input.0"] == "exact"
        assert rules["Add.input.0"] == "edge"
        assert rules["Add.output.0"] == "exact"
        assert reasons(pairs) == {
            "golden:add.input.0": "covered_by_producer",
            "golden:relu.input.0": "covered_by_producer",
        }
        assert missing(pairs) == []

    def test_a_fused_operator_gives_its_last_output_and_takes_inputs_in_the_middle(self, dump):
        write_both(dump, fused=True)
        pairs = match(dump.root.parent)
        assert golden_of(pairs) == {
            "MulAdd.input.0": "mul.input.0",
            "MulAdd.input.1": "mul.input.1",
            "MulAdd.input.2": "add.input.1",
            "MulAdd.output.0": "add.output.0",
            "Relu.input.0": "add.output.0",
            "Relu.output.0": "relu.output.0",
        }
        assert by_target(pairs)["MulAdd.output.0"].rule.name == "fused"
        assert reasons(pairs)["golden:mul.output.0"] == "internal"
        group = next(group for group in pairs.groups if group.target_nodes and group.target_nodes[0].name == "MulAdd")
        assert group.relation is Relation.ONE_TO_MANY
        assert {key.name for key in group.golden_nodes} == {"mul", "add"}
        assert missing(pairs) == []

    def test_inputs_that_may_be_one_of_several_tensors_are_guesses(self, dump):
        # Three tensors of six elements enter, two files' worth were dumped: which two, nobody knows.
        write_device_op(dump.token(0), "Fused", "MulAdd", at=1, inputs=[X, Z], outputs=[X * Y + Z])
        write_mul_add_relu(None, fx_token(dump.root.parent, 0))
        found = by_target(match(dump.root.parent))
        for name in ("MulAdd.input.0", "MulAdd.input.1"):
            pair = found[name]
            assert pair.reason is not None
            assert (pair.rule.name, pair.reason.code, pair.confidence) == ("aligned", "guessed", 0.6)
        assert (found["MulAdd.output.0"].rule.name, found["MulAdd.output.0"].confidence) == ("fused", 1.0)

    def test_inputs_that_only_their_size_tells_apart_are_aligned(self, tmp_path):
        ops = mul_add_relu()
        ops[2] = Op("z", "Data", (), [(None, (1, 3))])
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph(ops)
        row = Z[:1]
        # The device gives the parts' inputs in another order, and not all of them.
        write_device_op(dump.token(0), "Fused", "MulAdd", at=1, inputs=[row], outputs=[X * Y + row])
        write_fx_node(fx_token(tmp_path, 0), "mul-aten.mul.Tensor", at=1, inputs=[X, Y], outputs=[X * Y])
        write_fx_node(fx_token(tmp_path, 0), "add-aten.add.Tensor", at=2, inputs=[X * Y, row], outputs=[X * Y + row])
        pair = by_target(match(tmp_path))["MulAdd.input.0"]
        assert pair.golden is not None
        assert pair.reason is not None
        assert (pair.golden.id, pair.rule.name, pair.reason.code) == ("add.input.1", "aligned", "aligned")

    def test_three_fused_parts(self, dump):
        total = X * Y + Z
        write_device_op(dump.token(0), "Fused", "MulAddRelu", at=1, inputs=[X, Y, Z], outputs=[np.maximum(total, 0)])
        write_mul_add_relu(None, fx_token(dump.root.parent, 0))
        pairs = match(dump.root.parent)
        assert golden_of(pairs)["MulAddRelu.output.0"] == "relu.output.0"
        assert reasons(pairs)["golden:mul.output.0"] == "internal"
        assert reasons(pairs)["golden:add.output.0"] == "internal"
        assert missing(pairs) == []

    def test_a_fused_operator_that_also_gives_an_inner_value(self, tmp_path):
        ops = [*mul_add_relu(), Op("Neg", "Neg", ("Mul:0",), [("neg-aten.neg.default.OUTPUT.0", SHAPE)])]
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph(ops)
        write_device_op(dump.token(0), "Fused", "MulAdd", at=1, inputs=[X, Y, Z], outputs=[X * Y, X * Y + Z])
        write_mul_add_relu(None, fx_token(tmp_path, 0))
        found = golden_of(match(tmp_path))
        assert (found["MulAdd.output.0"], found["MulAdd.output.1"]) == ("mul.output.0", "add.output.0")

    def test_fused_parts_that_the_golden_side_lacks_are_missing(self, dump):
        write_both(dump, fused=True)
        for path in fx_token(dump.root.parent, 0).glob("add-*"):
            path.unlink()
        pairs = match(dump.root.parent)
        found = reasons(pairs)
        assert found["MulAdd.output.0"] == "no_golden_op"
        assert found["MulAdd.input.2"] == "no_golden_op"
        assert golden_of(pairs)["MulAdd.input.0"] == "mul.input.0"
        assert {"MulAdd.output.0", "MulAdd.input.2"} <= set(missing(pairs))

    def test_names_that_are_prefixes_of_each_other(self, tmp_path):
        ops = [Op("x", "Data", (), [(None, SHAPE)])]
        previous = "x"
        for name in ("Add", "Add_1", "Add_12"):
            ops.append(Op(name, "Add", (f"{previous}:0", "x:0"), [(f"{name.lower()}-aten.add.Tensor.OUTPUT.0", SHAPE)]))
            previous = name
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph(ops)
        fx = fx_token(tmp_path, 0)
        for at, name in enumerate(("Add", "Add_1Add_12", "Add_123")):
            write_device_op(dump.token(0), "Add", name, at=at, inputs=[X, X], outputs=[X])
        for at, name in enumerate(("add", "add_1", "add_12")):
            write_fx_node(fx, f"{name}-aten.add.Tensor", at=at, inputs=[X, X], outputs=[X])
        pairs = match(tmp_path)
        found = golden_of(pairs)
        assert found["Add.output.0"] == "add.output.0"
        assert found["Add_1Add_12.output.0"] == "add_12.output.0"
        assert reasons(pairs)["Add_123.output.0"] == "no_graph_op"
        reason = by_target(pairs)["Add_123.output.0"].reason
        assert reason is not None
        assert "`Add_12`" in reason.text

    def test_twelve_inputs_of_a_cat_pair_in_numeric_order(self, tmp_path):
        ops = [Op(f"x{i}", "Data", (), [(None, SHAPE)]) for i in range(12)]
        ops.append(Op("cat", "ConcatV2", [f"x{i}:0" for i in range(12)], [("cat-aten.cat.default.OUTPUT.0", (24, 3))]))
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph(ops)
        items = [X + i for i in range(12)]
        write_device_op(dump.token(0), "ConcatV2", "cat", at=1, inputs=items, outputs=[np.concatenate(items)])
        write_fx_node(
            fx_token(tmp_path, 0),
            "cat-aten.cat.default",
            at=1,
            inputs={**{f"0.{i}": item for i, item in enumerate(items)}, "1": 0},
            outputs=[np.concatenate(items)],
        )
        found = golden_of(match(tmp_path))
        assert [found[f"cat.input.{i}"] for i in range(12)] == [f"cat.input.0.{i}" for i in range(12)]

    def test_inputs_pass_views_that_the_golden_side_lacks(self, tmp_path):
        ops = [
            Op("x", "Data", (), [(None, SHAPE)]),
            Op("Relu", "Relu", ("x:0",), [("relu-aten.relu.default.OUTPUT.0", SHAPE)]),
            Op("Reshape", "Reshape", ("Relu:0",), [("view-aten.view.default.OUTPUT.0", (6,))]),
            Op("Neg", "Neg", ("Reshape:0",), [("neg-aten.neg.default.OUTPUT.0", (6,))]),
        ]
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph(ops)
        write_device_op(dump.token(0), "Neg", "Neg", at=2, inputs=[X.reshape(6)], outputs=[-X.reshape(6)])
        write_fx_node(fx_token(tmp_path, 0), "relu-aten.relu.default", at=1, inputs=[X], outputs=[X])
        pairs = match(tmp_path)
        pair = by_target(pairs)["Neg.input.0"]
        assert pair.golden is not None
        assert (pair.rule.name, pair.golden.id) == ("edge", "relu.output.0")
        assert pair.reason is not None
        assert "`Reshape`" in pair.reason.text
        assert reasons(pairs)["golden:relu.input.0"] == "no_target_op"

    def test_an_expansion_pairs_its_ends_and_keeps_its_inside(self, tmp_path):
        """addmm becomes MatMul and Add; a bias of the size of the product must not pair with it."""
        square, key = (3, 3), "addmm-aten.addmm.default"
        ops = [Op(name, "Data", (), [(None, square)]) for name in ("bias", "a", "b")]
        ops += [
            Op("MatMul", "MatMulV2", ("a:0", "b:0"), [(None, square)]),
            Op("Add", "Add", ("MatMul:0", "bias:0"), [(f"{key}.OUTPUT.0", square)]),
        ]
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph(ops)
        a, b, bias = (np.arange(9, dtype=np.float32).reshape(square) + base for base in (0, 5, 9))
        write_device_op(dump.token(0), "MatMulV2", "MatMul", at=1, inputs=[a, b], outputs=[a @ b])
        write_device_op(dump.token(0), "Add", "Add", at=2, inputs=[a @ b, bias], outputs=[a @ b + bias])
        write_fx_node(fx_token(tmp_path, 0), key, at=1, inputs=[bias, a, b], outputs=[a @ b + bias])
        pairs = match(tmp_path)
        found = reasons(pairs)
        assert found["MatMul.output.0"] == "internal"
        assert found["Add.input.0"] == "internal"
        assert golden_of(pairs)["Add.output.0"] == "addmm.output.0"
        assert missing(pairs) == []

    def test_an_expansion_joins_weights_of_distinct_sizes(self, tmp_path):
        key = "addmm-aten.addmm.default"
        ops = [
            Op("bias", "Data", (), [(None, (4,))]),
            Op("a", "Data", (), [(None, (2, 3))]),
            Op("b", "Data", (), [(None, (3, 4))]),
            Op("MatMul", "MatMulV2", ("a:0", "b:0"), [(None, (2, 4))]),
            Op("Add", "Add", ("MatMul:0", "bias:0"), [(f"{key}.OUTPUT.0", (2, 4))]),
        ]
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph(ops)
        a, b, bias = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32), np.ones(4, np.float32)
        write_device_op(dump.token(0), "MatMulV2", "MatMul", at=1, inputs=[a, b], outputs=[a @ b])
        write_device_op(dump.token(0), "Add", "Add", at=2, inputs=[a @ b, bias], outputs=[a @ b + bias])
        write_fx_node(fx_token(tmp_path, 0), key, at=1, inputs=[bias, a, b], outputs=[a @ b + bias])
        found = golden_of(match(tmp_path))
        assert found["MatMul.input.0"] == "addmm.input.1"
        assert found["MatMul.input.1"] == "addmm.input.2"
        assert found["Add.input.1"] == "addmm.input.0"

    def test_a_permutation_never_pairs_with_the_two_axes_of_a_transposition(self, tmp_path):
        key = "transpose-aten.transpose.int"
        ops = [Op("x", "Data", (), [(None, SHAPE)]), Op("Tr", "Transpose", ("x:0",), [(f"{key}.OUTPUT.0", (3, 2))])]
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph(ops)
        axes = device_tensor([1, 0], "int64")
        write_device_op(dump.token(0), "Transpose", "Tr", at=1, inputs=[X, axes], outputs=[X.T])
        write_fx_node(fx_token(tmp_path, 0), key, at=1, inputs=[X, 0, 1], outputs=[X.T])
        pairs = match(tmp_path)
        assert golden_of(pairs)["Tr.input.0"] == "transpose.input.0"
        assert reasons(pairs) == {
            "Tr.input.1": "constant",
            "golden:transpose.input.1": "argument",
            "golden:transpose.input.2": "argument",
        }
        assert missing(pairs) == []

    def test_a_float_constant_pairs_with_the_number_it_stands_for(self, tmp_path):
        key = "mul-aten.mul.Tensor"
        ops = [Op("x", "Data", (), [(None, SHAPE)]), Op("M", "Mul", ("x:0", "Const:0"), [(f"{key}.OUTPUT.0", SHAPE)])]
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph(ops)
        write_device_op(dump.token(0), "Mul", "M", at=1, inputs=[X, np.float32(0.25)], outputs=[X / 4])
        write_fx_node(fx_token(tmp_path, 0), key, at=1, inputs=[X, 0.25], outputs=[X / 4])
        pair = by_target(match(tmp_path))["M.input.1"]
        assert pair.golden is not None
        assert pair.golden.id == "mul.input.1"
        assert pair.reason is not None
        assert pair.reason.code == "broadcast"

    def test_a_graph_input_of_one_element_pairs_with_the_0_d_argument(self, tmp_path):
        key = "mul-aten.mul.Tensor"
        ops = [
            Op("x", "Data", (), [(None, SHAPE)]),
            Op("scale", "Data", (), [(None, ())]),
            Op("M", "Mul", ("x:0", "scale:0"), [(f"{key}.OUTPUT.0", SHAPE)]),
        ]
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph(ops)
        scale = np.float32(0.25)
        write_device_op(dump.token(0), "Mul", "M", at=1, inputs=[X, scale], outputs=[X / 4])
        write_fx_node(fx_token(tmp_path, 0), key, at=1, inputs=[X, scale], outputs=[X / 4])
        pairs = match(tmp_path)
        assert golden_of(pairs)["M.input.1"] == "mul.input.1"
        assert missing(pairs) == []

    @pytest.mark.parametrize("inputs", [("x:0", "scale:0", "Const:0"), ("x:0", "Const:0", "scale:0")])
    def test_one_0_d_argument_for_two_single_elements_is_not_guessed(self, tmp_path, inputs):
        key = "mul-aten.mul.Tensor"
        ops = [
            Op("x", "Data", (), [(None, SHAPE)]),
            Op("scale", "Data", (), [(None, ())]),
            Op("M", "Axpy", inputs, [(f"{key}.OUTPUT.0", SHAPE)]),
        ]
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph(ops)
        one = np.float32(0.25)
        write_device_op(dump.token(0), "Axpy", "M", at=1, inputs=[X, one, one], outputs=[X / 4])
        write_fx_node(fx_token(tmp_path, 0), key, at=1, inputs=[X, one], outputs=[X / 4])
        found = golden_of(match(tmp_path))
        assert (found["M.input.1"], found["M.input.2"]) == (None, None)

    def test_private_operators_compare_output_with_own_input(self, dump):
        write_both(dump)
        write_device_op(dump.token(0), "TransData", "trans_TransData_7", at=9, inputs=[X, Y], outputs=[X])
        write_device_op(dump.token(0), "Cast", "trans_Cast_9", at=10, outputs=[X])
        pairs = match(dump.root.parent)
        pair = by_target(pairs)["trans_TransData_7.output.0"]
        assert pair.rule.name == "self"
        assert pair.golden is not None
        assert pair.golden.id == "trans_TransData_7.input.0"
        group = next(group for group in pairs.groups if group.id == pair.group)
        assert group.relation is Relation.SELF
        assert reasons(pairs)["trans_Cast_9.output.0"] == "internal"

    def test_outputs_of_several_numbers(self, tmp_path):
        key = "native_layer_norm-aten.native_layer_norm.default"
        shapes = [(2, 3), (2, 1), (2, 1)]
        outputs = [(f"{key}.OUTPUT.{i}", shape) for i, shape in enumerate(shapes)]
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph([Op("x", "Data", (), [(None, SHAPE)]), Op("LN", "LayerNormV4", ("x:0",), outputs)])
        values = [np.full(shape, i, np.float32) for i, shape in enumerate(shapes)]
        write_device_op(dump.token(0), "LayerNormV4", "LN", at=1, inputs=[X], outputs=values)
        write_fx_node(fx_token(tmp_path, 0), key, at=1, inputs=[X], outputs=values[:2])
        pairs = match(tmp_path)
        assert golden_of(pairs)["LN.output.1"] == "native_layer_norm.output.1"
        assert reasons(pairs) == {"LN.output.2": "no_golden_op"}

    def test_operator_names_with_slashes_and_dots(self, tmp_path):
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph(mul_add_relu("layer.0/mlp/"))
        write_mul_add_relu(dump.token(0), fx_token(tmp_path, 0), prefix="layer.0/mlp/")
        pairs = match(tmp_path)
        assert golden_of(pairs)["layer.0/mlp/Add.output.0"] == "add.output.0"
        assert missing(pairs) == []

    def test_channels_last_against_channels_first_names_the_step(self, tmp_path):
        key = "conv-aten.convolution.default"
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph([Op("Conv", "Conv2D", ("x:0",), [(f"{key}.OUTPUT.0", (1, 2, 3, 4))])])
        data = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
        tensor = dataclasses.replace(device_tensor(data), layout="NCHW")
        write_device_op(dump.token(0), "Conv2D", "Conv", at=1, outputs=[tensor])
        write_fx_node(fx_token(tmp_path, 0), key, at=1, outputs=[data.transpose(0, 2, 3, 1)])
        assert by_target(match(tmp_path))["Conv.output.0"].transform == ("golden:nhwc_to_nchw",)

    def test_different_element_counts_keep_the_pair_and_say_so(self, dump):
        write_mul_add_relu(dump.token(0), None)
        write_fx_node(fx_token(dump.root.parent, 0), "relu-aten.relu.default", at=3, outputs=[np.zeros(5, np.float32)])
        pair = by_target(match(dump.root.parent))["Relu.output.0"]
        assert pair.golden is not None
        assert pair.reason is not None
        assert pair.reason.code == "count_mismatch"


KEY = "op-aten.op.default"


def int64(values: object) -> object:
    return device_tensor(values, "int64")


def match_parameters(root: Path, device: list[object], arguments: list[object], *, fed: tuple[str, ...] = ()) -> Pairs:
    """Match one operator that reads X and what is given; the graph text feeds it ``x`` and ``fed`` only."""
    dump = GeDump(root / "msprobe_ge_dump")
    known = [Op("x", "Data", (), [(None, SHAPE)]), Op("Const", "Const", (), [(None, ())], dtype="int64")]
    dump.graph([*known, Op("O", "Op", ("x:0", *fed), [(f"{KEY}.OUTPUT.0", SHAPE)])])
    write_device_op(dump.token(0), "Op", "O", at=1, inputs=[X, *device], outputs=[X])
    write_fx_node(fx_token(root, 0), KEY, at=1, inputs=[X, *arguments], outputs=[X])
    return match(root)


class TestParametersThatTheGraphTextDoesNotFeed:
    @pytest.mark.parametrize(
        ("device", "argument"),
        [
            (int64(7), np.int64(7)),
            (int64([7]), np.array([7])),
            (int64([1, 2, 3, 4, 5]), np.array([1, 2, 3, 4, 5])),
            (device_tensor(True, "bool"), np.bool_(True)),
            (device_tensor([3, 1], "int32"), [3, 1]),
            (device_tensor([0.5], "float16"), 0.5),
        ],
    )
    def test_one_pairs_with_the_argument_in_its_place(self, tmp_path, device, argument):
        pairs = match_parameters(tmp_path, [device], [argument])
        pair = by_target(pairs)["O.input.1"]
        assert golden_of(pairs)["O.input.1"] == "op.input.1"
        assert pair.rule.name == "aligned"
        assert pair.confidence > 0.6  # no guess: a difference is the target's
        assert reasons(pairs) == {}

    @pytest.mark.parametrize("one", [np.float32(0.5), np.array([0.5], np.float32)])
    def test_among_several_numbers_the_place_decides(self, tmp_path, one):
        pairs = match_parameters(tmp_path, [one], [0.25, 2.0])
        assert golden_of(pairs)["O.input.1"] == "op.input.1"
        assert reasons(pairs) == {"golden:op.input.2": "argument"}

    def test_places_count_every_tensor_of_a_list(self, tmp_path):
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        shape = (4, 3)
        dump.graph([Op("x", "Data", (), [(None, SHAPE)]), Op("O", "Op", ("x:0", "x:0"), [(f"{KEY}.OUTPUT.0", shape)])])
        joined = np.concatenate([X, X])
        write_device_op(dump.token(0), "Op", "O", at=1, inputs=[X, X, int64(1)], outputs=[joined])
        arguments = {"0.0": X, "0.1": X, "1": 1, "2": 1}
        write_fx_node(fx_token(tmp_path, 0), KEY, at=1, inputs=arguments, outputs=[joined])
        assert golden_of(match(tmp_path))["O.input.2"] == "op.input.1"

    def test_in_another_place_it_is_missing_on_both_sides(self, tmp_path):
        pairs = match_parameters(tmp_path, [int64([4, 2])], [0, [2, 3]])
        assert missing(pairs) == ["O.input.1", "op.input.2"]
        assert reasons(pairs) == {
            "O.input.1": "count_mismatch", "golden:op.input.1": "argument", "golden:op.input.2": "count_mismatch",
        }  # fmt: skip

    @pytest.mark.parametrize("argument", [np.array([1, 2, 3]), np.bool_(True), 2.0, [1.0, 2.0], "BSH"])
    def test_another_type_or_count_is_no_partner(self, tmp_path, argument):
        assert golden_of(match_parameters(tmp_path, [int64([1, 0])], [argument]))["O.input.1"] is None

    def test_a_list_of_one_and_a_number_are_a_guess_where_there_is_one_of_each(self, tmp_path):
        pair = by_target(match_parameters(tmp_path, [int64([3])], [3]))["O.input.1"]
        assert pair.golden is not None
        assert pair.reason is not None
        assert (pair.golden.id, pair.reason.code, pair.confidence) == ("op.input.1", "guessed", 0.6)

    def test_what_a_constant_of_the_graph_feeds_has_the_meaning_of_the_device(self, tmp_path):
        pairs = match_parameters(tmp_path, [int64(1)], [3], fed=("Const:0",))
        assert reasons(pairs) == {"O.input.1": "constant", "golden:op.input.1": "argument"}

    @pytest.mark.parametrize("op_type", ["Reshape", "BroadcastTo"])
    def test_sizes_that_fx_may_write_as_minus_one_are_not_compared(self, tmp_path, op_type):
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph([Op("x", "Data", (), [(None, SHAPE)]), Op("O", op_type, ("x:0",), [(f"{KEY}.OUTPUT.0", SHAPE)])])
        write_device_op(dump.token(0), op_type, "O", at=1, inputs=[X, int64([2, 3])], outputs=[X])
        write_fx_node(fx_token(tmp_path, 0), KEY, at=1, inputs=[X, [-1, 3]], outputs=[X])
        assert reasons(match(tmp_path)) == {"O.input.1": "constant", "golden:op.input.1": "argument"}

    def test_an_argument_that_is_another_input_is_not_taken_twice(self, tmp_path):
        # The FX list at place 1 is what the graph input `n` is; the parameter that the device added stays alone.
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        ops = [Op("x", "Data", (), [(None, SHAPE)]), Op("n", "Data", (), [(None, (2,))], dtype="int64")]
        dump.graph([*ops, Op("O", "Op", ("x:0", "n:0"), [(f"{KEY}.OUTPUT.0", SHAPE)])])
        sizes = int64([4, 2])
        write_device_op(dump.token(0), "Op", "O", at=1, inputs=[X, sizes, int64([0, 1])], outputs=[X])
        write_fx_node(fx_token(tmp_path, 0), KEY, at=1, inputs=[X, [4, 2]], outputs=[X])
        pairs = match(tmp_path)
        assert golden_of(pairs)["O.input.1"] == "op.input.1"
        assert reasons(pairs) == {"O.input.2": "constant"}

    def test_in_an_expansion_of_several_operators_equally_many_are_a_guess_in_order(self, tmp_path):
        # clamp(x, 0, 6) as Maximum and Minimum: inputs are not counted like arguments.
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        low = Op("Low", "Maximum", ("x:0",), [(None, SHAPE)])
        high = Op("High", "Minimum", ("Low:0",), [(f"{KEY}.OUTPUT.0", SHAPE)])
        dump.graph([Op("x", "Data", (), [(None, SHAPE)]), low, high])
        write_device_op(dump.token(0), "Maximum", "Low", at=1, inputs=[X, int64(0)], outputs=[X])
        write_device_op(dump.token(0), "Minimum", "High", at=2, inputs=[X, int64(6)], outputs=[X])
        write_fx_node(fx_token(tmp_path, 0), KEY, at=1, inputs=[X, 0, 6], outputs=[X])
        pairs = match(tmp_path)
        found = golden_of(pairs)
        assert (found["Low.input.1"], found["High.input.1"]) == ("op.input.1", "op.input.2")
        assert by_target(pairs)["High.input.1"].confidence == 0.6

    @pytest.mark.parametrize(("arguments", "partner"), [([[8, 9]], "op.input.1"), ([[8, 9], [8, 9]], None)])
    def test_that_of_a_fused_operator_is_a_guess_among_all_its_parts(self, tmp_path, arguments, partner):
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        relu = Op("R", "Relu", ("x:0",), [("relu-aten.relu.default.OUTPUT.0", SHAPE)])
        dump.graph([Op("x", "Data", (), [(None, SHAPE)]), relu, Op("O", "Op", ("R:0",), [(f"{KEY}.OUTPUT.0", SHAPE)])])
        write_device_op(dump.token(0), "Fused", "RO", at=1, inputs=[X, int64([8, 9])], outputs=[X])
        write_fx_node(fx_token(tmp_path, 0), "relu-aten.relu.default", at=1, inputs=[X], outputs=[X])
        write_fx_node(fx_token(tmp_path, 0), KEY, at=2, inputs=[X, *arguments], outputs=[X])
        pairs = match(tmp_path)
        assert golden_of(pairs)["RO.input.1"] == partner
        assert len(missing(pairs)) == (0 if partner else 3)


class TestGaps:
    def test_a_graph_text_without_fx_names_explains_no_gap(self, tmp_path):
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph(
            [Op(op.name, op.type, op.inputs, [(None, shape) for _, shape in op.outputs]) for op in mul_add_relu()]
        )
        write_mul_add_relu(dump.token(0), fx_token(tmp_path, 0))
        pairs = match(tmp_path)
        assert set(reasons(pairs).values()) == {"no_fx_name"}
        assert len(missing(pairs)) == 16

    def test_a_result_of_one_element_instead_of_many_is_a_gap_and_no_broadcast(self, tmp_path):
        key = "sum-aten.sum.dim_IntList"
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph([Op("x", "Data", (), [(None, SHAPE)]), Op("S", "ReduceSum", ("x:0",), [(f"{key}.OUTPUT.0", (3,))])])
        write_device_op(dump.token(0), "ReduceSum", "S", at=1, inputs=[X], outputs=[X[0, :1]])
        write_fx_node(fx_token(tmp_path, 0), key, at=1, inputs=[X], outputs=[X.sum(0)])
        pair = by_target(match(tmp_path))["S.output.0"]
        assert pair.golden is not None
        assert pair.reason is not None
        assert (pair.reason.code, pair.reason.expectation) == ("count_mismatch", Expectation.MISSING)

    def test_what_is_no_tensor_is_explained(self, dump):
        write_both(dump)
        write_fx_node(
            fx_token(dump.root.parent, 0), "relu-aten.relu.default", at=3, inputs={"1": np.array("BSH"), "2": 7}
        )
        found = reasons(match(dump.root.parent))
        assert found["golden:relu.input.1"] == "not_tensor"
        assert found["golden:relu.input.2"] == "argument"

    def test_an_operator_that_should_have_run_is_missing(self, dump):
        write_both(dump)
        next(dump.token(0).glob("Add.*")).unlink()
        pairs = match(dump.root.parent)
        found = reasons(pairs)
        assert found["golden:add.input.1"] == "no_target_op"
        # The sum is still compared where Relu reads it.
        assert golden_of(pairs)["Relu.input.0"] == "add.output.0"

    def test_a_golden_node_that_is_gone_is_missing_with_the_nearest_name(self, dump):
        write_both(dump)
        for path in fx_token(dump.root.parent, 0).glob("relu-*"):
            path.rename(path.with_name(path.name.replace("relu-", "relu_1-")))
        pairs = match(dump.root.parent)
        reason = by_target(pairs)["Relu.output.0"].reason
        assert reason is not None
        assert reason.code == "no_golden_op"
        assert "`relu_1-aten.relu.default`" in reason.text
        assert reasons(pairs)["golden:relu_1.output.0"] == "device_no_dump"

    def test_a_cut_graph_text_proves_nothing(self, dump):
        write_both(dump)
        (path,) = dump.root.glob("dynamo_original_graph_*.txt")
        text = path.read_text()
        path.write_text(text[: text.index('name: "Relu"')])
        found = reasons(match(dump.root.parent))
        assert found["Relu.output.0"] == "no_graph_op"
        assert found["golden:relu.output.0"] == "no_graph_op"

    def test_without_graph_text_nothing_matches_and_nothing_is_lost(self, dump):
        write_both(dump)
        next(dump.root.glob("dynamo_*")).unlink()
        pairs = match(dump.root.parent)
        assert set(reasons(pairs).values()) == {"no_graph"}
        assert len(missing(pairs)) == len(pairs.pairs)
        assert "PF4005" in {problem.code for problem in pairs.problems}

    def test_unreadable_files_of_either_side_are_missing(self, dump):
        write_both(dump)
        next(dump.token(0).glob("Relu.*")).write_bytes(b"")
        next(fx_token(dump.root.parent, 0).glob("mul-*.OUTPUT.*")).write_bytes(b"")
        pairs = match(dump.root.parent)
        found = reasons(pairs)
        assert found["Relu.output.0"] == "unreadable"
        assert found["golden:relu.output.0"] == "unreadable"
        assert found["golden:mul.output.0"] == "unreadable"
        assert found["Mul.output.0"] == "unreadable"
        # Add reads the product; its own argument still tells the value.
        assert golden_of(pairs)["Add.input.0"] == "add.input.0"

    @pytest.mark.parametrize("role", ["INPUT", "OUTPUT"])
    def test_a_golden_dump_of_one_role_only_leaves_no_gap(self, dump, role):
        write_both(dump)
        for path in fx_token(dump.root.parent, 0).iterdir():
            if f".{role}." in path.name:
                path.unlink()
        pairs = match(dump.root.parent)
        assert missing(pairs) == []
        assert "not_dumped" in reasons(pairs).values()

    def test_a_target_dump_of_outputs_only_leaves_no_gap(self, dump):
        write_mul_add_relu(None, fx_token(dump.root.parent, 0))
        for at, (name, value) in enumerate((("Mul", X * Y), ("Add", X * Y + Z), ("Relu", np.maximum(X * Y + Z, 0)))):
            write_device_op(dump.token(0), name, name, at=at, outputs=[value])
        pairs = match(dump.root.parent)
        assert missing(pairs) == []
        assert reasons(pairs)["golden:mul.input.0"] == "not_dumped"

    def test_selected_nodes_make_filtered_not_missing(self, dump):
        write_both(dump)
        pairs = match(dump.root.parent, target_options={"select": Selection(nodes=["Relu"])})
        assert reasons(pairs)["golden:mul.output.0"] == "filtered"
        assert missing(pairs) == []
        pairs = match(dump.root.parent, golden_options={"select": Selection(nodes=["mul"])})
        assert reasons(pairs)["Relu.output.0"] == "filtered"
        assert missing(pairs) == []

    def test_axes_of_views_and_splits_do_not_count_as_missing(self, tmp_path):
        ops = [
            Op("x", "Data", (), [(None, SHAPE)]),
            Op("Relu", "Relu", ("x:0",), [("relu-aten.relu.default.OUTPUT.0", SHAPE)]),
            Op("Split", "Split", ("Relu:0",), [(f"unbind-aten.unbind.int.OUTPUT.{i}", (3,)) for i in range(2)]),
            Op("Reshape", "Reshape", ("Split:1",), [("view-aten.view.default.OUTPUT.0", (3, 1))]),
        ]
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph(ops)
        fx = fx_token(tmp_path, 0)
        write_device_op(dump.token(0), "Relu", "Relu", at=1, inputs=[X], outputs=[X])
        write_fx_node(fx, "relu-aten.relu.default", at=1, inputs=[X], outputs=[X])
        write_fx_node(fx, "unbind-aten.unbind.int", at=2, inputs=[X], outputs=[X[0], X[1]])
        write_fx_node(fx, "view-aten.view.default", at=3, inputs=[X[1], [3, 1]], outputs=[X[1][:, None]])
        pairs = match(tmp_path)
        assert reasons(pairs) == {
            "golden:unbind.input.0": "covered_by_producer",
            "golden:unbind.output.0": "device_no_dump",
            "golden:unbind.output.1": "device_no_dump",
            "golden:view.input.0": "device_no_dump",
            "golden:view.input.1": "argument",
            "golden:view.output.0": "device_no_dump",
        }
        assert missing(pairs) == []


def executions(pairs: Pairs) -> set[tuple]:
    return {
        (pair.target.node.execution.identity[:3], pair.golden.node.execution.identity[:3])
        for pair in pairs.pairs
        if pair.target is not None and pair.golden is not None
    }


class TestExecutions:
    @pytest.mark.parametrize("ge", [1, None])
    @pytest.mark.parametrize("fx", ["new", "7.1.0", "old"])
    def test_layouts_mix(self, tmp_path, ge, fx):
        dump = GeDump(tmp_path / "msprobe_ge_dump", worldsize=ge)
        dump.graph(mul_add_relu(), old=ge is None)
        for step in (0, 10, 2):
            write_both(dump, step=step, layout=fx)
        pairs = match(tmp_path)
        assert {(mine[2], other[2]) for mine, other in executions(pairs)} == {(0, 0), (2, 2), (10, 10)}
        assert missing(pairs) == []

    def test_eleven_graphs_pair_by_id(self, tmp_path):
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        for graph in range(1, 12):
            dump.graph(mul_add_relu(), graph=graph)
            write_both(dump, graph=graph)
        pairs = match(tmp_path)
        assert {(mine[1], other[1]) for mine, other in executions(pairs)} == {(g, g) for g in range(1, 12)}
        assert pairs.problems == ()

    def test_graphs_without_ids_pair_by_their_names(self, tmp_path):
        """The FX folders are in the other order than the graphs; only the names of the tensors tell."""
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        neg = [
            Op("x", "Data", (), [(None, SHAPE)]),
            Op("Neg", "Neg", ("x:0",), [("neg-aten.neg.default.OUTPUT.0", SHAPE)]),
        ]
        dump.graph(mul_add_relu(), graph=1)
        dump.graph(neg, graph=2)
        write_mul_add_relu(dump.token(0, graph=1), fx_token(tmp_path, 0, layout="old", graph=9))
        write_device_op(dump.token(0, graph=2), "Neg", "Neg", at=1, inputs=[X], outputs=[-X])
        write_fx_node(
            fx_token(tmp_path, 0, layout="old", graph=3), "neg-aten.neg.default", at=1, inputs=[X], outputs=[-X]
        )
        pairs = match(tmp_path)
        assert {(mine[1], str(other[1])[:22]) for mine, other in executions(pairs)} == {
            (1, "gm_2026010100000000000"),
            (2, "gm_2026010100000000000"),
        }
        assert golden_of(pairs)["Neg.output.0"] == "neg.output.0"
        assert missing(pairs) == []
        assert [problem.code for problem in pairs.problems] == ["PF4006", "PF4006"]
        assert all("100%" in problem.message for problem in pairs.problems)

    def test_equal_graphs_without_ids_pair_in_order(self, tmp_path):
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        for graph in (1, 2, 3):
            dump.graph(mul_add_relu(), graph=graph)
            write_mul_add_relu(dump.token(0, graph=graph), fx_token(tmp_path, 0, layout="old", graph=graph * 4))
        found = sorted(executions(match(tmp_path)), key=str)
        assert [(mine[1], str(other[1])[-7:]) for mine, other in found] == [
            (1, "04_dump"),
            (2, "08_dump"),
            (3, "12_dump"),
        ]

    def test_different_ids_are_never_guessed_together(self, tmp_path):
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        dump.graph(mul_add_relu(), graph=1)
        write_mul_add_relu(dump.token(0, graph=1), fx_token(tmp_path, 0, graph=2))
        pairs = match(tmp_path)
        assert executions(pairs) == set()
        assert set(reasons(pairs).values()) == {"no_golden_execution", "no_target_execution"}

    def test_a_graph_that_was_compiled_but_never_ran_disturbs_nothing(self, dump):
        dump.graph(mul_add_relu(), graph=2)
        write_both(dump)
        assert missing(match(dump.root.parent)) == []

    def test_steps_of_one_side_are_one_sided_and_reported_once(self, dump):
        for step in (0, 1):
            write_mul_add_relu(dump.token(step), None)
        for step in (1, 2):
            write_mul_add_relu(None, fx_token(dump.root.parent, step))
        pairs = match(dump.root.parent)
        assert {(mine[2], other[2]) for mine, other in executions(pairs)} == {(1, 1)}
        assert Counter(reasons(pairs).values())["no_golden_execution"] == 8
        assert Counter(reasons(pairs).values())["no_target_execution"] == 8
        assert [problem.code for problem in pairs.problems] == ["PF4001", "PF4002"]

    def test_the_help_for_other_numbers_names_the_options(self, dump):
        write_mul_add_relu(dump.token(0), fx_token(dump.root.parent, 3))
        problems = match(dump.root.parent).problems
        assert {problem.code for problem in problems} >= {"PF4001", "PF4002"}
        assert all("`step_offset`" in problem.help for problem in problems if problem.code in {"PF4001", "PF4002"})

    def test_a_golden_folder_below_the_step_says_that_it_names_none(self, dump):
        for step in (0, 1):
            write_mul_add_relu(dump.token(step), None)
        golden = fx_token(dump.root.parent, 1, layout="old")
        write_mul_add_relu(None, golden)
        target, golden_side = (
            read_torchair_ge(dump.root, side="target"),
            read_torchair_fx(golden, side="golden"),
        )
        last = match_torchair(target, golden_side).problems[-1]
        assert last.message.endswith("the target dump has no execution for it")
        assert "`golden` names no step: give the folder above" in last.help

    def test_step_offset_and_pair_ranks(self, tmp_path):
        dump = GeDump(tmp_path / "msprobe_ge_dump", worldsize=2)
        for rank in (0, 1):
            dump.graph(mul_add_relu(), rank=rank)
            write_mul_add_relu(dump.token(5, rank=rank), fx_token(tmp_path, 3, rank=1 - rank))
        pairs = match(tmp_path, pair_ranks={0: 1, 1: 0}, step_offset=-2)
        assert executions(pairs) == {((0, 1, 5), (1, 1, 3)), ((1, 1, 5), (0, 1, 3))}
        assert missing(pairs) == []

    def test_a_rank_pair_that_matches_nothing_is_a_warning(self, dump):
        write_both(dump)
        pairs = match(dump.root.parent, pair_ranks={7: 0})
        assert [problem.code for problem in pairs.unused] == ["PF4009"]
        assert missing(pairs) == []

    def test_a_selection_on_one_side_leaves_no_gap_on_the_other(self, dump):
        for step in (0, 1):
            write_both(dump, step=step)
        pairs = match(dump.root.parent, target_options={"select": Selection(steps=[1])})
        assert missing(pairs) == []
        assert [problem.code for problem in pairs.problems] == ["PF4011"]
        left = Counter(pair.reason.code for pair in pairs.pairs if pair.target is None and pair.reason is not None)
        assert left == {"filtered": 8, "covered_by_producer": 2}

    def test_several_ranks_share_out_an_old_fx_dump_with_a_warning(self, tmp_path):
        dump = GeDump(tmp_path / "msprobe_ge_dump", worldsize=2)
        for rank in (0, 1):
            dump.graph(mul_add_relu(), rank=rank)
            write_mul_add_relu(dump.token(0, rank=rank), fx_token(tmp_path, 0, layout="old", graph=rank))
        pairs = match(tmp_path)
        assert len(executions(pairs)) == 2
        assert "PF4007" in {problem.code for problem in pairs.problems}


class TestSides:
    def test_sides_of_the_wrong_kind_are_a_usage_error(self, dump):
        write_both(dump)
        target = read_torchair_ge(dump.root, side="target")
        golden = read_torchair_fx(dump.root.parent, side="golden")
        with pytest.raises(UsageError, match="PF4004"):
            match_torchair(golden, target)
        with pytest.raises(UsageError, match="PF4004"):
            match_torchair(target, replace(golden, framework=PYTORCH))

    def test_two_fx_dumps_are_sent_to_the_matcher_that_pairs_them(self, dump):
        write_both(dump)
        golden = read_torchair_fx(dump.root.parent, side="golden")
        with pytest.raises(UsageError) as raised:
            match_torchair(golden, golden)
        assert "`match.name`" in (raised.value.diagnostic.help or "")


def catalogs(case: Path) -> tuple[Catalog, Catalog]:
    return read_torchair_ge(case, side="target"), read_torchair_fx(case, side="golden")


# Per token of the two-block model, counted by hand from graph text and listing:
# exact outputs = named outputs of dumped single operators; internal = the eight MatMul of addmm and what Add reads of
# them; constant = 15 permutations and four normalized shapes; broadcast = the two attention scales.
FUSED_CASE = {
    ("output", "exact"): 51,
    ("output", "fused"): 2,
    ("output", "self"): 2,
    ("output", "internal"): 8,
    ("input", "edge"): 52,
    ("input", "exact"): 4,
    ("input", "aligned"): 27,
    ("input", "broadcast"): 2,
    ("input", "internal"): 8,
    ("input", "constant"): 19,
    ("golden input", "argument"): 60,
    ("golden input", "covered_by_producer"): 79,
    ("golden input", "device_no_dump"): 12,
    ("golden input", "internal"): 2,
    ("golden output", "device_no_dump"): 18,
    ("golden output", "internal"): 2,
}
UNFUSED_CASE = {
    **{key: count for key, count in FUSED_CASE.items() if key[1] != "fused" and key != ("golden input", "internal")},
    ("output", "exact"): 55,
    ("input", "edge"): 54,
    ("golden input", "covered_by_producer"): 81,
}
del UNFUSED_CASE[("golden output", "internal")]


def tally(pairs: Pairs) -> dict[tuple[str, str], int]:
    found: Counter[tuple[str, str]] = Counter()
    for pair in pairs.pairs:
        side = "" if pair.target is not None else "golden "
        word = pair.rule.name
        if pair.reason is not None and (pair.rule.name == "none" or pair.reason.code == "broadcast"):
            word = pair.reason.code
        found[(side + pair.shown.slot.role.value, word)] += 1
    return dict(found)


@pytest.mark.parametrize(
    ("name", "tokens", "expected"),
    [("healthy", 1, FUSED_CASE), ("new_layout", 2, FUSED_CASE), ("ge_fx_old", 1, UNFUSED_CASE)],
)
def test_real_cases_leave_no_gap(torchair_case: Callable[[str], Path], name, tokens, expected):
    pairs = match_torchair(*catalogs(torchair_case(name)))
    check_complete(pairs)
    assert tally(pairs) == {key: tokens * count for key, count in expected.items()}
    assert missing(pairs) == []


@pytest.mark.parametrize("name", ["healthy", "new_layout", "ge_fx_old"])
def test_every_output_pair_of_the_peer_is_ours_too(torchair_case: Callable[[str], Path], name):
    """No deliberate difference in outputs; of inputs we follow edges and leave integer parameters out."""
    case = torchair_case(name)
    pairs = match_torchair(*catalogs(case))
    ours = {}
    for pair in pairs.pairs:
        if pair.target is not None and pair.golden is not None:
            key = f"{pair.target.source},{pair.target.slot.role.value}s,{pair.target.slot.index}"
            ours[key] = str(pair.golden.source)
    compared = 0
    with (DATA / f"{name}.csv").open(newline="") as stream:
        for row in csv.DictReader(stream):
            if ",outputs," in row["my_data_path"]:
                golden = row["golden_data_path"].split(",")[0]
                assert ours[str(case.parent / row["my_data_path"])] == str(case.parent / golden)
                compared += 1
    assert compared == {"healthy": 55, "new_layout": 110, "ge_fx_old": 57}[name]


def test_the_same_dump_gives_the_same_pairs(torchair_case: Callable[[str], Path]):
    first = match_torchair(*catalogs(torchair_case("healthy")))
    second = match_torchair(*catalogs(torchair_case("healthy")))
    assert first.pairs == second.pairs
    assert first.groups == second.groups


@pytest.mark.parametrize("is_read", [False, True])
def test_an_output_that_the_device_left_empty_is_no_gap_where_nobody_reads_it(tmp_path, is_read):
    dump = GeDump(tmp_path / "msprobe_ge_dump")
    key = "native_layer_norm-aten.native_layer_norm.default"
    ops = [
        Op("x", "Data", (), [(None, (2, 3))]),
        Op("Norm", "LayerNormV4", ("x:0",), [(f"{key}.OUTPUT.0", (2, 3)), (f"{key}.OUTPUT.1", (2, 1))]),
        Op("Relu", "Relu", ("Norm:1" if is_read else "Norm:0",), [("relu-aten.relu.default.OUTPUT.0", (2, 3))]),
    ]
    dump.graph(ops)
    folder, fx = dump.token(0), fx_token(tmp_path, 0)
    write_device_op(folder, "LayerNormV4", "Norm", at=1, inputs=[X], outputs=[X, np.zeros(0)])
    write_device_op(folder, "Relu", "Relu", at=2, inputs=[X], outputs=[X])
    write_fx_node(fx, key, at=1, inputs=[X], outputs=[X, np.ones((2, 1), np.float32)])
    write_fx_node(fx, "relu-aten.relu.default", at=2, inputs=[X], outputs=[X])
    pairs = match(tmp_path)
    if is_read:
        assert golden_of(pairs)["Norm.output.1"] == "native_layer_norm.output.1"  # and cannot be compared
    else:
        assert golden_of(pairs)["Norm.output.1"] is None
        assert missing(pairs) == []
