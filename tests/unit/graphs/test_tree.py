"""Building the tree of an execution: order, repairs, collections, gradients, micro steps."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from probe_flow.errors import IncompleteError
from probe_flow.graphs.tree import build_graph, build_graphs
from probe_flow.records.model_graph import GRAPH_ROOT, GraphKind, GraphLayout
from tests.support.graph_trees import children_of, entry, graph_of, parents_of, read, tensor, write_dump

ROOT = "DefaultModel"
OLD, NEW, OWN = GraphLayout.MSPROBE_VIS, GraphLayout.MSPROBE_VIS_DB, GraphLayout.OWN
BLOCK, FC, CALL = "Module.block.Block.forward.0", "Module.block.fc.Linear.forward.0", "Functional.linear.0.forward"


def test_siblings_stand_in_the_order_of_construct_json_and_end_after_their_children(tmp_path: Path) -> None:
    calls = {CALL: FC, BLOCK: None, FC: BLOCK, "Module.head.Head.forward.0": None}
    graph = graph_of(write_dump(tmp_path, calls))
    assert [node.name for node in graph.nodes] == [ROOT, FC, CALL, BLOCK, "Module.head.Head.forward.0"]
    assert children_of(graph, ROOT) == [BLOCK, "Module.head.Head.forward.0"]
    ended = [graph.nodes[number].name for number in graph.ended()]
    assert ended == [CALL, FC, BLOCK, "Module.head.Head.forward.0", ROOT]
    assert graph.chain(graph.numbers[CALL]) == [ROOT, BLOCK, FC]


def test_kinds_follow_the_prefix_of_the_name(tmp_path: Path) -> None:
    calls = {BLOCK: None, CALL: BLOCK, "Cell.a.A.forward.0": None, "Primitive.a.MatMul.0.forward": "Cell.a.A.forward.0"}
    kinds = {node.name: node.kind for node in graph_of(write_dump(tmp_path, calls)).nodes}
    assert [kinds[name] for name in calls] == [GraphKind.MODULE, GraphKind.API, GraphKind.MODULE, GraphKind.API]


def test_a_call_of_an_unknown_prefix_is_an_api_where_its_name_says_so_and_a_module_for_msprobe(tmp_path: Path) -> None:
    folder = write_dump(tmp_path, {BLOCK: None, "Strange.add.0.forward": BLOCK})
    assert graph_of(folder).nodes[2].kind is GraphKind.API
    assert graph_of(folder, NEW).nodes[2].kind is GraphKind.MODULE


@pytest.mark.parametrize("layout", GraphLayout)
def test_a_backward_call_without_parent_lies_where_its_forward_call_lies(tmp_path: Path, layout: GraphLayout) -> None:
    back = "Module.block.Block.backward.0"
    calls = {BLOCK: None, FC: BLOCK, back: None, "Module.block.fc.Linear.backward.0": None}
    assert parents_of(graph_of(write_dump(tmp_path, calls), layout))["Module.block.fc.Linear.backward.0"] == back


@pytest.mark.parametrize(("layout", "around"), [(OLD, ROOT), (NEW, "backward"), (OWN, "backward")])
def test_version_1_leaves_backward_calls_of_apis_at_the_top(tmp_path: Path, layout: GraphLayout, around: str) -> None:
    back = "Module.block.Block.backward.0"
    calls = {BLOCK: None, CALL: BLOCK, back: None, "Functional.linear.0.backward": None}
    found = parents_of(graph_of(write_dump(tmp_path, calls), layout))["Functional.linear.0.backward"]
    assert found == (ROOT if around == ROOT else back)


@pytest.mark.parametrize(("layout", "is_repaired"), [(OLD, False), (NEW, True), (OWN, True)])
def test_a_module_that_works_in_place_does_not_swallow_what_follows(
    tmp_path: Path, layout: GraphLayout, is_repaired: bool
) -> None:
    block, back = "Module.layer4.1.BasicBlock", "Module.layer4.1.relu.ReLU.backward.1"
    conv = "Module.layer4.1.conv2.Conv2d"
    calls = {
        f"{block}.forward.0": None,
        f"{conv}.forward.0": f"{block}.forward.0",
        f"{block}.backward.0": None,
        back: f"{block}.backward.0",
        f"{conv}.backward.0": back,
    }
    found = parents_of(graph_of(write_dump(tmp_path, calls), layout))[f"{conv}.backward.0"]
    assert found == (f"{block}.backward.0" if is_repaired else back)


def test_runs_of_apis_between_modules_become_collections_and_single_ones_stay(tmp_path: Path) -> None:
    names = [f"Torch.exp.{number}.forward" for number in range(4)]
    calls = {names[0]: None, BLOCK: None, names[1]: None, names[2]: None, FC: None, names[3]: None}
    graph = graph_of(write_dump(tmp_path, calls))
    assert children_of(graph, ROOT) == [names[0], BLOCK, "Apis_Between_Modules.0", FC, names[3]]
    assert children_of(graph, "Apis_Between_Modules.0") == names[1:3]
    assert graph.nodes[graph.numbers["Apis_Between_Modules.0"]].kind is GraphKind.COLLECTION


@pytest.mark.parametrize(("layout", "is_shown"), [(OLD, False), (NEW, True), (OWN, True)])
def test_gradients_of_parameters_lie_below_the_last_backward_call(
    tmp_path: Path, layout: GraphLayout, is_shown: bool
) -> None:
    back = [f"Module.fc.Linear.backward.{number}" for number in (0, 1, 10)]
    grads = "Module.fc.Linear.parameters_grad.0"
    calls = dict.fromkeys(("Module.fc.Linear.forward.0", *back))
    entries = {name: entry(name, [tensor()], [tensor()]) for name in calls} | {grads: {"weight": [tensor()]}}
    graph = graph_of(write_dump(tmp_path, calls, entries), layout)
    assert (grads in graph.numbers) is is_shown
    if is_shown:
        assert children_of(graph, back[2]) == [grads]
        assert [each.slot.index for each in graph.tensors_of(graph.numbers[grads])] == ["weight"]


@pytest.mark.parametrize("layout", [NEW, OWN])
def test_what_a_backward_pass_ran_again_lies_below_the_backward_call_that_did(
    tmp_path: Path, layout: GraphLayout
) -> None:
    deep = "Module.module.layers.0.attn.deep.Attn"
    calls = {
        BLOCK: None,
        f"{deep}.forward.0": BLOCK,
        "Module.block.Block.backward.0": None,
        f"{deep}.forward.1": None,
        f"{deep}.backward.1": None,
    }
    frames = ["File /x/torch/utils/checkpoint.py, line 7, in recompute_fn, \n fn()"]
    folder = write_dump(tmp_path, calls, stacks={f"{deep}.forward.1": frames})
    found = parents_of(graph_of(folder, layout))
    assert found[f"{deep}.forward.1"] == found[f"{deep}.backward.1"] == "Module.block.Block.backward.0"
    assert parents_of(graph_of(folder, OLD))[f"{deep}.forward.1"] == ROOT


def test_a_forward_pass_after_a_backward_pass_begins_a_micro_step(tmp_path: Path) -> None:
    names = [f"Module.fc.Linear.{phase}.{call}" for call in (0, 1) for phase in ("forward", "backward")]
    calls = {names[0]: None, CALL: names[0], **dict.fromkeys(names[1:3]), "Torch.add.0.forward": None, names[3]: None}
    graph = graph_of(write_dump(tmp_path, calls))
    assert graph.micro_steps == 2
    steps = {node.name: node.micro_step for node in graph.nodes}
    assert [steps[name] for name in (*names, CALL, "Torch.add.0.forward")] == [0, 0, 1, 1, 0, 1]
    assert graph_of(tmp_path, OLD).nodes[graph.numbers[CALL]].micro_step is None


def test_recorded_micro_steps_count(tmp_path: Path) -> None:
    calls = {"Module.a.A.forward.0": [None, 0], CALL: ["Module.a.A.forward.0", 1], "megatron_micro_step_number": 1}
    graph = graph_of(write_dump(tmp_path, calls))
    assert ([node.micro_step for node in graph.nodes], graph.micro_steps) == ([None, 0, 1], 2)


@pytest.mark.parametrize("calls", [{}, None])
def test_a_dump_without_modules_has_no_graph_and_is_told_what_it_needs(tmp_path: Path, calls: object) -> None:
    folder = write_dump(tmp_path, {}, {CALL: entry(CALL, [tensor()], [tensor()])}, level="L1")
    if calls is None:
        (folder / "construct.json").unlink()
    catalog = read(folder)
    with pytest.raises(IncompleteError) as told:
        build_graph(catalog, catalog.executions[0])
    diagnostic = told.value.diagnostic
    assert diagnostic.code == "PF7150"
    assert "of level L1" in diagnostic.message
    assert "mix or L0" in str(diagnostic.help)


def test_a_dump_of_kernels_has_no_graph_and_no_construct_json_is_asked_for(tmp_path: Path) -> None:
    calls = read(write_dump(tmp_path, {BLOCK: None}))
    kernels = replace(calls, call_order={}, attrs={"level": "L2"})
    with pytest.raises(IncompleteError) as told:
        build_graph(kernels, kernels.executions[0])
    diagnostic = told.value.diagnostic
    assert diagnostic.code == "PF7150"
    assert "tensors of single operators and kernels" in diagnostic.message
    assert "construct.json" not in diagnostic.message
    assert "a `dump.json`" in str(diagnostic.help)
    assert "level mix or L0" in str(diagnostic.help)


def test_a_caller_that_construct_json_does_not_list_is_at_the_top_and_told(tmp_path: Path) -> None:
    folder = write_dump(tmp_path, {BLOCK: None, CALL: "Module.ghost.Ghost.forward.0"})
    graph = graph_of(folder)
    assert parents_of(graph)["Module.ghost.Ghost.forward.0"] == ROOT
    assert [each.code for each in graph.problems] == ["PF7151"]
    assert "Module.ghost.Ghost.forward.0" not in parents_of(graph_of(folder, NEW))


def test_a_circle_is_cut_and_told(tmp_path: Path) -> None:
    calls = {
        BLOCK: None,
        "Module.a.A.forward.0": "Module.b.B.forward.0",
        "Module.b.B.forward.0": "Module.a.A.forward.0",
    }
    folder = write_dump(tmp_path, calls)
    assert any("its own ancestor" in each.message for each in read(folder).problems)
    assert len(graph_of(folder).ended()) == 4


def test_calls_without_an_entry_are_nodes_without_tensors(tmp_path: Path) -> None:
    graph = graph_of(write_dump(tmp_path, {BLOCK: None, CALL: BLOCK}, {CALL: entry(CALL, [tensor()], [])}))
    assert not graph.tensors_of(graph.numbers[BLOCK])
    assert [str(each.slot) for each in graph.tensors_of(graph.numbers[CALL])] == ["input.0"]


def test_a_dump_of_structure_has_a_graph(tmp_path: Path) -> None:
    graph = graph_of(write_dump(tmp_path, {CALL: BLOCK, BLOCK: None}, {}, task="structure"))
    assert parents_of(graph) == {BLOCK: ROOT, CALL: BLOCK}


def test_each_rank_has_its_graph(tmp_path: Path) -> None:
    for rank, calls in ((2, {BLOCK: None}), (10, {FC: None, CALL: FC})):
        write_dump(tmp_path / "step0" / f"rank{rank}", calls)
    graphs = [*build_graphs(read(tmp_path))]
    assert [(graph.execution.rank, len(graph.nodes)) for graph in graphs] == [(2, 2), (10, 3)]
    assert all(graph.tensors_of(1) for graph in graphs)


def test_a_deep_model_needs_no_deep_calls(tmp_path: Path) -> None:
    names = [f"Module.m{number}.M.forward.0" for number in range(3000)]
    calls = dict(zip(names, [None, *names], strict=False))
    graph = graph_of(write_dump(tmp_path, calls))
    assert len(graph.chain(graph.numbers[names[-1]])) == 3000
    assert graph.nodes[graph.ended()[0]].name == names[-1]


_PARTS = st.sampled_from(["Module.a.A", "Module.a.b.B", "Module.a.b.c.C", "Functional.f", "Torch.g", "Odd"])
_NAMES = st.builds(
    lambda base, phase, call: f"{base}.{phase}.{call}" if base.startswith("M") else f"{base}.{call}.{phase}",
    _PARTS,
    st.sampled_from(["forward", "backward"]),
    st.integers(0, 2),
)


@settings(max_examples=120, deadline=None)
@given(calls=st.dictionaries(_NAMES, st.none() | _NAMES, min_size=1, max_size=16), layout=st.sampled_from(GraphLayout))
def test_any_construct_json_gives_a_tree(calls: dict[str, str | None], layout: GraphLayout) -> None:
    with tempfile.TemporaryDirectory() as folder:
        graph = graph_of(write_dump(Path(folder), calls), layout)
    names = [node.name for node in graph.nodes]
    assert len(set(names)) == len(names)
    assert {*calls} <= {*names}
    ended = graph.ended()
    assert len(ended) == len(set(ended))
    place = {number: order for order, number in enumerate(ended)}
    for number, inside in enumerate(graph.children):
        for child in inside:
            assert graph.nodes[child].parent == number
            assert number not in place or place[child] < place[number]
    if layout is OWN:
        assert len(ended) == len(names)
        assert all(GRAPH_ROOT in graph.around(number) for number in range(1, len(names)))
