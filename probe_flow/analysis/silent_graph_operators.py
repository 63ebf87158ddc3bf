"""Operators of a GE graph text of which a TorchAir dump lacks outputs, see `probe_flow.analysis.silent_operators`."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from probe_flow.dumps.file_names import node_of, parse_output_name
from probe_flow.dumps.graph.links import GraphLinks, graph_of
from probe_flow.dumps.graph.op_types import is_private, may_leave_no_file
from probe_flow.dumps.selection import Selection, selected_nodes
from probe_flow.records import Catalog, Execution, Graph, GraphOp, Node, NodeKey, SlotRole

Silent = tuple[NodeKey, str, int]
"""An operator, its type, and how many of its outputs are missing."""


def silent_on_device(catalog: Catalog, other: Catalog | None) -> Iterator[Silent]:
    """Yield the operators of the graph texts that a device dump lacks, or outputs of them.

    Nothing is told where nodes were selected (a fused operator has a name of its own), where the text is cut off or
    belongs to another graph, and where no output at all was dumped.
    """
    if selected_nodes(catalog) is not None:
        return
    outputs = _outputs(catalog)
    links: dict[int, GraphLinks] = {}
    for execution, nodes in _nodes(catalog).items():
        graph = _whole_graph(catalog, execution) or (_whole_graph(other, execution) if other is not None else None)
        if graph is not None and any(outputs.get(node.key) for node in nodes):
            if id(graph) not in links:
                links[id(graph)] = GraphLinks(graph)
            yield from _DeviceRun(execution, nodes, outputs, links[id(graph)]).silent()


def silent_under_fx(catalog: Catalog, other: Catalog | None) -> Iterator[Silent]:
    """Yield the FX nodes that the graph texts of the device name and that an FX dump lacks, or outputs of them."""
    takes = Selection(nodes=selected_nodes(catalog)).node_filter()
    outputs = _outputs(catalog)
    named = [(graph, _fx_outputs(graph)) for graph in (other.graphs if other is not None else ())]
    for execution, nodes in _nodes(catalog).items():
        keys = {f"{node.key.name}-{node.op_type}": node.key for node in nodes}
        if not any(outputs.get(node.key) for node in nodes):
            continue
        for key, due in _names_of(execution, keys, named).items():
            node = keys.get(key) or NodeKey(execution, node_of(key))
            lacking = due - outputs.get(node, _NONE)
            if lacking and takes(node.name):
                yield node, key.partition("-")[2], len(lacking)


def _nodes(catalog: Catalog) -> Mapping[Execution, list[Node]]:
    found: dict[Execution, list[Node]] = defaultdict(list)
    for key, node in catalog.nodes.items():
        found[key.execution].append(node)
    return found


_Numbers: TypeAlias = frozenset[int | str]

_NONE: _Numbers = frozenset()

_Key = TypeVar("_Key", NodeKey, str)


def _by_key(places: Iterable[tuple[_Key, int | str]]) -> dict[_Key, _Numbers]:
    """Return the numbers of each key. Equal sets are one object: nearly all are ``{0}``, and a set takes 216 bytes."""
    found: dict[_Key, _Numbers] = {}
    known: dict[_Numbers, _Numbers] = {}
    for key, number in places:
        numbers = found.get(key, _NONE) | {number}
        found[key] = known.setdefault(numbers, numbers)
    return found


def _outputs(catalog: Catalog) -> Mapping[NodeKey, _Numbers]:
    """Return the numbers of the outputs that the dump holds, readable or not."""
    return _by_key(
        (tensor.node, tensor.slot.path[0])
        for tensor in catalog.tensors
        if tensor.slot.role is SlotRole.OUTPUT and tensor.slot.path
    )


def _whole_graph(catalog: Catalog, execution: Execution) -> Graph | None:
    graph = graph_of(catalog.graphs, execution)
    cut = catalog.attrs.get("incomplete_graphs")
    return None if graph is None or (isinstance(cut, tuple) and graph.file in cut) else graph


def _fx_outputs(graph: Graph) -> Mapping[str, _Numbers]:
    """Return the FX tensors that a graph text names, as output numbers by ``{node}-{target}``."""
    names = (parse_output_name(output.fx_name or "") for op in graph.ops for output in op.outputs)
    return _by_key(name for name in names if name is not None)


_Named = tuple[Graph, Mapping[str, _Numbers]]


def _names_of(execution: Execution, keys: Mapping[str, NodeKey], named: Sequence[_Named]) -> Mapping[str, _Numbers]:
    """Return the FX tensors of the graph text that an execution belongs to: by rank, graph id, and names in common."""
    fitting = [each for each in named if None in (each[0].rank, execution.rank) or each[0].rank == execution.rank]
    fitting = [each for each in fitting if each[0].id == execution.graph] or fitting
    shared = [len(keys.keys() & names.keys()) for _, names in fitting]
    best = max(shared, default=0)
    return fitting[shared.index(best)][1] if best and shared.count(best) == 1 else {}


class _DeviceRun:
    """One execution of a device dump beside its graph text."""

    def __init__(
        self,
        execution: Execution,
        nodes: Sequence[Node],
        outputs: Mapping[NodeKey, _Numbers],
        links: GraphLinks,
    ) -> None:
        self._execution = execution
        self._links = links
        self._owners: dict[str, Node] = {}
        self._parts: dict[str, tuple[str, ...]] = {}
        self._keys: dict[str, NodeKey] = {}
        self._dumped: dict[str, _Numbers] = {}
        self._strangers: list[int] = []
        for node in nodes:
            name = node.key.name
            parts = links.parts_of(node)
            self._keys.setdefault(name, node.key)
            dumped, before = outputs.get(node.key, _NONE), self._dumped.get(name)
            self._dumped[name] = before | dumped if before else dumped  # slices of one operator have one name
            if parts:
                self._parts[name] = parts
                for part in parts:
                    self._owners.setdefault(part, node)
            elif not is_private(node.op_type):
                self._strangers.append(node.order)
            for original in node.originals:
                self._owners.setdefault(original, node)
        self._strangers.sort()

    def silent(self) -> Iterator[Silent]:
        """Yield the operators in the order of the graph, then those that the dump holds in part."""
        if not self._parts:
            return
        after, before = self._after(), self._before()
        twins = self._links.twins
        for op in self._links.ops.values():
            if (
                op.name in self._owners
                or may_leave_no_file(op.op_type)
                or op.name in self._links.constants
                or self._links.is_folded(op)
                or twins.run_for(op.name, self._owners.__contains__) is not None
            ):
                continue
            due = self._due(op)
            if due and not self._ran_stranger(after[op.name], before[op.name]):
                yield NodeKey(self._execution, op.name), op.op_type, len(due)
        for name, parts in self._parts.items():
            op = self._links.ops[parts[-1]]
            lacking = self._due(op) - self._dumped[name]
            if lacking and (len(parts) == 1 or not self._dumped[name]):
                yield self._keys[name], op.op_type, len(lacking)

    def _due(self, op: GraphOp) -> set[int | str]:
        """Return the outputs that an operator writes for somebody: read, named, or results of the graph."""
        readers = self._links.consumers.get(op.name, ())
        read = {source[1] for reader in readers for source in reader.inputs if source and source[0] == op.name}
        return {
            index
            for index, output in enumerate(op.outputs)
            if (index in read or not readers or output.fx_name) and self._links.numel((op.name, index)) != 0
        }

    # A compiler gives what it makes of operators a name that the graph does not know. It can stand for an operator
    # only when it ran between the dumped operators above and below that one.

    def _ran_stranger(self, after: float, before: float) -> bool:
        at = bisect_right(self._strangers, after)
        return at < len(self._strangers) and self._strangers[at] < before

    def _after(self) -> Mapping[str, float]:
        """Return when the last dumped operator above each one ran, views and other operators passed over."""
        found: dict[str, float] = {}
        for op in self._links.ops.values():
            above = [self._order(source[0], found, -math.inf) for source in op.inputs if source is not None]
            found[op.name] = max(above, default=-math.inf)
        return found

    def _before(self) -> Mapping[str, float]:
        """Return when the first dumped operator below each one ran."""
        found: dict[str, float] = {}
        for op in reversed(self._links.ops.values()):
            below = [self._order(reader.name, found, math.inf) for reader in self._links.consumers.get(op.name, ())]
            found[op.name] = min(below, default=math.inf)
        return found

    def _order(self, name: str, found: Mapping[str, float], default: float) -> float:
        owner = self._owners.get(name)
        return owner.order if owner is not None else found.get(name, default)
