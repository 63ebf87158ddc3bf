"""Catalogs of many ranks: what executions of one program have in common is held once, nodes and tensors are made of it.

A rank takes a few numbers, whatever it has of its own, and what its dump recorded.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from itertools import accumulate, chain, pairwise, repeat
from types import MappingProxyType
from typing import Any, cast, overload

from msgspec.structs import replace

from probe_flow.records.catalog import NO_TABLE, Catalog, Held, Program, Ran
from probe_flow.records.figures import Numbers
from probe_flow.records.node import Execution, ManyNodes, Node, NodeKey
from probe_flow.records.tables.blocks import Blocks, Some
from probe_flow.records.tensor import ManyTensors, TensorRef
from probe_flow.records.tensor_data import TensorData, TensorTable

_NOWHERE = 2**32 - 1
_NO_DATA = (TensorData(),)
NO_NODES: Mapping[NodeKey, Node] = MappingProxyType({})


class Packing:
    """Takes the executions of a dump one after the other, and holds once what they have in common.

    Args:
        known: executions of other dumps, perhaps of the same program.
        put: puts the figures of the tensors away.
    """

    def __init__(self, known: Iterable[Ran] = (), put: Callable[[Numbers], Numbers] | None = None) -> None:
        self._put = put
        self.ran: list[Ran] = []
        self._programs = [*dict.fromkeys(each.program for each in known)]
        self._held = [*dict.fromkeys(each.held for each in known)]

    def add(self, nodes: Sequence[Node], tensors: Sequence[TensorRef]) -> None:
        """Take all nodes and tensors of an execution."""
        numbers = {node.key: number for number, node in enumerate(nodes)}
        tables = [*{id(each.data): each.data for each in tensors if isinstance(each.data, TensorTable)}.values()]
        del tables[NO_TABLE:]
        places = {id(table): place for place, table in enumerate(tables)}
        held = Held(
            owners=array("I", [numbers[tensor.node] for tensor in tensors]),
            traits=tuple([tensor.traits for tensor in tensors]),
            tables=array("B", [places.get(id(tensor.data), NO_TABLE) for tensor in tensors]),
            rows=array("I", [tensor.number for tensor in tensors]),
        )
        others = {place: tensors[place] for place, table in enumerate(held.tables) if table == NO_TABLE}
        ran = Ran(nodes[0].key.execution, Program(tuple(nodes)), held, 0, {}, tuple(tables), others)
        if self._put is not None:
            put_away(ran, self._put)
        self.ran.append(self.shared(ran))

    def shared(self, ran: Ran) -> Ran:
        """Return an execution with what others of the same program have."""
        for program in self._programs:
            alike = _alike(ran, program)
            if alike is not None:
                break
        else:
            self._programs.append(ran.program)
            alike = ran
        held = next((each for each in self._held if _is_same(each, ran.held)), None)
        if held is None:
            self._held.append(ran.held)
        return alike if held is None else replace(alike, held=held)


def put_away(ran: Ran, put: Callable[[Numbers], Numbers]) -> None:
    """Have the figures of an execution elsewhere (`FigureTable.put_away`)."""
    for table in ran.tables:
        if table.figures is not None:
            table.figures.put_away(put)


def _is_same(one: Held, other: Held) -> bool:
    return one is other or (
        one.rows == other.rows
        and one.owners == other.owners
        and one.tables == other.tables
        and one.traits == other.traits
    )


def _alike(ran: Ran, program: Program) -> Ran | None:
    """Return an execution as one of another program, None where the two differ."""
    if ran.program is program:
        return ran
    if len(ran.program.nodes) != len(program.nodes):
        return None
    later = ran.program.nodes[0].order + ran.order - program.nodes[0].order
    stacks: dict[str, str] = {}
    for node, other in zip(ran.program.nodes, program.nodes, strict=True):
        key, its = node.key, other.key
        is_alike = (
            (key.name, key.call, key.phase) == (its.name, its.call, its.phase)
            and (node.op_type, node.parent, node.originals) == (other.op_type, other.parent, other.originals)
            and node.order + ran.order == other.order + later
            and (node.facts is other.facts or node.facts == other.facts)
            and node.rules == other.rules
        )
        mine, its_stack = node.stack_id, other.stack_id
        if not is_alike or (mine is None) is not (its_stack is None):
            return None
        if mine is not None and its_stack is not None:
            mine = ran.stacks.get(mine, mine)
            if stacks.setdefault(its_stack, mine) != mine:
                return None
    return replace(ran, program=program, order=later, stacks=stacks)


def packed(catalog: Catalog, ran: Sequence[Ran], known: Mapping[NodeKey, Node] = NO_NODES) -> Catalog:
    """Return a catalog whose nodes and tensors are those of executions.

    Args:
        catalog: the catalog.
        ran: the executions.
        known: nodes whose keys can be taken over.
    """
    nodes = NodeTable(ran, known if isinstance(known, NodeTable) else None)
    return replace(catalog, nodes=nodes, tensors=TensorColumns(ran, nodes), ran=tuple(ran))


def sharing(catalog: Catalog, other: Catalog) -> Catalog:
    """Return it with what executions of another dump have in common with its own, the same objects."""
    packing = Packing(other.ran)
    return packed(catalog, [packing.shared(each) for each in catalog.ran], other.nodes)


class NodesByRun(Mapping[Execution, Sequence[Node]]):
    """Nodes of each execution, made when they are asked for.

    Args:
        nodes: of all executions.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes

    def __len__(self) -> int:
        return len(self._nodes.keys_of)

    def __iter__(self) -> Iterator[Execution]:
        return iter(self._nodes.keys_of)

    def __getitem__(self, execution: Execution) -> Sequence[Node]:
        return [*self._nodes.of(execution)]


