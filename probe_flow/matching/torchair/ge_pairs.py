"""Pair the tensors of one device execution with those of another one of the same graph (fusion on against off).

Both sides are read as the graph: a dumped tensor is a tensor of the graph text, whichever fused operator holds it, and
equal graph tensors are compared. So inputs that enter the middle of a fused operator, fused operators on both sides and
parts without a file need no rules of their own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from probe_flow.dumps.file_names import safe_name
from probe_flow.dumps.graph.alignment import align
from probe_flow.dumps.graph.links import GraphLinks, Source
from probe_flow.matching.shared.vocabulary import CommonReason, CommonRule
from probe_flow.matching.torchair.arguments import fact, is_parameter_list
from probe_flow.matching.torchair.ge_golden import GeGolden
from probe_flow.matching.torchair.ge_renames import Renames
from probe_flow.matching.torchair.graph import same_values
from probe_flow.matching.torchair.nodes import DumpedNode, is_repeat
from probe_flow.matching.torchair.reasons import NearestNames, TorchairReason, TorchairRule, unusable
from probe_flow.matching.torchair.target import TargetMatch
from probe_flow.records import Catalog, NodeKey, Reason, Rule, TensorKind, TensorRef


def unusable_golden(golden: TensorRef) -> Reason | None:
    """Return why a golden tensor cannot be compared with anything."""
    reason = unusable(golden)
    return reason and replace(reason, text=f"golden `{golden.id}`: {reason.text}")


def are_alike(first: Sequence[TensorRef], second: Sequence[TensorRef]) -> bool:
    """Tell whether tensors agree one by one in class of type and element count, as far as they are known."""
    if len(first) != len(second):
        return False
    facts = ((fact(one), fact(other)) for one, other in zip(first, second, strict=True))
    return all(one == other or None in (one, other) for one, other in facts)


def have_like_tensors(first: DumpedNode, second: DumpedNode) -> bool:
    """Tell whether the inputs and outputs of two operators agree one by one."""
    return are_alike(first.inputs, second.inputs) and are_alike(first.outputs, second.outputs)


def predecessors(nodes: Sequence[DumpedNode]) -> dict[NodeKey, tuple[str, ...]]:
    """Return for each node the parts of the last graph operator that ran before it."""
    found: dict[NodeKey, tuple[str, ...]] = {}
    last: tuple[str, ...] = ()
    for node in nodes:
        found[node.node.key] = last
        last = node.parts or last
    return found


_ALIGNED_CONFIDENCE = 0.8


class GeMatch(TargetMatch):
    """Matches one device execution with one golden device execution."""

    def __init__(
        self,
        catalog: Catalog,
        tensors: Sequence[TensorRef],
        links: GraphLinks | None,
        golden: GeGolden,
        *,
        golden_selects_nodes: bool,
        hints: tuple[NearestNames, NearestNames],
        group_prefix: str,
    ) -> None:
        super().__init__(
            catalog,
            tensors,
            links,
            golden_selects_nodes=golden_selects_nodes,
            hints=hints,
            group_prefix=group_prefix,
        )
        self.golden = golden
        self.renames = Renames(self.nodes, self.by_op, links, golden)
        self._further: dict[tuple[str, ...], list[tuple[DumpedNode, TensorRef]]] = defaultdict(list)
        self._unplaced: set[int] = set()
        self._before = predecessors(self.nodes)
        self._golden_before = predecessors(golden.nodes)

    # Outputs

    def _match_outputs(self, node: DumpedNode) -> None:
        if is_repeat(node, self.by_op):
            self._match_again(node)
            return
        for part in node.parts:
            if (partner := self.golden.by_op.get(part)) is not None:
                node.meet(partner.node.key)
        for index, ref in enumerate(node.outputs):
            if (reason := unusable(ref)) is not None:
                self._leave(node, ref, reason)
                continue
            source = node.exit_of(index)
            if source is None:
                self._leave(
                    node,
                    ref,
                    TorchairReason.COUNT_MISMATCH.missing(f"the graph has no output {index} of `{node.name}`"),
                )
            elif not self._match_value(node, ref, source):
                self._leave(node, ref, self._no_golden(source))

    def _match_value(self, node: DumpedNode, ref: TensorRef, source: Source) -> bool:
        """Pair a tensor with the golden tensor of its value: the same one, a reader's input, or one behind relays."""
        assert self.links is not None, "only nodes of a graph have parts"
        for value, through in same_values(self.links, source):
            golden = self.golden.outputs.get(value)
            if golden is not None and unusable(golden) is None:
                rule = self._rule(node, golden)
                note = None
                if through:
                    rule, note = (
                        TorchairRule.EDGE,
                        TorchairReason.THROUGH.expected(f"the same value on the other side of {through}"),
                    )
                self._pair(node, ref, golden, rule, note=note)
                return True
            for reading in self.golden.readings.get(value, ())[:1]:
                why = f"the golden dump has no output of `{value[0]}`; this is what `{reading.node.name}` reads of it"
                self._pair(node, ref, reading, TorchairRule.EDGE, note=TorchairReason.THROUGH.expected(why))
                return True
        return False

    def _rule(self, node: DumpedNode, golden: TensorRef) -> Rule:
        is_single = len(node.parts) == 1 and len(self.golden.node_of[golden.node].parts) == 1
        return CommonRule.EXACT if is_single else TorchairRule.FUSED

    def _no_golden(self, source: Source) -> Reason:
        """Return why the golden side has no tensor of the value of a graph tensor."""
        name, index = source
        held = self.golden.outputs.get(source)
        if held is not None:
            return unusable_golden(held) or TorchairReason.NO_GOLDEN_OP.missing(f"`{name}` was not compared")
        node = self.golden.by_op.get(name)
        if node is None:
            if self._golden_selects_nodes:
                return CommonReason.FILTERED.outside(f"`{name}` is not among the selected golden nodes")
            near = self.renames.surroundings(name) + self._golden_hints.hint(name)
            return TorchairReason.NO_GOLDEN_OP.missing(f"the golden dump has no `{name}`{near}")
        if any(item.kind is TensorKind.UNREADABLE for item in node.outputs):
            return CommonReason.UNREADABLE.missing(f"the golden file of `{node.name}` is unreadable")
        if not self.golden.has_outputs:
            return CommonReason.NOT_DUMPED.expected("the golden dump holds no outputs at all")
        if len(node.parts) > 1:
            return CommonReason.INTERNAL.expected(f"computed inside the golden's fused operator `{node.name}`")
        return TorchairReason.NO_GOLDEN_OP.missing(f"the golden dump of `{name}` has no output {index}")

    # Inputs

    def _match_inputs(self, node: DumpedNode) -> None:
        assert self.links is not None, "only nodes of a graph have parts"
        if is_repeat(node, self.by_op):
            return
        found = self._sources_of(node)
        direct = self._direct_inputs(node)
        seen: Counter[tuple[str | None, Source | None]] = Counter()
        for index, (ref, source, reader) in enumerate(zip(node.inputs, found.sources, found.readers, strict=True)):
            occurrence = seen[(reader, source)]
            seen[(reader, source)] += 1
            if (reason := unusable(ref)) is not None:
                self._leave(node, ref, reason)
                continue
            golden = direct[index] if direct else None
            if golden is None or self.golden.values.get(id(golden), source) != source:  # one side transposes by a flag
                golden = self._same_input(reader, source, occurrence)
            if golden is not None:
                if (reason := unusable_golden(golden)) is None:
                    self._pair(node, ref, golden, self._rule(node, golden))
                else:
                    self._leave(node, ref, reason)
            elif source is None:
                self._further[node.parts if reader is None else (reader,)].append((node, ref))
            elif not self._match_value(node, ref, source):
                self._leave(node, ref, self._no_input(ref, source, reader))

    def _direct_inputs(self, node: DumpedNode) -> Sequence[TensorRef] | None:
        """Return the golden inputs of the same operator where they agree one by one."""
        partner = self.golden.by_op.get(node.parts[0])
        if len(node.parts) > 1 or partner is None or partner.parts != node.parts:
            return None
        return partner.inputs if are_alike(node.inputs, partner.inputs) else None

    def _same_input(self, reader: str | None, source: Source | None, occurrence: int) -> TensorRef | None:
        """Return what the same operator reads of the same graph tensor on the golden side."""
        if reader is None or source is None:
            return None
        same = [ref for value, ref in self.golden.inputs.get(reader, ()) if value == source]
        return same[occurrence] if occurrence < len(same) else None

    def _no_input(self, ref: TensorRef, source: Source, reader: str | None) -> Reason:
        if not self.golden.has_inputs and not self.golden.has_outputs:
            return CommonReason.NOT_DUMPED.expected("the golden dump holds nothing that can be compared")
        if self.links is not None and self.links.computing(source[0]) is not None:
            return self._no_golden(source)
        if not self.golden.has_inputs:
            return CommonReason.NOT_DUMPED.expected("the golden dump holds no inputs at all")
        if is_parameter_list(ref):
            return TorchairReason.CONSTANT.expected(
                "a parameter (axes, shape, permutation) that the golden dump does not have"
            )
        if reader is not None and reader not in self.golden.by_op:
            return self._no_golden((reader, 0))
        return TorchairReason.COUNT_MISMATCH.missing(f"no golden operator reads `{source[0]}`")

    def _finish(self) -> None:
        """Align inputs that the graph does not show (workspaces, tiling, constants that the device added)."""
        for readers, waiting in self._further.items():
            free = [
                ref for reader in readers for ref in self.golden.further.get(reader, ()) if id(ref) not in self.used
            ]
            free = list({id(ref): ref for ref in free}.values())
            facts = [fact(ref) for ref in free]
            joined = dict(align([fact(ref) for _, ref in waiting], facts))
            left = [at for at in range(len(free)) if at not in joined.values() and facts[at] is not None]
            name = " + ".join(f"`{reader}`" for reader in readers)
            for index, (node, ref) in enumerate(waiting):
                like = [at for at in left if facts[at] == fact(ref)]
                if index in joined:
                    note = TorchairReason.ALIGNED.expected(
                        f"a further input of {name} of the same type and element count"
                    )
                    self._pair(
                        node, ref, free[joined[index]], CommonRule.ALIGNED, note=note, confidence=_ALIGNED_CONFIDENCE
                    )
                elif like:
                    self._unplaced.update(id(free[at]) for at in like)
                    text = f"the golden {name} has an input of its type and element count, but in another place"
                    self._leave(node, ref, TorchairReason.COUNT_MISMATCH.missing(text))
                elif not self.golden.has_inputs:
                    self._leave(node, ref, CommonReason.NOT_DUMPED.expected("the golden dump holds no inputs at all"))
                else:
                    text = f"a further input of {name} that neither the graph nor the golden dump has"
                    self._leave(node, ref, TorchairReason.CONSTANT.expected(text))

    def may_be_input(self, golden: TensorRef) -> bool:
        """Tell whether a golden input that the graph does not show may be a target input without partner either."""
        return id(golden) in self._unplaced

    # Operators that the graph does not know

    def _match_unknown(self, node: DumpedNode) -> None:
        partner = self.golden.unknown.get(safe_name(node.name))
        if partner is None or not self._is_same(node, partner):
            super()._match_unknown(node)
            return
        self._match_slots(node, partner)

    def _match_again(self, node: DumpedNode) -> None:
        """Pair what ran a second time for one operator (clearing memory, a retry) with its like."""
        partner = self.golden.again.get((node.parts, node.node.op_type))
        if partner is not None and are_alike(node.inputs, partner.inputs) and are_alike(node.outputs, partner.outputs):
            self._match_slots(node, partner)
            return
        why = TorchairReason.NO_GOLDEN_OP.missing(
            f"a further run of `{node.name}` as {node.node.op_type}; the golden has none like it"
        )
        for ref in (*node.inputs, *node.outputs):
            self._leave(node, ref, unusable(ref) or why)

    def _match_slots(self, node: DumpedNode, partner: DumpedNode) -> None:
        node.meet(partner.node.key)
        for mine, theirs in ((node.inputs, partner.inputs), (node.outputs, partner.outputs)):
            for ref, golden in zip(mine, theirs, strict=True):
                if (reason := unusable(ref) or unusable_golden(golden)) is not None:
                    self._leave(node, ref, reason)
                else:
                    self._pair(node, ref, golden, CommonRule.EXACT)

    def _is_same(self, node: DumpedNode, partner: DumpedNode) -> bool:
        """Tell whether operators of one name are one. Private ones are numbered as they come: a name is too little."""
        if node.node.op_type != partner.node.op_type or not have_like_tensors(node, partner):
            return False
        if not node.is_private:
            return True
        before, golden_before = self._before[node.node.key], self._golden_before[partner.node.key]
        return before[-1:] == golden_before[-1:]

    def _unknown(self, node: DumpedNode) -> Reason:
        if self.links is None:
            return TorchairReason.NO_GRAPH.missing(
                "neither side has a graph text, and the golden dump has no operator of this name"
            )
        reason = super()._unknown(node)
        return reason if node.is_private else reason.kind.missing(reason.text + self.renames.of_target(node))
