"""What the rules tell of the nodes of a device dump, dumped or not, and how data flow between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from probe_flow.dumps.graph.op_types import may_leave_no_file
from probe_flow.matching.offline.index import DumpIndex
from probe_flow.matching.offline.origins import CALLERS, HELD_TYPES, NETWORK_INPUTS, PASSED_TYPES, Origins
from probe_flow.matching.rules.merge import FusionGroup, FusionOp, FusionRules
from probe_flow.records import Edge, Node, NodeKey, Reason, Relation, RuleFacts, SlotRole

NEVER_DUMPED = NETWORK_INPUTS | HELD_TYPES | PASSED_TYPES
"""Types of operators that a device may run without writing a file, or does not run."""

_SOURCES = NETWORK_INPUTS | HELD_TYPES


def op_key(target: DumpIndex, op: FusionOp) -> NodeKey:
    """Return the key of an operator that has no file."""
    return NodeKey(target.execution, op.name)


def is_inner(op: FusionOp, group: FusionGroup) -> bool:
    """Tell whether an operator is one of several for the same originals and gives none of their tensors."""
    return op.is_inner and len(group.ops) > 1 and group.relation is not Relation.L1


def silent_outputs(
    target: DumpIndex,
    rules: FusionRules,
    taken: Mapping[NodeKey, FusionOp],
    edges: Iterable[Edge],
    *,
    selected: Container[int] | None = None,
) -> Mapping[NodeKey, int]:
    """Return the operators that ran and have no file, with how many of their outputs others read.

    What can have left an operator out of a healthy dump is taken for the cause: its type (constants, casts, views, and
    what devices replace by addressing), a dump of inputs only, an operator of another name that may be it, a subgraph
    of which nothing ran, an inner operator of a fused one, quantisation, a selection.
    """
    if any(key not in taken for key in target.nodes) or not any(
        ref.slot.role is SlotRole.OUTPUT for refs in target.tensors.values() for ref in refs
    ):
        return {}
    ran = {op.graph for op in taken.values()}
    dumped = {id(op) for op in taken.values()}
    read: dict[NodeKey, set[int]] = defaultdict(set)
    for edge in edges:
        read[edge.producer].add(edge.output)
    return {
        key: len(read[key])
        for group in rules.groups
        for op in group.ops
        if id(op) not in dumped
        and op.graph in ran
        and op.originals
        and op.op_type not in NEVER_DUMPED | CALLERS
        and not may_leave_no_file(op.op_type)
        and op.compares_outputs
        and not (op.is_filtered or op.l1_group or is_inner(op, group))
        and (selected is None or op.id in selected)
        and (key := op_key(target, op)) not in target.nodes
        and key in read
    }


def told_nodes(
    target: DumpIndex,
    rules: FusionRules,
    taken: Mapping[NodeKey, FusionOp],
    silent: Mapping[NodeKey, int],
    elsewhere: Container[str],
) -> Iterator[Node]:
    """Yield the nodes of all operators of the rules, with type, originals and passes as the rules have them.

    ``silent`` has the operators that ran without leaving a file, ``elsewhere`` the graphs whose operators belong to
    other executions: a file of rules has all graphs of a model, and a subgraph may have a folder of its own.
    """
    keys = {id(op): key for key, op in taken.items()}
    inner = {id(op) for group in rules.groups for op in group.ops if is_inner(op, group)}
    order = 0
    for op in rules.ops:
        key = keys.get(id(op))
        if key is None and (op.graph in elsewhere or op_key(target, op) in target.nodes):
            continue  # another graph has it, or one of its name
        is_dumped = key is not None
        node = target.nodes[key] if key is not None else Node(op_key(target, op), op.op_type, order=order)
        order = max(order, node.order)
        yield replace(
            node,
            op_type=op.op_type or node.op_type,
            originals=op.originals,
            rules=RuleFacts(
                op.name,
                op.id,
                op.passes,
                tuple(op.kernel.items()),
                op.is_filtered,
                id(op) in inner,
                is_dumped,
                None if is_dumped else silent.get(node.key),
            ),
        )


def told_edges(
    target: DumpIndex,
    rules: FusionRules,
    taken: Mapping[NodeKey, FusionOp],
    origins: Origins,
    elsewhere: Container[str],
) -> Iterator[Edge]:
    """Yield who feeds whom. What only holds values feeds nobody: an input that it fills is a source.

    What graphs ``elsewhere`` have to do with it say `edges_between`.
    """
    keys = {id(op): key for key, op in taken.items()}
    for op in rules.ops:
        if op.graph in elsewhere and id(op) not in keys:
            continue
        for number in range(len(op.inputs)):
            found = origins.producer(op, number)
            if isinstance(found, Reason) or found[0].op_type in _SOURCES:
                continue
            if found[0].graph in elsewhere and id(found[0]) not in keys:
                continue
            producer, output = found
            yield Edge(
                keys.get(id(producer)) or op_key(target, producer),
                output,
                keys.get(id(op)) or op_key(target, op),
                number,
            )


class RunOfGraph(NamedTuple):
    """One graph that ran: its dump, its rules, which operators were dumped, and where its values come from."""

    target: DumpIndex
    rules: FusionRules
    taken: Mapping[NodeKey, FusionOp]
    origins: Origins


def edges_between(runs: Sequence[RunOfGraph]) -> Iterator[Edge]:
    """Yield the data flow between graphs of one rank and step: one is fed what another gives.

    No graph says so, unless one is a subgraph of the other. What is fed and what is given are one tensor of the user's
    graph, as the target's rules say. The golden side cannot tell: on another device too it is fed to one graph and
    given by another.
    """
    if len(runs) < 2:
        return
    makers = _Makers(runs)
    for run in runs:
        keys = {id(op): key for key, op in run.taken.items()}
        for op in run.rules.ops:
            for number in range(len(op.inputs)):
                source = run.origins.producer(op, number)
                if isinstance(source, Reason):
                    continue
                if source[0].op_type in NETWORK_INPUTS:
                    maker = makers.of_fed(run, *source)
                else:
                    maker = makers.around(run, *source) if id(op) in keys and id(source[0]) not in keys else None
                if maker is not None and maker[0].execution != run.target.execution:
                    yield Edge(*maker, keys.get(id(op)) or op_key(run.target, op), number)


class _Makers:
    """Which dumped operator of all graphs gives a tensor."""

    def __init__(self, runs: Sequence[RunOfGraph]) -> None:
        self._made: dict[_Tensor, tuple[NodeKey, int]] = {}
        self._owners: dict[tuple[int | None, int | None, str], NodeKey] = {}
        for run in runs:
            execution = run.target.execution
            for key, op in run.taken.items():
                self._owners.setdefault((execution.rank, execution.step, op.name), key)
                if op.op_type in NEVER_DUMPED:
                    continue
                for number in range(len(op.outputs)):
                    tensor = _tensor(run, op, number)
                    if tensor is not None:
                        self._made.setdefault(tensor, (key, number))

    def of_fed(self, run: RunOfGraph, op: FusionOp, number: int) -> tuple[NodeKey, int] | None:
        """Return what gives the tensor of the user's graph that a graph is fed."""
        tensor = _tensor(run, op, number)
        return self._made.get(tensor) if tensor is not None else None

    def around(self, run: RunOfGraph, op: FusionOp, number: int) -> tuple[NodeKey, int] | None:
        """Return an operator of the graph around a subgraph, which has files of its own."""
        owner = self._owners.get((run.target.execution.rank, run.target.execution.step, op.name))
        return None if owner is None else (owner, number)


_Tensor = tuple[int | None, int | None, str, int]
"""A tensor of the user's graph: rank and step, operator and output."""


def _tensor(run: RunOfGraph, op: FusionOp, number: int) -> _Tensor | None:
    outputs, execution = run.rules.outputs_of(op), run.target.execution
    output = outputs[number] if number < len(outputs) else None
    if output is None or not output.origin_name:
        return None
    index = number if output.origin_index is None else output.origin_index
    return execution.rank, execution.step, output.origin_name, index
