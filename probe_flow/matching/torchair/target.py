"""What matching a device execution has in common whatever the golden side is: nodes, private operators, the pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from probe_flow.dumps.graph.links import GraphLinks, InputSources
from probe_flow.matching.shared.vocabulary import CommonReason, CommonRule
from probe_flow.matching.torchair.nodes import (
    DumpedNode,
    FoldedTransposes,
    attach_parts,
    dumped_nodes,
    group_of,
    in_run,
)
from probe_flow.matching.torchair.reasons import (
    NearestNames,
    TorchairReason,
    TorchairRule,
    shape_note,
    transform_of,
    unusable,
)
from probe_flow.records import SELF, Catalog, Group, Pair, Reason, Rule, SlotRole, TensorKind, TensorRef


class TargetMatch(ABC):
    """Matches one target execution with one golden execution.

    After `run`: ``used`` has the golden tensors that the pairs hold, ``by_op`` the dumped node of every graph operator.
    """

    def __init__(
        self,
        catalog: Catalog,
        tensors: Sequence[TensorRef],
        links: GraphLinks | None,
        *,
        golden_selects_nodes: bool,
        hints: tuple[NearestNames, NearestNames],
        group_prefix: str,
    ) -> None:
        self.nodes = dumped_nodes(catalog, tensors, group_prefix)
        self.by_op = attach_parts(self.nodes, links) if links is not None else {}
        self.links = in_run(links, self.nodes) if links is not None else None
        self._reading = FoldedTransposes(self.nodes, self.links, self.by_op) if self.links is not None else None
        self.used: dict[int, Pair] = {}
        self.has_inputs = any(node.inputs for node in self.nodes)
        self.has_outputs = any(ref.kind is not TensorKind.UNREADABLE for node in self.nodes for ref in node.outputs)
        self._golden_selects_nodes = golden_selects_nodes
        self._graph_hints, self._golden_hints = hints
        self._pairs: dict[int, Pair] = {}

    @property
    def is_graph_foreign(self) -> bool:
        """Whether the graph has none of the dumped operators, so that it proves nothing about any of them."""
        return self.links is not None and not self.by_op and not all(node.is_private for node in self.nodes)

    def run(self) -> tuple[list[Pair], list[Group]]:
        """Return the pairs of every target tensor, in catalog order, and one group per device operator."""
        for node in self.nodes:
            if node.parts:
                self._match_outputs(node)
                self._match_inputs(node)
            else:
                self._match_unknown(node)
        self._finish()
        pairs = [
            self._pairs[id(ref)]
            for node in self.nodes
            for ref in (*node.inputs, *node.outputs)
            if id(ref) in self._pairs
        ]
        self._pairs = {}  # what follows needs memory, and these no more
        return pairs, [group_of(node) for node in self.nodes]

    def _sources_of(self, node: DumpedNode) -> InputSources:
        """Say for each input of an operator of the graph which graph tensor it is, and which operator reads it."""
        assert self._reading is not None, "only nodes of a graph have parts"
        return self._reading.sources(node)

    @abstractmethod
    def _match_outputs(self, node: DumpedNode) -> None:
        """Pair or leave every output of an operator of the graph."""

    @abstractmethod
    def _match_inputs(self, node: DumpedNode) -> None:
        """Pair or leave every input of an operator of the graph, or keep it for `_finish`."""

    @abstractmethod
    def _finish(self) -> None:
        """Pair or leave what was kept."""

    def merged(self, name: str) -> Reason | None:
        """Return that an equal operator ran for one without a file, if it did."""
        ran = self.links.twins.run_for(name, self.by_op.__contains__) if self.links is not None else None
        return None if ran is None else TorchairReason.DEVICE_NO_DUMP.expected(f"`{ran}` ran for `{name}`, its equal")

    # Operators that the graph does not know

    def _match_unknown(self, node: DumpedNode) -> None:
        if node.is_private and self._match_self(node):
            return
        for ref in (*node.inputs, *node.outputs):
            self._leave(node, ref, unusable(ref) or self._unknown(node))

    def _match_self(self, node: DumpedNode) -> bool:
        """Compare what a private cast or layout change gives with what it got."""
        if not node.inputs or not node.outputs:
            return False
        before, after = node.inputs[0], node.outputs[0]
        if not before.has_numbers or not after.has_numbers:
            return False
        note = CommonReason.SELF.expected(
            f"inserted by the device: output compared with input of the same `{node.node.op_type}`"
        )
        node.is_self = True
        self._pairs[id(after)] = Pair(after, before, node.group, SELF, reason=note)
        for ref in (*node.inputs[1:], *node.outputs[1:]):
            self._leave(
                node, ref, CommonReason.INTERNAL.expected("a further tensor of an operator that the device inserted")
            )
        return True

    def _unknown(self, node: DumpedNode) -> Reason:
        if self.links is None:
            return TorchairReason.NO_GRAPH.missing(
                "no graph text belongs to this execution, so its operators have no names"
            )
        if node.is_private:
            return CommonReason.INTERNAL.expected(f"inserted by the device: the graph has no `{node.name}`")
        hint = self._graph_hints.hint(node.name)
        return TorchairReason.NO_GRAPH_OP.missing(
            f"`{node.name}` is neither an operator of the graph nor made of such{hint}"
        )

    # Bookkeeping

    def _pair(
        self,
        node: DumpedNode,
        ref: TensorRef,
        golden: TensorRef,
        rule: Rule,
        *,
        note: Reason | None = None,
        confidence: float = 1.0,
    ) -> None:
        is_argument = ref.slot.role is SlotRole.INPUT and rule != TorchairRule.EDGE
        pair = Pair.on_terms(
            ref,
            golden,
            node.group,
            rule,
            shape_note(ref, golden, is_argument=is_argument) or note,
            confidence=confidence,
            transform=transform_of(ref, golden),
        )
        self._pairs[id(ref)] = pair
        self.used.setdefault(id(golden), pair)
        node.meet(golden.node)

    def _leave(self, node: DumpedNode, ref: TensorRef, reason: Reason) -> None:
        self._pairs[id(ref)] = Pair.on_terms(ref, None, node.group, CommonRule.NONE, reason, confidence=0.0)