class NodeTable(ManyNodes):
    """Nodes of executions, each made when it is asked for; their keys are there, as whoever asks holds many of them.

    Args:
        ran: the executions.
        known: nodes of another dump, whose keys are taken over.
    """

    def __init__(self, ran: Sequence[Ran], known: NodeTable | None = None) -> None:
        self._ran = {each.execution: each for each in ran}
        self.keys_of = {each.execution: _keys(each, known) for each in ran}
        self._numbers: dict[int, dict[NodeKey, int]] = {}
        self._count = sum(map(len, self.keys_of.values()))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, key: NodeKey) -> Node:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    @overload
    def get(self, key: NodeKey, /) -> Node | None: ...
    @overload
    def get(self, key: NodeKey, default: Any, /) -> Any: ...
    def get(self, key: NodeKey, default: Any = None, /) -> Any:
        """Return the node of a key, or something else where there is none."""
        like = self.like(key)
        return default if like is None else _node(self._ran[key.execution], like, key)

    def like(self, key: NodeKey) -> Node | None:
        """Return the node of an execution that runs the same."""
        ran = self._ran.get(key.execution)
        if ran is None:
            return None
        nodes = ran.program.nodes
        number = self._numbers_in(ran).get(_key(nodes[0].key.execution, key))
        return None if number is None else nodes[number]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, NodeKey) and self.like(key) is not None

    def __iter__(self) -> Iterator[NodeKey]:
        return chain.from_iterable(self.keys_of.values())

    def values(self) -> ValuesView[Node]:
        """Return all nodes."""
        return _Values(self)

    def items(self) -> ItemsView[NodeKey, Node]:
        """Return all nodes with their keys."""
        return _Items(self)

    def by_run(self) -> Mapping[Execution, Sequence[Node]]:
        """Return the nodes of each execution."""
        return NodesByRun(self)

    def of(self, execution: Execution) -> Iterator[Node]:
        """Yield the nodes of an execution."""
        ran = self._ran[execution]
        return map(_node, repeat(ran), ran.program.nodes, self.keys_of[execution])

    def made(self) -> Iterator[Node]:
        """Yield all nodes."""
        return chain.from_iterable(map(self.of, self._ran))

    def keys_like(self, ran: Ran) -> tuple[NodeKey, ...] | None:
        """Return the keys of an execution that has the same ones."""
        mine = self._ran.get(ran.execution)
        return self.keys_of[ran.execution] if mine is not None and mine.program is ran.program else None

    def _numbers_in(self, ran: Ran) -> dict[NodeKey, int]:
        program = ran.program
        found = self._numbers.get(id(program))
        if found is None:
            found = self._numbers[id(program)] = {node.key: number for number, node in enumerate(program.nodes)}
        return found


def _keys(ran: Ran, known: NodeTable | None) -> tuple[NodeKey, ...]:
    """Return the keys of an execution."""
    found = known.keys_like(ran) if known is not None else None
    is_its_own = ran.program.nodes[0].key.execution == ran.execution
    return found or tuple([node.key if is_its_own else _key(ran.execution, node.key) for node in ran.program.nodes])


class _Values(ValuesView[Node]):
    _mapping: NodeTable

    def __iter__(self) -> Iterator[Node]:
        return self._mapping.made()


class _Items(ItemsView[NodeKey, Node]):
    _mapping: NodeTable

    def __iter__(self) -> Iterator[tuple[NodeKey, Node]]:
        return ((node.key, node) for node in self._mapping.made())


def _key(execution: Execution, like: NodeKey) -> NodeKey:
    return NodeKey(execution, like.name, like.call, like.phase)


