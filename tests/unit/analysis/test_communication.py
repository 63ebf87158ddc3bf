"""Which calls communicate with whom, and which of several ranks' calls happen together."""

from __future__ import annotations

from typing import Any

import pytest
from call_rows import SAME, Call, Plain, compared
from hypothesis import given
from hypothesis import strategies as st

from probe_flow.analysis.communication import (
    Exchange,
    Network,
    exchanges_of,
    received_into,
)


def of(name: str, inputs: Any = (SAME,), **more: Any) -> tuple[Exchange, ...]:
    rows = compared(Call(name, inputs, **more)).rows
    return exchanges_of(name, [row.pair.target for row in rows if row.pair.target])


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("Torch.reduce", {}, ()),
        ("Distributed.barrier", {}, ()),
        ("Distributed.all_reduce", {}, (Exchange("all", "all_reduce"),)),
        ("MintDistributed.broadcast", {}, (Exchange("all", "broadcast"),)),
        ("communication.comm_func.all_gather_into_tensor", {}, (Exchange("all", "all_gather_into_tensor"),)),
        ("Distributed.send", {"inputs": [SAME, (Plain(3), Plain(3))]}, (Exchange("send", "send", 3),)),
        ("Distributed.isend", {"keywords": {"dst": Plain("2", "str")}}, (Exchange("send", "isend", 2),)),
        ("Distributed.irecv", {"keywords": {"src": Plain(0)}}, (Exchange("recv", "irecv", 0),)),
        ("Distributed.recv", {}, (Exchange("recv", "recv"),)),
        (
            "Distributed.all_reduce",
            {"keywords": {"group": Plain("[4, 2]", "torch.ProcessGroup")}},
            (Exchange("all", "all_reduce", group=(2, 4)),),
        ),
        (
            "Distributed.send",
            {"keywords": {"group": Plain("[4, 6]", "torch.ProcessGroup"), "group_dst": Plain(1)}},
            (Exchange("send", "send", 6),),
        ),
        (
            "Distributed.batch_isend_irecv",
            {"inputs": [SAME, SAME], "p2p": ({"op": "isend", "peer": 1}, {"op": "irecv", "peer": 3})},
            (Exchange("send", "P2POp", 1), Exchange("recv", "P2POp", 3)),
        ),
    ],
)
def test_peers_and_groups_come_from_the_arguments(name: str, more: dict[str, Any], expected: Any) -> None:
    assert of(name, **more) == expected


def send(peer: int, api: str = "send") -> tuple[Exchange, ...]:
    return (Exchange("send", api, peer),)


def recv(peer: int | None, api: str = "recv") -> tuple[Exchange, ...]:
    return (Exchange("recv", api, peer),)


def every(api: str = "all_reduce", group: tuple[int, ...] | None = None) -> tuple[Exchange, ...]:
    return (Exchange("all", api, group=group),)


def test_collectives_of_all_ranks_share_a_layer() -> None:
    network = Network({0: [every(), every()], 1: [every(), every()]})
    assert network.layers == {(0, 0): 0, (1, 0): 0, (0, 1): 1, (1, 1): 1}
    assert network.partners((0, 1)) == {(1, 1)}


def test_groups_meet_among_themselves_only() -> None:
    pair, others = (0, 1), (2, 3)
    network = Network(
        {0: [every(group=pair)], 1: [every(group=pair)], 2: [every(group=others)], 3: [every(group=others)]}
    )
    assert network.partners((0, 0)) == {(1, 0)}
    assert network.partners((3, 0)) == {(2, 0)}


def test_a_pipeline_is_as_deep_as_its_stages() -> None:
    network = Network({0: [send(1)], 1: [recv(0), send(2)], 2: [recv(1)]})
    assert network.layers == {(0, 0): 0, (1, 0): 0, (1, 1): 1, (2, 0): 1}


def test_a_receipt_waits_for_what_its_sender_does_first() -> None:
    network = Network({0: [every("gather", (0, 9)), every("gather", (0, 9)), send(1)], 1: [recv(0)]})
    assert network.layers[1, 0] == network.layers[0, 2] == 2


def test_ranks_that_exchange_in_a_ring_do_not_wait_forever() -> None:
    both = (Exchange("send", "P2POp", 1), Exchange("recv", "P2POp", 1))
    back = (Exchange("send", "P2POp", 0), Exchange("recv", "P2POp", 0))
    network = Network({0: [both, every()], 1: [back, every()]})
    assert network.layers == {(0, 0): 0, (1, 0): 0, (0, 1): 1, (1, 1): 1}
    assert network.partners((0, 0)) == {(1, 0)}


