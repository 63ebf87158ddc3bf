"""NaN over ranks that communicate: which call of which rank is named, whatever the others got from it."""

from __future__ import annotations

from comparison_rows import IN, OUT, key, tensor
from examined_rows import INF, NAN, argument, concluded, row

from probe_flow.comparing.examine import EXAMINED
from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.records import Finding, NodeKey, Pair, Role, Row, Status, TensorKind

RECV, SEND, GATHER = "Distributed.recv", "Distributed.send", "Distributed.all_gather_into_tensor"
REDUCE, CAST = "Distributed.all_reduce", "Distributed.broadcast"


def at(name: str, rank: int, call: int = 0) -> NodeKey:
    return key(name, rank=rank, call=call)


def sends(rank: int, to: int, *holds: str, call: int = 0) -> list[Row]:
    node = at(SEND, rank, call)
    return [row(node, IN, 0, *holds), argument(node, to)]


def receives(rank: int, source: int, *holds: str, before: tuple[str, ...] = (), call: int = 0) -> list[Row]:
    node = at(RECV, rank, call)
    return [row(node, IN, 0, *before), argument(node, source), row(node, OUT, 0, *holds)]


def reduces(rank: int, *holds: str, gives: tuple[str, ...] = (), call: int = 0) -> list[Row]:
    node = at(REDUCE, rank, call)
    return [row(node, IN, 0, *gives), row(node, OUT, 0, *holds)]


def computes(rank: int, *holds: str, name: str = "exp", reads: tuple[str, ...] = (), call: int = 0) -> list[Row]:
    node = at(name, rank, call)
    return [row(node, IN, 0, *reads), row(node, OUT, 0, *holds)]


def named(findings: list[Finding]) -> list[tuple[str, int | None]]:
    return [(each.node.name, each.node.execution.rank) for each in findings if each.fails and each.node is not None]


def test_a_receiver_inherits_what_the_sender_gave_and_its_buffer_says_nothing() -> None:
    rows = [
        *receives(0, 1, NAN, before=(NAN,)), *computes(0, NAN, reads=(NAN,)),
        *computes(1, NAN), *sends(1, 0, NAN),
    ]  # fmt: skip
    findings, verdicts = concluded(rows)
    assert named(findings) == [("exp", 1)]
    assert [(verdicts[0].status, verdicts[0].rule_ids) for _ in "1"] == [(Status.WARNING, ("unread",))]
    assert verdicts[0].reasons == ("3 NaN of 100 elements, in memory that the call only writes",)
    assert verdicts[2].role is Role.INHERITED


def test_what_was_received_from_a_rank_without_dump_begins_at_the_receiver_and_says_so() -> None:
    (found,), _ = concluded([*receives(0, 3, NAN), *computes(0, NAN, reads=(NAN,))])
    assert (found.node.name if found.node else "", found.row) == (RECV, 2)
    assert "what rank 3 gave is not in the dump" in found.evidence


def test_a_collective_that_makes_it_of_finite_values_is_named_once() -> None:
    rows = [*reduces(0, INF), *computes(0, NAN, reads=(INF,)), *reduces(1, INF), *computes(1, NAN, reads=(INF,))]
    findings, verdicts = concluded(rows)
    assert named(findings) == [(REDUCE, 0)]
    assert "what it was given, and what rank 1 gave, is finite" in findings[0].evidence
    assert [each.role for each in verdicts].count(Role.ORIGIN) == 1


def test_a_collective_that_spoils_one_rank_is_named_there() -> None:
    assert named(concluded([*reduces(0), *reduces(1, NAN)])[0]) == [(REDUCE, 1)]


def test_a_broadcast_inherits_from_its_root_alone() -> None:
    def cast(rank: int, *holds: str, gives: tuple[str, ...]) -> list[Row]:
        node = at(CAST, rank)
        return [row(node, IN, 0, *gives), argument(node, 1), row(node, OUT, 0, *holds)]

    garbage = [*cast(0, gives=(NAN,)), *cast(1, gives=()), *cast(2, gives=(INF,))]
    assert named(concluded(garbage)[0]) == []
    spoilt = [*cast(0, NAN, gives=()), *computes(1, NAN), *cast(1, NAN, gives=(NAN,)), *cast(2, NAN, gives=())]
    assert named(concluded(spoilt)[0]) == [("exp", 1)]


def test_memory_that_a_gathering_call_writes_says_nothing() -> None:
    def gather(rank: int, *holds: str) -> list[Row]:
        node = at(GATHER, rank)
        return [row(node, IN, 0, NAN), row(node, IN, 1), row(node, OUT, 0, *holds)]

    assert named(concluded([*gather(0), *gather(1)])[0]) == []
    assert named(concluded([*gather(0, NAN), *gather(1)])[0]) == [(GATHER, 0)]


def test_what_begins_on_several_ranks_is_told_by_the_layers_of_their_communications() -> None:
    """Rank 0 makes it at its second call, but rank 1 five calls later and before the first exchange."""
    rows = [
        *reduces(0), *computes(0, NAN),
        *(each for call in range(5) for each in computes(1, name="relu", call=call)),
        *computes(1, INF), *reduces(1, gives=()),
    ]  # fmt: skip
    assert named(concluded(rows)[0]) == [("exp", 1), ("exp", 0)]


def test_in_one_layer_calls_between_communications_come_before_these() -> None:
    rows = [*reduces(0, NAN, call=0), *computes(1, INF), *reduces(1, call=0)]
    assert named(concluded(rows)[0])[0] == ("exp", 1)


def test_an_opaque_group_names_the_ranks() -> None:
    node = at(REDUCE, 0)
    group = tensor(node, IN, "group", kind=TensorKind.OPAQUE, stored_dtype="torch.ProcessGroup", value="[0, 5]")
    rows = [*reduces(0, NAN)]
    rows.insert(1, Row(Pair(group, None, "", EXAMINED, CommonReason.NOT_TENSOR.expected("no value"))))
    (found,), _ = concluded(rows)
    assert "what rank 5 gave is not in the dump" in found.evidence
