"""Operators that ran although no output of them is in the dump: found where something tells so, never invented."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from name_builders import ref_of
from torchair_builders import GeDump, Op, X, Y, Z, fx_token, mul_add_relu, write_device_op, write_mul_add_relu

from probe_flow.analysis.silent_operators import SilentOperator, silent_operators
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.dumps.selection import Selection
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.records import Catalog, Execution, NodeKey, SlotRole
from probe_flow.records.frameworks import OM

ROOT = Path(__file__).parents[3]
DUMP_JSON = ROOT / "tests" / "data" / "dump_json"
BASE = DUMP_JSON / "pt_stat_base"
TORCHAIR = ("healthy", "new_layout", "ge_fx_old", "minmax")


def read(path: Path, **select: Any) -> Catalog:
    return read_dump_json(path, side="target", select=Selection(**select))


def device(path: Path, **select: Any) -> Catalog:
    return read_torchair_ge(path, side="target", select=Selection(**select))


def shown(found: Sequence[SilentOperator]) -> list[tuple[str, str, int, str]]:
    return [(each.node.name, each.op_type, each.outputs, each.evidence) for each in found]


def dumps_below(folder: Path) -> list[Path]:
    return sorted({file.parent for name in ("dump.json", "debug.json") for file in folder.rglob(name)})


# --- healthy dumps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(each, id=str(each.relative_to(ROOT)))
        for at in (DUMP_JSON, ROOT / "examples")
        for each in dumps_below(at)
    ],
)
def test_no_call_of_a_healthy_dump_is_silent(folder: Path) -> None:
    assert silent_operators(read(folder)) == ()


@pytest.mark.parametrize("name", ["faults", "levels", "ms_tensor_pair", "pt_tensor_twin"])
def test_no_call_of_the_archived_dumps_is_silent(name: str, tmp_path: Path) -> None:
    with tarfile.open(DUMP_JSON / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")

    found = {str(folder): shown(silent_operators(read(folder))) for folder in dumps_below(tmp_path)}

    assert found
    assert {folder: calls for folder, calls in found.items() if calls} == {}


@pytest.mark.parametrize("name", TORCHAIR)
def test_no_operator_of_a_healthy_torchair_dump_is_silent(torchair_case: Callable[[str], Path], name: str) -> None:
    root = torchair_case(name)
    target = device(root / "msprobe_ge_dump")
    folder = root / "msprobe_fx_dump"
    golden = read_torchair_fx(folder if folder.is_dir() else root / "data_dump", side="golden")

    assert silent_operators(target) == ()
    assert silent_operators(target, golden) == ()
    assert silent_operators(golden, target) == ()


@pytest.mark.parametrize("side", ["fusion_on", "fusion_off"])
def test_the_parts_of_a_fused_operator_are_not_silent(torchair_case: Callable[[str], Path], side: str) -> None:
    assert silent_operators(device(torchair_case("fusion_pair") / side)) == ()


# --- dump.json -------------------------------------------------------------------------------------------------------


def changed(tmp_path: Path, change: Callable[[dict[str, Any]], None], base: Path = BASE) -> Catalog:
    """Return the catalog of a real dump after a change of its entries."""
    shutil.copytree(base, tmp_path / "dump")
    (file,) = (tmp_path / "dump").rglob("dump.json")
    content = json.loads(file.read_text())
    change(content["data"])
    file.write_text(json.dumps(content))
    return read(tmp_path / "dump")


def test_calls_that_were_lost_are_silent(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        for entry in ("Functional.linear.2.forward", "Functional.linear.2.backward"):
            del data[entry]

    found = silent_operators(changed(tmp_path, change))

    assert shown(found) == [("Functional.linear", "linear", 1, "stack"), ("Functional.linear", "linear", 1, "calls")]
    assert {(each.node.call, each.node.execution) for each in found} == {(2, Execution(step=0))}


def test_most_outputs_of_a_dump_are_missed(tmp_path: Path) -> None:
    """65 of 80 outputs were gone on both sides, and nobody missed them."""

    def change(data: dict[str, Any]) -> None:
        for number, entry in enumerate(list(data)):
            if number % 5 and "parameters_grad" not in entry:
                del data[entry]

    def outputs(catalog: Catalog) -> int:
        return sum(tensor.slot.role is SlotRole.OUTPUT for tensor in catalog.tensors)

    catalog = changed(tmp_path, change)
    gone = outputs(read(BASE)) - outputs(catalog)

    assert gone > 40
    assert sum(each.outputs for each in silent_operators(catalog)) >= 0.8 * gone


@pytest.mark.parametrize("value", [None, []], ids=["no key", "an empty list"])
def test_entries_without_outputs_are_silent(tmp_path: Path, value: object) -> None:
    def change(data: dict[str, Any]) -> None:
        for entry in ("Functional.linear.2.forward", "Functional.linear.2.backward"):
            data[entry]["output"] = value
            if value is None:
                del data[entry]["output"]

    catalog = changed(tmp_path, change)
    found = silent_operators(catalog)

    assert shown(found) == [("Functional.linear", "linear", 1, "entry")] * 2
    assert all(each.node in catalog.nodes for each in found)


def test_a_backward_call_that_owes_no_gradient_is_not_silent(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        for value in data["Functional.linear.2.forward"]["input_args"]:
            value["requires_grad"] = False
        del data["Functional.linear.2.backward"]

    assert silent_operators(changed(tmp_path, change)) == ()


@pytest.mark.parametrize(("is_named", "found"), [(True, 0), (False, 1)])
def test_a_module_gives_no_gradient_of_what_it_was_given_by_name(tmp_path: Path, is_named: bool, found: int) -> None:
    """As attention of transformers is called; torch's hooks see positional arguments alone."""
    name = "Module.layers.0.ln1.LayerNorm"

    def change(data: dict[str, Any]) -> None:
        entry = data[f"{name}.forward.0"]
        if is_named:
            entry["input_kwargs"] = {"hidden_states": entry["input_args"][0]}
            entry["input_args"] = []
        data[f"{name}.backward.0"]["output"] = []

    assert len(silent_operators(changed(tmp_path, change))) == found


