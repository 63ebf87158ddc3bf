"""Files of graphs: what their texts hold, hostile names, and that a file is there whole or not at all."""

from __future__ import annotations

import json
import math
import resource
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from probe_flow.errors import IncompleteError
from probe_flow.graphs.links import with_links
from probe_flow.graphs.tree import build_graphs
from probe_flow.records.levels import Level
from probe_flow.records.model_graph import GraphLayout, GraphMode, GraphPair
from probe_flow.reports.graph_files.legend import LARGEST, colours
from probe_flow.reports.graph_files.stacks import NOT_FOUND
from probe_flow.reports.graph_files.vis import write_vis
from probe_flow.reports.graph_files.vis_db import graph_database
from tests.support.graph_trees import entry, graph_of, read, tensor, write_dump

NET, CALL = "Module.net.Net.forward.0", "Functional.linear.0.forward"
ODD = "Module.</script>\"'\n\u00e4\u4e16.Odd.forward.0"
HALF = "Module.\ud800.Half.forward.0"


def vis(pair: GraphPair, folder: Path, **options: Any) -> Any:
    write_vis(pair, folder / "x.vis", **options)
    return json.loads((folder / "x.vis").read_text(encoding="ascii"))


def database(pairs: list[GraphPair], folder: Path, query: str, **options: Any) -> list[Any]:
    with graph_database(folder / "x.vis.db", **options) as made:
        for pair in pairs:
            made.add(pair)
    with closing(sqlite3.connect(folder / "x.vis.db")) as connection:
        return connection.execute(query).fetchall()


def build(folder: Path, layout: GraphLayout = GraphLayout.OWN, **more: Any) -> GraphPair:
    return GraphPair(graph_of(write_dump(folder / "dump", {NET: None, CALL: NET}, **more), layout))


def test_a_build_says_nothing_of_a_comparison(tmp_path: Path) -> None:
    content = vis(build(tmp_path), tmp_path)
    assert list(content) == ["root", "dump_data_dir", "node", "MicroSteps", "OverflowCheck"]
    assert (content["root"], content["dump_data_dir"], content["MicroSteps"]) == ("DefaultModel", None, 1)
    node = content["node"][CALL]
    assert list(node) == [
        "id", "node_type", "output_data", "input_data", "upnode", "subnodes", "matched_node_link", "suggestions",
        "stack_info", "micro_step_id", "data",
    ]  # fmt: skip
    assert (node["upnode"], node["data"], node["matched_node_link"]) == (NET, {}, [])


@pytest.mark.parametrize("layout", [GraphLayout.OWN, GraphLayout.MSPROBE_VIS_DB])
def test_items_are_text_with_every_digit_in_a_database_and_six_places_in_a_file(
    tmp_path: Path, layout: GraphLayout
) -> None:
    odd = tensor(1.23456789e-9, 0.123456789, math.inf, Mean=0.0617283951, requires_grad=True)
    call = entry(CALL, [odd, None, {"type": "float", "value": 0.1}, {"type": "str", "value": "it's None"}], [odd])
    pair = build(tmp_path, layout, entries={CALL: call})
    rows = database([pair], tmp_path, f"SELECT input_data FROM tb_nodes WHERE node_name = '{CALL}'")
    whole = json.loads(rows[0][0])
    short = vis(pair, tmp_path)["node"][CALL]["input_data"]
    names = [f"{CALL}.input.{number}" for number in range(4)]
    assert list(whole) == list(short) == names
    assert {**whole[names[0]]} == {
        "type": "torch.Tensor", "dtype": "torch.float32", "shape": "[2, 3]", "Max": "0.123456789",
        "Min": "1.23456789e-09", "Mean": "0.0617283951", "Norm": "inf", "requires_grad": "True",
        "data_name": "-1",
    }  # fmt: skip
    assert (short[names[0]]["Max"], short[names[0]]["Min"], short[names[0]]["Mean"]) == (
        "0.123457",
        "1.234568e-09",
        "0.061728",
    )
    assert whole[names[1]] == {"value": "null"}
    assert (whole[names[2]]["Max"], whole[names[2]]["dtype"]) == ("0.1", "<class float>")
    assert whole[names[3]]["value"] == "its null"


