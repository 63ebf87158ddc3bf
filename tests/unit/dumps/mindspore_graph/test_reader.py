"""Reading MindSpore's graph-mode kernel dumps: the stored real ones, and their statistics."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from mindspore_graph_builders import DATA, read_array, turn_into_statistics, unpack

from probe_flow.dumps.mindspore_graph.reader import read_mindspore_graph
from probe_flow.dumps.selection import Selection
from probe_flow.elements.blocks import open_tensor
from probe_flow.matching.name.match_name import match_name
from probe_flow.metrics.catalogue.statistics import compare_statistics
from probe_flow.records import Catalog, NodeKey, Phase, SlotRole, TensorKind

BLOCK = "Default_network-Loss_net-Net_b1-Block"


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of a stored dump; leave it as it is."""
    unpacked: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in unpacked:
            unpacked[name] = unpack(name, tmp_path_factory.mktemp(name))
        return unpacked[name]

    return get


@pytest.fixture(scope="session")
def statistics_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    def get(name: str) -> Path:
        return turn_into_statistics(unpack(name, tmp_path_factory.mktemp(name)))

    return get


def read(path: Path, side: str = "target", **options) -> Catalog:
    return read_mindspore_graph(path, side=side, **options)


def node(catalog: Catalog, name: str, call: int = 0, step: int = 0) -> NodeKey:
    (key,) = (key for key in catalog.nodes if (key.name, key.call, key.execution.step) == (name, call, step))
    return key


def tensors_of(catalog: Catalog, key: NodeKey) -> dict[str, object]:
    return {str(tensor.slot): tensor for tensor in catalog.tensors if tensor.node == key}


def test_every_file_is_a_tensor(stored):
    catalog = read(stored("base"))
    files = list(stored("base").rglob("*.npy"))
    assert len(catalog.tensors) == len(files)
    assert {tensor.kind for tensor in catalog.tensors} == {TensorKind.TENSOR}
    assert {tensor.source for tensor in catalog.tensors} == {str(file.resolve()) for file in files}
    assert catalog.problems == ()
    assert (catalog.framework.name, catalog.task, catalog.attrs["level"]) == ("mindspore", "tensor", "L2")


def test_iterations_are_steps(stored):
    found = [execution.identity[:3] for execution in read(stored("base")).executions]
    assert found == [(0, 0, 0), (0, 0, 1)]


def test_names_lose_the_operator_number_and_keep_the_scope(stored):
    catalog = read(stored("base"))
    key = node(catalog, f"{BLOCK}_Add", call=1)
    found = catalog.nodes[key]
    assert found.op_type == "Add"
    assert found.attributes["entry"] == f"{BLOCK}_Add-op1"
    assert found.attributes["scope"] == "Default/network-Loss/net-Net/b1-Block/Add"
    assert found.parent == "Default/network-Loss/net-Net/b1-Block"


def test_gradients_are_backward(stored):
    phases = {key.name.partition("_")[0]: key.phase for key in read(stored("base")).nodes}
    assert phases["Gradients"] is Phase.BACKWARD
    assert phases["Default"] is Phase.FORWARD


def test_nodes_follow_time_and_begin_with_what_enters_the_network(stored):
    names = [key.name for key in read(stored("base"), select=Selection(steps=[0])).nodes]
    assert names[:2] == ["Parameter.inputs0", "Parameter.inputs1"]
    forward = [name.removeprefix("Default_network-Loss_net-Net_") for name in names if name.startswith("Default_net")]
    assert forward[:4] == [
        "b1-Block_norm-LayerNorm_LayerNorm",
        "b1-Block_fc-Dense_MatMul",
        "b1-Block_fc-Dense_BiasAdd",
        "b1-Block_act-ReLU_ReLU",
    ]
    assert names[-1].startswith("Parameter.")


def test_inputs_come_before_outputs(stored):
    catalog = read(stored("base"))
    slots = list(tensors_of(catalog, node(catalog, f"{BLOCK}_fc-Dense_MatMul")))
    assert slots == ["input.0", "input.1", "input.2", "input.3", "output.0"]


