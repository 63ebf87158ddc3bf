"""Explain the golden tensors of one execution that no device tensor was compared with, between two device dumps."""

from __future__ import annotations

from dataclasses import dataclass

from probe_flow.dumps.graph.links import CONSTANT_TYPES, RELAY_TYPES, VIEW_TYPES, Source
from probe_flow.matching.torchair.arguments import is_parameter_list
from probe_flow.matching.torchair.ge_pairs import GeMatch
from probe_flow.matching.torchair.nodes import DumpedNode, is_repeat
from probe_flow.matching.torchair.notes import unusable
from probe_flow.matching.torchair.reasons import NearestNames, expected, missing, outside
from probe_flow.matching.torchair.relays import same_values
from probe_flow.records import Pair, Reason, ReasonCode, SlotRole, TensorKind, TensorRef


@dataclass(slots=True)
class GeLeftovers:
    """Explains golden tensors of one execution.

    Args:
        match: the finished match of the execution.
        is_graph_incomplete: a graph text was cut off, so absence from it proves nothing.
        target_selects_nodes: the target was read with a node selection.
        hints: nearest names among the dumped target operators.
    """

    match: GeMatch
    is_graph_incomplete: bool
    target_selects_nodes: bool
    hints: NearestNames
    _compared: dict[Source, TensorRef] | None = None

    def pairs(self, group_prefix: str) -> list[Pair]:
        """Return one one-sided pair per golden tensor that was not used, in catalog order.

        Those of a part of a fused target operator are in the group of that operator.
        """
        groups: dict[int, str] = {}
        found: list[Pair] = []
        for ref in self.match.golden.tensors:
            if id(ref) in self.match.used:
                continue
            node = self.match.golden.node_of[ref.node]
            owner = next((owner for part in node.parts if (owner := self.match.by_op.get(part)) is not None), None)
            if owner is not None and len(owner.parts) > 1:
                group = owner.group
            else:
                group = groups.setdefault(id(node), f"{group_prefix}{len(groups)}")
            found.append(Pair(None, ref, group, "none", confidence=0.0, reason=self.reason(ref, node)))
        return found

    def reason(self, ref: TensorRef, node: DumpedNode) -> Reason:
        """Return why a golden tensor has no partner."""
        if (why := unusable(ref)) is not None:
            return why
        if not node.parts:
            return self._unknown(node)
        is_input = ref.slot.role is SlotRole.INPUT
        source = self.match.golden.values.get(id(ref))
        if source is None:
            return self._beside_graph(ref, node, is_input=is_input)
        covered = self._covered(source)
        if covered is not None:
            return covered
        return self._input_reason(ref, source) if is_input else self._output_reason(source)

    def _unknown(self, node: DumpedNode) -> Reason:
        if self.match.links is None:
            return missing("no_graph", "no side has a graph text, and the target has no operator of this name")
        if node.is_private:
            return expected("internal", f"inserted by the golden device: the graph has no `{node.name}`")
        if self.is_graph_incomplete:
            return missing("no_graph_op", "the graph text is cut off; the operator of this name may lie behind the cut")
        hint = self.hints.hint(node.name)
        return missing("no_target_op", f"only the golden side ran `{node.name}`, which the graph does not have{hint}")

    def _beside_graph(self, ref: TensorRef, node: DumpedNode, *, is_input: bool) -> Reason:
        if is_repeat(node, self.match.golden.by_op):
            return missing("no_target_op", f"the golden side ran `{node.name}` more than once; the first is compared")
        if self.match.may_be_input(ref):
            return missing("count_mismatch", "a target input in another place has its type and element count")
        if is_input and is_parameter_list(ref):
            return expected("constant", "a parameter (axes, shape, permutation) that the graph does not show")
        return expected("constant", "a tensor of the golden device that the graph does not show")

    def _covered(self, source: Source) -> Reason | None:
        """Return where the value is compared, if it is."""
        links = self.match.links
        assert links is not None, "only nodes of a graph have parts"
        if self._compared is None:
            self._compared = self._used_by_value()
        for value, through in same_values(links, source):
            if (used := self._compared.get(value)) is not None:
                is_read = used.slot.role is SlotRole.INPUT
                place = f"what `{used.node.name}` reads" if is_read else f"output {value[1]} of `{value[0]}`"
                tail = f", on the other side of {through}" if through else ""
                return expected("covered_by_producer", f"its value is compared as {place}{tail}")
        return None

    def _used_by_value(self) -> dict[Source, TensorRef]:
        """Return a compared golden tensor of each value: an output where there is one, else the first that is read."""
        values = self.match.golden.values
        found: dict[Source, TensorRef] = {}
        for pair in self.match.used.values():
            if pair.golden is None or (value := values.get(id(pair.golden))) is None:
                continue
            if pair.golden.slot.role is not SlotRole.INPUT:
                found[value] = pair.golden
            else:
                found.setdefault(value, pair.golden)
        return found

    def _output_reason(self, source: Source) -> Reason:
        owner = self.match.by_op.get(source[0])
        if owner is None:
            return self._undumped(source[0])
        if len(owner.parts) > 1 and source not in owner.exits[: len(owner.outputs)]:
            parts = " + ".join(owner.parts)
            return expected("internal", f"computed inside the fused operator `{owner.name}` ({parts})")
        if any(item.kind is TensorKind.UNREADABLE for item in owner.outputs):
            return missing("unreadable", f"the target's file of `{owner.name}` is unreadable")
        if not self.match.has_outputs:
            return expected("not_dumped", "the target dump holds no outputs at all")
        shown = next((item for item in owner.outputs if item.slot.path == (source[1],)), None)
        if shown is not None and unusable(shown) is not None:
            return missing("dtype_unsupported", f"output {source[1]} of `{owner.name}` cannot be read as numbers")
        return missing("no_target_op", f"the target's dump of `{owner.name}` has no output {source[1]}")

    def _input_reason(self, ref: TensorRef, source: Source) -> Reason:
        reader = self.match.golden.readers.get(id(ref))
        owner = self.match.by_op.get(reader) if reader is not None else None
        if owner is None:
            return self._undumped(reader) if reader is not None else missing("no_target_op", "nothing reads it")
        if len(owner.parts) > 1 and source[0] in owner.parts:
            return expected("internal", f"made and read inside the fused operator `{owner.name}`")
        if any(item.kind is TensorKind.UNREADABLE for item in owner.outputs):
            return missing("unreadable", f"the target's file of `{owner.name}` is unreadable")
        if not owner.inputs:
            return expected("not_dumped", f"the target's dump of `{owner.name}` holds no inputs")
        if is_parameter_list(ref):
            return expected("constant", "a parameter (axes, shape, permutation) that the target does not have")
        return missing("count_mismatch", f"no input of `{owner.name}` is `{source[0]}`")

    def _undumped(self, name: str) -> Reason:
        links = self.match.links
        op = links.ops.get(name) if links is not None else None
        if op is not None and (op.op_type in VIEW_TYPES or op.op_type in CONSTANT_TYPES):
            return expected("device_no_dump", f"`{name}` ({op.op_type}) moves no data; the target did not run it")
        if self.target_selects_nodes:
            return outside(ReasonCode.FILTERED.value, f"`{name}` is not among the selected target nodes")
        kind = f" ({op.op_type})" if op is not None else ""
        if op is not None and op.op_type in RELAY_TYPES:
            tail = "; the device may have dropped it or merged it into a neighbour"
        else:
            tail = self.match.renames.of_golden(name) + self.hints.hint(name)
        return missing("no_target_op", f"the target dump has no file of `{name}`{kind}{tail}")
