"""What is gathered of graphs for the page: scores, levels, micro steps and links of calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from probe_flow.graphs.tree import build_graphs
from probe_flow.records import NodeKey
from probe_flow.records.levels import Level
from probe_flow.records.model_graph import GraphPair
from probe_flow.reports.html.nodes import CallLink
from probe_flow.stages.report.call_figures import Figures
from tests.support.graph_trees import read, tensor, write_dump

FORWARD, BACKWARD = "Module.net.Net.forward.0", "Module.net.Net.backward.0"
SEND, RECEIVE = "Distributed.send.0.forward", "Distributed.recv.0.forward"


def pairs_of(folder: Path) -> list[GraphPair]:
    return [GraphPair(graph) for graph in build_graphs(read(folder))]


def key_of(pair: GraphPair, name: str) -> NodeKey:
    call = pair.target.nodes[number_of(pair, name)].call
    assert call is not None
    return call.key


def number_of(pair: GraphPair, name: str) -> int:
    return next(number for number, node in enumerate(pair.target.nodes) if node.name == name)


def entry(**arguments: int) -> dict[str, Any]:
    named = {name: {"type": "int", "value": value} for name, value in arguments.items()}
    return {"input_args": [tensor()], "input_kwargs": named, "output": [tensor()]}


def test_both_ends_of_a_transfer_name_each_other(tmp_path: Path) -> None:
    write_dump(tmp_path / "rank0", {FORWARD: None, SEND: FORWARD}, {SEND: entry(dst=1)})
    write_dump(tmp_path / "rank1", {FORWARD: None, RECEIVE: FORWARD}, {RECEIVE: entry(src=0)})
    figures, (first, second) = Figures(), pairs_of(tmp_path)
    for pair in (first, second):
        figures.add(pair)
    send, receive = key_of(first, SEND), key_of(second, RECEIVE)
    assert figures.of_calls().sides["target"].links == {
        send: (CallLink("send", receive),),
        receive: (CallLink("receive", send),),
    }
    assert figures.of_calls().sides["golden"].links == {}


def test_micro_steps_are_told_where_there_are_several(tmp_path: Path) -> None:
    names = [each.replace(".0", f".{step}") for step in (0, 1) for each in (FORWARD, BACKWARD)]
    write_dump(tmp_path / "one", dict.fromkeys(names[:2]), {name: entry() for name in names[:2]})
    write_dump(tmp_path / "two", dict.fromkeys(names), {name: entry() for name in names})
    found = []
    for folder in ("one", "two"):
        figures, (pair,) = Figures(), pairs_of(tmp_path / folder)
        figures.add(pair)
        steps = figures.of_calls().sides["target"].micro_steps
        found.append([steps.get(key_of(pair, name)) for name in names[: len(pair.target.nodes) - 1]])
    assert found == [[None, None], [0, 0, 1, 1]]


def test_scores_and_levels_belong_to_calls(tmp_path: Path) -> None:
    write_dump(tmp_path / "rank0", {FORWARD: None}, {FORWARD: entry()})
    figures, (pair,) = Figures(), pairs_of(tmp_path)
    number = number_of(pair, FORWARD)
    figures.add(GraphPair(pair.target, scores={0: 0.5, number: 0.25}, levels=({number: Level.HIGH}, {})))
    found = figures.of_calls()
    assert found.scores == {key_of(pair, FORWARD): 0.25}
    assert found.sides["target"].levels == {key_of(pair, FORWARD): "high"}
