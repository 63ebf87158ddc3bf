"""The nodes of a stored run: who feeds whom, found by name; a full record is read again only when it is asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.record.run_folder import StoredRun
from probe_flow.record.types.nodes import NodeRecord
from probe_flow.records import Phase
from probe_flow.runs.queries.base import EVERYWHERE, Identity, NamesFound, Scope, find_names, identity

Flow = tuple[int, Identity, int]
"""Input of the consumer, the producer, output of the producer."""


class StoredNode(Struct, frozen=True):
    """What is kept of every node.

    Args:
        line: number of its record, over all comparisons of the run.
        side: ``target``, ``golden`` or ``reference``.
        known: which call of which node in which execution.
        name: what it is called in its dump.
        op_type: its type.
        order: place in its execution.
        parent: name of the module that holds it.
        flows: what feeds it.
        passes, kernel: fusion passes that made it, and its kernel.
        stack: the line of the node that has the same source frames, None where it has its own.
    """

    line: int
    side: str
    known: Identity
    name: str
    op_type: str
    order: int
    parent: str | None
    flows: tuple[Flow, ...]
    passes: tuple[str, ...]
    kernel: str
    stack: int | None

    @property
    def node(self) -> str:
        """True name."""
        return self.known.node

    @property
    def key(self) -> tuple[str, Identity]:
        """The node among those of all sides."""
        return self.side, self.known

    @property
    def execution(self) -> tuple[Any, ...]:
        """Side, comparison, rank, graph and step."""
        return (self.side, *self.known[:4])

    @property
    def title(self) -> str:
        """Name, with the call and the direction where they say something; as ids of tensors begin."""
        call = f"#{self.known.call}" if self.known.call else ""
        return f"{self.node}{call}{'.backward' if self.known.phase is Phase.BACKWARD else ''}"


class Link(Struct, frozen=True):
    """A neighbour: the node at the other end, and the two slots."""

    node: StoredNode
    input: int
    output: int


class _Execution(Struct, frozen=True):
    """The nodes of one execution of one side in their order, where each stands, and what modules hold."""

    nodes: list[StoredNode]
    places: Mapping[tuple[str, Identity], int]
    children: Mapping[str, list[StoredNode]]
    has_flow: bool


class StoredNodes:
    """All nodes of a run.

    Args:
        run: the run; its ``nodes.jsonl`` is read once here.

    Raises:
        IncompleteError: PF7204 when the file is missing or damaged.
    """

    def __init__(self, run: StoredRun) -> None:
        self._run = run
        self._nodes = tuple(_stored(line, record) for line, record in run.nodes())
        self._by_key = {node.key: node for node in self._nodes}
        self._consumers: dict[tuple[str, Identity], list[Link]] | None = None
        self._executions: dict[tuple[Any, ...], _Execution] | None = None

    def __iter__(self) -> Iterator[StoredNode]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def find(self, wanted: str, scope: Scope = EVERYWHERE) -> tuple[NamesFound, list[StoredNode]]:
        """Return the nodes that a name or a part of one means, targets first, in the order of their records.

        The name may be that of the node, with ``#CALL`` behind it, or the one that the dump has.

        Raises:
            UsageError: PF7201 when none fits.
        """
        by_name: defaultdict[str, list[StoredNode]] = defaultdict(list)
        for node in self._nodes:
            is_of_it = scope.comparison is None or node.known.comparison in (None, scope.comparison)
            if is_of_it and scope.keeps(node.known):
                for name in dict.fromkeys((node.node, node.title, node.name)):
                    if name:
                        by_name[name].append(node)
        found = find_names(wanted, by_name, what="node", path=str(self._run.folder))
        nodes = dict.fromkeys(node for name in found.names for node in by_name[name])
        return found, sorted(nodes, key=lambda node: node.line)

    def get(self, side: str, known: Identity) -> StoredNode | None:
        """Return one node, None when the run has no record of it."""
        return self._by_key.get((side, known))

    def records(self, nodes: Sequence[StoredNode]) -> dict[tuple[str, Identity], NodeRecord]:
        """Return the full records of some nodes, their stacks in them, read from the file again."""
        lines = {node.line for node in nodes} | {node.stack for node in nodes if node.stack is not None}
        found = dict(self._run.nodes(lines=lines))
        return {node.key: _with_stack(found[node.line], found) for node in nodes}

    def producers(self, node: StoredNode) -> list[Link]:
        """Return who feeds a node, by input."""
        links = ((self._by_key.get((node.side, known)), into, output) for into, known, output in node.flows)
        return [Link(producer, into, output) for producer, into, output in links if producer is not None]

    def consumers(self, node: StoredNode) -> list[Link]:
        """Return whom a node feeds, by output and order of execution."""
        if self._consumers is None:
            found: defaultdict[tuple[str, Identity], list[Link]] = defaultdict(list)
            for consumer in self._nodes:
                for into, known, output in consumer.flows:
                    found[consumer.side, known].append(Link(consumer, into, output))
            self._consumers = dict(found)
        return sorted(
            self._consumers.get(node.key, []), key=lambda link: (link.output, link.node.order, link.node.line)
        )

    def has_flow(self, node: StoredNode) -> bool:
        """Say whether the dump of the node's execution told who feeds whom."""
        return self._in_execution(node).has_flow

    def beside(self, node: StoredNode) -> tuple[StoredNode | None, StoredNode | None]:
        """Return the nodes executed right before and right after a node, for dumps that do not tell who feeds whom."""
        execution = self._in_execution(node)
        others, at = execution.nodes, execution.places[node.key]
        return others[at - 1] if at else None, others[at + 1] if at + 1 < len(others) else None

    def children(self, node: StoredNode) -> list[StoredNode]:
        """Return the nodes that a module holds."""
        return self._in_execution(node).children.get(node.node, [])

    def _in_execution(self, node: StoredNode) -> _Execution:
        if self._executions is None:
            found: defaultdict[tuple[Any, ...], list[StoredNode]] = defaultdict(list)
            for each in self._nodes:
                found[each.execution].append(each)
            self._executions = {execution: _execution(nodes) for execution, nodes in found.items()}
        return self._executions[node.execution]


def _execution(nodes: Sequence[StoredNode]) -> _Execution:
    ordered = sorted(nodes, key=lambda node: node.order)
    places: dict[tuple[str, Identity], int] = {}
    children: defaultdict[str, list[StoredNode]] = defaultdict(list)
    for place, node in enumerate(ordered):
        places.setdefault(node.key, place)
        if node.parent is not None:
            children[node.parent].append(node)
    return _Execution(ordered, places, dict(children), any(node.flows for node in ordered))


def _stored(line: int, record: NodeRecord) -> StoredNode:
    known = identity(record)
    kernels = (record.attributes.get(key) for key in ("kernel", "kernel_name"))
    return StoredNode(
        line=line,
        side=record.side,
        known=known,
        name=known.node if record.name == known.node else record.name,  # one text for both, of many nodes
        op_type=record.op_type,
        order=record.order,
        parent=record.parent,
        flows=tuple(
            (edge.input, known._replace(node=edge.producer, call=edge.call, phase=edge.phase), edge.output)
            for edge in record.edges
        ),
        passes=record.passes,
        kernel=str(next(filter(None, kernels), "")),
        stack=record.stack if isinstance(record.stack, int) else None,
    )


def _with_stack(record: NodeRecord, records: Mapping[int, NodeRecord]) -> NodeRecord:
    """Return a record with its source frames, where it names the node that has them."""
    return replace(record, stack=records[record.stack].stack) if isinstance(record.stack, int) else record