def test_outputs_that_no_call_has_were_not_asked_for(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        for entry in data.values():
            entry.pop("output", None)

    assert silent_operators(changed(tmp_path, change)) == ()


def test_one_direction_alone_was_asked_for(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        for entry in [name for name in data if "forward" in name]:
            del data[entry]

    assert silent_operators(changed(tmp_path, change)) == ()


def test_a_forward_call_that_a_recomputation_left_is_not_silent(tmp_path: Path) -> None:
    """Non-reentrant checkpoints leave the call in which the last value was saved."""

    def change(data: dict[str, Any]) -> None:
        left = {**data["Functional.linear.2.forward"]}
        del left["output"]
        data["Functional.linear.99.forward"] = left  # behind the backward calls

    assert silent_operators(changed(tmp_path, change)) == ()


def test_a_null_is_an_output(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["Functional.linear.2.forward"]["output"] = [None]

    assert silent_operators(changed(tmp_path, change)) == ()


# --- TorchAir --------------------------------------------------------------------------------------------------------


@pytest.fixture
def dump(tmp_path: Path) -> GeDump:
    made = GeDump(tmp_path / "msprobe_ge_dump")
    made.graph(mul_add_relu())
    return made


def test_an_operator_of_the_graph_without_file_is_silent(dump: GeDump) -> None:
    folder = dump.token(0)
    write_mul_add_relu(folder, None)
    next(folder.glob("Add.*")).unlink()

    catalog = device(dump.root)

    (found,) = silent_operators(catalog)
    assert found == SilentOperator(NodeKey(catalog.executions[0], "Add"), "Add", 1, "graph")


def test_every_execution_is_asked_for_itself(dump: GeDump) -> None:
    for token in (0, 1):
        write_mul_add_relu(dump.token(token), None)
    next(dump.token(1).glob("Mul.*")).unlink()

    assert [(each.node.execution.step, each.node.name) for each in silent_operators(device(dump.root))] == [(1, "Mul")]


def test_parts_of_a_fused_operator_ran_in_it(dump: GeDump) -> None:
    write_mul_add_relu(dump.token(0), None, fused=True)

    assert silent_operators(device(dump.root)) == ()


def test_outputs_that_a_device_file_lacks_are_missing(dump: GeDump) -> None:
    folder = dump.token(0)
    write_device_op(folder, "AutomaticBufferFusionOp", "MulAdd", at=1, inputs=[X, Y, Z])
    write_device_op(folder, "Relu", "Relu", at=3, inputs=[X], outputs=[X])

    (found,) = silent_operators(catalog := device(dump.root))

    assert shown([found]) == [("MulAdd", "Add", 1, "graph")]
    assert found.node in catalog.nodes


def test_inputs_alone_tell_that_no_outputs_were_asked_for(dump: GeDump) -> None:
    write_device_op(dump.token(0), "Mul", "Mul", at=1, inputs=[X, Y])

    assert silent_operators(device(dump.root)) == ()


@pytest.mark.parametrize(
    "op",
    [
        pytest.param(Op("Late", "Reshape", ("Relu:0",), [("view-aten.view.default.OUTPUT.0", (6,))]), id="view"),
        pytest.param(Op("Late", "Cast", ("Relu:0",), [("cast-prims.cast.OUTPUT.0", (2, 3))]), id="addressing"),
        pytest.param(Op("Late", "Const", (), [(None, (2, 3))]), id="constant"),
        pytest.param(Op("Late", "Fill", (), [(None, (2, 3))]), id="made of nothing"),
        pytest.param(Op("Late", "Exp", ("Relu:0",), [("exp-aten.exp.default.OUTPUT.0", (0, 3))]), id="empty"),
        pytest.param(Op("Late", "NetOutput", ("Relu:0",), []), id="no output"),
    ],
)
def test_operators_that_need_not_run_are_not_silent(dump: GeDump, op: Op) -> None:
    dump.graph([*mul_add_relu(), op])
    write_mul_add_relu(dump.token(0), None)

    assert silent_operators(device(dump.root)) == ()


def test_an_operator_of_constants_may_be_computed_beforehand(dump: GeDump) -> None:
    dump.graph(
        [Op("one", "Const", (), [(None, (2, 3))]), Op("Exp", "Exp", ("one:0",), [(None, (2, 3))]), *mul_add_relu()]
    )
    write_mul_add_relu(dump.token(0), None)

    assert silent_operators(device(dump.root)) == ()


@pytest.mark.parametrize(
    ("name", "op_type", "at", "silent"),
    [
        ("made_by_the_compiler", "AddRelu", 2, []),
        ("made_by_the_compiler", "AddRelu", 4, ["Add"]),
        ("trans_Cast_3", "Cast", 2, ["Add"]),
    ],
)
def test_an_operator_of_the_compiler_may_stand_for_those_around_it(
    dump: GeDump, name: str, op_type: str, at: int, silent: list[str]
) -> None:
    folder = dump.token(0)
    write_mul_add_relu(folder, None)
    next(folder.glob("Add.*")).unlink()
    write_device_op(folder, op_type, name, at=at, inputs=[X], outputs=[X])

    assert [each.node.name for each in silent_operators(device(dump.root))] == silent


def test_a_selection_of_operators_tells_nothing_of_the_others(dump: GeDump) -> None:
    write_mul_add_relu(dump.token(0), None)

    assert silent_operators(device(dump.root, nodes=["Mul"])) == ()


def test_a_foreign_or_cut_graph_tells_nothing(dump: GeDump) -> None:
    path = dump.graph(mul_add_relu(prefix="other_"))
    folder = dump.token(0)
    write_mul_add_relu(folder, None)
    next(folder.glob("Add.*")).unlink()
    assert silent_operators(device(dump.root)) == ()

    dump.graph(mul_add_relu())
    path.write_text(path.read_text()[:-40])
    assert silent_operators(device(dump.root)) == ()


def test_the_graph_of_the_other_side_serves_for_both(dump: GeDump, tmp_path: Path) -> None:
    bare = GeDump(tmp_path / "golden" / "msprobe_ge_dump")
    for each in (dump, bare):
        write_mul_add_relu(each.token(0), None)
    next(bare.token(0).glob("Add.*")).unlink()

    target, golden = device(dump.root), device(bare.root)

    assert silent_operators(golden) == ()
    assert [each.node.name for each in silent_operators(golden, target)] == ["Add"]


def test_fx_nodes_that_the_graph_names_are_silent_without_their_arrays(dump: GeDump, tmp_path: Path) -> None:
    fx = fx_token(tmp_path, 0)
    write_mul_add_relu(dump.token(0), fx)
    for file in [*fx.glob("add-*"), *fx.glob("relu-*OUTPUT*")]:
        file.unlink()
    target = device(dump.root)

    def silent(**select: Any) -> list[tuple[str, str, int, str]]:
        golden = read_torchair_fx(tmp_path / "msprobe_fx_dump", side="golden", select=Selection(**select))
        assert silent_operators(golden) == ()  # no graph, no answer
        return shown(silent_operators(golden, target))

    add, relu = ("add", "aten.add.Tensor", 1, "graph"), ("relu", "aten.relu.default", 1, "graph")
    assert silent() == [add, relu]
    assert silent(nodes=["mul", "relu"]) == [relu]


def test_two_graphs_with_the_same_names_tell_nothing_of_an_fx_dump_without_ids(dump: GeDump, tmp_path: Path) -> None:
    dump.graph(mul_add_relu(), graph=2)
    fx = fx_token(tmp_path, 0, layout="old")
    write_mul_add_relu(dump.token(0), fx)
    write_mul_add_relu(dump.token(0, graph=2), None)
    for file in fx.glob("add-*"):
        file.unlink()

    assert silent_operators(read_torchair_fx(tmp_path / "data_dump", side="golden"), device(dump.root)) == ()


# --- other formats ---------------------------------------------------------------------------------------------------


def test_formats_that_tell_nothing_have_no_silent_operator() -> None:
    key = NodeKey(Execution(), "conv1")
    catalog = Catalog("target", OM, "tensor", "", {}, (ref_of(key),))

    assert Counter(silent_operators(catalog)) == {}
