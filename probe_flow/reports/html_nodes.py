"""Nodes, executions and data flow for the HTML report, by number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from probe_flow.records import Catalog, Execution, NodeKey
from probe_flow.reports.html_columns import Columns, Strings
from probe_flow.reports.rows import stack_of


class NodeTable:
    """Numbers the nodes of all sides and the executions they belong to.

    Args:
        strings: where names go.
    """

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._numbers: dict[tuple[int, NodeKey], int] = {}
        self._executions: dict[tuple[object, ...], int] = {}
        self._labels: list[Execution] = []
        self._columns = Columns()

    def number(self, catalog: Catalog, key: NodeKey) -> int:
        """Return the number of a node of a catalog."""
        place = (id(catalog), key)
        found = self._numbers.get(place)
        if found is None:
            found = self._numbers[place] = len(self._numbers)
            self._add(catalog, key)
        return found

    def _add(self, catalog: Catalog, key: NodeKey) -> None:
        node = catalog.nodes.get(key)
        text = self._strings.place
        self._columns.add(execution=self._execution(key.execution), call=key.call)
        self._columns.add_places(
            name=text(key.name),
            op=text(node.op_type if node else None),
            phase=text(key.phase.value),
            parent=text(node.parent if node else None),
            originals=text("\n".join(node.originals) if node else None),
            passes=text("\n".join(node.passes) if node else None),
            stack=text("\n".join(stack_of(catalog, key))),
        )

    def _execution(self, execution: Execution) -> int:
        found = self._executions.get(execution.identity)
        if found is None:
            found = self._executions[execution.identity] = len(self._labels)
            self._labels.append(execution)
        return found

    def nodes(self) -> dict[str, Any]:
        """Return the nodes as columns."""
        return {"count": len(self._numbers), **self._columns.packed()}

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

    def edges(self, catalogs: Mapping[str, Catalog]) -> dict[str, Any]:
        """Return the data flow of the catalogs as columns: producer, its output, consumer, its input."""
        flow = Columns()
        edges = [(catalog, edge) for catalog in catalogs.values() for edge in catalog.edges]
        for catalog, edge in edges:
            producer, consumer = self.number(catalog, edge.producer), self.number(catalog, edge.consumer)
            flow.add_places(producer=producer, consumer=consumer)
            flow.add(output=edge.output, input=edge.input)
        return {"count": len(edges), **flow.packed()}
