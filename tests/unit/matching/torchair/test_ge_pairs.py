"""Pairing a device dump made with fusion on with one made with fusion off."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from ge_writer import DumpTensor
from torchair_builders import (
    GeDump,
    Op,
    X,
    Y,
    Z,
    device_tensor,
    mul_add_relu,
    write_device_op,
    write_mul_add_relu,
)
from torchair_checks import by_target, check_complete, golden_of, missing, reasons

from probe_flow.dumps.selection import Selection
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.matching.torchair.match_torchair import match_torchair
from probe_flow.records import Pairs, Relation, TensorRef

DATA = Path(__file__).parents[3] / "data" / "torchair"
SHAPE = (2, 3)


@dataclass
class Both:
    """A target and a golden dump in the making."""

    on: GeDump
    off: GeDump

    def graphs(self, ops, **which) -> None:
        self.on.graph(ops, **which)
        self.off.graph(ops, **which)

    def match(self, *, target_options=None, golden_options=None, **options) -> Pairs:
        target = read_torchair_ge(self.on.root, side="target", **(target_options or {}))
        golden = read_torchair_ge(self.off.root, side="golden", **(golden_options or {}))
        pairs = match_torchair(target, golden, **options)
        check_complete(pairs)
        return pairs


@pytest.fixture
def both(tmp_path) -> Both:
    return Both(GeDump(tmp_path / "on"), GeDump(tmp_path / "off"))


@pytest.fixture
def fused(both) -> Both:
    """Mul and Add of relu(x * y + z) fused on the target only."""
    both.graphs(mul_add_relu())
    write_mul_add_relu(both.on.token(0), None, fused=True)
    write_mul_add_relu(both.off.token(0), None)
    return both


def texts(pairs: Pairs) -> dict[str, str]:
    return {pair.shown.id: pair.reason.text for pair in pairs.pairs if pair.reason is not None}


def chain(*names: str, op_type: str = "Add") -> list[Op]:
    """Return operators that each add the graph input to what the one before gives."""
    ops, previous = [Op("x", "Data", (), [(None, SHAPE)])], "x"
    for name in names:
        ops.append(Op(name, op_type, (f"{previous}:0", "x:0"), [(None, SHAPE)]))
        previous = name
    return ops


def run_each(folder: Path, *names: str, op_type: str = "Add") -> None:
    for at, name in enumerate(names):
        write_device_op(folder, op_type, name, at=at, inputs=[X, X], outputs=[X])


class TestRules:
    def test_operators_of_one_name_pair_slot_by_slot(self, both):
        both.graphs(mul_add_relu())
        for dump in (both.on, both.off):
            write_mul_add_relu(dump.token(0), None)
        pairs = both.match()
        found = golden_of(pairs)
        assert len(found) == 8
        assert all(mine == other for mine, other in found.items())
        assert {pair.rule.name for pair in pairs.pairs} == {"exact"}

    def test_an_input_that_enters_the_middle_of_a_fused_operator_is_that_of_the_part(self, fused):
        pairs = fused.match()
        assert golden_of(pairs) == {
            "MulAdd.input.0": "Mul.input.0",
            "MulAdd.input.1": "Mul.input.1",
            "MulAdd.input.2": "Add.input.1",
            "MulAdd.output.0": "Add.output.0",
            "Relu.input.0": "Relu.input.0",
            "Relu.output.0": "Relu.output.0",
        }
        assert {by_target(pairs)[f"MulAdd.{slot}"].rule.name for slot in ("input.2", "output.0")} == {"fused"}
        assert missing(pairs) == []

    def test_inner_results_of_the_golden_are_expected_gaps_in_the_group_of_the_fused_operator(self, fused):
        pairs = fused.match()
        assert reasons(pairs) == {"golden:Mul.output.0": "internal", "golden:Add.input.0": "internal"}
        assert "`MulAdd` (Mul + Add)" in texts(pairs)["Mul.output.0"]
        (group,) = (group for group in pairs.groups if group.target_nodes and group.target_nodes[0].name == "MulAdd")
        assert group.relation is Relation.ONE_TO_MANY
        assert {key.name for key in group.golden_nodes} == {"Mul", "Add"}
        inner = [pair for pair in pairs.pairs if pair.target is None]
        assert {pair.group for pair in inner} == {group.id}

    def test_names_that_are_prefixes_of_each_other(self, both):
        both.graphs(chain("Add_1", "Add_2", "Add_12", "Add_121"))
        run_each(both.on.token(0), "Add_1", "Add_2Add_12", "Add_121", "Add_1212")
        run_each(both.off.token(0), "Add_1", "Add_2", "Add_12", "Add_121")
        pairs = both.match()
        found = golden_of(pairs)
        assert found["Add_1.output.0"] == "Add_1.output.0"
        assert found["Add_2Add_12.output.0"] == "Add_12.output.0"
        assert found["Add_121.output.0"] == "Add_121.output.0"
        assert found["Add_1212.output.0"] is None
        assert reasons(pairs)["Add_1212.output.0"] == "no_graph_op"

    def test_three_parts_and_a_second_result_that_leaves_the_group(self, both):
        ops = [*mul_add_relu(), Op("Neg", "Neg", ("Mul:0",), [(None, SHAPE)])]
        both.graphs(ops)
        total = X * Y + Z
        write_device_op(
            both.on.token(0), "Fused", "MulAddRelu", at=1, inputs=[X, Y, Z], outputs=[X * Y, np.maximum(total, 0)]
        )
        write_mul_add_relu(both.off.token(0), None)
        found = golden_of(both.match())
        assert found["MulAddRelu.output.0"] == "Mul.output.0"
        assert found["MulAddRelu.output.1"] == "Relu.output.0"

    def test_operators_that_are_fused_on_both_sides_pair_whole(self, both):
        both.graphs(mul_add_relu())
        for dump in (both.on, both.off):
            write_mul_add_relu(dump.token(0), None, fused=True)
        pairs = both.match()
        assert all(mine == other for mine, other in golden_of(pairs).items())
        assert reasons(pairs) == {}

    def test_groups_that_overlap_pair_what_both_show(self, both):
        both.graphs(mul_add_relu())
        total = X * Y + Z
        write_mul_add_relu(both.on.token(0), None, fused=True)
        write_device_op(both.off.token(0), "Mul", "Mul", at=1, inputs=[X, Y], outputs=[X * Y])
        write_device_op(both.off.token(0), "Fused", "AddRelu", at=2, inputs=[X * Y, Z], outputs=[np.maximum(total, 0)])
        pairs = both.match()
        found = golden_of(pairs)
        assert found["MulAdd.input.0"] == "Mul.input.0"
        assert found["MulAdd.input.2"] == "AddRelu.input.1"
        assert found["MulAdd.output.0"] is None
        assert found["Relu.output.0"] == "AddRelu.output.0"
        assert reasons(pairs)["MulAdd.output.0"] == "internal"
        assert missing(pairs) == []

    def test_one_graph_tensor_that_a_part_reads_twice(self, both):
        both.graphs([Op("x", "Data", (), [(None, SHAPE)]), Op("Mul", "Mul", ("x:0", "x:0"), [(None, SHAPE)])])
        for dump in (both.on, both.off):
            write_device_op(dump.token(0), "Mul", "Mul", at=1, inputs=[X, X], outputs=[X * X])
        found = golden_of(both.match())
        assert [found[f"Mul.input.{k}"] for k in (0, 1)] == ["Mul.input.0", "Mul.input.1"]

    def test_operator_names_with_slashes_and_dots(self, both):
        both.graphs(mul_add_relu("layer.0/mlp/"))
        write_mul_add_relu(both.on.token(0), None, fused=True, prefix="layer.0/mlp/")
        write_mul_add_relu(both.off.token(0), None, prefix="layer.0/mlp/")
        pairs = both.match()
        assert golden_of(pairs)["layer.0/mlp/Mullayer.0/mlp/Add.output.0"] == "layer.0/mlp/Add.output.0"
        assert missing(pairs) == []

    def test_another_kernel_for_one_operator_pairs_by_what_the_graph_feeds_it(self, both):
        items = [X, Y, Z]
        ops = [Op(name, "Data", (), [(None, SHAPE)]) for name in "xyz"]
        both.graphs([*ops, Op("cat", "ConcatV2", ("x:0", "y:0", "z:0"), [(None, (6, 3))])])
        axis = device_tensor([0], "int64")
        joined = np.concatenate(items)
        write_device_op(both.on.token(0), "ConcatV2D", "cat", at=1, inputs=items, outputs=[joined])
        write_device_op(both.off.token(0), "ConcatV2", "cat", at=1, inputs=[*items, axis], outputs=[joined])
        pairs = both.match()
        assert all(mine == other for mine, other in golden_of(pairs).items())
        assert reasons(pairs) == {"golden:cat.input.3": "constant"}

    def test_workspaces_that_the_graph_does_not_show_are_aligned(self, both):
        both.graphs(chain("Add_1"))
        for dump, sizes in ((both.on, (4, 7)), (both.off, (7, 9))):
            extra = [np.ones(size, np.float32) for size in sizes]
            write_device_op(dump.token(0), "Add", "Add_1", at=1, inputs=[X, X, *extra], outputs=[X])
        pairs = both.match()
        pair = by_target(pairs)["Add_1.input.3"]
        assert pair.golden is not None
        assert (pair.rule.name, pair.golden.id, pair.confidence) == ("aligned", "Add_1.input.2", 0.8)
        assert reasons(pairs)["Add_1.input.2"] == "constant"

    @pytest.mark.parametrize("is_golden_fused", [False, True])
    def test_a_parameter_in_the_middle_of_a_fused_operators_inputs_is_aligned(self, both, is_golden_fused):
        row = np.ones(3, np.float32)
        data = [Op("x", "Data", (), [(None, SHAPE)]), Op("w", "Data", (), [(None, (3,))])]
        chained = [Op("O", "Op", ("x:0", "w:0"), [(None, SHAPE)]), Op("R", "Relu", ("O:0",), [(None, SHAPE)])]
        both.graphs([*data, *chained])
        inputs = [X, device_tensor([1, 0], "int64"), row]
        write_device_op(both.on.token(0), "Fused", "OR", at=1, inputs=inputs, outputs=[X])
        if is_golden_fused:
            write_device_op(both.off.token(0), "Fused", "OR", at=1, inputs=inputs, outputs=[X])
        else:
            write_device_op(both.off.token(0), "Op", "O", at=1, inputs=inputs, outputs=[X])
            write_device_op(both.off.token(0), "Relu", "R", at=2, inputs=[X], outputs=[X])
        pairs = both.match()
        partner = "OR.input.1" if is_golden_fused else "O.input.1"
        assert golden_of(pairs)["OR.input.1"] == partner
        assert by_target(pairs)["OR.input.1"].rule.name == "aligned"
        assert missing(pairs) == []

    def test_parameters_in_another_order_are_missing_on_both_sides(self, both):
        both.graphs([Op("x", "Data", (), [(None, SHAPE)]), Op("O", "Op", ("x:0",), [(None, SHAPE)])])
        axes, number, size = device_tensor([1, 0], "int64"), device_tensor(2, "int64"), device_tensor([5.0], "float32")
        write_device_op(both.on.token(0), "Op", "O", at=1, inputs=[X, axes, number], outputs=[X])
        write_device_op(both.off.token(0), "Op", "O", at=1, inputs=[X, number, axes, size], outputs=[X])
        pairs = both.match()
        assert golden_of(pairs)["O.input.2"] == "O.input.1"
        assert reasons(pairs) == {
            "O.input.1": "count_mismatch", "golden:O.input.2": "count_mismatch", "golden:O.input.3": "constant",
        }  # fmt: skip


class TestGoldenPartsWithoutFile:
    def test_the_result_is_what_the_reader_gets_when_the_last_part_has_no_file(self, fused):
        next(fused.off.root.rglob("Add.Add.*")).unlink()
        pairs = fused.match()
        pair = by_target(pairs)["MulAdd.output.0"]
        assert pair.golden is not None
        assert (pair.rule.name, pair.golden.id) == ("edge", "Relu.input.0")
        assert pair.reason is not None
        assert "`Relu` reads" in pair.reason.text
        # z enters at the part without file: nothing else holds it.
        assert reasons(pairs)["MulAdd.input.2"] == "no_golden_op"

    def test_without_any_tensor_of_the_value_the_neighbourhood_is_told(self, fused):
        for name in ("Add.Add.*", "Relu.Relu.*"):
            next(fused.off.root.rglob(name)).unlink()
        pairs = fused.match()
        assert reasons(pairs)["MulAdd.output.0"] == "no_golden_op"
        assert "(fed by `Mul`, `z`, read by `Relu`)" in texts(pairs)["MulAdd.output.0"]

    def test_no_part_with_a_file_is_a_reason_and_no_crash(self, fused):
        for name in ("Mul.Mul.*", "Add.Add.*"):
            next(fused.off.root.rglob(name)).unlink()
        found = reasons(fused.match())
        assert found["MulAdd.input.0"] == found["MulAdd.input.1"] == "no_golden_op"

    def test_views_hand_the_value_on(self, both):
        ops = [
            *chain("Add_1"),
            Op("Reshape", "Reshape", ("Add_1:0",), [(None, (6,))]),
            Op("Neg", "Neg", ("Reshape:0",), [(None, (6,))]),
        ]
        both.graphs(ops)
        flat = X.reshape(6)
        run_each(both.on.token(0), "Add_1")
        write_device_op(both.on.token(0), "Neg", "Neg", at=2, inputs=[flat], outputs=[-flat])
        write_device_op(both.off.token(0), "Neg", "Neg", at=2, inputs=[flat], outputs=[-flat])
        pairs = both.match()
        assert golden_of(pairs)["Add_1.output.0"] == "Neg.input.0"
        assert by_target(pairs)["Add_1.output.0"].rule.name == "edge"

    def test_a_view_that_only_the_golden_runs_is_covered(self, both):
        ops = [*chain("Add_1"), Op("Reshape", "Reshape", ("Add_1:0",), [(None, (6,))])]
        both.graphs(ops)
        for dump in (both.on, both.off):
            run_each(dump.token(0), "Add_1")
        write_device_op(both.off.token(0), "Reshape", "Reshape", at=2, inputs=[X], outputs=[X.reshape(6)])
        found = reasons(both.match())
        assert found == {
            "golden:Reshape.input.0": "covered_by_producer",
            "golden:Reshape.output.0": "covered_by_producer",
        }

    def test_a_selection_of_golden_nodes_leaves_no_gap(self, fused):
        pairs = fused.match(golden_options={"select": Selection(nodes=["Relu"])})
        assert reasons(pairs)["MulAdd.input.0"] == "filtered"
        assert missing(pairs) == []

    def test_a_golden_dump_of_inputs_only(self, both):
        both.graphs(chain("Add_1", "Add_2"))
        run_each(both.on.token(0), "Add_1", "Add_2")
        for at, name in enumerate(("Add_1", "Add_2")):
            write_device_op(both.off.token(0), "Add", name, at=at, inputs=[X, X])
        pairs = both.match()
        assert golden_of(pairs)["Add_1.output.0"] == "Add_2.input.0"
        assert reasons(pairs)["Add_2.output.0"] == "not_dumped"
        assert missing(pairs) == []


class TestRenames:
    """Graph fusion makes operators that no graph text has: they are reported with what they may be, never paired."""

    @pytest.fixture
    def renamed(self, both) -> Both:
        both.graphs([*mul_add_relu(), Op("Neg", "Neg", ("Relu:0",), [(None, SHAPE)])])
        total = X * Y + Z
        result = np.maximum(total, 0)
        write_device_op(both.on.token(0), "FusedMulAddRelu", "fusion_7", at=1, inputs=[X, Y, Z], outputs=[result])
        write_device_op(both.on.token(0), "Neg", "Neg", at=5, inputs=[result], outputs=[-result])
        write_mul_add_relu(both.off.token(0), None)
        write_device_op(both.off.token(0), "Neg", "Neg", at=5, inputs=[result], outputs=[-result])
        return both

    def test_candidates_are_named_with_the_place_in_time(self, renamed):
        pairs = renamed.match()
        assert golden_of(pairs)["fusion_7.output.0"] is None
        assert reasons(pairs)["fusion_7.output.0"] == "no_graph_op"
        text = texts(pairs)["fusion_7.output.0"]
        assert "it ran before `Neg`" in text
        assert "graph fusion of `Mul` + `Add` + `Relu`" in text

    def test_the_golden_operators_name_the_candidate_and_their_neighbours(self, renamed):
        pairs = renamed.match()
        assert reasons(pairs)["golden:Mul.output.0"] == "no_target_op"
        text = texts(pairs)["Mul.output.0"]
        assert "(fed by `x`, `y`, read by `Add`)" in text
        assert "may be part of `fusion_7`" in text
        # What the fusion gives is compared where it is read.
        assert golden_of(pairs)["Neg.input.0"] == "Neg.input.0"
        assert reasons(pairs)["golden:Relu.output.0"] == "covered_by_producer"
        assert texts(pairs)["Relu.output.0"] == "its value is compared as what `Neg` reads"

    def test_results_of_another_size_are_no_candidate(self, renamed):
        path = next(renamed.on.root.rglob("FusedMulAddRelu.*"))
        folder = path.parent
        path.unlink()
        write_device_op(folder, "Other", "fusion_7", at=1, inputs=[X], outputs=[np.ones(99)])
        text = texts(renamed.match())["fusion_7.output.0"]
        assert "no missing operator" in text

    def test_an_operator_that_ran_after_the_readers_is_no_candidate(self, renamed):
        path = next(renamed.on.root.rglob("FusedMulAddRelu.*"))
        folder = path.parent
        path.unlink()
        write_device_op(folder, "FusedMulAddRelu", "fusion_7", at=9, inputs=[X, Y, Z], outputs=[X])
        assert "no missing operator" in texts(renamed.match())["fusion_7.output.0"]

    def test_one_made_on_both_sides_pairs_by_name_type_and_sizes(self, both):
        both.graphs(chain("Add_1"))
        for dump in (both.on, both.off):
            run_each(dump.token(0), "Add_1")
            write_device_op(dump.token(0), "AddLayerNorm", "fusion_3", at=5, inputs=[X], outputs=[X])
        assert golden_of(both.match())["fusion_3.output.0"] == "fusion_3.output.0"

    def test_one_name_with_other_sizes_is_not_one_operator(self, both):
        both.graphs(chain("Add_1"))
        for dump, value in ((both.on, X), (both.off, X[:1])):
            run_each(dump.token(0), "Add_1")
            write_device_op(dump.token(0), "AddLayerNorm", "fusion_3", at=5, inputs=[X], outputs=[value])
        found = reasons(both.match())
        assert found["fusion_3.output.0"] == "no_graph_op"
        assert found["golden:fusion_3.output.0"] == "no_target_op"

    def test_a_plain_operator_without_counterpart_names_the_nearest(self, both):
        both.graphs(chain("Add_1", "Add_2"))
        run_each(both.on.token(0), "Add_1", "Add_2")
        run_each(both.off.token(0), "Add_2")
        text = texts(both.match())["Add_1.output.0"]
        assert "reads of it" in text
        both.off.token(0)
        next(both.off.root.rglob("Add.Add_2.*")).unlink()
        run_each(both.off.token(0), "Add_3")
        found = texts(both.match())["Add_1.output.0"]
        assert "`Add_3`" in found


class TestPrivateOperators:
    def write(self, dump: GeDump, name: str, *, at: int, op_type: str = "Cast") -> None:
        write_device_op(dump.token(0), op_type, name, at=at, inputs=[X], outputs=[X])

    def test_equal_ones_behind_the_same_operator_pair(self, both):
        both.graphs(chain("Add_1"))
        for dump in (both.on, both.off):
            run_each(dump.token(0), "Add_1")
            self.write(dump, "trans_Cast_9", at=4)
        pairs = both.match()
        assert golden_of(pairs)["trans_Cast_9.output.0"] == "trans_Cast_9.output.0"
        assert {pair.rule.name for pair in pairs.pairs} == {"exact"}

    def test_one_name_behind_another_operator_is_a_coincidence(self, both):
        both.graphs(chain("Add_1", "Add_2"))
        for dump, at in ((both.on, -1), (both.off, 4)):
            run_each(dump.token(0), "Add_1", "Add_2")
            self.write(dump, "trans_Cast_9", at=at)
        pairs = both.match()
        assert by_target(pairs)["trans_Cast_9.output.0"].rule.name == "self"
        assert reasons(pairs)["golden:trans_Cast_9.output.0"] == "internal"

    def test_those_of_one_side_are_no_gap(self, both):
        both.graphs(chain("Add_1"))
        for dump in (both.on, both.off):
            run_each(dump.token(0), "Add_1")
        self.write(both.on, "trans_TransData_3", at=4, op_type="TransData")
        self.write(both.off, "trans_Cast_5", at=4)
        pairs = both.match()
        assert by_target(pairs)["trans_TransData_3.output.0"].rule.name == "self"
        assert missing(pairs) == []


class TestRunTwice:
    def test_further_runs_of_one_operator_pair_by_type(self, both):
        both.graphs(chain("Add_1"))
        for dump in (both.on, both.off):
            run_each(dump.token(0), "Add_1")
            write_device_op(dump.token(0), "MemSet", "Add_1", at=4, outputs=[X])
        pairs = both.match()
        found = {pair.target.node.call: pair.golden.node.call for pair in pairs.pairs}
        assert found == {0: 0, 1: 1}

    @pytest.mark.parametrize("swapped", [False, True])
    def test_an_operator_that_is_computed_again_inside_each_of_its_readers_hides_none_of_them(self, both, swapped):
        ops = [*mul_add_relu()[:5], Op("Sub", "Sub", ("Mul:0", "z:0"), [(None, SHAPE)])]
        both.graphs(ops)
        fused, plain = (both.off, both.on) if swapped else (both.on, both.off)
        product = X * Y
        for at, name, result in ((1, "MulAdd", product + Z), (2, "MulSub", product - Z)):
            write_device_op(fused.token(0), "Fused", name, at=at, inputs=[X, Y, Z], outputs=[result])
        write_device_op(plain.token(0), "Mul", "Mul", at=1, inputs=[X, Y], outputs=[product])
        write_device_op(plain.token(0), "Add", "Add", at=2, inputs=[product, Z], outputs=[product + Z])
        write_device_op(plain.token(0), "Sub", "Sub", at=3, inputs=[product, Z], outputs=[product - Z])
        pairs = both.match()
        found = golden_of(pairs)
        ends = {("MulAdd", "Add"), ("MulSub", "Sub")}
        for mine, other in {end[::-1] for end in ends} if swapped else ends:
            assert found[f"{mine}.output.0"] == f"{other}.output.0"
        assert found["Sub.input.1" if swapped else "MulSub.input.2"] == ("MulSub.input.2" if swapped else "Sub.input.1")
        assert missing(pairs) == []

    def test_an_operator_that_ran_alone_too_leaves_the_fused_one_its_result(self, both):
        both.graphs(mul_add_relu())
        write_mul_add_relu(both.on.token(0), None, fused=True)
        write_device_op(both.on.token(0), "Mul", "Mul", at=9, inputs=[X, Y], outputs=[X * Y])
        write_mul_add_relu(both.off.token(0), None)
        pairs = both.match()
        assert golden_of(pairs) | {"Relu.input.0": "", "Relu.output.0": ""} == {
            "MulAdd.input.0": "Mul.input.0", "MulAdd.input.1": "Mul.input.1", "MulAdd.input.2": "Add.input.1",
            "MulAdd.output.0": "Add.output.0", "Mul.input.0": "Mul.input.0", "Mul.input.1": "Mul.input.1",
            "Mul.output.0": "Mul.output.0", "Relu.input.0": "", "Relu.output.0": "",
        }  # fmt: skip

    def test_one_that_only_one_side_ran_is_a_gap(self, both):
        both.graphs(chain("Add_1"))
        for dump, op_type in ((both.on, "MemSet"), (both.off, "Other")):
            run_each(dump.token(0), "Add_1")
            write_device_op(dump.token(0), op_type, "Add_1", at=4, outputs=[X])
        pairs = both.match()
        assert [pair.reason.code for pair in pairs.pairs if pair.reason] == ["no_golden_op", "no_target_op"]


class TestGraphTexts:
    def test_one_side_without_text_uses_that_of_the_other(self, fused):
        for path in fused.off.root.glob("dynamo_*"):
            path.unlink()
        pairs = fused.match()
        assert golden_of(pairs)["MulAdd.output.0"] == "Add.output.0"
        assert [problem.code for problem in pairs.problems] == ["PF4012"]

    def test_without_any_text_equal_names_still_pair(self, fused):
        for dump in (fused.on, fused.off):
            for path in dump.root.glob("dynamo_*"):
                path.unlink()
        pairs = fused.match()
        assert golden_of(pairs)["Relu.output.0"] == "Relu.output.0"
        assert reasons(pairs)["MulAdd.output.0"] == "no_graph"
        assert "PF4005" in {problem.code for problem in pairs.problems}

    def test_texts_that_differ_are_a_warning(self, fused):
        for path in fused.off.root.glob("dynamo_*"):
            path.write_text(path.read_text().replace('type: "Relu"', 'type: "Gelu"'))
        (problem,) = fused.match().problems
        assert problem.code == "PF4013"
        assert "1 of another type" in problem.message
        assert "`Relu`" in problem.message

    def test_a_text_that_is_cut_off_proves_nothing_absent(self, fused):
        for path in fused.off.root.glob("dynamo_*"):
            text = path.read_text()
            path.write_text(text[: text.index('name: "Relu"') + 5])
        pairs = fused.match()
        assert golden_of(pairs)["MulAdd.output.0"] == "Add.output.0"
        assert "PF4013" in {problem.code for problem in pairs.problems}


class TestExecutions:
    def test_later_and_earlier_layout_with_ranks_graphs_and_tokens(self, tmp_path):
        both = Both(GeDump(tmp_path / "on"), GeDump(tmp_path / "off", worldsize=None))
        for graph in range(1, 12):
            both.graphs(mul_add_relu(), graph=graph)
            for token in (2, 10):
                write_mul_add_relu(both.on.token(token, graph=graph, model_id=graph), None, fused=True)
                write_mul_add_relu(both.off.token(token, graph=graph, model_id=graph), None)
        pairs = both.match()
        met = {
            (pair.target.node.execution.graph, pair.target.node.execution.step, pair.golden.node.execution.graph,
             pair.golden.node.execution.step)
            for pair in pairs.pairs if pair.target is not None and pair.golden is not None
        }  # fmt: skip
        assert met == {(graph, step, graph, step) for graph in range(1, 12) for step in (2, 10)}
        assert missing(pairs) == []

    def test_ranks_and_tokens_of_one_side_are_reported(self, tmp_path):
        both = Both(GeDump(tmp_path / "on", worldsize=2), GeDump(tmp_path / "off", worldsize=2))
        for rank in (0, 1):
            both.graphs(mul_add_relu(), rank=rank)
            write_mul_add_relu(both.on.token(0, rank=rank), None, fused=True)
        write_mul_add_relu(both.off.token(0, rank=1), None)
        write_mul_add_relu(both.off.token(3, rank=1), None)
        pairs = both.match()
        assert sorted(problem.code for problem in pairs.problems) == ["PF4001", "PF4002"]
        codes = list(reasons(pairs).values())
        assert codes.count("no_golden_execution") == 6
        assert codes.count("no_target_execution") == 8

    def test_graphs_without_common_id_are_paired_by_their_operators(self, tmp_path):
        both = Both(GeDump(tmp_path / "on"), GeDump(tmp_path / "off"))
        for graph, prefix in ((1, "a"), (2, "b")):
            both.on.graph(mul_add_relu(prefix), graph=graph)
            write_mul_add_relu(both.on.token(0, graph=graph, model_id=graph), None, prefix=prefix)
        for model_id, prefix in ((7, "b"), (8, "a")):
            text = both.off.graph(mul_add_relu(prefix), ts=f"2026010100000000000{model_id}", old=True)
            text.write_text(text.read_text().replace('name: "graph_1"', f'name: "online_{prefix}"'))
            folder = both.off.token(0, model_id=model_id, model_name=f"model_{prefix}")
            write_mul_add_relu(folder, None, prefix=prefix)
        pairs = both.match()
        found = golden_of(pairs)
        assert found["aMul.output.0"] == "aMul.output.0"
        assert found["bMul.output.0"] == "bMul.output.0"
        assert [problem.code for problem in pairs.problems] == ["PF4006", "PF4006"]


class TestBadInput:
    def test_a_golden_file_that_is_cut_off_costs_its_rows(self, fused):
        path = next(fused.off.root.rglob("Add.Add.*"))
        path.write_bytes(path.read_bytes()[:12])
        pairs = fused.match()
        assert golden_of(pairs)["MulAdd.output.0"] == "Relu.input.0"
        assert reasons(pairs)["golden:Add.output.0"] == "unreadable"

    def test_a_target_file_that_is_cut_off_costs_its_rows(self, fused):
        path = next(fused.on.root.rglob("*.MulAdd.*"))
        path.write_bytes(path.read_bytes()[:12])
        pairs = fused.match()
        found = reasons(pairs)
        assert found["MulAdd.output.0"] == "unreadable"
        assert found["golden:Mul.input.0"] == "unreadable"
        assert golden_of(pairs)["Relu.output.0"] == "Relu.output.0"

    def test_element_types_without_meaning_cost_one_row(self, both):
        both.graphs(chain("Add_1"))
        odd = DumpTensor(np.zeros(6, np.uint8), "int2")
        for dump, value in ((both.on, X), (both.off, odd)):
            write_device_op(dump.token(0), "Add", "Add_1", at=1, inputs=[X, value], outputs=[X])
        found = reasons(both.match())
        assert found["Add_1.input.1"] == "dtype_unsupported"

    def test_other_element_counts_are_kept_as_a_pair_with_a_note(self, both):
        both.graphs(chain("Add_1"))
        for dump, value in ((both.on, X), (both.off, X[:1])):
            write_device_op(dump.token(0), "Add", "Add_1", at=1, inputs=[X, X], outputs=[value])
        pair = by_target(both.match())["Add_1.output.0"]
        assert pair.reason is not None
        assert pair.reason.code == "count_mismatch"


def test_every_pair_of_the_peer_is_ours_too(torchair_case: Callable[[str], Path]):
    case = torchair_case("fusion_pair")
    target = read_torchair_ge(case / "fusion_on", side="target")
    pairs = match_torchair(target, read_torchair_ge(case / "fusion_off", side="golden"))
    check_complete(pairs)
    assert missing(pairs) == []
    ours = {}
    for pair in pairs.pairs:
        if pair.target is not None and pair.golden is not None:
            ours[f"{pair.target.source},{pair.target.slot.role.value}s,{pair.target.slot.index}"] = pair.golden
    compared = 0
    with (DATA / "fusion_pair.csv").open(newline="") as stream:
        for row in csv.DictReader(stream):
            golden = ours[str(case.parent / row["my_data_path"])]
            file, *slots = row["golden_data_path"].split(",")
            assert golden.source == str(case.parent / file)
            # The peer's golden paths give no index for inputs of plain operators; of the others the last one counts.
            assert golden.slot.role.value == row["my_data_path"].split(",")[1].removesuffix("s")
            if "outputs" in slots:
                assert golden.slot.index == slots[-1]
            compared += 1
    assert compared == 177


@dataclass
class RandomGraph:
    """Operators of one or two inputs; every tensor holds a number of its own, so values tell which is which."""

    ops: list[Op]
    values: dict[str, np.ndarray]

    @classmethod
    def draw(cls, random: np.random.Generator, count: int) -> RandomGraph:
        names = ["x", "y"]
        ops = [Op(name, "Data", (), [(None, SHAPE)]) for name in names]
        for number in range(1, count + 1):
            sources = random.choice(names[-6:], size=random.integers(1, 3))
            names.append(f"Add_{number}")
            ops.append(Op(names[-1], "Add", [f"{source}:0" for source in sources], [(None, SHAPE)]))
        return cls(ops, {name: np.full(SHAPE, 1 + at, np.float32) for at, name in enumerate(names)})

    def write(self, dump: GeDump, random: np.random.Generator, *, lost: float) -> None:
        """Write a dump with random runs of operators fused, and each file left out with a probability."""
        dump.graph(self.ops)
        folder = dump.token(0)
        rest = self.ops[2:]
        at = 0
        while rest:
            size = min(len(rest), int(random.integers(1, 4)))
            group, rest = rest[:size], rest[size:]
            at += 1
            if random.random() >= lost:
                self._write_group(folder, group, at)

    def _write_group(self, folder: Path, group: list[Op], at: int) -> None:
        inside = {op.name for op in group}
        read = {source.removesuffix(":0") for op in self.ops if op.name not in inside for source in op.inputs}
        entering = [source[:-2] for op in group for source in op.inputs if source[:-2] not in inside]
        leaving = [op.name for op in group[:-1] if op.name in read] + [group[-1].name]
        write_device_op(
            folder,
            "Add" if len(group) == 1 else "AutomaticBufferFusionOp",
            "".join(op.name for op in group),
            at=at,
            inputs=[self.values[name] for name in entering],
            outputs=[self.values[name] for name in leaving],
        )


def value_of(ref: TensorRef) -> float:
    (extent,) = ref.extents
    with Path(extent.file).open("rb") as stream:
        stream.seek(extent.offset)
        return float(np.frombuffer(stream.read(4), np.float32)[0])


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("lost", [0.0, 0.3])
def test_whatever_is_fused_on_either_side_equal_values_meet(both: Both, seed: int, lost: float):
    random = np.random.default_rng(seed)
    graph = RandomGraph.draw(random, 14)
    graph.write(both.on, random, lost=lost)
    graph.write(both.off, random, lost=lost)
    pairs = both.match()
    met = [pair for pair in pairs.pairs if pair.target is not None and pair.golden is not None]
    assert met
    assert all(value_of(pair.target) == value_of(pair.golden) for pair in met)
    if not lost:
        assert missing(pairs) == []
    # A value that both dumps hold is compared, except where no name tells that it is one.
    held = {value_of(ref) for ref in pairs.golden.tensors}
    alone = [pair.target for pair in pairs.pairs if pair.target is not None and pair.golden is None]
    assert [ref.id for ref in alone if value_of(ref) in held] == []


def test_the_sides_may_be_swapped(fused: Both):
    pairs = Both(fused.off, fused.on).match()
    assert golden_of(pairs)["Add.output.0"] == "MulAdd.output.0"
    assert golden_of(pairs)["Add.input.1"] == "MulAdd.input.2"
    assert reasons(pairs) == {"Mul.output.0": "internal", "Add.input.0": "internal"}
