"""Dumped device operators with the graph operators behind them: what a target or a golden device dump consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import Struct

from probe_flow.dumps.graph.edges import exits_of, shown_shapes
from probe_flow.dumps.graph.links import GraphLinks, InputSources, Source
from probe_flow.dumps.graph.op_types import is_private
from probe_flow.records import Catalog, Group, Node, NodeKey, Relation, SlotRole, TensorRef


class DumpedNode(Struct):
    """A device operator with its tensors and the graph operators behind it (none: not in the graph)."""

    node: Node
    group: str
    inputs: tuple[TensorRef, ...] = ()
    outputs: tuple[TensorRef, ...] = ()
    parts: tuple[str, ...] = ()
    golden_nodes: tuple[NodeKey, ...] = ()
    is_self: bool = False
    _exits: tuple[Source, ...] = ()

    @property
    def name(self) -> str:
        return self.node.key.name

    @property
    def is_private(self) -> bool:
        """Whether it is of a type that devices insert on their own."""
        return is_private(self.node.op_type)

    @property
    def exits(self) -> Sequence[Source]:
        """Which graph tensors leave it, in the order of its outputs."""
        return [(self.parts[0], index) for index in range(len(self.outputs))] if len(self.parts) == 1 else self._exits

    def attach(self, parts: tuple[str, ...], links: GraphLinks) -> None:
        """Note the graph operators behind it."""
        self.parts = parts
        if len(parts) > 1:
            self._exits = tuple(exits_of(links, parts, len(self.outputs)))

    def meet(self, golden: NodeKey) -> None:
        """Note a golden node that a tensor of it was paired with."""
        if golden not in self.golden_nodes:
            self.golden_nodes = (*self.golden_nodes, golden)

    def exit_of(self, index: int) -> Source | None:
        """Return which graph tensor the ``index``-th dumped output is."""
        at, exits = int(self.outputs[index].slot.path[0]), self.exits
        if at < len(exits):
            return exits[at]
        return exits[index] if index < len(exits) else None


def dumped_nodes(catalog: Catalog, tensors: Sequence[TensorRef], prefix: str) -> list[DumpedNode]:
    """Return the operators that some tensors belong to, in their order, with groups numbered after the prefix."""
    nodes: list[DumpedNode] = []
    for key, owned in groupby(tensors, key=attrgetter("node")):
        refs = tuple(owned)
        inputs = tuple(ref for ref in refs if ref.slot.role is SlotRole.INPUT)
        outputs = tuple(ref for ref in refs if ref.slot.role is not SlotRole.INPUT)
        nodes.append(DumpedNode(catalog.nodes[key], f"{prefix}{len(nodes)}", inputs, outputs))
    return nodes


def group_of(node: DumpedNode) -> Group:
    """Return the group of a matched operator."""
    if node.is_self:
        return Group(node.group, Relation.SELF, node.node.key, ())
    relation = Relation.ONE_TO_MANY if len(node.parts) > 1 else Relation.ONE_TO_ONE
    golden = node.golden_nodes[0] if len(node.golden_nodes) == 1 else node.golden_nodes
    return Group(node.group, relation, node.node.key, golden)


def attach_parts(nodes: Sequence[DumpedNode], links: GraphLinks) -> Mapping[str, DumpedNode]:
    """Find the graph operators behind every node; return the node of each graph operator.

    Of several the first that ran it alone counts, else the first fused one: a device may compute a cheap operator again
    inside each of its readers.
    """
    by_op: dict[str, DumpedNode] = {}
    fused: dict[str, DumpedNode] = {}
    for node in nodes:
        parts = links.parts_of(node.node)
        if not parts:
            continue
        node.attach(parts, links)
        for part in node.parts:
            (by_op if len(node.parts) == 1 else fused).setdefault(part, node)
    return {**fused, **by_op}


class FoldedTransposes:
    """What products read whose operand the graph transposes, where the device has no file of the transposition.

    It then is a flag of the product, which reads the operand as it was, or the compiler made the operand beforehand.
    The shape tells which of both; of square operands what is known of the others.

    Args:
        nodes: the operators of one execution.
        links: its graph.
        by_op: the dumped node of each graph operator.
    """

    def __init__(self, nodes: Sequence[DumpedNode], links: GraphLinks, by_op: Mapping[str, DumpedNode]) -> None:
        self._links = links
        self._folded = {op.name for op in links.ops.values() if op.name not in by_op and links.is_folded(op)}
        self._are_square = False
        for node in nodes if self._folded else ():
            if node.parts and self._plain(node) != self.sources(node):
                self._are_square = True
                break

    def _plain(self, node: DumpedNode) -> InputSources:
        return self._links.input_sources(node.parts, [ref.numel for ref in node.inputs])

    def sources(self, node: DumpedNode) -> InputSources:
        """Say for each input of a node which graph tensor it is, and which operator reads it."""
        found = self._plain(node)
        if self._folded.isdisjoint(source[0] for source in found.sources if source is not None):
            return found
        read = [*map(self._read, node.inputs, found.sources, found.readers)]
        sources, readers = zip(*read, strict=True)
        return InputSources(sources, readers, found.is_aligned)

    def _read(self, ref: TensorRef, source: Source | None, reader: str | None) -> tuple[Source | None, str | None]:
        if source is None or source[0] not in self._folded:
            return source, reader
        op = self._links.ops[source[0]]
        before = op.inputs[0] if op.inputs else None
        if before is None or ref.logical_shape != self._links.shape(before):
            return source, reader
        is_told = ref.logical_shape != self._links.shape(source)
        return (before, op.name) if is_told or self._are_square else (source, reader)


def in_run(links: GraphLinks, nodes: Sequence[DumpedNode]) -> GraphLinks:
    """Return a graph with the sizes that its operators gave in one execution."""
    given = (
        (source, ref.logical_shape) for node in nodes for ref, source in zip(node.outputs, node.exits, strict=False)
    )
    return links.in_run(shown_shapes(links, given))


def is_repeat(node: DumpedNode, by_op: Mapping[str, DumpedNode]) -> bool:
    """Tell whether other nodes stand for every graph operator behind a node, so that it is a further run of them."""
    return all(by_op[part] is not node for part in node.parts)
