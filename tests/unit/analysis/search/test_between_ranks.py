"""What ranks hand each other: a receiver answers for the transfer, and the sender for what it sent."""

from __future__ import annotations

import pytest
from comparison_rows import IN, OUT, argument, checksum_row, key, measured, pairs_of, passes, row, tensor
from msgspec.structs import replace

from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import FindingKind, Mode, NodeKey, Pair, Phase, Row, Rule, SideSummary, Statistics
from probe_flow.records import Measurement as Measured

SEND, RECV, BATCH = "Distributed.send", "Distributed.recv", "Distributed.batch_isend_irecv"
WIDE = {"dtype": "float32"}


def at(name: str, rank: int, call: int = 0, phase: Phase = Phase.FORWARD) -> NodeKey:
    return replace(key(name, rank=rank, call=call), phase=phase)


def named(rows: list[Row]) -> list[tuple[str, int | None]]:
    types = {each.node.name: each.node.name.rpartition(".")[2] for each in rows}
    found, _ = conclude(rows, pairs_of(rows, types), passes(rows))
    wanted = FindingKind.ORIGIN, FindingKind.NONFINITE_ORIGIN, FindingKind.CHECKSUM_ORIGIN
    return [(each.node.name, each.node.execution.rank) for each in found if each.fails and each.kind in wanted]


def handed_over(sent: float, received: float, *, made: float | None = None) -> list[Row]:
    """Rank 1 makes a tensor and sends it; rank 0, which collectors write first, reads what it received."""
    return [
        argument(at(RECV, 0), 1, 1), row(at(RECV, 0), OUT, relative=received, **WIDE),
        row(at("read", 0), IN, relative=received, **WIDE), row(at("read", 0), OUT, relative=received, mark=2.0, **WIDE),
        row(at("made", 1), IN, mark=1.0, **WIDE), row(at("made", 1), relative=sent if made is None else made, **WIDE),
        row(at(SEND, 1), IN, relative=sent, **WIDE), argument(at(SEND, 1), 0, 0),
    ]  # fmt: skip


def test_a_receiver_inherits_what_was_sent():
    assert named(handed_over(0.01, 0.01)) == [("made", 1)]


def test_a_transfer_that_changes_what_was_sent_is_named_at_the_receiver():
    assert named(handed_over(0.0, 0.01)) == [(RECV, 0)]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_gradient_that_cancels_is_handed_over_as_it_is(rank):
    """It is off by as much as its terms are, which the rank that made it shows, whichever rank that is."""
    other = 1 - rank
    mine, theirs = at("norm", other, phase=Phase.BACKWARD), at("linear", rank, phase=Phase.BACKWARD)
    half = {"dtype": "float16"}
    by_rank = {
        other: [
            row(mine, IN, relative=5e-4, mark=1.0, **half), row(mine, OUT, relative=1e-3, mark=2.0, **half),
            row(at(SEND, other), IN, relative=1e-3, mark=2.0, **half), argument(at(SEND, other), rank, rank),
        ],
        rank: [
            argument(at(RECV, rank), other, other), row(at(RECV, rank), OUT, relative=1e-3, mark=2.0, **WIDE),
            row(theirs, IN, relative=1e-3, mark=2.0, **WIDE), row(theirs, OUT, relative=1e-3, mark=3.0, **WIDE),
        ],
    }  # fmt: skip
    assert named([*by_rank[0], *by_rank[1]]) == []


def operation(node: NodeKey, role, place: int, way: str, holds: Statistics, other: Statistics, **figures) -> Row:
    """One of a batch of point-to-point operations, with what the dump recorded of its tensor on both sides."""
    sides = [
        tensor(
            node,
            role,
            place,
            dtype="float32",
            recorded=known,
            peers={"op": way, "peer": 1 - (node.execution.rank or 0)},
        )
        for known in (holds, other)
    ]
    found = measured(**figures)
    if figures.get("nonfinite"):
        found = Measured.of(
            Mode.TENSOR, dict(found.metrics), SideSummary(holds), SideSummary(other), nonfinite_mismatch=2, count=100
        )
    return Row(Pair(sides[0], sides[1], "g", Rule("exact")), found)


