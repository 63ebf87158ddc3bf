"""Guess which arrays of the original model a device dump holds, where no rule file says it.

Rules of the pairs, most certain first; each says in its reason that it is a guess:

==============  ==========  ==================================================================================
rule            confidence  evidence
==============  ==========  ==================================================================================
``name``        0.9         the device operator has the name of the golden one
``name_parts``  0.8         its name is made of golden names: a fused operator, which gives the last one's output
``folded``      0.7         a product or norm of a golden name, and nothing of the device has the names of what is
                            behind it in its shape: a batch norm, a scale and the like are folded into its weights
``shape``       0.6         between the same pairs, the only tensor of this shape on both sides
``order``       0.4         the same, but several of the shape, as many on both sides: taken in order
``address``     0.9 of it   an input, by the address that its producer wrote; casts and changes of layout too
``input``       0.6         an input, by number, of the golden operator that its own operator is compared with
==============  ==========  ==================================================================================

Shapes are compared without padding and in any usual order of axes. Where a shape fits several (eight channels of eight
by eight), the order is that of the other tensors of the golden, of which only one fits. What several tensors could be
stays without partner, and its reason names some of them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import takewhile

from msgspec import Struct, field

from probe_flow.dumps.file_names import safe_name
from probe_flow.errors import Diagnostic, Severity
from probe_flow.matching.offline.addresses import Feeds, address_edges, feeds, nodes_in_order
from probe_flow.matching.offline.align import Aligned, align
from probe_flow.matching.offline.axes import Told, is_plain
from probe_flow.matching.offline.index import DumpIndex
from probe_flow.matching.offline.match_state import Ledger
from probe_flow.matching.offline.name_parts import NAME_PARTS, NameParts
from probe_flow.matching.offline.origins import HELD_TYPES, NETWORK_INPUTS, PASSED_TYPES
from probe_flow.matching.offline.reasons import OfflineReason, OfflineRule
from probe_flow.matching.offline.stretches import stretches
from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.records import Group, NodeKey, Reason, Relation, Rule, SlotRole, TensorRef

_ORDERS = ("NCHW", "NHWC")
"""Orders of the axes of images: ONNX, Caffe and PyTorch have the first, TensorFlow the second."""

AMBIGUOUS = 3
"""Candidates that a reason names."""

MAX_COMPARED = 250_000
"""Pairs of tensors that one stretch may compare by shape, a few seconds; longer ones are left without partners."""


class Joined(Struct):
    """Pairs with whether nothing else fits, and for the others what they could be, by identity."""

    pairs: list[tuple[TensorRef, TensorRef, bool]] = field(default_factory=list)
    candidates: dict[int, Sequence[TensorRef]] = field(default_factory=dict)


def join_alike(target: Sequence[TensorRef], golden: Sequence[TensorRef]) -> Joined:
    """Join tensors that can hold the same values, in order; whatever several could be is left with its candidates."""
    joined = Joined()
    if len(target) * len(golden) > MAX_COMPARED:
        return joined
    fitting = [[number for number, other in enumerate(golden) if align(ref, other).problem is None] for ref in target]
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    wanted: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    for place, numbers in enumerate(fitting):
        key = tuple(numbers)
        if key:
            alike[key].append(place)
            for number in key:
                wanted[number].add(key)
    for key, places in alike.items():
        is_own = all(wanted[number] == {key} for number in key)
        if is_own and len(places) == len(key):
            joined.pairs.extend(
                (target[place], golden[number], len(key) == 1) for place, number in zip(places, key, strict=True)
            )
        else:
            joined.candidates.update((id(target[place]), [golden[number] for number in key]) for place in places)
            for number in key:
                others = [target[each] for each in places]
                known = joined.candidates.get(id(golden[number]), ())
                joined.candidates[id(golden[number])] = [*known, *others]
    return joined


NAME, FOLDED, SHAPE, ORDER, ADDRESS, INPUT = 0.9, 0.7, 0.6, 0.4, 0.9, 0.6

_FOLDS = re.compile("Conv|MatMul|FullyConnection|BNInfer|BatchNorm")
"""Types of operators that compute what stands behind them too, and keep their own name."""

_FOLDED = re.compile(r"(?i)batch_?norm|scale|bias|(?:^|[^a-z])bn(?:[^a-z]|$)")
"""What operators are called that become part of weights. (What is behind them may be fused with what reads it.)"""

_NO_ORIGINAL = PASSED_TYPES | HELD_TYPES | NETWORK_INPUTS
_WHY = {
    OfflineRule.NAME: "the names are equal",
    OfflineRule.NAME_PARTS: "its name is made of names of the golden, of which this is the last",
    OfflineRule.FOLDED: "nothing else of the device can be what the golden computes behind the operator of its name",
    OfflineRule.SHAPE: "the only tensor of this shape in this place",
    OfflineRule.ORDER: "one of several tensors of this shape in this place, taken in order",
    OfflineRule.ADDRESS: "its address holds what was compared with it",
    OfflineRule.INPUT: "the input of the same number of the operator compared with its own",
}


def match_by_guess(target: DumpIndex, golden: DumpIndex, ledger: Ledger, prefix: str) -> None:
    """Decide every tensor of a device execution and of a folder of arrays."""
    _Guess(target, golden, ledger, prefix).run()


class _Guess:
    def __init__(self, target: DumpIndex, golden: DumpIndex, ledger: Ledger, prefix: str) -> None:
        self._target = target
        self._golden = golden
        self._ledger = ledger
        self._order = nodes_in_order(target)
        self._golden_order = nodes_in_order(golden)
        self._groups = {key: f"{prefix}{number}" for number, key in enumerate(self._order)}
        self._golden_groups = {
            key: f"{prefix}{number}" for number, key in enumerate(self._golden_order, start=len(self._order))
        }
        self._places = {key: place for place, key in enumerate(self._golden_order)}
        self._parts = NameParts(safe_name(name) for name in golden.names())
        self._found: dict[int, tuple[TensorRef, Rule, float]] = {}
        self._taken: set[int] = set()
        self._partners: dict[NodeKey, NodeKey] = {}
        self._inside: dict[NodeKey, NodeKey] = {}
        self._between: dict[NodeKey, NodeKey] = {}
        self._candidates: dict[int, Sequence[TensorRef]] = {}
        self._told = Told()
        self._named = {key: self._parts_of(key) for key in self._order}
        self._known = {part for parts in self._named.values() for part in parts}
        for key, parts in self._named.items():
            if len(parts) > 1:
                between = self._golden_order[self._places[parts[0]] + 1 : self._places[parts[-1]]]
                self._between.update((part, key) for part in between)

    def run(self) -> None:
        for key in self._order:
            self._by_name(key)
        self._told = Told(layout=self._order_of_axes())
        self._by_shape()
        found = feeds(self._target)
        for key in self._order:
            self._by_address(key, found)
        for key in self._order:
            self._decide(key)
        for key in self._golden_order:
            self._leave_golden(key)
        self._ledger.edges.extend(address_edges(self._target, found))
        self._ledger.problems.append(self._summary())

    def _by_name(self, key: NodeKey) -> None:
        if self._target.nodes[key].op_type in _NO_ORIGINAL:
            return
        parts, rule, confidence = self._named[key], OfflineRule.NAME, NAME
        if len(parts) > 1:
            rule, confidence = OfflineRule.NAME_PARTS, NAME_PARTS
        elif parts and (folded := self._folded(key, parts[0])):
            parts, rule, confidence = [parts[0], *folded], OfflineRule.FOLDED, FOLDED
        if not parts:
            return
        golden = parts[-1]
        self._inside.update((part, key) for part in parts[:-1])
        self._partners[key] = golden
        for ref in self._target.of(key, SlotRole.OUTPUT):
            other = self._golden.tensor(golden.name, SlotRole.OUTPUT, ref.slot.path[0])
            if other is not None and id(other) not in self._taken:
                self._take(ref, other, rule, confidence)

    def _parts_of(self, key: NodeKey) -> list[NodeKey]:
        """Return the golden operators that a device operator is named after: of its name, or those that make it up."""
        same = self._golden.same_node(key)
        names = () if same is not None else self._parts.of(safe_name(key.name))
        found = [same] if same is not None else [self._golden.node(part) for part in names]
        return [part for part in found if part is not None]

    def _folded(self, key: NodeKey, golden: NodeKey) -> list[NodeKey]:
        """Return what the golden computes of the same shape behind an operator, before the next that the device has."""
        if not _FOLDS.search(self._target.nodes[key].op_type):
            return []
        places = range(self._places[golden] + 1, len(self._golden_order))
        behind = (self._golden_order[place] for place in places)
        alone = takewhile(lambda each: each not in self._known and each not in self._between, behind)
        given = self._golden.output(golden.name, 0)
        outputs = ((each, self._golden.output(each.name, 0)) for each in alone)
        alike = (each for each, ref in outputs if ref is not None and given is not None and ref.shape == given.shape)
        return [*takewhile(lambda each: _FOLDED.search(each.name), alike)]

    def _order_of_axes(self) -> str:
        """Return the order of the golden's images that most named pairs have which fit in one order alone."""
        images = [
            (ref, self._found[id(ref)][0])
            for key in self._partners
            for ref in self._target.of(key, SlotRole.OUTPUT)
            if id(ref) in self._found and not is_plain(ref)
        ]
        votes: Counter[str] = Counter()
        for ref, golden in images:
            ways = [align(ref, golden, told=Told(layout=order)).transform for order in _ORDERS]
            if ways[0] == ways[1]:
                votes[_ORDERS[bool(ways[0])]] += 1
        return max(votes, key=lambda order: votes[order], default="")

    def _by_shape(self) -> None:
        mine = [
            (ref, self._mark(ref))
            for key in self._order
            if self._target.nodes[key].op_type not in _NO_ORIGINAL
            for ref in self._target.of(key, SlotRole.OUTPUT)
        ]
        other = [
            (ref, id(ref) if id(ref) in self._taken else None)
            for key in self._golden_order
            if key not in self._inside
            for ref in self._golden.of(key, SlotRole.OUTPUT)
        ]
        for stretch in stretches(mine, other):
            joined: Joined = join_alike(stretch.target, stretch.golden)
            for ref, golden, is_only in joined.pairs:
                self._take(ref, golden, *((OfflineRule.SHAPE, SHAPE) if is_only else (OfflineRule.ORDER, ORDER)))
                self._partners.setdefault(ref.node, golden.node)
            self._candidates.update(joined.candidates)

    def _mark(self, ref: TensorRef) -> int | None:
        found = self._found.get(id(ref))
        return None if found is None else id(found[0])

    def _by_address(self, key: NodeKey, found: Feeds) -> None:
        partner = self._partners.get(key)
        for ref in self._target.of(key, SlotRole.INPUT):
            writer = found.get(id(ref))
            behind = self._found.get(id(writer)) if writer is not None else None
            if behind is not None:
                self._take(ref, behind[0], OfflineRule.ADDRESS, behind[2] * ADDRESS)
            elif partner is not None:
                other = self._golden.tensor(partner.name, SlotRole.INPUT, ref.slot.path[0])
                if other is not None:
                    self._take(ref, other, OfflineRule.INPUT, INPUT)
        if self._target.nodes[key].op_type in PASSED_TYPES:
            inputs, outputs = self._target.of(key, SlotRole.INPUT), self._target.of(key, SlotRole.OUTPUT)
            behind = self._found.get(id(inputs[0])) if inputs else None
            if behind is not None and len(outputs) == 1:
                self._take(outputs[0], behind[0], OfflineRule.ADDRESS, behind[2] * ADDRESS)

    def _take(self, ref: TensorRef, golden: TensorRef, rule: Rule, confidence: float) -> None:
        if align(ref, golden).problem is None:
            self._found[id(ref)] = golden, rule, confidence
            self._taken.add(id(golden))

    def _decide(self, key: NodeKey) -> None:
        group = self._groups[key]
        golden_nodes: dict[NodeKey, None] = {}
        for ref in self._target.tensors[key]:
            found = self._found.get(id(ref))
            if found is None:
                self._ledger.leave(ref, self._unknown(ref), group=group, is_target=True)
                continue
            golden, rule, confidence = found
            golden_nodes[golden.node] = None
            note = CommonReason.GUESSED.expected(f"a guess without rule file: {_WHY[rule]}")
            aligned: Aligned = align(ref, golden, told=self._told)
            self._ledger.pair(ref, golden, aligned, group=group, rule=rule, confidence=confidence, note=note)
        partner = self._partners.get(key)
        sides = (partner,) if partner is not None else tuple(golden_nodes)
        self._ledger.groups.append(Group(group, Relation.ONE_TO_ONE, (key,), sides))

    def _unknown(self, ref: TensorRef) -> Reason:
        if not ref.has_numbers:
            return CommonReason.NOT_TENSOR.expected(ref.reason or "the slot is empty")
        candidates = self._candidates.get(id(ref), ())
        if candidates:
            return OfflineReason.AMBIGUOUS.missing(f"without a rule file it could be {_listed(candidates)}")
        op_type = self._target.nodes[ref.node].op_type
        if op_type in _NO_ORIGINAL or ref.slot.role is not SlotRole.OUTPUT:
            return OfflineReason.NO_RULES.expected("without a rule file nothing says where this value is made")
        return OfflineReason.NO_RULES.missing(
            "without a rule file nothing says what this is: no golden name or shape fits"
        )

    def _leave_golden(self, key: NodeKey) -> None:
        left = [ref for ref in self._golden.tensors[key] if not self._ledger.is_paired(ref)]
        for ref in left:
            self._ledger.leave(ref, self._unused(ref), group=self._golden_groups[key], is_target=False)
        if left:
            self._ledger.groups.append(Group(self._golden_groups[key], Relation.ONE_TO_ONE, (), (key,)))

    def _unused(self, ref: TensorRef) -> Reason:
        if ref.slot.role is SlotRole.INPUT:
            return CommonReason.COVERED_BY_PRODUCER.expected("what an operator reads is compared where it is made")
        fused = self._inside.get(ref.node)
        if fused is not None:
            return CommonReason.INTERNAL.expected(
                f"by its name, `{fused.name}` computes it inside: a guess without rule file"
            )
        candidates = self._candidates.get(id(ref), ())
        if candidates:
            return OfflineReason.AMBIGUOUS.missing(f"without a rule file it could be {_listed(candidates)}")
        fused = self._between.get(ref.node)
        if fused is not None:
            text = (
                f"it ran between what `{fused.name}` is named after, so that computes it inside: a guess without rules"
            )
            return CommonReason.INTERNAL.expected(text)
        return OfflineReason.NO_RULES.missing("without a rule file nothing says which device operator computes it")

    def _summary(self) -> Diagnostic:
        outputs = [ref for key in self._order for ref in self._target.of(key, SlotRole.OUTPUT)]
        rules = [self._found[id(ref)][1] for ref in outputs if id(ref) in self._found]
        named = sum(rule in (OfflineRule.NAME, OfflineRule.NAME_PARTS, OfflineRule.FOLDED) for rule in rules)
        return Diagnostic(
            "PF4406",
            f"no rule file: {len(rules)} of {len(outputs)} outputs of the device are compared by a guess, {named} of "
            "them by name",
            severity=Severity.WARNING,
            help="give `fusion_rule`: the JSON that ATC makes of the offline model, or the `.om` itself",
        )


def _listed(refs: Sequence[TensorRef]) -> str:
    more = f" or {len(refs) - AMBIGUOUS} more" if len(refs) > AMBIGUOUS else ""
    return " or ".join(f"`{ref.id}`" for ref in refs[:AMBIGUOUS]) + more
