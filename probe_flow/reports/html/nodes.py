"""Nodes, executions and data flow for the HTML report, by number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from probe_flow.record.rows import NodeIndex
from probe_flow.records import Catalog, Execution, Node, NodeKey
from probe_flow.relations.call_tree import CallTree, without_circles
from probe_flow.reports.html.columns import Strings, mapped, packed, packed_columns, packed_places


class NodeTable:
    """Numbers the nodes of all sides, the executions they belong to and the source frames they were called from.

    Args:
        strings: where names go.
    """

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._sides: dict[int, _Side] = {}
        self._known: list[tuple[_Side, NodeKey, Node | None]] = []
        self._executions: dict[tuple[object, ...], int] = {}
        self._labels: list[Execution] = []
        self._stacks: dict[tuple[str, ...], int] = {}

    def number(self, catalog: Catalog, key: NodeKey) -> int:
        """Return the number of a node of a catalog."""
        side = self._sides.get(id(catalog)) or self._side(catalog)
        found = side.numbers.get(id(key))
        if found is None:
            node = side.index.get(key)
            own = key if node is None else node.key
            found = side.numbers.get(id(own)) if node is not None else side.unknown.get(key)
            if found is None:
                found = len(self._known)
                self._known.append((side, own, node))
                if node is None:
                    side.unknown[key] = found
            side.numbers[id(own)] = side.numbers[id(key)] = found
            side.kept.append(key)
        return found

    def _side(self, catalog: Catalog) -> _Side:
        found = self._sides[id(catalog)] = _Side(catalog)
        return found

    def nodes(self) -> dict[str, Any]:
        """Return the nodes as columns, the last thing to ask for: it numbers callers that no row names."""
        above = self._above()
        keys = [key for _, key, _ in self._known]
        nodes = [node for _, _, node in self._known]
        texts, lists = self._strings.places, self._strings.lists
        columns = {
            "execution": packed(self._execution_numbers(keys)),
            "call": packed([key.call for key in keys]),
            "side": packed([side.name for side, _, _ in self._known]),
            "name": packed_places(texts([key.name for key in keys])),
            "op": packed_places(texts([node.op_type if node is not None else None for node in nodes])),
            "phase": packed_places(mapped([key.phase for key in keys], lambda phase: self._strings.place(phase.value))),
            "kind": packed_places(texts([_kind(node) for node in nodes])),
            "parent": packed_places(texts([node.parent if node is not None else None for node in nodes])),
            "above": packed_places(above),
            "originals": packed_places(lists([node.originals if node is not None else () for node in nodes])),
            "passes": packed_places(lists([node.passes if node is not None else () for node in nodes])),
            "stack": packed_places([self._stack(side, node) for side, _, node in self._known]),
        }
        return {"count": len(self._known), **packed_columns(columns)}

    def _above(self) -> list[int | None]:
        """Return the caller of every node, by number; callers come to the end of the list and have callers too."""
        above: list[int | None] = []
        for side, key, node in self._known:  # it grows meanwhile
            caller = side.callers.caller(key, node) if node is not None else None
            above.append(None if caller is None else self.number(side.catalog, caller))
        return without_circles(above)

    def _stack(self, side: _Side, node: Node | None) -> int | None:
        frames = side.catalog.stacks.get(node.stack_id) if node is not None and node.stack_id is not None else None
        return self._stacks.setdefault(frames, len(self._stacks)) if frames else None

    def stacks(self) -> list[list[int | None]]:
        """Return the stacks that nodes name, innermost frame first, each frame by its place among the texts."""
        return [self._strings.places(frames) for frames in self._stacks]

    def _execution_numbers(self, keys: Iterable[NodeKey]) -> list[int]:
        known: dict[int, int] = {}
        numbers = []
        for key in keys:
            number = known.get(id(key.execution))
            if number is None:
                number = known[id(key.execution)] = self._execution(key.execution)
            numbers.append(number)
        return numbers

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

    def edges(self, catalogs: Iterable[Catalog]) -> dict[str, Any]:
        """Return the data flow of the catalogs as columns: producer, its output, consumer, its input."""
        edges = [(catalog, edge) for catalog in catalogs for edge in catalog.edges]
        columns = {
            "producer": packed_places([self.number(catalog, edge.producer) for catalog, edge in edges]),
            "consumer": packed_places([self.number(catalog, edge.consumer) for catalog, edge in edges]),
            "output": packed([edge.output for _, edge in edges]),
            "input": packed([edge.input for _, edge in edges]),
        }
        return {"count": len(edges), **packed_columns(columns)}


class _Side:
    """One catalog with the numbers of its nodes, by the `id` of keys that stay alive: hashing them is slow."""

    __slots__ = ("callers", "catalog", "index", "kept", "name", "numbers", "unknown")

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.name = catalog.side
        self.index = NodeIndex(catalog)
        self.callers = CallTree(catalog.nodes)
        self.numbers: dict[int, int] = {}
        self.unknown: dict[NodeKey, int] = {}
        self.kept: list[NodeKey] = []


def _kind(node: Node | None) -> str | None:
    kind = node.attrs.get("kind") if node is not None else None
    return kind if isinstance(kind, str) else None
