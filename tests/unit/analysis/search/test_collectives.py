"""What other ranks gave explains what a rank computes with it, over small hand-made runs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from comparison_rows import IN, edge, key, pairs_of, row
from concluded_rows import U, findings_of, roles_of

from probe_flow.records import Role


def test_a_collective_is_explained_by_the_other_ranks():
    def reduced(rank, error, mark):
        return [
            row(key("Distributed.all_reduce", rank=rank), IN, relative=error, mark=mark, count=100),
            row(key("Distributed.all_reduce", rank=rank), relative=0.6, mark=3.0),
            row(key("next", rank=rank), IN, relative=0.6, mark=3.0),
        ]

    rows = [
        *reduced(0, 0.5 * U, 1.0),
        row(key("add", rank=1), IN, mark=5.0),
        row(key("add", rank=1), relative=0.8, mark=2.0),
    ]
    rows += reduced(1, 0.8, 2.0)
    found = findings_of(rows, pairs_of(rows))
    assert [(finding.node.execution.rank, finding.node.name) for finding in found] == [(1, "add")]
    # Rank 0 comes first in the rows; what it received inherits all the same.
    assert roles_of(rows, pairs_of(rows))[:3] == [Role.CLEAN, Role.INHERITED, Role.INHERITED]
    # A collective that is wrong although every rank gave it the right tensor is the origin.
    wrong = [*reduced(0, 0.5 * U, 1.0), *reduced(1, 0.5 * U, 2.0)]
    assert {finding.node.name for finding in findings_of(wrong, pairs_of(wrong))} == {"Distributed.all_reduce"}


def test_a_device_collective_is_explained_by_the_other_ranks():
    names = ("MatMul", "HcomAllReduce", "Gelu")
    types = dict(zip(names, ("MatMulV2", "HcomAllReduce", "Gelu"), strict=True))

    def executed(rank, right, wrong):
        nodes = [key(name, rank=rank) for name in names]
        errors = [0.5 * U, right, wrong, wrong]  # what each operator reads, and what the last writes
        for node, (before, after) in zip(nodes, pairwise(errors), strict=True):
            yield from (row(node, IN, relative=before), row(node, relative=after))

    rows = [*executed(0, 0.6 * U, 0.4), *executed(1, 0.8, 0.4), *executed(2, 0.6 * U, 0.4)]
    edges = [edge(*(key(name, rank=rank) for name in pair)) for rank in range(3) for pair in pairwise(names)]
    pairs = pairs_of(rows, types, edges)
    assert [(each.node.execution.rank, each.node.name) for each in findings_of(rows, pairs)] == [(1, "MatMul")]
    inherited = [rows[n].node.execution.rank for n, role in enumerate(roles_of(rows, pairs)) if role is Role.INHERITED]
    assert set(inherited) == {0, 1, 2}


@pytest.mark.parametrize("sender", [0, 1])
def test_what_a_rank_receives_is_explained_by_the_rank_that_sent_it(sender):
    other = 1 - sender
    types = {"MatMul": "MatMulV2", "HcomSend": "HcomSend", "HcomReceive": "HcomReceive", "Gelu": "Gelu"}

    def passed_on(right, wrong, received):
        sent = [
            row(key("MatMul", rank=sender), IN, relative=right),
            row(key("MatMul", rank=sender), relative=wrong, mark=1.0),
            row(key("HcomSend", rank=sender), IN, relative=wrong, mark=1.0),
            row(key("HcomSend_1", rank=sender), IN, relative=right, mark=3.0),
        ]  # fmt: skip
        got = [
            row(key("HcomReceive", rank=other), relative=received, mark=1.0),
            row(key("Gelu", rank=other), IN, relative=received, mark=1.0),
            row(key("Gelu", rank=other), relative=received, mark=2.0),
        ]
        rows = [*sent, *got] if sender < other else [*got, *sent]
        named = (("MatMul", "HcomSend", sender), ("HcomReceive", "Gelu", other))
        edges = [edge(key(first, rank=rank), key(second, rank=rank)) for first, second, rank in named]
        found = findings_of(rows, pairs_of(rows, {**types, "HcomSend_1": "HcomSend"}, edges))
        return [(each.node.execution.rank, each.node.name) for each in found]

    assert passed_on(0.5 * U, 0.1, 0.1) == [(sender, "MatMul")]
    assert passed_on(0.5 * U, 0.5 * U, 0.1) == [(other, "HcomReceive")]  # it was sent right


def test_tokens_that_ranks_exchange_for_their_experts_are_explained_by_the_other_ranks():
    names = ("MatMul", "MoeDistributeDispatchV2", "Gelu")
    types = dict(zip(names, ("MatMulV2", "MoeDistributeDispatchV2", "Gelu"), strict=True))

    def executed(rank, given, got):
        nodes = [key(name, rank=rank) for name in names]
        for node, (before, after) in zip(nodes, pairwise([0.5 * U, given, got, got]), strict=True):
            yield from (row(node, IN, relative=before), row(node, relative=after))

    rows = [*executed(0, 0.6 * U, 0.4), *executed(1, 0.8, 0.4)]
    edges = [edge(*(key(name, rank=rank) for name in pair)) for rank in range(2) for pair in pairwise(names)]
    found = findings_of(rows, pairs_of(rows, types, edges))
    assert [(each.node.execution.rank, each.node.name) for each in found] == [(1, "MatMul")]
