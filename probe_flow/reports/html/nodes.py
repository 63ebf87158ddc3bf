"""Nodes, executions and data flow for the HTML report, by number."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, groupby, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from msgspec import Struct, field

from probe_flow.records import CallFacts, Catalog, Execution, Node, NodeKey, NodeKind, Phase
from probe_flow.records.figures import Integers
from probe_flow.relations.call_tree import ROOT, each_call_tree, numbers_of
from probe_flow.reports.html.columns import (
    NO_PLACE,
    Alike,
    Columns,
    Strings,
    json_bytes,
    list_pieces,
    object_pieces,
    stretches,
)
from probe_flow.reports.html.numbers import short_numbers
from probe_flow.reports.numbering import Numbering

if TYPE_CHECKING:
    from probe_flow.reports.html.columns import Places
    from probe_flow.reports.html.packing import Piece


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
        place = side.keys.number(key)
        if place == len(side.numbers):
            side.numbers.append(len(self._keys))
            self._side_of.append(side)
            self._keys.append(key)
        return side.numbers[place]

    def numbers(self, catalogs: Iterable[Catalog], keys: Sequence[NodeKey | None]) -> Places:
        """Return the numbers of nodes, each of its catalog; rows of one node follow each other."""
        found: list[int] = []
        last, last_catalog, number = None, None, NO_PLACE
        for catalog, key in zip(catalogs, keys, strict=False):
            if key is not last or catalog is not last_catalog:
                last, last_catalog = key, catalog
                number = NO_PLACE if key is None else self.number(catalog, key)
            found.append(number)
        return np.array(found, dtype=np.intp)

    @cached_property
    def _figures(self) -> CallFigures:
        return self._ask()

    def _side(self, catalog: Catalog) -> _Side:
        found = self._sides[id(catalog)] = _Side(catalog, self._names.get(id(catalog), catalog.side))
        return found

    def nodes(self) -> Iterator[Piece]:
        """Yield the nodes as columns, the last thing to ask for: it numbers calls that no row names."""
        sides = list(self._sides.values()) or [self._side(catalog) for catalog in self._catalogs]
        for side in sides:
            for call in side.calls_without_rows():
                self.number(side.catalog, call.key)
        callers = self._callers()
        columns = Columns()
        for numbers in stretches(range(len(self._keys))):
            some = slice(numbers[0], numbers[-1] + 1)
            keys, of_sides = self._keys[some], self._side_of[some]
            nodes = [side.node(key) for side, key in zip(of_sides, keys, strict=True)]
            self._add_keys(columns, keys, of_sides)
            self._add_nodes(columns, nodes)
            self._add_figures(columns, keys, of_sides)
            if callers is not None:
                columns.add_places(above=callers[some], order=_orders(of_sides, nodes))
            columns.add_places(stack=self._stack_numbers(of_sides, nodes))
        return object_pieces(chain([("count", (json_bytes(len(self._keys)),))], columns.members()))

    def _add_keys(self, columns: Columns, keys: Sequence[NodeKey], sides: Sequence[_Side]) -> None:
        """Add what identifies nodes."""
        executions = [key.execution for key in keys]
        phases = [key.phase for key in keys]
        columns.add(
            execution=Alike(list(map(id, executions)), executions).cells(self._execution),
            call=[key.call for key in keys],
            side=[side.name for side in sides],
        )
        columns.add_places(
            name=self._strings.places([key.name for key in keys]),
            phase=Alike(phases, phases).places(lambda phase: self._strings.place(phase.value)),
        )

    def _add_nodes(self, columns: Columns, nodes: Sequence[Node | None]) -> None:
        """Add what is known of nodes, nothing of a caller of which only the name is."""
        strings = self._strings
        kinds = [None if node is None else node.kind for node in nodes]
        columns.add(named=[None if node is None else _is_named(node) for node in nodes])
        columns.add_places(
            entry=strings.places([None if node is None else _entry(node) for node in nodes]),
            op=strings.places([None if node is None else node.op_type for node in nodes]),
            parent=strings.places([None if node is None else node.parent for node in nodes]),
            kind=Alike(kinds, kinds).places(lambda kind: strings.place(None if kind is None else kind.value)),
            originals=strings.lists([() if node is None else node.originals for node in nodes]),
            passes=strings.lists([() if node is None else node.passes for node in nodes]),
        )

    def _add_figures(self, columns: Columns, keys: Sequence[NodeKey], sides: Sequence[_Side]) -> None:
        """Add what graphs say of calls."""
        scores, said = self._figures.scores, [self._figures.sides.get(side.name, _NOTHING_SAID) for side in sides]
        of_target = [scores.get(key) if side.name == "target" else None for side, key in zip(sides, keys, strict=True)]
        columns.add(
            score=short_numbers(of_target),
            micro_step=[each.micro_steps.get(key) for each, key in zip(said, keys, strict=True)],
        )
        levels = [each.levels.get(key) for each, key in zip(said, keys, strict=True)]
        columns.add_places(level=self._strings.places(levels))

    def _callers(self) -> Places | None:
        """Return the caller of every node, by number; callers come to the end of the list and have callers too."""
        found = array("q")
        for side, key in zip(self._side_of, self._keys, strict=True):  # they grow meanwhile
            caller = side.caller(key)
            found.append(NO_PLACE if caller is None else self.number(side.catalog, caller))
        callers = np.frombuffer(found, dtype=np.int64)
        return callers if (callers != NO_PLACE).any() else None

    def _stack_numbers(self, sides: Sequence[_Side], nodes: Sequence[Node | None]) -> Places:
        numbers: list[int] = []
        for side, node in zip(sides, nodes, strict=True):
            frames = side.stacks.get(node.stack_id) if node is not None and node.stack_id is not None else None
            numbers.append(self._stacks.number(frames) if frames else NO_PLACE)
        return np.array(numbers, dtype=np.intp)

    def stacks(self) -> Iterator[Piece]:
        """Yield the stacks that nodes name, innermost frame first, each frame by its place among the texts."""
        place = self._strings.place
        return list_pieces(
            [[place(frame) if frame else None for frame in frames] for frames in some]
            for some in stretches(self._stacks.things)
        )

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

    def links(self, catalogs: Mapping[str, Catalog]) -> Iterator[Piece]:
        """Yield the communication across ranks as columns: a call, what it does, the call at the other end."""
        found = [
            (self.number(catalog, key), self._strings.place(link.direction), self.number(catalog, link.other))
            for side, catalog in catalogs.items()
            for key, links in self._figures.sides.get(side, _NOTHING_SAID).links.items()
            for link in links
        ]
        columns = Columns()
        for some in stretches(found):
            columns.add_places(**dict(zip(_LINK, np.array(some, dtype=np.intp).T, strict=True)))
        return object_pieces(chain([("count", (json_bytes(len(found)),))], columns.members()))

    def edges(self, catalogs: Sequence[Catalog]) -> Iterator[Piece]:
        """Yield the data flow of the catalogs as columns: producer, its output, consumer, its input."""
        columns = Columns()
        for catalog in catalogs:
            for some in stretches(catalog.edges):
                columns.add_places(
                    producer=self.numbers(repeat(catalog), [edge.producer for edge in some]),
                    consumer=self.numbers(repeat(catalog), [edge.consumer for edge in some]),
                )
                columns.add(output=[edge.output for edge in some], input=[edge.input for edge in some])
        count = sum(len(catalog.edges) for catalog in catalogs)
        return object_pieces(chain([("count", (json_bytes(count),))], columns.members()))


def _orders(sides: Sequence[_Side], nodes: Sequence[Node | None]) -> Places:
    """Return numbers of nodes that rise with execution."""
    pairs = zip(sides, nodes, strict=True)
    return np.array([NO_PLACE if node is None else side.order(node) for side, node in pairs], dtype=np.intp)


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
        self._shown: tuple[object, Sequence[Node], Mapping[NodeKey, int]] = None, [], {}

    @cached_property
    def _nodes(self) -> Mapping[Execution, Sequence[Node]]:
        return self.catalog.nodes_by_run()

    @cached_property
    def _trees(self) -> Mapping[Execution, tuple[Sequence[Node], Integers]]:
        """Of executions in which anything was called by a call: calls that are no nodes, and all callers."""
        return {
            run: (tree.calls[tree.dumped :], array("i", tree.callers))
            for run, tree in each_call_tree(self.catalog)
            if tree.has_calls_inside
        }

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
        found = self._trees.get(key.execution)
        if found is None:
            return None
        others, callers = found
        if found is not self._shown[0]:  # calls of one execution follow each other, whose keys may each have their own
            ran = [*self._nodes[key.execution], *others]
            self._shown = found, ran, numbers_of(ran)
        _, calls, numbers = self._shown
        number = numbers.get(key)
        if number is None or (caller := callers[number]) == ROOT:
            return None
        return calls[caller].key

    def calls_without_rows(self) -> Iterator[Node]:
        """Yield the calls that have no row since they left nothing, in executions that have rows and a call tree.

        Of a dump without any row, which is shown and not judged, these are all calls.
        """
        calls = chain(self.catalog.nodes.values(), self.catalog.undumped)
        if not self.keys.things:
            yield from (call for call in calls if call.key.execution in self._trees)
            return
        runs = {key.execution for key in self.keys.things} & self._trees.keys()
        if not runs:
            return
        tensors = self.catalog.tensors_by_execution()
        for run, some in groupby(calls, attrgetter("key.execution")):  # of one it is held what owns any
            owners = {tensor.node for tensor in tensors.get(run, ())} if run in runs else {}
            yield from (call for call in some if run in runs and call.key not in owners)


def _is_named(node: Node) -> bool | None:
    """Return True if kind, name, call and phase say what its entry is called (`entry_name`), and not just its name."""
    facts = node.facts
    if not isinstance(facts, CallFacts) or facts.entry is not None:
        return None
    return None if facts.kind is NodeKind.API and node.key.phase is Phase.NONE else True


def _entry(node: Node) -> str | None:
    """Return the name of a node's entry in its dump where that is no usual one; None where it is the node's."""
    entry = node.facts.entry if isinstance(node.facts, CallFacts) else None
    return None if entry == node.key.name else entry
