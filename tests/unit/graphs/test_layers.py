"""Layer mappings in the layouts of msprobe: what decides which call meets which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from probe_flow.graphs.layers import layer_mapping
from probe_flow.mappings.mapping_file import read_layer_mapping
from probe_flow.records.model_graph import GraphLayout
from tests.support.graph_trees import entry, graph_of, tensor, write_dump

NET = "Module.net.Net.forward.0"
FRAMES = ["File /net.py, line 1, in forward, \n y"]


def mapped(
    folder: Path,
    target: Mapping[str, str | None],
    golden: Mapping[str, str | None],
    rules: str = "{}",
    *,
    stacks: Mapping[str, Sequence[str]] | None = None,
    layout: GraphLayout = GraphLayout.MSPROBE_VIS_DB,
    more: Mapping[str, Any] | None = None,
) -> dict[str, str | None]:
    """Return the golden's entry of each entry of the target."""
    (folder / "map.yaml").write_text(rules)
    graphs = []
    for side, calls in (("t", target), ("g", golden)):
        values = {name: entry(name, [tensor()], [tensor()]) for name in calls} | dict(more or {})
        graphs.append(graph_of(write_dump(folder / side, calls, values, stacks=stacks), layout))
    return layer_mapping(graphs[0], graphs[1], read_layer_mapping(folder / "map.yaml") if rules != "{}" else ())


def test_layers_of_equal_name_meet_whatever_their_class_is(tmp_path: Path) -> None:
    found = mapped(
        tmp_path, {NET: None, "Module.net.fc.Dense.forward.0": NET}, {NET: None, "Module.net.fc.Linear.forward.0": NET}
    )
    assert found["Module.net.fc.Dense.forward.0"] == "Module.net.fc.Linear.forward.0"


def test_a_rule_of_the_class_renames_its_child(tmp_path: Path) -> None:
    mine, theirs = "Module.net.up.Linear.forward.0", "Module.net.fc1.Linear.forward.0"
    assert mapped(tmp_path, {NET: None, mine: NET}, {NET: None, theirs: NET}, "Net: {up: fc1}")[mine] == theirs


def test_a_rule_of_another_class_does_not(tmp_path: Path) -> None:
    mine, theirs = "Module.net.up.Linear.forward.0", "Module.net.fc1.Linear.forward.0"
    assert mapped(tmp_path, {NET: None, mine: NET}, {NET: None, theirs: NET}, "Other: {up: fc1}")[mine] is None


@pytest.mark.parametrize("owner", ["TopLayer", "Cell"])
def test_the_top_has_a_name_of_its_own(tmp_path: Path, owner: str) -> None:
    mine, theirs = "Module.model.M.forward.0", "Module.module.M.forward.0"
    assert mapped(tmp_path, {mine: None}, {theirs: None}, f"{owner}: {{model: module}}")[mine] == theirs


def test_a_rule_of_several_levels_goes_before_a_shorter_one(tmp_path: Path) -> None:
    wrap, mine, theirs = "Module.net.a.A.forward.0", "Module.net.a.b.B.forward.0", "Module.net.d.D.forward.0"
    target, golden = {NET: None, wrap: NET, mine: wrap}, {NET: None, theirs: NET}
    assert mapped(tmp_path, target, golden, "Net: {a: c, a.b: d}")[mine] == theirs


def test_calls_of_one_layer_meet_in_order_and_by_direction(tmp_path: Path) -> None:
    calls = {NET: None, "Functional.relu.4.forward": NET, "Functional.relu.7.forward": NET}
    theirs = {NET: None, "Functional.relu.0.forward": NET, "Functional.relu.1.forward": NET}
    found = mapped(tmp_path, calls, theirs)
    assert found["Functional.relu.7.forward"] == "Functional.relu.1.forward"


def test_a_backward_call_of_an_api_lies_where_its_forward_call_does(tmp_path: Path) -> None:
    back = "Functional.relu.0.backward"
    calls = {NET: None, "Functional.relu.0.forward": NET, back: None}
    theirs = {
        "Module.other.Other.forward.0": None,
        NET: None,
        "Functional.relu.0.forward": NET,
        back: "Module.other.Other.forward.0",
    }
    assert mapped(tmp_path, calls, theirs)[back] == back


def test_the_function_of_the_framework_that_was_called_tells_calls_apart(tmp_path: Path) -> None:
    inner = ["File /x/site-packages/torch/nn/functional.py, line 9, in gelu, \n f(x)", *FRAMES]
    call = "Functional.relu.0.forward"
    (tmp_path / "map.yaml").write_text("{}")
    values = {name: entry(name, [tensor()], [tensor()]) for name in (NET, call)}
    both = [
        graph_of(
            write_dump(tmp_path / side, {NET: None, call: NET}, values, stacks={call: frames}), GraphLayout.MSPROBE_VIS
        )
        for side, frames in (("t", inner), ("g", FRAMES))
    ]
    assert layer_mapping(both[0], both[1], ())[call] is None
    assert layer_mapping(both[0], both[0], ())[call] == call


@pytest.mark.parametrize(("layout", "meets"), [(GraphLayout.MSPROBE_VIS, True), (GraphLayout.MSPROBE_VIS_DB, False)])
def test_numbered_gradients_of_a_renamed_layer_never_meet_in_version_26(
    tmp_path: Path, layout: GraphLayout, meets: bool
) -> None:
    mine, theirs = "Module.net.up.Linear", "Module.net.fc1.Linear"
    grads = {f"{name}.parameters_grad.0": {"weight": [tensor()]} for name in (mine, theirs)}
    target, golden = {NET: None, f"{mine}.forward.0": NET}, {NET: None, f"{theirs}.forward.0": NET}
    found = mapped(tmp_path, target, golden, "Net: {up: fc1}", more=grads, layout=layout)
    assert (found[f"{mine}.parameters_grad.0"] == f"{theirs}.parameters_grad.0") is meets


def test_layers_of_a_pipelined_transformer_count_from_0(tmp_path: Path) -> None:
    top = "Module.net.ParallelTransformer.forward.0"

    def calls(first: int) -> dict[str, str | None]:
        return {top: None, **{f"Module.net.layers.{first + n}.Layer.forward.0": top for n in range(2)}}

    found = mapped(tmp_path, calls(6), calls(0))
    assert found["Module.net.layers.7.Layer.forward.0"] == "Module.net.layers.1.Layer.forward.0"
