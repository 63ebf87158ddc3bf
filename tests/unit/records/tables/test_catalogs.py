"""Catalogs of many ranks: nodes and tensors that are made are those that were packed, and what ranks share is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pytest
from msgspec.structs import replace

from probe_flow.records import (
    CallFacts,
    Catalog,
    Execution,
    Node,
    NodeKey,
    NodeKind,
    Phase,
    SlotRole,
    Statistics,
    TensorData,
    TensorRef,
    TensorTables,
)
from probe_flow.records.frameworks import PYTORCH
from probe_flow.records.tables import blocks
from probe_flow.records.tables.catalogs import NO_NODES, NodeTable, Packing, TensorColumns, packed, sharing
from probe_flow.records.tensor import marks, places_in
from probe_flow.records.tensor_traits import Slot, TensorKind

RANKS = 3


@pytest.fixture(autouse=True)
def blocks_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have blocks of 4 records, of which 2 are held."""
    for name, value in {"_BITS": 2, "_WITHIN": 3, "BLOCK": 4, "HELD": 2}.items():
        monkeypatch.setattr(blocks, name, value)


@dataclass
class Ranks:
    """What a reader found: nodes and tensors of each rank, all of them alike unless a test changes some."""

    nodes: list[list[Node]] = field(default_factory=list)
    tensors: list[list[TensorRef]] = field(default_factory=list)

    def add(self, **changes: Any) -> None:
        """Add a rank of three calls and five tensors, the last one without data in a table."""
        rank, before = len(self.nodes), sum(map(len, self.nodes))
        run, tables = Execution(rank=rank), TensorTables()
        facts = CallFacts(NodeKind.API, changes.get("caller", "Module.m.M.forward.0"))
        keys = [NodeKey(run, "Functional.add", call) for call in range(2)]
        keys.append(NodeKey(run, changes.get("name", "Functional.add"), 0, Phase.BACKWARD))
        stacks = [f"{rank}:7", None, f"{rank}:{changes.get('stack', 9)}"]
        self.nodes.append(
            [
                Node(key, "add", "M", stack_id=stack, order=before + number, facts=facts)
                for number, (key, stack) in enumerate(zip(keys, stacks, strict=True))
            ]
        )
        found = [
            TensorRef.of(key, Slot(role, (place,)), TensorKind.STATISTICS, "float32", shape=(changes.get("size", 2),))
            for key, role, place in (
                (keys[0], SlotRole.INPUT, 0),
                (keys[0], SlotRole.INPUT, 1),
                (keys[0], SlotRole.OUTPUT, 0),
                (keys[2], SlotRole.INPUT, 0),
                (keys[2], SlotRole.OUTPUT, 0),
            )
        ]
        with_data = [
            replace(tensor, data=TensorData(f"/{rank}/dump.json", recorded)).stored_in(tables)
            for tensor, recorded in zip(found[:4], (Statistics(1.0 + rank, 2.0, 3.0, 4.0), None) * 2, strict=True)
        ]
        self.tensors.append([*with_data, found[4]])

    @property
    def plain(self) -> Catalog:
        """The catalog with all records."""
        nodes = {node.key: node for of_rank in self.nodes for node in of_rank}
        return Catalog("target", PYTORCH, "statistics", "/", nodes, (*chain.from_iterable(self.tensors),))

    @property
    def packed(self) -> Catalog:
        """The catalog that makes them."""
        packing = Packing()
        for nodes, tensors in zip(self.nodes, self.tensors, strict=True):
            packing.add(nodes, tensors)
        return packed(self.plain, packing.ran)


@pytest.fixture
def ranks() -> Ranks:
    """Ranks that run the same."""
    found = Ranks()
    for _ in range(RANKS):
        found.add()
    return found


def recorded(tensors: Sequence[TensorRef]) -> list[Statistics | None]:
    return [tensor.recorded for tensor in tensors]