def _node(ran: Ran, like: Node, key: NodeKey) -> Node:
    stack = like.stack_id
    if stack is not None:
        stack = ran.stacks.get(stack, stack)
    return Node(key, like.op_type, like.parent, like.originals, stack, like.order + ran.order, like.facts, like.rules)


class TensorColumns(Blocks[TensorRef], ManyTensors):
    """Tensors of executions, made when they are asked for.

    Args:
        ran: the executions.
        nodes: their nodes.
    """

    def __init__(self, ran: Sequence[Ran], nodes: NodeTable) -> None:
        self._ran, self._keys = ran, [*nodes.keys_of.values()]
        self._begins = [0, *accumulate(len(each.held.rows) for each in ran)]
        super().__init__(self._begins.pop())
        self._others = {
            id(tensor): begin + place
            for each, begin in zip(ran, self._begins, strict=True)
            for place, tensor in each.others.items()
        }
        self._tables = {
            id(table): (each.held, number, begin)
            for each, begin in zip(ran, self._begins, strict=True)
            for number, table in enumerate(each.tables)
        }
        self._places: dict[tuple[int, int], array[int]] = {}

    def by_run(self) -> Mapping[Execution, Sequence[TensorRef]]:
        """Return the tensors of each execution."""
        ends = [*self._begins, len(self)]
        return {
            each.execution: Some(self, range(begin, end))
            for each, (begin, end) in zip(self._ran, pairwise(ends), strict=True)
        }

    def places(self, tensors: Iterable[TensorRef]) -> Iterator[int | None]:
        """Yield where tensors stand here; None of others."""
        data, begin, places = None, 0, array("I")
        for tensor in tensors:
            if tensor.data is not data:
                data = tensor.data
                found = self._tables.get(id(data))
                begin, places = (0, array("I")) if found is None else (found[2], self._places_of(*found[:2]))
            place = places[tensor.number] if tensor.number < len(places) else _NOWHERE
            yield begin + place if place != _NOWHERE else self._others.get(id(tensor))

    def _places_of(self, held: Held, number: int) -> array[int]:
        """Return where the rows of a table stand in their execution."""
        found = self._places.get((id(held), number))
        if found is None:
            rows = [row for row, table in zip(held.rows, held.tables, strict=True) if table == number]
            found = self._places[id(held), number] = array("I", repeat(_NOWHERE, max(rows, default=-1) + 1))
            for place, (row, table) in enumerate(zip(held.rows, held.tables, strict=True)):
                if table == number:
                    found[row] = place
        return found

    def _made(self, begin: int, end: int) -> list[TensorRef]:
        made: list[TensorRef] = []
        number = bisect_right(self._begins, begin) - 1
        while begin < end:
            ran, first = self._ran[number], self._begins[number]
            until = min(end, first + len(ran.held.rows))
            made += _tensors(ran, self._keys[number], begin - first, until - first)
            begin, number = until, number + 1
        return made


class Joined(Sequence[TensorRef]):
    """Tensors of several sequences one behind another, to which others are added.

    Args:
        parts: the sequences; others are added to the last one.
    """

    def __init__(self, parts: tuple[Sequence[TensorRef], Sequence[TensorRef], list[TensorRef]]) -> None:
        self._parts = parts
        self._begins = [0, len(parts[0]), len(parts[0]) + len(parts[1])]

    def __len__(self) -> int:
        return self._begins[-1] + len(self._parts[-1])

    @overload
    def __getitem__(self, place: int) -> TensorRef: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[TensorRef]: ...
    def __getitem__(self, place: int | slice) -> TensorRef | Sequence[TensorRef]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        part = bisect_right(self._begins, place) - 1
        return self._parts[part][place - self._begins[part]]

    def extend(self, more: Iterable[TensorRef]) -> None:
        """Add tensors."""
        self._parts[-1].extend(more)


def _tensors(ran: Ran, keys: Sequence[NodeKey], begin: int, end: int) -> Sequence[TensorRef]:
    """Return some tensors of an execution."""
    held = ran.held
    tables = held.tables[begin:end]
    if NO_TABLE in tables:
        tables = array("B", [0 if table == NO_TABLE else table for table in tables])
    known: Sequence[TensorData | TensorTable] = ran.tables or _NO_DATA
    data = repeat(known[0]) if len(known) == 1 else map(known.__getitem__, tables)
    owners = map(keys.__getitem__, held.owners[begin:end])
    make = cast("Callable[..., TensorRef]", TensorRef)
    made = [*map(make, owners, held.traits[begin:end], data, held.rows[begin:end])]
    for place, tensor in ran.others.items():
        if begin <= place < end:
            made[place - begin] = tensor
    return made
