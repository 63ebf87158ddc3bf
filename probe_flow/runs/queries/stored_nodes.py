"""The nodes of a stored run: who feeds whom, found by name; a full record is read again only when it is asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.record.run_folder import NodeParts, StoredRun
from probe_flow.record.types.nodes import NodeRecord
from probe_flow.records import Phase
from probe_flow.runs.queries.base import EVERYWHERE, Identity, NamesFound, Scope, find_names, identity

Flow = tuple[int, Identity, int]
"""Input of the consumer, the producer, output of the producer."""

Call = tuple[Any, ...]
"""Node, call and phase: the end of an `Identity`, what tells the nodes of one execution apart."""


_call_of = attrgetter("node", "call", "phase")


class StoredNode(Struct, frozen=True):
    """What a node is, and how it belongs to others.

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
        return _titled(self.node, self.known.call, self.known.phase)


class Link(Struct, frozen=True):
    """A neighbour: the node at the other end, and the two slots."""

    node: StoredNode
    input: int
    output: int


class StoredNodes:
    """All nodes of a run.

    Args:
        run: the run; its ``nodes.jsonl`` is read once here.

    Raises:
        IncompleteError: PF7204 when the file is missing or damaged.
    """

    def __init__(self, run: StoredRun) -> None:
        self._run = run
        self._parts = [*run.node_parts()]
        self._nodes: dict[int, StoredNode] = {}

    def __iter__(self) -> Iterator[StoredNode]:
        return map(self._node, range(len(self._parts)))

    def __len__(self) -> int:
        return len(self._parts)

    def is_name(self, name: str) -> bool:
        """Return True if a node is called so."""
        return any(_is_called(part, name) for part in self._parts)

    def find(self, wanted: str, scope: Scope = EVERYWHERE) -> tuple[NamesFound, list[StoredNode]]:
        """Return the nodes that a name or a part of one means, targets first, in the order of their records.

        The name may be that of the node, with ``#CALL`` behind it, or the one that the dump has.

        Raises:
            UsageError: PF7201 when none fits.
        """
        lines = [
            line
            for line, part in enumerate(self._parts)
            if scope.comparison in (None, part.comparison or scope.comparison) and scope.keeps_call(part, part.call)
        ]
        exact = [line for line in lines if _is_called(self._parts[line], wanted)]
        if exact:
            return NamesFound((wanted,), "exact"), [*map(self._node, exact)]
        by_name: defaultdict[str, list[int]] = defaultdict(list)
        for line in lines:
            for name in _names(self._parts[line]):
                by_name[name].append(line)
        found = find_names(wanted, by_name, what="node", path=str(self._run.folder))
        return found, [*map(self._node, sorted({line for name in found.names for line in by_name[name]}))]

    def records(self, nodes: Sequence[StoredNode]) -> dict[tuple[str, Identity], NodeRecord]:
        """Return the full records of some nodes, their stacks in them, read from the file again."""
        lines = {node.line for node in nodes} | {node.stack for node in nodes if node.stack is not None}
        found = dict(self._run.nodes(lines=lines))
        return {node.key: _with_stack(found[node.line], found) for node in nodes}

    def producers(self, node: StoredNode) -> list[Link]:
        """Return who feeds a node, by input."""
        lines = self._execution_of(node).lines_of_calls if node.flows else {}
        found = ((lines.get(known[-3:]), into, output) for into, known, output in node.flows)
        return [Link(self._node(line), into, output) for line, into, output in found if line is not None]

    def consumers(self, node: StoredNode) -> list[Link]:
        """Return whom a node feeds, by output and order of execution."""
        found = self._execution_of(node).consumers.get(node.known[-3:], ())
        links = [Link(self._node(line), into, output) for line, into, output in found]
        return sorted(links, key=lambda link: (link.output, link.node.order, link.node.line))

    def has_flow(self, node: StoredNode) -> bool:
        """Say whether the dump of the node's execution told who feeds whom."""
        return bool(self._execution_of(node).consumers)

    def beside(self, node: StoredNode) -> tuple[StoredNode | None, StoredNode | None]:
        """Return the nodes executed right before and right after a node, for dumps that do not tell who feeds whom."""
        execution = self._execution_of(node)
        lines, at = execution.in_order, execution.places[node.known[-3:]]
        before, after = lines[at - 1 : at] if at else [], lines[at + 1 : at + 2]
        return next(map(self._node, before), None), next(map(self._node, after), None)

    def children(self, node: StoredNode) -> list[StoredNode]:
        """Return the nodes that a module holds."""
        return [*map(self._node, self._execution_of(node).children.get(node.node, ()))]

    def _node(self, line: int) -> StoredNode:
        found = self._nodes.get(line)
        if found is None:
            found = self._nodes[line] = _stored(line, self._parts[line])
        return found

    def _execution_of(self, node: StoredNode) -> _Execution:
        return self._executions[node.execution]

    @cached_property
    def _executions(self) -> Mapping[tuple[Any, ...], _Execution]:
        found: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
        for line, part in enumerate(self._parts):
            found[part.side, part.comparison, part.rank, part.graph, part.step].append(line)
        return {execution: _Execution(lines, self._parts) for execution, lines in found.items()}