def test_what_is_made_is_what_was_packed(ranks):
    plain, table = ranks.plain, ranks.packed
    assert isinstance(table.nodes, NodeTable)
    assert isinstance(table.tensors, TensorColumns)
    assert [*table.nodes] == [*plain.nodes]
    assert [*table.nodes.items()] == [*plain.nodes.items()]
    assert [*table.nodes.values()] == [*plain.nodes.values()]
    assert len(table.nodes) == len(plain.nodes)
    assert [*table.tensors] == [*plain.tensors]
    assert recorded(table.tensors) == recorded(plain.tensors)
    assert table.executions == plain.executions
    assert dict(table.nodes_by_run()) == dict(plain.nodes_by_run())
    both = ({run: [*some] for run, some in each.tensors_by_execution().items()} for each in (table, plain))
    assert next(both) == next(both)
    assert table.in_full() == plain
    assert plain.in_full() is plain


def test_a_node_is_found_by_its_key(ranks):
    plain, table = ranks.plain, ranks.packed
    for key, node in plain.nodes.items():
        assert table.nodes[key] == table.nodes.get(key) == node
        assert key in table.nodes
        like = table.node_like(key)
        assert like is not None
        assert replace(like, key=key, order=node.order, stack_id=node.stack_id) == node
        assert plain.node_like(key) == node
    for stranger in (NodeKey(Execution(rank=RANKS), "Functional.add"), NodeKey(Execution(rank=0), "Functional.mul")):
        assert stranger not in table.nodes
        assert table.nodes.get(stranger) is None
        assert table.node_like(stranger) is None
        with pytest.raises(KeyError):
            table.nodes[stranger]


def test_ranks_that_run_the_same_hold_it_once(ranks):
    table = ranks.packed
    assert len({id(each.program) for each in table.ran}) == 1
    assert len({id(each.held) for each in table.ran}) == 1
    shared = sharing(ranks.packed, table)
    assert {id(each.program) for each in shared.ran} == {id(table.ran[0].program)}
    assert all(map(lambda one, other: one is other, shared.nodes, table.nodes))
    assert shared.in_full() == ranks.plain


@pytest.mark.parametrize(
    ("changes", "programs", "held"),
    [
        ({"name": "Functional.mul"}, 2, 1),
        ({"caller": "Module.n.N.forward.0"}, 2, 1),
        ({"stack": 7}, 1, 1),
        ({"size": 3}, 1, 2),
    ],
)
def test_a_rank_that_differs_has_what_is_its_own(ranks, changes, programs, held):
    ranks.add(**changes)
    ranks.add()
    table = ranks.packed
    assert len({id(each.program) for each in table.ran}) == programs
    assert len({id(each.held) for each in table.ran}) == held
    assert table.in_full() == ranks.plain
    assert sharing(table, ranks.plain).in_full() == ranks.plain


def test_calls_of_one_place_there_and_of_two_here_are_not_the_same():
    ranks = Ranks()
    for stack in (7, 9, 8):
        ranks.add(stack=stack)
    table = ranks.packed
    assert [each.program is table.ran[1].program for each in table.ran] == [False, True, True]
    assert table.in_full() == ranks.plain


def test_tensors_are_told_apart_by_their_place(ranks):
    table, others = ranks.packed, ranks.plain
    tensors = [*table.tensors]
    again = [*table.tensors]
    assert not any(one is other for one, other in zip(tensors, again, strict=True) if one.number)
    assert [*table.tensors.places(tensors)] == [*places_in(table.tensors)(again)] == [*range(len(tensors))]
    assert [*marks(again, table.tensors)] == [*range(len(tensors))]
    assert [*marks(others.tensors, others.tensors)] == [*map(id, others.tensors)]
    strangers = [replace(tensor, data=TensorData()) for tensor in others.tensors]
    assert [*table.tensors.places(strangers)] == [None] * len(strangers)
    assert [*marks(strangers, table.tensors)] == [*map(id, strangers)]


def test_executions_that_were_read_must_fit_together(ranks):
    (ran, *_) = ranks.packed.ran
    assert ran.is_sound
    wrong = (
        replace(ran, tables=()),
        replace(ran, others={}),
        replace(ran, program=replace(ran.program, nodes=())),
        replace(ran, held=replace(ran.held, traits=ran.held.traits[1:])),
        replace(ran, held=replace(ran.held, rows=ran.held.owners * 9)),
        replace(ran, held=replace(ran.held, owners=ran.held.tables)),
    )
    assert not any(each.is_sound for each in wrong)
    assert packed(ranks.plain, [ran], NO_NODES).in_full().nodes == {node.key: node for node in ranks.nodes[0]}