def test_bfloat16_arrays_are_decoded(stored):
    catalog = read(stored("base"))
    tensor = tensors_of(catalog, node(catalog, "Default_network-Loss_net-Net_Cast"))["output.0"]
    assert (tensor.dtype, tensor.stored_dtype) == ("bfloat16", "BFloat16")
    with open_tensor(tensor) as blocks:
        values = blocks.read(0, blocks.numel).astype(np.float32)
    np.testing.assert_array_equal(values, read_array(Path(tensor.source)).ravel())


def test_every_edge_joins_equal_values(stored):
    catalog = read(stored("base"))
    places = {(tensor.node, tensor.slot.role, tensor.slot.path[0]): tensor for tensor in catalog.tensors}
    written = 0
    checked = 0
    for edge in catalog.edges:
        producer = places[edge.producer, SlotRole.OUTPUT, edge.output]
        consumer = places.get((edge.consumer, SlotRole.INPUT, edge.input))
        optimizer = "optimizer" in edge.consumer.name or edge.consumer.name.startswith("Parameter.")
        if consumer is None or optimizer:
            written += 1
            continue
        np.testing.assert_array_equal(read_array(Path(producer.source)), read_array(Path(consumer.source)))
        checked += 1
    assert checked > 120
    assert written


def test_every_weight_follows_the_operator_that_wrote_it(stored):
    catalog = read(stored("base"), select=Selection(steps=[0]))
    fed = {edge.consumer.name: edge.producer for edge in catalog.edges}
    producer = fed["Parameter.net_b1_fc_weight"]
    assert producer.name == "Default_optimizer-SGD_SGD"
    weight = tensors_of(catalog, node(catalog, "Parameter.net_b1_fc_weight"))["output.0"]
    updated = tensors_of(catalog, producer)["input.0"]
    np.testing.assert_array_equal(read_array(Path(weight.source)), read_array(Path(updated.source)))


def test_an_operator_in_a_loop_has_one_call_per_turn(stored):
    catalog = read(stored("loop"))
    turns = [key.call for key in catalog.nodes if key.name == "Default_Add"]
    assert turns == [0, 1, 2, 3, 4]
    values = [
        read_array(Path(tensors_of(catalog, node(catalog, "Default_Add", call=turn))["output.0"].source))
        for turn in turns
    ]
    for before, after in pairwise(values):
        np.testing.assert_allclose(after, before * np.float32(1.5) + np.float32(0.25), rtol=1e-6)


def test_graphs_of_one_iteration_are_executions_of_their_own_and_give_no_edges(stored):
    catalog = read(stored("loop"))
    assert [execution.graph for execution in catalog.executions] == [0, 1, 2, 3]
    assert catalog.edges == ()


def test_numbered_files_have_the_names_of_the_mapping(stored):
    catalog = read(stored("long"))
    assert catalog.problems == ()
    assert any(len(key.name) > 255 for key in catalog.nodes)
    assert {tensor.kind for tensor in catalog.tensors} == {TensorKind.TENSOR}


@pytest.mark.parametrize("below", ["", "rank_0", "rank_0/Net", "rank_0/Net/0", "rank_0/Net/0/1"])
def test_any_folder_of_the_dump_may_be_given(stored, below):
    catalog = read(stored("base") / below)
    execution = catalog.executions[-1]
    assert (execution.rank, execution.graph, execution.step, execution.model) == (0, 0, 1, "Net")
    assert len(catalog.nodes) == (87 if below.endswith("1") else 174)


@pytest.mark.parametrize(
    ("select", "nodes"),
    [({"steps": [1]}, 87), ({"ranks": [0]}, 174), ({"graphs": [0]}, 174), ({"nodes": ["*_MatMul"]}, 18)],
)
def test_a_selection_narrows_the_dump(stored, select, nodes):
    catalog = read(stored("base"), select=Selection(**select))
    assert len(catalog.nodes) == nodes
    assert catalog.attrs["select"]


@pytest.mark.parametrize(
    ("select", "held"), [({"ranks": [3]}, "rank 0 graph 0 step 1"), ({"nodes": ["no"]}, "operators, such as")]
)
def test_a_selection_of_nothing_is_an_error(stored, select, held):
    catalog = read(stored("base"), select=Selection(**select))
    assert (len(catalog.nodes), catalog.problems[-1].code) == (0, "PF3304")
    assert held in str(catalog.problems[-1].help)


