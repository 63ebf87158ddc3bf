"""Explain the tensors that matching by fusion rules left over: operators that no rule names, golden tensors unused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from probe_flow.dumps.graph.op_types import VIEW_TYPES
from probe_flow.matching.offline.groups import GroupMatch
from probe_flow.matching.offline.match_state import Ledger
from probe_flow.matching.offline.nodes import NEVER_DUMPED
from probe_flow.matching.offline.origins import CALLERS, PASSED_TYPES
from probe_flow.matching.offline.reasons import OfflineReason, empty_l1, no_target_dump
from probe_flow.matching.rules.merge import FusionOp
from probe_flow.matching.shared.nearest_names import NearestNames
from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.records import ArrayFacts, Group, NodeKey, Reason, Relation, SlotRole, TensorKind, TensorRef


def leave_unknown_targets(
    match: GroupMatch, ledger: Ledger, numbers: Iterator[int], *, is_device_told: bool = True
) -> None:
    """Leave the tensors of dumped operators that no rule names, one group each.

    Without rules of the device's own model (``is_device_told``) what its compiler made lies outside of the question.
    """
    names = NearestNames(("op", name) for name in match.rules.by_name)
    for key, refs in match.target.tensors.items():
        if key in match.taken:
            continue
        group = f"{match.group_prefix}{next(numbers)}"
        first = match.target.node(key.name)
        if first is not None and first in match.taken:
            reason = OfflineReason.FURTHER_CALL.missing(
                f"`{key.name}` ran several times or in slices; the first is compared"
            )
        else:
            near = names.clause("op", key.name)
            text = f"no rule file names the device operator `{key.name}`{near}"
            kind = OfflineReason.NOT_IN_RULES
            reason = kind.missing(text) if is_device_told else kind.outside(text)
        for ref in refs:
            ledger.leave(ref, reason, group=group, is_target=True)
        ledger.groups.append(Group(group, Relation.ONE_TO_ONE, (key,), ()))


class GoldenLeftovers:
    """Explains the golden tensors of one execution that nothing was compared with.

    Args:
        match: the finished match.
        ledger: what is decided.
    """

    def __init__(self, match: GroupMatch, ledger: Ledger) -> None:
        self._match = match
        self._ledger = ledger
        dumped = {node.op_type for node in match.target.nodes.values()}
        self._without_files = NEVER_DUMPED | (VIEW_TYPES - dumped)  # a device that runs views writes files of some
        self._claims: dict[NodeKey, list[FusionOp]] = defaultdict(list)
        self._carriers: dict[int, list[tuple[FusionOp, int]]] = defaultdict(list)
        for op in match.rules.ops:
            for key in dict.fromkeys(map(match.golden.node, op.originals)):
                if key is not None:
                    self._claims[key].append(op)
            for index, output in enumerate(op.outputs):
                number = index if output.origin_index is None else output.origin_index
                ref = match.golden.output(output.origin_name, number) if output.origin_name else None
                if ref is not None:
                    self._carriers[id(ref)].append((op, index))

    def leave(self, numbers: Iterator[int], *, is_claimed: bool) -> None:
        """Leave every unused tensor of operators that the rules name, or of all others.

        It goes to the group of an operator that is made of its node.
        """
        for key, refs in self._match.golden.tensors.items():
            claims = self._claims.get(key)
            unused = [ref for ref in refs if not self._ledger.is_paired(ref)]
            if not unused or is_claimed != bool(claims):
                continue
            group = f"{self._match.group_prefix}{claims[0].group if claims else next(numbers)}"
            for ref in unused:
                self._ledger.leave(ref, self._reason(ref), group=group, is_target=False)
            if not claims:
                self._ledger.groups.append(Group(group, Relation.ONE_TO_ONE, (), (key,)))

    def _reason(self, ref: TensorRef) -> Reason:
        if ref.kind is TensorKind.NULL:
            return CommonReason.NOT_TENSOR.expected(ref.reason or "the slot is empty")
        if ref.slot.role is SlotRole.INPUT:
            return CommonReason.COVERED_BY_PRODUCER.expected("what an operator reads is compared where it is made")
        if ref.slot.role is not SlotRole.OUTPUT:
            return CommonReason.NOT_TENSOR.expected("neither an input nor an output of the operator")
        name = ref.node.name
        claims = self._claims.get(ref.node)
        if claims is None:
            return self._unclaimed(ref)
        if all(op.is_filtered or not op.compares_outputs for op in claims):
            return OfflineReason.QUANTISED.expected(f"the target computes `{name}` in quantised values only")
        if not any(self._match.is_selected(op) for op in claims):
            return OfflineReason.NOT_SELECTED.outside(f"`{claims[0].name}` (id {claims[0].id}) is not selected")
        carriers = self._carriers.get(id(ref))
        fused = next((op for op in claims if op.name in self._match.guessed), None)
        if fused is not None:
            return CommonReason.INTERNAL.expected(f"by its name, `{fused.name}` computes it inside: a guess")
        if carriers:
            return self._not_carried(carriers)
        told = [output.origin_name for op in claims for output in op.outputs if output.origin_name]
        dumped = [op for op in claims if self._match.key_of(op) is not None]
        told += [last for op in dumped if (last := self._match.origins.last_original(op))]
        if any(self._match.golden.node(name) == ref.node for name in told):
            return CommonReason.INTERNAL.expected(
                f"the rules name other outputs of `{name}`, no device tensor for this one"
            )
        if told:
            return CommonReason.INTERNAL.expected(f"computed inside the fused operator `{claims[0].name}`")
        return self._undumped(claims)

    def _unclaimed(self, ref: TensorRef) -> Reason:
        """Return why nothing was compared with a tensor of an operator that no rule names."""
        golden = self._match.golden
        node = golden.nodes[ref.node]
        if golden.node(ref.node.name) != ref.node:
            return OfflineReason.FURTHER_CALL.expected("another turn of a loop: the last one is compared")
        if node.op_type in PASSED_TYPES and not isinstance(node.facts, ArrayFacts):
            return OfflineReason.DEVICE_ONLY.expected("a cast or change of layout that the compiler inserted")
        return OfflineReason.NO_RULE_OP.outside(
            f"no rule names the golden operator `{ref.node.name}`: folded away, or of another model"
        )

    def _not_carried(self, carriers: list[tuple[FusionOp, int]]) -> Reason:
        dumped = next(((op, index) for op, index in carriers if self._match.key_of(op) is not None), None)
        if dumped is None:
            op, index = carriers[0]
            if op.op_type in CALLERS and not self._match.origins.is_read(op, index):
                text = f"nothing reads output {index} of `{op.name}` ({op.op_type}), which its subgraphs compute"
                return OfflineReason.SUBGRAPH.expected(text)
            return self._undumped([op for op, _ in carriers])
        op, index = dumped
        if op.is_filtered:
            return OfflineReason.QUANTISED.expected(
                f"`{op.name}` computes quantised values, which the golden does not have"
            )
        if op.l1_group:
            return OfflineReason.L1_INNER.expected(
                f"`{op.name}` lies inside an L1 group, of which first and last are compared"
            )
        key = self._match.key_of(op)
        shown = None if key is None else self._match.target.output(key.name, index)
        if shown is not None and (reason := self._match.unmade(op, shown)) is not None:
            return reason
        return OfflineReason.NO_TARGET_TENSOR.missing(f"the device dump of `{op.name}` has no output {index}")

    def _undumped(self, ops: list[FusionOp]) -> Reason:
        op = ops[0]
        if op.l1_group and all(self._match.key_of(each) is None for each in ops):
            return empty_l1(op.l1_group)
        is_gap = any(each.op_type not in self._without_files for each in ops)
        return no_target_dump(op.name, op.op_type, is_gap=is_gap, is_caller=op.op_type in CALLERS)
