"""Links between the graphs of several ranks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probe_flow.graphs.links import with_links
from probe_flow.graphs.tree import build_graphs
from probe_flow.records.model_graph import GraphLayout, GraphPair, LinkDirection, LinkEnd
from tests.support.graph_trees import read, tensor, write_dump

Calls = Mapping[str, Mapping[str, Any]]
MODULE = "Module.net.Net.forward.0"
SEND, RECEIVE, BOTH = LinkDirection.SEND, LinkDirection.RECEIVE, LinkDirection.BOTH


def linked(folder: Path, *ranks: Calls, layout: GraphLayout = GraphLayout.OWN) -> list[dict[str, Any]]:
    """Return for each rank the links of its calls: direction, and rank and name at the other end."""
    for rank, calls in enumerate(ranks):
        values = {
            name: {"input_args": [tensor()], "input_kwargs": {}, "output": [tensor()], **entry}
            for name, entry in calls.items()
        }
        write_dump(folder / f"rank{rank}", {MODULE: None, **dict.fromkeys(calls, MODULE)}, values)
    pairs = with_links([GraphPair(graph) for graph in build_graphs(read(folder), layout=layout)])
    return [
        {
            pair.target.nodes[number].name: [
                (link.direction, [(end.rank, end.name) for end in link.ends]) for link in links
            ]
            for number, links in pair.links[0].items()
        }
        for pair in pairs
    ]


def keyword(**numbers: int) -> dict[str, Any]:
    return {"input_kwargs": {name: {"type": "int", "value": value} for name, value in numbers.items()}}


def group(*ranks: int, **numbers: int) -> dict[str, Any]:
    found = keyword(**numbers)
    found["input_kwargs"]["group"] = {"type": "torch.ProcessGroup", "group_ranks": [*ranks], "group_id": "a"}
    return found


def test_a_send_meets_the_receive_of_the_same_number(tmp_path: Path) -> None:
    send = {f"Distributed.send.{n}.forward": keyword(dst=1) for n in range(2)}
    receive = {f"Distributed.recv.{n}.forward": keyword(src=0) for n in range(2)}
    first, second = linked(tmp_path, send, receive)
    assert first["Distributed.send.1.forward"] == [(SEND, [(1, "Distributed.recv.1.forward")])]
    assert second["Distributed.recv.0.forward"] == [(RECEIVE, [(0, "Distributed.send.0.forward")])]


def test_calls_that_wait_meet_those_that_do_not_outside_of_msprobe(tmp_path: Path) -> None:
    ranks = {"Distributed.isend.0.forward": keyword(dst=1)}, {"Distributed.recv.0.forward": keyword(src=0)}
    assert linked(tmp_path, *ranks)[0] == {"Distributed.isend.0.forward": [(SEND, [(1, "Distributed.recv.0.forward")])]}
    assert linked(tmp_path, *ranks, layout=GraphLayout.MSPROBE_VIS_DB) == [{}, {}]


def test_a_peer_may_be_named_by_position_outside_of_msprobe(tmp_path: Path) -> None:
    rank = {"type": "int", "value": 1}
    ranks = (
        {"Distributed.send.0.forward": {"input_args": [tensor(), rank]}},
        {"Distributed.recv.0.forward": keyword(src=0)},
    )
    assert linked(tmp_path, *ranks)[0]["Distributed.send.0.forward"][0][0] is SEND
    assert linked(tmp_path, *ranks, layout=GraphLayout.MSPROBE_VIS_DB) == [{}, {}]


def test_collectives_meet_within_their_group_by_number(tmp_path: Path) -> None:
    name = "Distributed.all_reduce.{}.forward"
    zero = {name.format(0): group(0, 1, 2), name.format(1): group(0, 2)}
    one = {name.format(0): group(0, 1, 2)}
    two = {name.format(0): group(0, 2), name.format(1): group(0, 1, 2)}
    found = linked(tmp_path, zero, one, two)
    assert found[0][name.format(0)] == [(BOTH, [(1, name.format(0)), (2, name.format(1))])]
    assert found[2][name.format(0)] == [(BOTH, [(0, name.format(1))])]


def test_a_root_links_the_others_with_itself_only(tmp_path: Path) -> None:
    name = "Distributed.broadcast.0.forward"
    found = linked(tmp_path, *({name: group(0, 1, 2, src=1)} for _ in range(3)))
    assert found[1][name] == [(SEND, [(0, name), (2, name)])]
    assert found[0][name] == found[2][name] == [(RECEIVE, [(1, name)])]


def test_a_call_without_a_group_means_all_ranks_outside_of_msprobe(tmp_path: Path) -> None:
    name = "Distributed.all_reduce.0.forward"
    assert linked(tmp_path, {name: {}}, {name: {}})[0] == {name: [(BOTH, [(1, name)])]}
    assert linked(tmp_path, {name: {}}, {name: {}}, layout=GraphLayout.MSPROBE_VIS_DB) == [{}, {}]


def test_each_operation_of_a_batch_is_a_link(tmp_path: Path) -> None:
    name = "Distributed.batch_isend_irecv.0.forward"

    def batch(peer: int) -> dict[str, Any]:
        facts = {"class_type": "torch.distributed.P2POp", "peer": peer, "tag": 0, "group_id": "a", "tensor": tensor()}
        return {"input_args": [[{**facts, "op": "isend"}, {**facts, "op": "irecv"}]]}

    found = linked(tmp_path, {name: batch(1)}, {name: batch(0)})
    assert found[0][name] == [(SEND, [(1, name)]), (RECEIVE, [(1, name)])]


def test_a_call_whose_other_end_is_not_there_has_no_link(tmp_path: Path) -> None:
    calls = {"Distributed.send.0.forward": keyword(dst=5)}, {"Torch.add.0.forward": {}}
    assert linked(tmp_path, *calls) == [{}, {}]


def test_a_link_shows_the_score_or_the_level_of_the_other_end(tmp_path: Path) -> None:
    name = "Distributed.all_reduce.0.forward"
    for rank in (0, 1):
        write_dump(tmp_path / f"rank{rank}", {MODULE: None, name: MODULE})
    pairs = [
        GraphPair(graph, scores={graph.numbers[name]: 0.25 * (number + 1)})
        for number, graph in enumerate(build_graphs(read(tmp_path)))
    ]
    (link,) = with_links(pairs)[0].links[0][2]
    assert link.ends == (LinkEnd(1, name, "0.5"),)
    (link,) = with_links(pairs, has_levels=True)[0].links[0][2]
    assert link.ends == (LinkEnd(1, name, None),)