@pytest.mark.parametrize(("after", "accused"), [("garbage", []), ("other", [(BATCH, 0)])])
def test_memory_that_operations_of_a_batch_have_yet_to_fill_says_nothing(after, accused):
    """They are not waited for. One of them is shown as it was before; what changed was received."""
    nan = float("nan")
    junk, zeros = (
        Statistics(min=-3e21, max=3e35, mean=nan, l2norm=nan),
        Statistics(min=0.0, max=0.0, mean=0.0, l2norm=0.0),
    )
    own = Statistics(min=-1.0, max=2.0, mean=0.1, l2norm=9.0)
    left = junk if after == "garbage" else Statistics(min=-7.0, max=7.0, mean=0.5, l2norm=60.0)
    kept = zeros if after == "garbage" else own
    figures = {"relative": 9.0, "nonfinite": 2 if after == "garbage" else 0}
    rows = []
    for rank in (0, 1):
        node = at(BATCH, rank)
        rows += [
            operation(node, IN, 0, "isend", own, own, mark=float(rank)),
            operation(node, IN, 1, "irecv", junk, zeros, relative=9.0, nonfinite=2),
            operation(node, OUT, 0, "isend", own, own, mark=float(rank)),
            operation(node, OUT, 1, "irecv", left if rank == 0 else own, kept, **(figures if rank == 0 else {})),
        ]
    assert named(rows) == accused


def checksums(rank: int, sent: str, received: str) -> list[Row]:
    """Rank 0 receives what rank 1 made and sent, of which the golden has the checksum `right`."""
    if rank:
        made = at("made", 1)
        return [
            checksum_row(made, IN, "own", "own"), checksum_row(made, OUT, sent, "right"),
            checksum_row(at(SEND, 1), IN, sent, "right"), argument(at(SEND, 1), 0, 0),
        ]  # fmt: skip
    read = at("read", 0)
    return [
        argument(at(RECV, 0), 1, 1), checksum_row(at(RECV, 0), OUT, received, "right"),
        checksum_row(read, IN, received, "right"), checksum_row(read, OUT, f"of {received}", "of right"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "received", "accused"), [("wrong", "wrong", [("made", 1)]), ("right", "wrong", [(RECV, 0)])]
)
def test_checksums_of_what_was_received_follow_what_was_sent(sent, received, accused):
    assert named([*checksums(0, sent, received), *checksums(1, sent, received)]) == accused


@pytest.mark.parametrize(("name", "accused"), [("__setitem__", []), ("index_select", [("index_select", 0)])])
def test_a_checksum_of_memory_that_a_call_writes_over_says_nothing(name, accused):
    """A collector may take it before or after: `local[mask] = 0`."""
    rows = [checksum_row(at(name, 0), IN, "before", "after"), checksum_row(at(name, 0), IN, "mask", "mask", 1)]
    assert named(rows) == accused


def test_what_is_wrong_before_ranks_exchange_is_named_first_whichever_rank_it_is_on():
    """Rank 1 reads what it received at its second call, rank 0 makes it at its fifth."""
    rows = [row(at(f"early{n}", 0), mark=float(n), **WIDE) for n in range(4)]
    rows += [row(at("made", 0), relative=0.01, mark=5.0, **WIDE)]
    rows += [row(at(SEND, 0), IN, relative=0.01, mark=5.0, **WIDE), argument(at(SEND, 0), 1, 1)]
    rows += [argument(at(RECV, 1), 0, 0), row(at(RECV, 1), OUT, relative=0.01, mark=5.0, **WIDE)]
    rows += [
        row(at("read", 1), IN, relative=0.01, mark=5.0, **WIDE),
        row(at("read", 1), relative=0.5, mark=7.0, **WIDE),
    ]
    assert named(rows) == [("made", 0), ("read", 1)]


@pytest.mark.parametrize(("error", "accused"), [(1e-3, []), (1.2e-2, ["Distributed.all_reduce"])])
def test_a_collective_that_is_a_little_off_is_named_though_others_gave_it_rounded_tensors(error, accused):
    """Of what it was given nothing is wrong: 5e-4 is a rounding of float16."""
    rows = []
    for rank in (0, 1):
        node = at("Distributed.all_reduce", rank)
        rows += [row(node, IN, relative=5e-4, mark=float(rank)), row(node, OUT, relative=error, mark=5.0)]
    assert [name for name, _ in named(rows)][:1] == accused