class _Execution:
    """The nodes of one execution of one side, by their lines.

    Args:
        lines: its nodes.
        parts: those of all nodes.
    """

    def __init__(self, lines: Sequence[int], parts: Sequence[NodeParts]) -> None:
        self._parts = parts
        self.in_order = sorted(lines, key=lambda line: parts[line].order)

    @cached_property
    def places(self) -> Mapping[Call, int]:
        """Where each call is in the order; of two of one name, the first."""
        return {_call_of(self._parts[line]): place for place, line in reversed([*enumerate(self.in_order)])}

    @cached_property
    def lines_of_calls(self) -> Mapping[Call, int]:
        """The line of each call; of two of one name, the last."""
        return {_call_of(self._parts[line]): line for line in sorted(self.in_order)}

    @cached_property
    def consumers(self) -> Mapping[Call, list[tuple[int, int, int]]]:
        """Line and input of whom a call feeds, and its output."""
        found: defaultdict[Call, list[tuple[int, int, int]]] = defaultdict(list)
        for line in self.in_order:
            for edge in self._parts[line].edges:
                found[edge.producer, edge.call, edge.phase].append((line, edge.input, edge.output))
        return found

    @cached_property
    def children(self) -> Mapping[str, list[int]]:
        """The lines of the nodes that a module holds."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for line in self.in_order:
            parent = self._parts[line].parent
            if parent is not None:
                found[parent].append(line)
        return found


def _is_called(part: NodeParts, name: str) -> bool:
    """Return True if a node has this name: its own, that with its call, or the one that its dump has."""
    return bool(name) and (name in (part.node, part.name) or (name.startswith(part.node) and name == _title(part)))


def _names(part: NodeParts) -> list[str]:
    """Return what a node is called."""
    return [name for name in dict.fromkeys((part.node, _title(part), part.name)) if name]


def _title(part: NodeParts) -> str:
    return _titled(part.node, part.call, part.phase)


def _titled(node: str, call: int, phase: Phase) -> str:
    if not call and phase is not Phase.BACKWARD:
        return node
    return f"{node}{f'#{call}' if call else ''}{'.backward' if phase is Phase.BACKWARD else ''}"


def _stored(line: int, part: NodeParts) -> StoredNode:
    known = identity(part)
    return StoredNode(
        line=line,
        side=part.side,
        known=known,
        name=part.name,
        op_type=part.op_type,
        order=part.order,
        parent=part.parent,
        flows=tuple(
            (edge.input, known._replace(node=edge.producer, call=edge.call, phase=edge.phase), edge.output)
            for edge in part.edges
        ),
        passes=part.passes,
        kernel=str(part.attributes.kernel or part.attributes.kernel_name or ""),
        stack=part.stack if isinstance(part.stack, int) else None,
    )


def _with_stack(record: NodeRecord, records: Mapping[int, NodeRecord]) -> NodeRecord:
    """Return a record with its source frames, where it names the node that has them."""
    return replace(record, stack=records[record.stack].stack) if isinstance(record.stack, int) else record
