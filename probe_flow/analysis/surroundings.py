"""What bears on a node beyond its own inputs: containing modules, other ranks of a collective, saved activations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from probe_flow.analysis.measured import MeasuredPair
from probe_flow.records import NodeKey, Pairs, Phase

_COLLECTIVES = ("allreduce", "allgather", "reducescatter", "alltoall")

_GRADIENTS = ".parameters_grad"
"""Ends the name under which a dump keeps the gradients of a module's parameters."""


def peer_inputs(rows: Sequence[MeasuredPair], pairs: Pairs) -> Mapping[NodeKey, tuple[int, ...]]:
    """Return node -> measured input rows of the same collective on other ranks, which its outputs depend on too."""
    calls: dict[object, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        if row.measurement is not None and not row.is_produced and is_collective(row.node, pairs):
            calls[_call(row.node)].append(number)
    nodes = {row.node for row in rows if row.pair.target is not None and _call(row.node) in calls}
    return {
        node: tuple(n for n in calls[_call(node)] if rows[n].node.execution.rank != node.execution.rank)
        for node in sorted(nodes, key=lambda node: (str(node.execution), node.name, node.call))
    }


def saved_rows(rows: Sequence[MeasuredPair]) -> Mapping[NodeKey, tuple[int, ...]]:
    """Return backward node -> measured rows of its forward call: a gradient depends on what that saved."""
    forward: dict[object, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        key = row.node
        if row.measurement is not None and key.phase is Phase.FORWARD:
            forward[key.execution, key.name, key.call].append(number)
            forward[key.execution, key.name + _GRADIENTS].append(number)
    saved = {}
    for row in rows:
        key = row.node
        if key.phase is not Phase.FORWARD and row.pair.target is not None and key not in saved:
            backward = (key.execution, key.name, key.call) if key.phase is Phase.BACKWARD else (key.execution, key.name)
            saved[key] = tuple(forward.get(backward, ()))
    return saved


def is_collective(key: NodeKey, pairs: Pairs) -> bool:
    """Say whether a node exchanges tensors between ranks, by its name and type."""
    node = pairs.target.nodes.get(key)
    op_type = (node.op_type if node else "").lower()
    joined = op_type.replace("_", "")
    return key.name.startswith("Distributed.") or op_type.startswith("hcom") or any(w in joined for w in _COLLECTIVES)


def _call(key: NodeKey) -> tuple[object, ...]:
    _, *run = key.execution.identity
    return (*run, key.name, key.call, key.phase)


class Containers:
    """The modules around each node, by the parents that the dump records."""

    def __init__(self, pairs: Pairs) -> None:
        self._nodes = pairs.target.nodes
        self._parents = {key.name: node.parent for key, node in self._nodes.items()}

    def around(self, key: NodeKey) -> Iterator[tuple[object, ...]]:
        """Yield the place of every module that contains a node, innermost first; compare with `place`."""
        node = self._nodes.get(key)
        name, seen = node.parent if node else None, {key.name}
        while name is not None and name not in seen:
            seen.add(name)
            yield key.execution, name, key.phase
            name = self._parents.get(name)

    @staticmethod
    def place(key: NodeKey) -> tuple[object, ...]:
        """Return what names a module itself: its execution, name and phase."""
        return key.execution, key.name, key.phase