def test_ranks_that_wait_for_each_other_go_on_alone() -> None:
    network = Network({0: [every("a"), every("b")], 1: [every("b"), every("a")]})
    assert set(network.layers) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert network.layers[0, 0] < network.layers[0, 1]


def test_calls_without_a_known_peer_stay_alone() -> None:
    network = Network({0: [recv(None)], 1: [send(0)]})
    assert network.partners((0, 0)) == frozenset()


def test_lists_of_objects_do_not_meet_tensors() -> None:
    network = Network({0: [send(1, "send_object_list"), send(1)], 1: [recv(0), recv(0, "recv_object_list")]})
    assert network.partners((1, 0)) == {(0, 1)}
    assert network.partners((1, 1)) == {(0, 0)}


PEERS = st.integers(0, 3)
EXCHANGES = st.one_of(
    st.builds(Exchange, st.just("send"), st.just("send"), PEERS),
    st.builds(Exchange, st.just("recv"), st.just("recv"), st.none() | PEERS),
    st.builds(
        Exchange, st.just("all"), st.sampled_from(["a", "b"]), st.none(), st.none() | st.tuples(PEERS, PEERS).map(tuple)
    ),
)
LINES = st.dictionaries(PEERS, st.lists(st.tuples(EXCHANGES, EXCHANGES) | st.tuples(EXCHANGES), max_size=6), max_size=4)


@given(LINES)
def test_any_program_is_layered_in_its_own_order(lines: dict[int, list[tuple[Exchange, ...]]]) -> None:
    network = Network(lines)
    assert set(network.layers) == {(rank, number) for rank, line in lines.items() for number in range(len(line))}
    for rank, line in lines.items():
        found = [network.layers[rank, number] for number in range(len(line))]
        assert found == sorted(set(found))
    for call in network.layers:
        assert all(call in network.partners(other) for other in network.partners(call))


def received(name: str, inputs: Any = (SAME,), rank: int | None = 1, **more: Any) -> set[str]:
    rows = compared(Call(name, inputs, **more)).rows
    refs = [row.pair.target for row in rows if row.pair.target]
    return {str(slot) for slot in received_into(name, refs, rank)}


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("Torch.all_gather", {"inputs": [SAME, SAME]}, set()),
        ("Distributed.all_reduce", {}, set()),
        ("Distributed.send", {"inputs": [SAME, (Plain(0), Plain(0))]}, set()),
        ("Distributed.recv", {"inputs": [SAME, (Plain(0), Plain(0))]}, {"input.0"}),
        ("Distributed.irecv", {"inputs": [], "keywords": {"tensor": 1.0, "src": Plain(0)}}, {"input.tensor"}),
        ("Distributed.all_gather_into_tensor", {"inputs": [SAME, SAME]}, {"input.0"}),
        ("communication.comm_func.all_gather_into_tensor", {"inputs": [SAME]}, set()),
        ("Distributed._reduce_scatter_base", {"inputs": [SAME, SAME]}, {"input.0"}),
        ("Distributed.all_to_all_single", {"inputs": [SAME, SAME]}, {"input.0"}),
        ("Distributed.all_gather_object", {"inputs": [SAME, SAME]}, set()),
        ("Distributed.scatter", {"inputs": [SAME]}, {"input.0"}),
        ("Distributed.gather", {"inputs": [SAME, SAME]}, {"input.1"}),
        ("Distributed.broadcast", {"keywords": {"src": Plain(0)}}, {"input.0"}),
        ("Distributed.broadcast", {"keywords": {"src": Plain(1)}}, set()),
        ("Distributed.broadcast", {"inputs": [SAME, (Plain(3), Plain(3))]}, {"input.0"}),
        ("Distributed.broadcast", {"keywords": {"src": Plain(0)}, "rank": None}, set()),
        (
            "Distributed.batch_isend_irecv",
            {"inputs": [SAME, SAME], "p2p": ({"op": "isend", "peer": 1}, {"op": "irecv", "peer": 3})},
            {"input.1"},
        ),
    ],
)
def test_memory_that_is_received_into_is_told_from_what_is_sent(name: str, more: Any, expected: set[str]) -> None:
    assert received(name, **more) == expected