def test_statistics_stand_for_tensors(stored, statistics_of):
    tensors, rows = read(stored("base")), read(statistics_of("base"))
    assert rows.task == "statistics"
    assert list(rows.nodes) == list(tensors.nodes)
    assert list(rows.edges) == list(tensors.edges)
    by_place = {(tensor.node, tensor.slot): tensor for tensor in rows.tensors}
    for tensor in tensors.tensors:
        row = by_place[tensor.node, tensor.slot]
        assert (row.kind, row.dtype, row.shape) == (TensorKind.STATISTICS, tensor.dtype, tensor.shape)
        values = read_array(Path(tensor.source)).astype(np.float64)
        assert row.recorded.max == pytest.approx(values.max(), rel=1e-5, abs=1e-30)
        assert row.recorded.mean == pytest.approx(values.mean(), rel=1e-5, abs=1e-30)
        assert row.recorded.l2norm == pytest.approx(np.linalg.norm(values), rel=1e-5, abs=1e-30)
        assert (row.recorded.nan, row.recorded.inf) == (0, 0)


def test_statistics_beside_tensors_are_recorded_with_them(tmp_path):
    folder = turn_into_statistics(unpack("loop", tmp_path), keep_tensors=True)
    catalog = read(folder)
    assert {tensor.kind for tensor in catalog.tensors} == {TensorKind.TENSOR}
    for tensor in catalog.tensors:
        assert tensor.recorded.max == pytest.approx(float(read_array(Path(tensor.source)).max()), rel=1e-5)


@pytest.mark.parametrize("reads", ["stored", "statistics_of"])
def test_two_runs_pair_completely_although_one_has_more_operators(request, reads):
    get = request.getfixturevalue(reads)
    pairs = match_name(read(get("scaled")), read(get("base"), "golden"))
    rules = Counter(pair.rule.name for pair in pairs.pairs)
    assert rules == {"exact": 548, "none": 12}
    alone = {pair.target.node.name for pair in pairs.pairs if pair.golden is None}
    assert alone == {"Expand__Muls_Mul"}
    for pair in pairs.pairs:
        if pair.golden is not None:
            assert pair.target.node.name == pair.golden.node.name
            assert pair.target.slot == pair.golden.slot
            assert pair.target.shape == pair.golden.shape


def test_pairs_and_differences_are_those_of_the_peer(statistics_of):
    with (DATA / "expected_scaled_step0.csv").open(newline="") as stream:
        expected = list(csv.DictReader(stream))
    sides = [
        read(statistics_of(name), side, select=Selection(steps=[0]))
        for name, side in (("scaled", "target"), ("base", "golden"))
    ]
    ours = {pair.target.item: pair for pair in match_name(*sides).pairs if pair.target is not None}
    for row in expected:
        pair = ours.pop(item_of(row["NPU Name"]))
        assert (pair.golden is None) == (not row["Bench Name"].strip())
        if pair.golden is None:
            continue
        assert pair.golden.item == item_of(row["Bench Name"])
        found = compare_statistics(pair.target.recorded, pair.golden.recorded)
        for statistic, word in (("max", "Max"), ("min", "Min"), ("mean", "Mean"), ("l2norm", "L2norm")):
            # The peer computes in float32.
            close = pytest.approx(float(row[f"{word} diff"]), rel=1e-6, abs=1e-6)
            assert found[f"{statistic}_diff"] == close
    assert ours == {}


def item_of(name: str) -> str:
    """Return the peer's name, ``{operator}.{task}.{input|output}.{slot}``, without the task."""
    operator, _, role, slot = name.split(".")
    return f"{operator}.{role}.{slot}"


def test_constants_are_values_of_no_iteration(tmp_path):
    dump = unpack("base", tmp_path)
    edges = len(read(dump).edges)
    folder = dump / "rank_0" / "Net" / "0" / "constants"
    folder.mkdir()
    np.save(folder / "Parameter.data-3.0.0.1795176644352705.output.0.DefaultFormat.npy", np.float32([2.5]))
    catalog = read(dump)
    assert catalog.executions[0].step is None
    assert [key.name for key in catalog.nodes if key.execution.step is None] == ["Parameter.data-3"]
    assert len(catalog.edges) == edges


def test_the_fingerprint_of_one_folder_stays_the_same(stored):
    assert read(stored("base")).fingerprint == read(stored("base")).fingerprint
