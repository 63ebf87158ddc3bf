"""Nodes, executions and data flow for the HTML report, by number."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from msgspec import Struct, field

from probe_flow.records import Catalog, Edge, Execution, Node, NodeKey
from probe_flow.relations.call_tree import ROOT, CallTree, call_trees
from probe_flow.reports.html.columns import (
    Member,
    Pieces,
    Strings,
    json_bytes,
    list_pieces,
    mapped,
    object_pieces,
    packed,
    packed_places,
    short_numbers,
    stretches,
)
from probe_flow.reports.numbering import Numbering


class CallLink(Struct, frozen=True, gc=False):
    """Communication of a call with one of another rank.

    Args:
        direction: what the call does: ``send``, ``receive`` or ``send_receive``.
        other: the call at the other end.
    """

    direction: str
    other: NodeKey


class SideFigures(Struct, frozen=True):
    """What graphs say of the calls of one side; calls of which they say nothing are absent.

    Args:
        levels: how bad the overflow of a call is: ``medium``, ``high`` or ``critical``.
        micro_steps: number of its micro step, from 0; of executions with several.
        links: its communication with other ranks.
    """

    levels: dict[NodeKey, str] = field(default_factory=dict)
    micro_steps: dict[NodeKey, int] = field(default_factory=dict)
    links: dict[NodeKey, tuple[CallLink, ...]] = field(default_factory=dict)


class CallFigures(Struct, frozen=True):
    """What graphs say of calls beyond their rows.

    Args:
        scores: how far a call of the target is from its partner, from 0 (equal) to 1; calls without a score are absent.
        sides: side (``target``, ``golden``) -> what is said of its calls.
    """

    scores: Mapping[NodeKey, float] = field(default_factory=dict)
    sides: Mapping[str, SideFigures] = field(default_factory=dict)


AskFigures: TypeAlias = Callable[[], CallFigures]
"""Gives what graphs say of calls; asked after all rows, so that they may be made meanwhile."""

_NOTHING_SAID = SideFigures()
_LINK = ("node", "direction", "other")


class NodeTable:
    """Numbers the nodes of all sides, the executions they belong to and the source frames they were called from.

    Args:
        strings: where names go.
        catalogs: of the comparison, by side.
        figures: gives what graphs say of calls.
    """

    def __init__(self, strings: Strings, catalogs: Mapping[str, Catalog], figures: AskFigures = CallFigures) -> None:
        self._strings = strings
        self._ask = figures
        self._catalogs = tuple(catalogs.values())
        # One dump may be on both sides: its nodes are those of the target.
        self._names = {id(catalog): side for side, catalog in reversed(list(catalogs.items()))}
        self._sides: dict[int, _Side] = {}
        self._side_of: list[_Side] = []
        self._keys: list[NodeKey] = []
        self._executions: dict[tuple[object, ...], int] = {}
        self._labels: list[Execution] = []
        self._stacks = Numbering[tuple[str, ...]]()

    def number(self, catalog: Catalog, key: NodeKey) -> int:
        """Return the number of a node of a catalog."""
        side = self._sides.get(id(catalog)) or self._side(catalog)
        if key is side.last:  # rows of one node follow each other
            return side.last_number
        place = side.keys.number(key)
        if place == len(side.numbers):
            side.numbers.append(len(self._keys))
            self._side_of.append(side)
            self._keys.append(key)
        side.last, side.last_number = key, side.numbers[place]
        return side.last_number

    @cached_property
    def _figures(self) -> CallFigures:
        return self._ask()

    def _side(self, catalog: Catalog) -> _Side:
        found = self._sides[id(catalog)] = _Side(catalog, self._names.get(id(catalog), catalog.side))
        return found

    def nodes(self) -> Iterator[bytes]:
        """Yield the nodes as columns, the last thing to ask for: it numbers calls that no row names."""
        sides = list(self._sides.values()) or [self._side(catalog) for catalog in self._catalogs]
        for side in sides:
            for call in side.calls_without_rows():
                self.number(side.catalog, call.key)
        above = self._above()
        return object_pieces(self._columns(above))

    def _columns(self, above: Pieces | None) -> Iterator[Member]:
        keys, strings = self._keys, self._strings
        nodes = [side.node(key) for side, key in zip(self._side_of, keys, strict=True)]

        def texts(text: Callable[[Node], str | None]) -> Pieces | None:
            cells = ([None if node is None else text(node) for node in some] for some in stretches(nodes))
            return packed_places(map(strings.places, cells))

        def lists(texts: Callable[[Node], tuple[str, ...]]) -> Pieces | None:
            cells = ([() if node is None else texts(node) for node in some] for some in stretches(nodes))
            return packed_places(map(strings.lists, cells))

        yield "count", (json_bytes(len(keys)),)
        yield "execution", packed(map(self._execution_numbers, stretches(keys)))
        yield "call", packed([key.call for key in some] for some in stretches(keys))
        yield "side", packed([side.name for side in some] for some in stretches(self._side_of))
        yield "name", packed_places(strings.places(key.name for key in some) for some in stretches(keys))
        yield "entry", texts(_entry)
        yield "op", texts(lambda node: node.op_type)
        yield "phase", packed_places(map(self._phases, stretches(keys)))
        yield "kind", texts(_kind)
        yield "parent", texts(lambda node: node.parent)
        yield "above", above
        if above is not None:
            yield "order", packed_places(map(self._orders, stretches(self._side_of), stretches(nodes)))
        yield "score", packed(map(self._scores, stretches(self._side_of), stretches(keys)))
        yield "level", packed_places(map(self._levels, stretches(self._side_of), stretches(keys)))
        yield "micro_step", packed(map(self._micro_steps, stretches(self._side_of), stretches(keys)))
        yield "originals", lists(lambda node: node.originals)
        yield "passes", lists(lambda node: node.passes)
        yield "stack", packed_places(map(self._stack_numbers, stretches(self._side_of), stretches(nodes)))

    def _above(self) -> Pieces | None:
        """Return the caller of every node, by number; callers come to the end of the list and have callers too."""
        above: list[int | None] = []
        for side, key in zip(self._side_of, self._keys, strict=True):  # they grow meanwhile
            caller = side.caller(key)
            above.append(None if caller is None else self.number(side.catalog, caller))
        return packed_places(stretches(above))

    def _scores(self, sides: Sequence[_Side], keys: Sequence[NodeKey]) -> Sequence[Any]:
        scores = self._figures.scores
        return short_numbers(
            [scores.get(key) if side.name == "target" else None for side, key in zip(sides, keys, strict=True)]
        )

    def _levels(self, sides: Sequence[_Side], keys: Sequence[NodeKey]) -> list[int | None]:
        found = (self._said(side).levels.get(key) for side, key in zip(sides, keys, strict=True))
        return self._strings.places(found)

    def _micro_steps(self, sides: Sequence[_Side], keys: Sequence[NodeKey]) -> list[int | None]:
        return [self._said(side).micro_steps.get(key) for side, key in zip(sides, keys, strict=True)]

    def _said(self, side: _Side) -> SideFigures:
        return self._figures.sides.get(side.name, _NOTHING_SAID)

    def _orders(self, sides: Sequence[_Side], nodes: Sequence[Node | None]) -> list[int | None]:
        return [None if node is None else side.order(node) for side, node in zip(sides, nodes, strict=True)]

    def _phases(self, keys: Sequence[NodeKey]) -> list[int | None]:
        return mapped([key.phase for key in keys], lambda phase: self._strings.place(phase.value))

    def _stack_numbers(self, sides: Sequence[_Side], nodes: Sequence[Node | None]) -> list[int | None]:
        numbers: list[int | None] = []
        for side, node in zip(sides, nodes, strict=True):
            frames = side.stacks.get(node.stack_id) if node is not None and node.stack_id is not None else None
            numbers.append(self._stacks.number(frames) if frames else None)
        return numbers

    def stacks(self) -> Iterator[bytes]:
        """Yield the stacks that nodes name, innermost frame first, each frame by its place among the texts."""
        return list_pieces(list(map(self._strings.places, some)) for some in stretches(self._stacks.things))

    def _execution_numbers(self, keys: Sequence[NodeKey]) -> list[int]:
        return mapped([key.execution for key in keys], self._execution)

    def _execution(self, execution: Execution) -> int:
        found = self._executions.get(execution.identity)
        if found is None:
            found = self._executions[execution.identity] = len(self._labels)
            self._labels.append(execution)
        return found

    def executions(self) -> list[dict[str, Any]]:
        """Return the executions, in order of their first row."""
        return [
            {
                "label": str(execution),
                "rank": execution.rank,
                "graph": execution.graph,
                "step": execution.step,
                "micro_step": execution.micro_step,
            }
            for execution in self._labels
        ]

    def links(self, catalogs: Mapping[str, Catalog]) -> Iterator[bytes]:
        """Yield the communication across ranks as columns: a call, what it does, the call at the other end."""
        found = [
            (self.number(catalog, key), self._strings.place(link.direction), self.number(catalog, link.other))
            for side, catalog in catalogs.items()
            for key, links in self._figures.sides.get(side, _NOTHING_SAID).links.items()
            for link in links
        ]
        columns: list[tuple[Any, ...]] = list(zip(*found, strict=True)) or [(), (), ()]
        members = [(name, packed_places(stretches(cells))) for name, cells in zip(_LINK, columns, strict=True)]
        return object_pieces([("count", (json_bytes(len(found)),)), *members])

    def edges(self, catalogs: Sequence[Catalog]) -> Iterator[bytes]:
        """Yield the data flow of the catalogs as columns: producer, its output, consumer, its input."""

        def cells(value: Callable[[Catalog, Edge], int]) -> Iterator[list[int]]:
            for catalog in catalogs:
                for some in stretches(catalog.edges):
                    yield [value(catalog, edge) for edge in some]

        def columns() -> Iterator[Member]:
            yield "count", (json_bytes(sum(len(catalog.edges) for catalog in catalogs)),)
            yield "producer", packed_places(cells(lambda catalog, edge: self.number(catalog, edge.producer)))
            yield "consumer", packed_places(cells(lambda catalog, edge: self.number(catalog, edge.consumer)))
            yield "output", packed(cells(lambda _, edge: edge.output))
            yield "input", packed(cells(lambda _, edge: edge.input))

        return object_pieces(columns())


class _Side:
    """One catalog with the numbers of its nodes.

    Args:
        catalog: the dump.
        name: the side.
    """

    def __init__(self, catalog: Catalog, name: str) -> None:
        self.catalog = catalog
        self.name = name
        self.stacks = catalog.stacks
        self.keys = Numbering[NodeKey]()
        self.numbers = array("I")
        self.last: NodeKey | None = None
        self.last_number = 0

    @cached_property
    def _trees(self) -> Mapping[Execution, CallTree]:
        """The call trees of the executions in which anything was called by a call."""
        return {run: tree for run, tree in call_trees(self.catalog).items() if tree.has_calls_inside}

    @cached_property
    def _undumped(self) -> Mapping[NodeKey, Node]:
        return {call.key: call for call in self.catalog.undumped}

    def node(self, key: NodeKey) -> Node | None:
        """Return what is known of a node, None for a caller of which only the name is known."""
        return self.catalog.nodes.get(key) or self._undumped.get(key)

    def order(self, node: Node) -> int:
        """Return a number that rises with execution; calls without entry ran before the one that ended next."""
        return 2 * node.order - (node.key in self._undumped)

    def caller(self, key: NodeKey) -> NodeKey | None:
        """Return the key of a node's caller, which need not be a node of the catalog."""
        tree = self._trees.get(key.execution)
        number = tree.numbers.get(key) if tree is not None else None
        if tree is None or number is None or (caller := tree.callers[number]) == ROOT:
            return None
        return tree.calls[caller].key

    def calls_without_rows(self) -> Iterator[Node]:
        """Yield the calls that have no row since they left nothing, in executions that have rows and a call tree.

        Of a dump without any row, which is shown and not judged, these are all calls.
        """
        calls: Iterable[Node] = (*self.catalog.nodes.values(), *self.catalog.undumped)
        if not self.keys.things:
            yield from (call for call in calls if call.key.execution in self._trees)
            return
        runs = {key.execution for key in self.keys.things} & self._trees.keys()
        if not runs:
            return
        owners = {tensor.node for tensor in self.catalog.tensors}
        yield from (call for call in calls if call.key.execution in runs and call.key not in owners)


def _entry(node: Node) -> str | None:
    """Return the name of a node's entry in its dump, None where the node has no other name."""
    entry = node.entry
    return None if entry == node.key.name else entry


def _kind(node: Node) -> str | None:
    return node.kind.value if node.kind is not None else None
