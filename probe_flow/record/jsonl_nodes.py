"""Lines of nodes.jsonl, put together from texts: what many nodes and their arguments share is made once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from probe_flow.record.json_values import json_text, json_value
from probe_flow.record.rows import NodeIndex, shape_of
from probe_flow.records import Catalog, Edge, Node, NodeKey, SlotRole, TensorKind, TensorRef


class NodeLines:
    """Writes the records of one side's nodes, keys in their fixed order.

    Args:
        side: ``target``, ``golden`` or ``reference``.
        catalog: what the nodes belong to.
    """

    def __init__(self, side: str, catalog: Catalog) -> None:
        self._side = side
        index = NodeIndex(catalog)
        self._tensors: defaultdict[int, list[TensorRef]] = defaultdict(list)
        for tensor in catalog.tensors:
            node = index.get(tensor.node)
            if node is not None:
                self._tensors[id(node)].append(tensor)
        self._edges: defaultdict[NodeKey, list[Edge]] = defaultdict(list)
        for edge in catalog.edges:
            self._edges[edge.consumer].append(edge)
        self._stacks = {name: json_text(frames) for name, frames in catalog.stacks.items()}
        self._slots: dict[tuple[SlotRole, tuple[int | str, ...]], str] = {}
        self._kinds: dict[tuple[TensorKind, str, tuple[int, ...] | None], str] = {}

    def text(self, nodes: Sequence[Node]) -> str:
        """Return the lines of some nodes; what line readers split at inside of texts is for the caller to treat."""
        return "".join([self._line(node) for node in nodes])

    def _line(self, node: Node) -> str:
        key = node.key
        execution = key.execution
        edges = sorted(self._edges[key], key=_edge_order) if self._edges else ()
        arguments = ", ".join([self._argument(tensor) for tensor in self._tensors.get(id(node), ())])
        stack = self._stacks.get(node.stack_id, "[]") if node.stack_id is not None else "[]"
        return (
            f'{{"side": "{self._side}", "order": {node.order}, "rank": {json_text(execution.rank)}, '
            f'"graph": {json_text(execution.graph)}, "step": {json_text(execution.step)}, '
            f'"node": {json_text(key.name)}, "call": {key.call}, "phase": "{key.phase._value_}", '
            f'"op_type": {json_text(node.op_type)}, "parent": {json_text(node.parent)}, '
            f'"edges": [{", ".join([_edge(edge) for edge in edges])}], "stack": {stack}, '
            f'"originals": {json_text(node.originals) if node.originals else "[]"}, '
            f'"passes": {json_text(node.passes) if node.passes else "[]"}, '
            f'"attributes": {_attributes({**node.relation_attrs, **node.attrs})}, "arguments": [{arguments}]}}\n'
        )

    def _argument(self, tensor: TensorRef) -> str:
        """Return one leaf of the argument tree; ``path`` is its place in it."""
        slot, shape = tensor.slot, shape_of(tensor)
        place = self._slots.get((slot.role, slot.path))
        if place is None:
            place = self._slots[slot.role, slot.path] = (
                f'{{"direction": "{slot.role.value}", "index": {json_text(slot.index)}, "path": {json_text(slot.path)}'
            )
        kind = self._kinds.get((tensor.kind, tensor.dtype, shape))
        if kind is None:
            kind = self._kinds[tensor.kind, tensor.dtype, shape] = (
                f', "kind": "{tensor.kind.value}", "dtype": {json_text(tensor.dtype)}, "shape": {json_text(shape)}'
            )
        value = "null" if tensor.value is None else json_text(json_value(tensor.value))
        return f'{place}{kind}, "value": {value}}}'


def _edge_order(edge: Edge) -> tuple[int, str, int, str, int]:
    producer = edge.producer
    return edge.input, producer.name, producer.call, producer.phase.value, edge.output


def _edge(edge: Edge) -> str:
    producer = edge.producer
    return (
        f'{{"input": {edge.input}, "producer": {json_text(producer.name)}, "call": {producer.call}, '
        f'"phase": "{producer.phase.value}", "output": {edge.output}}}'
    )


def _attributes(attrs: Mapping[str, object]) -> str:
    return "{" + ", ".join([f"{json_text(name)}: {json_text(json_value(attrs[name]))}" for name in sorted(attrs)]) + "}"