@pytest.mark.parametrize("name", [ODD, HALF])
def test_any_name_survives(tmp_path: Path, name: str) -> None:
    pair = GraphPair(graph_of(write_dump(tmp_path / "dump", {name: None, CALL: name})))
    assert vis(pair, tmp_path)["node"][CALL]["upnode"] == name
    rows = database([pair], tmp_path, "SELECT node_name, sub_nodes FROM tb_nodes ORDER BY node_order")
    assert json.loads(rows[-1][1]) == [name]
    assert rows[1][0] == name.encode("utf-8", "backslashreplace").decode()


def test_scores_levels_and_links_are_written(tmp_path: Path) -> None:
    for rank in (0, 1):
        name = "Distributed.all_reduce.0.forward"
        write_dump(tmp_path / f"rank{rank}", {NET: None, name: NET, CALL: NET})
    pairs = []
    for graph in build_graphs(read(tmp_path)):
        facts = {"scores": {1: 0.25, 2: 1.0, 3: 0.0}, "levels": ({3: Level.HIGH}, {}), "mode": GraphMode.STATISTICS}
        pairs.append(GraphPair(graph, graph, [0, 1, -1, 3], **facts))
    pairs = with_links(pairs)
    columns = "node_name, precision_index, overflow_level, matched_distributed, matched_node_link"
    rows = database(pairs, tmp_path, f"SELECT {columns} FROM tb_nodes WHERE data_source = 'NPU' AND rank = 1")
    assert [row[:3] for row in rows] == [
        ("Distributed.all_reduce.0.forward", LARGEST, None),
        (CALL, 0.0, "high"),
        (NET, 0.25, None),
        ("DefaultModel", None, None),
    ]
    link = {"communications_type": "send_receive", "nodes_info": {"0": ["1.0", "Distributed.all_reduce.0.forward"]}}
    assert json.loads(rows[0][3]) == link
    assert [json.loads(row[4]) for row in rows] == [
        [],
        ["DefaultModel", NET, CALL],
        ["DefaultModel", NET],
        ["DefaultModel"],
    ]
    content = vis(pairs[1], tmp_path, has_levels=True)
    assert content["OverflowCheck"] is True
    assert content["NPU"]["node"][CALL]["data"] == {"precision_index": 0.0, "overflow_level": "high"}
    assert content["NPU"]["node"]["DefaultModel"]["data"] == {}


def test_no_score_is_exactly_1_outside_of_msprobe_and_checksums_have_bands_that_list_them(tmp_path: Path) -> None:
    graph = build(tmp_path).target
    pair = GraphPair(graph, graph, [0, 1, 2], {1: 1.0, 2: 0.0}, {1: False, 2: True}, GraphMode.MD5)
    found = {name: node["data"] for name, node in vis(pair, tmp_path)["NPU"]["node"].items()}
    assert found[NET] == {"precision_index": LARGEST, "Result": "Different"}
    assert found[CALL] == {"precision_index": 0.0, "Result": "pass"}
    assert [band["value"] for band in colours(pair).values()] == [[0, 0.5], [0.5, 1], []]
    old = replace(pair, target=replace(graph, layout=GraphLayout.MSPROBE_VIS))
    assert vis(old, tmp_path)["NPU"]["node"][NET]["data"] == {"precision_index": 0.0, "Result": "Different"}


@pytest.mark.parametrize(
    ("mode", "limits"),
    [(GraphMode.STATISTICS, [0, 0.2, 0.4, 0.6, 0.8, 1]), (GraphMode.TENSOR, [0, 0.05, 0.1, 0.15, 0.2, 1])],
)
def test_colours_cover_all_scores_without_a_gap(tmp_path: Path, mode: GraphMode, limits: list[float]) -> None:
    graph = build(tmp_path).target
    bands = [band["value"] for band in colours(GraphPair(graph, graph, mode=mode)).values()]
    assert bands == [*map(list, pairwise(limits)), []]


