"""Match two offline dumps of one kind without rules: operators of one name, then those that stand in the same place.

Casts and changes of layout are numbered anew each time that a model is built, so their names count only between the
same pairs of others.

Rules of the pairs: `name` - operators of equal name (where their types differ, the inputs are a guess); `order` -
operators whose names differ in numbers only, of one type and with tensors of the same shapes, between the same pairs,
as many on both sides: a guess; `file` - what two files hold that were given singly, whatever their names.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping

from probe_flow.matching.offline.addresses import address_edges, feeds, nodes_in_order
from probe_flow.matching.offline.align import Aligned, align
from probe_flow.matching.offline.axes import Told
from probe_flow.matching.offline.index import DumpIndex
from probe_flow.matching.offline.match_state import Ledger
from probe_flow.matching.offline.origins import PASSED_TYPES
from probe_flow.matching.offline.reasons import (
    OfflineRule,
    no_golden_node,
    no_rule_count,
    no_rule_shape,
    no_target_node,
)
from probe_flow.matching.offline.stretches import stretches
from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.records import Group, NodeKey, Reason, Relation, SlotRole, TensorKind, TensorRef

ORDER_CONFIDENCE = 0.6
"""Of operators with other numbers in their names that stand in the same place: a dropped one would shift the others."""

_NUMBERS = re.compile(r"[0-9]+")


def match_by_name(
    target: DumpIndex, golden: DumpIndex, ledger: Ledger, prefix: str, *, are_files: bool = False
) -> None:
    """Decide every tensor of two executions; groups number the target's operators as they ran, then the golden's.

    Args:
        target, golden: the executions.
        ledger: gets pairs and groups.
        prefix: stands before the number of a group.
        are_files: whether each side is one file, of one operator: then they are partners whatever their names.
    """
    _NameMatch(target, golden, ledger, prefix, are_files=are_files).run()


class _NameMatch:
    def __init__(self, target: DumpIndex, golden: DumpIndex, ledger: Ledger, prefix: str, *, are_files: bool) -> None:
        self._target = target
        self._golden = golden
        self._ledger = ledger
        self._prefix = prefix
        self._order = nodes_in_order(target)
        self._golden_order = nodes_in_order(golden)
        self._are_files = are_files
        self._partners = dict(zip(self._order, self._golden_order, strict=True)) if are_files else {}
        self._guessed: set[NodeKey] = set()

    def run(self) -> None:
        self._pair_names(lambda key: self._target.nodes[key].op_type not in PASSED_TYPES)
        self._pair_places()
        self._pair_names(lambda key: key not in self._partners)
        numbers = iter(range(len(self._order) + len(self._golden_order)))
        for key in self._order:
            self._decide(key, self._partners.get(key), f"{self._prefix}{next(numbers)}")
        partners = set(self._partners.values())
        for key in self._golden_order:
            if key not in partners:
                self._leave_node(key, f"{self._prefix}{next(numbers)}")
        self._ledger.edges.extend(address_edges(self._target, feeds(self._target)))

    def _pair_names(self, is_due: Callable[[NodeKey], bool]) -> None:
        taken = set(self._partners.values())
        for key in filter(is_due, self._order):
            found = self._golden.same_node(key)
            if found is not None and found not in taken:
                taken.add(found)
                self._partners[key] = found

    def _pair_places(self) -> None:
        """Pair casts and changes of layout, whose numbers may mean others on the other side, where they stand."""
        marks = {other: key for key, other in self._partners.items()}
        target = [(key, key if key in self._partners else None) for key in self._order]
        golden = [(key, marks.get(key)) for key in self._golden_order]
        for stretch in stretches(target, golden):
            others = set(stretch.golden)
            same = {key: self._golden.same_node(key) for key in stretch.target}
            named = {key: other for key, other in same.items() if other is not None and other in others}
            self._partners.update(named)
            rest = (
                _alike(self._target, [key for key in stretch.target if key not in named]),
                _alike(self._golden, [key for key in stretch.golden if key not in named.values()]),
            )
            for likeness, keys in rest[0].items():
                found = rest[1].get(likeness, [])
                if len(keys) == len(found):
                    self._partners.update(zip(keys, found, strict=True))
                    self._guessed.update(keys)

    def _decide(self, key: NodeKey, partner: NodeKey | None, group: str) -> None:
        mine = self._target.tensors[key]
        others = [] if partner is None else self._golden.tensors[partner]
        if partner is None:
            for ref in mine:
                self._ledger.leave(ref, no_golden_node(), group=group, is_target=True)
        elif self._are_files and len(mine) == len(others) == 1:
            self._pair(key, mine[0], others[0], group)
        else:
            for role in SlotRole:
                self._pair_role(key, partner, role, group)
        golden = () if partner is None else (partner,)
        self._ledger.groups.append(Group(group, Relation.ONE_TO_ONE, (key,), golden))

    def _pair_role(self, key: NodeKey, partner: NodeKey, role: SlotRole, group: str) -> None:
        mine, others = self._target.of(key, role), self._golden.of(partner, role)
        by_slot = {ref.slot: ref for ref in others}
        for ref in mine:
            other = by_slot.pop(ref.slot, None)
            if other is None:
                reason = self._alone(ref, role, len(mine), len(others))
                self._ledger.leave(ref, reason, group=group, is_target=True)
            else:
                self._pair(key, ref, other, group)
        for other in by_slot.values():
            reason = self._alone(other, role, len(mine), len(others))
            self._ledger.leave(other, reason, group=group, is_target=False)

    def _alone(self, ref: TensorRef, role: SlotRole, mine: int, others: int) -> Reason:
        if ref.kind is TensorKind.NULL:
            return CommonReason.NOT_TENSOR.expected(ref.reason or "the slot is empty")
        return no_rule_count(role, mine, others)

    def _pair(self, key: NodeKey, ref: TensorRef, other: TensorRef, group: str) -> None:
        aligned = align(ref, other, told=Told())
        reason = _other_shape(ref, other, aligned)
        if reason is not None:
            aligned = Aligned(aligned.target, aligned.golden, aligned.transform, reason)
        is_guess = key in self._guessed
        note = (
            CommonReason.GUESSED.expected(
                f"`{other.node.name}` has another number: taken for its type, shapes and place"
            )
            if is_guess
            else None
        )
        types = [side.nodes[ref.node].op_type for side, ref in ((self._target, ref), (self._golden, other))]
        is_other_type = ref.slot.role is SlotRole.INPUT and types[0] != types[1] and not self._are_files
        if is_other_type and note is None:
            note = CommonReason.GUESSED.expected(
                f"`{types[0]}` and `{types[1]}` of one name: their inputs may be others"
            )
        self._ledger.pair(
            ref,
            other,
            aligned,
            group=group,
            rule=OfflineRule.FILE if self._are_files else OfflineRule.ORDER if is_guess else OfflineRule.NAME,
            confidence=ORDER_CONFIDENCE if is_guess or is_other_type else 1.0,
            note=note,
        )

    def _leave_node(self, key: NodeKey, group: str) -> None:
        for ref in self._golden.tensors[key]:
            self._ledger.leave(ref, no_target_node(), group=group, is_target=False)
        self._ledger.groups.append(Group(group, Relation.ONE_TO_ONE, (), (key,)))


def _alike(side: DumpIndex, keys: Iterable[NodeKey]) -> Mapping[Hashable, list[NodeKey]]:
    """Return nodes by what they must share to be paired by place: name but for numbers, type, tensors with shapes."""
    found: dict[Hashable, list[NodeKey]] = defaultdict(list)
    for key in keys:
        tensors = tuple((ref.slot, ref.shape) for ref in side.tensors[key])
        found[_NUMBERS.sub("#", key.name), side.nodes[key].op_type, tensors].append(key)
    return found


def _other_shape(ref: TensorRef, other: TensorRef, aligned: Aligned) -> Reason | None:
    """Return that shapes differ, unless both are one tensor stored in two ways."""
    if ref.shape is None or other.shape is None or ref.shape == other.shape:
        return None
    is_same = bool(aligned.transform) or aligned.target.logical_shape == aligned.golden.logical_shape
    if aligned.problem is None and is_same:
        return None
    return no_rule_shape(ref.shape, other.shape)
