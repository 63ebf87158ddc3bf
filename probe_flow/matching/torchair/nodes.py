"""Dumped device operators with the graph operators behind them: what a target or a golden device dump consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from probe_flow.dumps.graph.edges import fused_outputs
from probe_flow.dumps.graph.links import PRIVATE_TYPES, GraphLinks, Source
from probe_flow.records import Catalog, Group, Node, NodeKey, Relation, SlotRole, TensorRef


@dataclass(slots=True)
class DumpedNode:
    """A device operator with its tensors and the graph operators behind it (none: not in the graph)."""

    node: Node
    group: str
    inputs: list[TensorRef] = field(default_factory=list)
    outputs: list[TensorRef] = field(default_factory=list)
    parts: tuple[str, ...] = ()
    exits: list[Source] = field(default_factory=list)
    golden_nodes: dict[NodeKey, None] = field(default_factory=dict)
    is_self: bool = False

    @property
    def name(self) -> str:
        return self.node.key.name

    @property
    def is_private(self) -> bool:
        """Whether it is of a type that devices insert on their own."""
        return any(word in self.node.op_type for word in PRIVATE_TYPES)

    def exit_of(self, index: int) -> Source | None:
        """Return which graph tensor the ``index``-th dumped output is."""
        at = int(self.outputs[index].slot.path[0])
        if at < len(self.exits):
            return self.exits[at]
        return self.exits[index] if index < len(self.exits) else None


def dumped_nodes(catalog: Catalog, tensors: Sequence[TensorRef], prefix: str) -> list[DumpedNode]:
    """Return the operators that some tensors belong to, in their order, with groups numbered after the prefix."""
    nodes: list[DumpedNode] = []
    key: NodeKey | None = None
    for ref in tensors:
        if ref.node is not key and ref.node != key:
            key = ref.node
            nodes.append(DumpedNode(catalog.nodes[key], f"{prefix}{len(nodes)}"))
        (nodes[-1].inputs if ref.slot.role is SlotRole.INPUT else nodes[-1].outputs).append(ref)
    return nodes


def group_of(node: DumpedNode) -> Group:
    """Return the group of a matched operator."""
    golden = tuple(node.golden_nodes)
    if node.is_self:
        return Group(node.group, Relation.SELF, (node.node.key,), ())
    relation = Relation.ONE_TO_MANY if len(node.parts) > 1 else Relation.ONE_TO_ONE
    return Group(node.group, relation, (node.node.key,), golden)


def attach_parts(nodes: Sequence[DumpedNode], links: GraphLinks) -> Mapping[str, DumpedNode]:
    """Find the graph operators behind every node; return the node of each graph operator.

    Of several the first that ran it alone counts, else the first fused one: a device may compute a cheap operator again
    inside each of its readers.
    """
    by_op: dict[str, DumpedNode] = {}
    fused: dict[str, DumpedNode] = {}
    for node in nodes:
        split = links.split(node.name)
        if split is None:
            continue
        node.parts = split.parts
        if len(node.parts) == 1:
            node.exits = [(node.parts[0], index) for index in range(len(node.outputs))]
        else:
            node.exits = fused_outputs(links, node.parts, len(node.outputs))
        for part in node.parts:
            (by_op if len(node.parts) == 1 else fused).setdefault(part, node)
    return {**fused, **by_op}


def is_repeat(node: DumpedNode, by_op: Mapping[str, DumpedNode]) -> bool:
    """Tell whether other nodes stand for every graph operator behind a node, so that it is a further run of them."""
    return all(by_op[part] is not node for part in node.parts)