def test_lean_stacks_are_the_line_of_the_user(tmp_path: Path) -> None:
    library = "File /x/site-packages/torch/nn/functional.py, line 3, in linear, \n f(x)"
    user, outer = (
        "File /home/net.py, line 7, in forward, \n self.act(x)",
        "File /home/train.py, line 2, in main, \n net(x)",
    )
    stacks = {CALL: [library, user, outer], NET: [library, user, outer]}
    pair = build(tmp_path, stacks=stacks)
    lean, whole = (vis(pair, tmp_path, is_lean=each)["node"] for each in (True, False))
    assert lean[CALL]["stack_info"] == [user]
    assert lean[NET]["stack_info"] == [outer]
    assert whole[CALL]["stack_info"] == stacks[CALL]


def test_a_backward_call_shows_the_stack_of_its_forward_call(tmp_path: Path) -> None:
    backs = "Module.net.Net.backward.0", "Functional.linear.0.backward", "Functional.gone.0.backward"
    calls = {NET: None, CALL: NET, **dict.fromkeys(backs)}
    stacks = {NET: ["File a, line 1, in f, \n net()"], CALL: ["File b, line 1, in f, \n g()"]}
    pair = GraphPair(graph_of(write_dump(tmp_path / "dump", calls, stacks=stacks)))
    found = vis(pair, tmp_path, is_lean=False)["node"]
    assert [found[name]["stack_info"] for name in backs] == [stacks[NET], stacks[CALL], [NOT_FOUND]]


def test_every_node_has_a_row_of_its_stack(tmp_path: Path) -> None:
    query = "SELECT count(*) FROM tb_nodes JOIN tb_stack ON tb_nodes.stack_id = tb_stack.id"
    assert database([build(tmp_path, stacks={CALL: ["File b"]})], tmp_path, query) == [(3,)]


def test_one_database_holds_all_steps_and_ranks_in_numeric_order(tmp_path: Path) -> None:
    for step in (0, 2):
        for rank in (2, 10):
            write_dump(tmp_path / f"step{step}" / f"rank{rank}", {NET: None})
    pairs = [GraphPair(graph) for graph in build_graphs(read(tmp_path))]
    assert database(pairs, tmp_path, "SELECT rank_list, step_list, node_colors FROM tb_config") == [
        ("[2,10]", "[0,2]", "null")
    ]


def test_a_database_that_fails_leaves_nothing(tmp_path: Path) -> None:
    pair = build(tmp_path)
    (tmp_path / "out").mkdir()
    broken = replace(pair, rows=lambda number: [][number], mode=GraphMode.STATISTICS)
    with pytest.raises(IndexError):
        database([pair, broken], tmp_path / "out", "SELECT 1")
    assert not [*(tmp_path / "out").iterdir()]


@pytest.mark.parametrize("write", [vis, lambda pair, folder: database([pair], folder, "SELECT 1")])
def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path, write: Callable[[GraphPair, Path], object]) -> None:
    calls = {NET: None, **{f"Functional.f.{number}.forward": NET for number in range(600)}}
    pair = GraphPair(graph_of(write_dump(tmp_path / "dump", calls)))
    (tmp_path / "out").mkdir()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, limits[1]))  # writes beyond it fail as on a full disk
    try:
        with pytest.raises(IncompleteError) as told:
            write(pair, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert told.value.diagnostic.code == "PF7001"
    assert not [*(tmp_path / "out").iterdir()]


def test_a_database_needs_no_file_beside_it(tmp_path: Path) -> None:
    assert database([build(tmp_path)], tmp_path, "PRAGMA journal_mode") == [("delete",)]
    assert [path.name for path in tmp_path.glob("x.*")] == ["x.vis.db"]
