"""The neighbourhood of a node: what feeds it and what it feeds, up to a number of steps away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.record.facts import judged_text
from probe_flow.reports.marks import Mark
from probe_flow.runs.queries.base import Identity, place
from probe_flow.runs.queries.stored_nodes import Link, StoredNode, StoredNodes

MAX_NODES = 200
"""Nodes of one neighbourhood; more cannot be drawn so that a person reads it."""


class Shown(Struct, frozen=True):
    """A node of a neighbourhood.

    Args:
        node: which.
        distance: steps from the root: negative against the flow, positive along it, 0 for the root itself.
        verdict: the worst of its rows, None when it has none.
        role: ``origin`` or ``inherited`` where the analysis says so.
        mark: how it is drawn, None when it has no row.
        excess: the largest of the rows with that mark, None when they have none.
    """

    node: StoredNode
    distance: int
    verdict: str | None = None
    role: str | None = None
    mark: Mark | None = None
    excess: float | None = None

    @property
    def judged(self) -> str:
        """What it is to people and what the row rule says, empty when there is neither."""
        return judged_text(self.role, self.verdict)


class Flowing(Struct, frozen=True):
    """An edge of a neighbourhood; places of nodes in its list."""

    producer: int
    output: int
    consumer: int
    input: int


class Subgraph(Struct, frozen=True):
    """A neighbourhood.

    Args:
        nodes: the root first, then by distance.
        edges: all between them.
        left_out: neighbours within the depth that are more than can be shown.
        depth: steps that were asked for.
    """

    nodes: tuple[Shown, ...]
    edges: tuple[Flowing, ...]
    left_out: int
    depth: int

    def judged(
        self,
        judge: Callable[[StoredNode], tuple[str | None, str | None]],
        mark_of: Callable[[StoredNode], tuple[Mark, float | None] | None],
    ) -> Subgraph:
        """Return the same with verdicts, roles and marks."""
        nodes = []
        for shown in self.nodes:
            verdict, role = judge(shown.node)
            mark, excess = mark_of(shown.node) or (None, None)
            nodes.append(replace(shown, verdict=verdict, role=role, mark=mark, excess=excess))
        return replace(self, nodes=tuple(nodes))

    def data(self) -> dict[str, Any]:
        """Return the neighbourhood as JSON."""
        return {
            "depth": self.depth,
            "left_out": self.left_out,
            "nodes": [
                {
                    "side": shown.node.side,
                    **place(shown.node.known, shown.node.name),
                    "op_type": shown.node.op_type,
                    "distance": shown.distance,
                    "verdict": shown.verdict,
                    "role": shown.role,
                }
                for shown in self.nodes
            ],
            "edges": [
                {"producer": edge.producer, "output": edge.output, "consumer": edge.consumer, "input": edge.input}
                for edge in self.edges
            ],
        }


def subgraph(nodes: StoredNodes, root: StoredNode, *, depth: int, cap: int = MAX_NODES) -> Subgraph:
    """Return what feeds a node, and what feeds that, and so on; and the same along the flow.

    Each direction keeps going in its own: what else a producer feeds is not a neighbour. Nodes come once, however many
    ways lead to them; the nearest ones come first, so a cap leaves out the farthest.
    """
    found: dict[tuple[str, Identity], Shown] = {root.key: Shown(root, 0)}
    beyond: set[tuple[str, Identity]] = set()
    ends = {-1: [root], 1: [root]}
    step: Mapping[int, Callable[[StoredNode], list[Link]]] = {-1: nodes.producers, 1: nodes.consumers}
    for distance in range(1, depth + 1):
        for direction in (-1, 1):
            reached = []
            for link in (link for node in ends[direction] for link in step[direction](node)):
                if link.node.key in found or link.node.key in beyond:
                    continue
                if len(found) >= cap:
                    beyond.add(link.node.key)
                else:
                    found[link.node.key] = Shown(link.node, direction * distance)
                    reached.append(link.node)
            ends[direction] = reached
    numbers = {key: place for place, key in enumerate(found)}
    edges = [
        Flowing(numbers[link.node.key], link.output, numbers[shown.node.key], link.input)
        for shown in found.values()
        for link in nodes.producers(shown.node)
        if link.node.key in numbers
    ]
    return Subgraph(tuple(found.values()), tuple(dict.fromkeys(edges)), len(beyond), depth)
