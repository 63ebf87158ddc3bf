"""Match one execution of a device dump by fusion rules: each fusion group with what it was made of.

Rules of the pairs: `one_to_one`, `many_to_one`, `one_to_many`, `many_to_many`, `l1` - by the relation of the fusion
group; `cast_skipped` - casts and changes of layout lie between the tensor and what it is compared with;
`network_input` - what is fed to the model, compared with what the golden operator read; `inner_input` - an input of an
operator that gives no original tensor itself; `self` - what casts and changes of layout made of a value that the
golden lacks, compared with what the first of them read; `name_parts` - a guess: the rules know the operators that the
device operator is named after (see `offline_fused_names`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from functools import cached_property

from msgspec.structs import replace

from probe_flow.dumps.file_names import safe_name
from probe_flow.errors import Span
from probe_flow.matching.offline.align import Aligned, align, alone
from probe_flow.matching.offline.index import DumpIndex
from probe_flow.matching.offline.match_state import Ledger
from probe_flow.matching.offline.name_parts import NAME_PARTS
from probe_flow.matching.offline.nodes import is_inner, op_key
from probe_flow.matching.offline.origins import (
    NETWORK_INPUTS,
    PASSED_TYPES,
    Origin,
    Origins,
    as_bfloat16,
    may_be_bfloat16,
    no_golden_dump,
    not_shown,
)
from probe_flow.matching.offline.reasons import OfflineReason, OfflineRule, inner_node
from probe_flow.matching.rules.merge import FusionGroup, FusionOp, FusionRules
from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.records import SELF, ArrayFacts, Group, NodeKey, Reason, Relation, SlotRole, TensorKind, TensorRef

Reader = tuple[FusionOp, int]


class FedInputs:
    """Finds golden inputs by the operators that read what is fed to the network.

    Args:
        rules: the fusion rules.
        origins: follows them.
        golden: the golden side.
    """

    def __init__(self, rules: FusionRules, origins: Origins, golden: DumpIndex) -> None:
        self._rules = rules
        self._origins = origins
        self._golden = golden

    def golden_of(self, op: FusionOp, ref: TensorRef, origin: Origin) -> tuple[TensorRef, Aligned] | None:
        """Return the golden input that holds the same value as a tensor of `op`, aligned with it.

        The input of the same number of the first original is taken where it fits; else the only one that fits.
        """
        index = ref.slot.path[0]
        own = [(op, index)] if ref.slot.role is SlotRole.INPUT and isinstance(index, int) else []
        readers = [reader for reader in own if reader[0].op_type not in PASSED_TYPES]
        readers = readers or self._readers.get(origin.op.name, [])
        for reader, number in readers:
            golden = self._golden.tensor(reader.originals[0], SlotRole.INPUT, number) if reader.originals else None
            aligned = None if golden is None else align(ref, golden, told=origin.told, golden_told=origin.made)
            if golden is not None and aligned is not None and aligned.problem is None:
                return golden, aligned
        fitting = [
            (golden, aligned)
            for golden in self._inputs(readers)
            if (aligned := align(ref, golden, told=origin.told, golden_told=origin.made)).problem is None
        ]
        return fitting[0] if len(fitting) == 1 else None

    def _inputs(self, readers: list[Reader]) -> Iterator[TensorRef]:
        names = dict.fromkeys(name for reader, _ in readers for name in reader.originals)
        for name in names:
            key = self._golden.node(name)
            if key is not None:
                yield from self._golden.of(key, SlotRole.INPUT)

    @cached_property
    def _readers(self) -> dict[str, list[Reader]]:
        """Return the operators that read each network input, through casts and changes of layout."""
        found: dict[str, list[Reader]] = defaultdict(list)
        for op in self._rules.ops:
            if op.op_type in PASSED_TYPES:
                continue
            for number in range(len(op.inputs)):
                origin = self._origins.of(op, SlotRole.INPUT, number)
                if not isinstance(origin, Reason) and origin.op.op_type in NETWORK_INPUTS:
                    found[origin.op.name].append((op, number))
        return found


LAST_ORIGINAL = 0.8
"""Confidence that an operator gives what the last of its originals gives."""

_RULES = {
    Relation.ONE_TO_ONE: OfflineRule.ONE_TO_ONE,
    Relation.MANY_TO_ONE: OfflineRule.MANY_TO_ONE,
    Relation.ONE_TO_MANY: OfflineRule.ONE_TO_MANY,
    Relation.MANY_TO_MANY: OfflineRule.MANY_TO_MANY,
    Relation.L1: OfflineRule.L1,
}


class GroupMatch:
    """Pairs the tensors of one execution, group by group.

    Args:
        target: the device side.
        golden: its golden side.
        rules: the fusion rules.
        ledger: takes the decisions.
        group_prefix: stands before the index of a group, so that groups of several executions differ.
        selected: ids of the operators to compare; None = all.
        guessed: names of operators whose rules are a guess.

    Once it ran, ``untold`` has the golden tensors of which nothing says whether they hold float16 or bfloat16.
    """

    def __init__(
        self,
        target: DumpIndex,
        golden: DumpIndex,
        rules: FusionRules,
        ledger: Ledger,
        *,
        group_prefix: str = "",
        selected: Container[int] | None = None,
        guessed: Container[str] = (),
    ) -> None:
        self.target = target
        self.golden = golden
        self.rules = rules
        self.group_prefix = group_prefix
        self.selected = selected
        self.guessed = guessed
        names = _by_clean_name(rules)
        self._clean_names = frozenset(names)
        self._ambiguous = {clean: tuple(alike) for clean, alike in names.items() if len(alike) > 1}
        self.origins = Origins(rules, self._golden_output, golden.last_of)
        self.taken: dict[NodeKey, FusionOp] = {}
        self.untold: dict[str, None] = {}
        self._fed = FedInputs(rules, self.origins, golden)
        self._ledger = ledger
        self._span = Span(rules.files[0]) if rules.files else None
        for op in rules.ops:
            key = target.node(op.name)
            if key is not None:
                self.taken.setdefault(key, op)

    def _golden_output(self, name: str, index: int) -> TensorRef | None:
        """Return a golden tensor, none where only its name in file names is known and another original has the same."""
        return None if self._doubt(name) else self.golden.output(name, index)

    def _doubt(self, name: str) -> str:
        """Return why the golden operator that is found by a name may be another one; empty where it is not."""
        key = self.golden.node(name)
        facts = None if key is None else self.golden.nodes[key].facts
        is_told = not isinstance(facts, ArrayFacts) or facts.is_told
        if key is None or (key.name == name and is_told):
            return ""
        if isinstance(facts, ArrayFacts) and facts.twin and facts.twin not in self._clean_names:
            return f"`{facts.twin}` is another operator of this name, and `mapping.csv` has no line of `{key.name}`"
        alike = self._ambiguous.get(safe_name(name), ())
        return f"{', '.join(f'`{each}`' for each in alike)} have one name in file names" if alike else ""

    def _no_golden(self, origin: Origin) -> Reason:
        name = origin.output.origin_name if origin.output is not None else ""
        if doubt := self._doubt(name):
            return OfflineReason.AMBIGUOUS.missing(
                f"{doubt}: nobody can tell whose array `{safe_name(name)}` is; read the "
                "runs of the debugger themselves, or extract them with `tf_dump`, whose `mapping.csv` tells"
            )
        reason = no_golden_dump(origin)
        if reason.is_gap and name and self.golden.leaves_out(name):
            return CommonReason.FILTERED.outside(f"`{name}` is not among the selected golden nodes")
        return (not_shown(origin, self.origins, self.golden, self._shown_graphs) or reason) if reason.is_gap else reason

    @cached_property
    def _shown_graphs(self) -> set[str]:
        """Graphs of whose operators the golden has some."""
        return {op.graph for op in self.rules.ops if any(map(self.golden.node, op.originals))}

    def run(self) -> None:
        """Decide every tensor of the operators that the rules name."""
        for group in self.rules.groups:
            self._match_group(group)

    def key_of(self, op: FusionOp) -> NodeKey | None:
        """Return the dumped node of an operator, None when it has no file."""
        key = self.target.node(op.name)
        return key if key is not None and self.taken[key] is op else None

    def is_selected(self, op: FusionOp) -> bool:
        """Whether an operator is to be compared."""
        return self.selected is None or op.id in self.selected

    def _match_group(self, group: FusionGroup) -> None:
        ops = [op for op in group.ops if self.is_selected(op)]
        shown = self._l1_ends(ops) if group.relation is Relation.L1 else None
        for op in group.ops:
            key = self.key_of(op)
            if key is None:
                continue
            for ref in self.target.tensors[key]:
                reason = self._passed_by(op, ref, group, shown)
                if reason is None:
                    self._match(op, ref, group)
                else:
                    self._ledger.leave(ref, reason, group=self._id(group), is_target=True)
        keys = (self.key_of(op) or op_key(self.target, op) for op in group.ops)
        self._ledger.groups.append(
            Group(self._id(group), group.relation, tuple(dict.fromkeys(keys)), self._golden_nodes(group.ops))
        )

    def _golden_nodes(self, ops: Iterable[FusionOp]) -> tuple[NodeKey, ...]:
        names = dict.fromkeys(name for op in ops for name in op.originals)
        found = (self.golden.node(name) for name in names)
        return tuple(dict.fromkeys(key for key in found if key is not None))

    def _passed_by(
        self, op: FusionOp, ref: TensorRef, group: FusionGroup, shown: Container[str] | None
    ) -> Reason | None:
        """Return why a tensor is not even looked up."""
        role = ref.slot.role
        if not self.is_selected(op):
            return OfflineReason.NOT_SELECTED.outside(f"`{op.name}` (id {op.id}) is not selected")
        if op.is_filtered:
            return OfflineReason.QUANTISED.expected(
                f"`{op.name}` computes quantised values, which the golden does not have"
            )
        if role is SlotRole.INPUT and not op.compares_inputs:
            return OfflineReason.QUANTISED.expected(f"the inputs of `{op.name}` are quantised, the golden's are not")
        if role is SlotRole.OUTPUT and not op.compares_outputs:
            return OfflineReason.QUANTISED.expected(f"the outputs of `{op.name}` are quantised, the golden's are not")
        if ref.kind is TensorKind.NULL:
            return CommonReason.NOT_TENSOR.expected(ref.reason or "the slot is empty")
        if role not in (SlotRole.INPUT, SlotRole.OUTPUT) or not isinstance(ref.slot.path[0], int):
            return CommonReason.NOT_TENSOR.expected("neither an input nor an output of the operator")
        if shown is not None and op.name not in shown:
            return OfflineReason.L1_INNER.expected(
                f"`{op.name}` lies inside an L1 group, of which first and last are compared"
            )
        if is_inner(op, group) and role is SlotRole.OUTPUT:
            return inner_node(op.name)
        return None

    def unmade(self, op: FusionOp, ref: TensorRef) -> Reason | None:
        """Return why an output that the device left empty has nothing to be compared: nobody reads it."""
        index = ref.slot.path[0]
        if ref.numel or ref.slot.role is not SlotRole.OUTPUT or self.origins.is_read(op, index):
            return None
        return OfflineReason.NO_TARGET_DUMP.expected(
            f"nothing reads output {index} of `{op.name}`, and the device left it empty"
        )

    def _l1_ends(self, ops: list[FusionOp]) -> set[str]:
        """Return the operators of an L1 group to compare: the newest, and the oldest if it is of other originals."""
        dumped = [(key, op) for op in ops if (key := self.key_of(op)) is not None]
        dumped.sort(key=lambda item: self.target.nodes[item[0]].order)
        if not dumped:
            return set()
        oldest, newest = dumped[0][1], dumped[-1][1]
        return {newest.name} if oldest.originals == newest.originals else {oldest.name, newest.name}

    def _match(self, op: FusionOp, ref: TensorRef, group: FusionGroup) -> None:
        role, index = ref.slot.role, ref.slot.path[0]
        assert isinstance(index, int)
        origin = self.origins.of(op, role, index)
        if isinstance(origin, Reason):
            self._ledger.leave(ref, origin, group=self._id(group), is_target=True)
            return
        is_empty_there = origin.golden is not None and origin.golden.numel == 0
        if not is_empty_there and (reason := self.unmade(op, ref)) is not None:
            self._ledger.leave(ref, reason, group=self._id(group), is_target=True)
            return
        if origin.golden is None:
            self._match_fed(op, ref, group, origin)
            return
        if (reason := _raw(ref, origin.golden, origin)) is not None:
            self._ledger.leave(ref, reason, group=self._id(group), is_target=True)
            return
        golden = as_bfloat16(origin.golden, origin)
        aligned = _with_layout(align(ref, golden, told=origin.told, golden_told=origin.made), origin)
        note = None
        if origin.caller:
            text = f"what `{origin.caller}` gives, which its subgraph ends with"
            note = OfflineReason.SUBGRAPH.expected(f"compared with {text}")
            if aligned.problem is not None:  # what a loop puts together of all turns
                reason = OfflineReason.SUBGRAPH.expected(f"a part of {text}")
                self._ledger.leave(ref, reason, group=self._id(group), is_target=True)
                return
        rule = OfflineRule.INNER_INPUT if is_inner(op, group) else _RULES[group.relation]
        if origin.passed:
            rule = OfflineRule.CAST_SKIPPED
            between = ", ".join(f"`{name}`" for name in origin.passed)
            note = OfflineReason.CAST_SKIPPED.expected(
                f"compared with the value that {between} got from `{origin.op.name}`"
            )
        confidence = 1.0
        if op.name in self.guessed:
            rule, confidence = OfflineRule.NAME_PARTS, NAME_PARTS
            note = CommonReason.GUESSED.expected(
                f"a guess: the rules know the parts of the name `{op.name}`, not the operator"
            )
        elif origin.guessed:
            confidence = LAST_ORIGINAL
            note = CommonReason.GUESSED.expected(
                f"a guess: `{origin.op.name}` was made of `{origin.guessed}` last, but the rules name no original"
            )
        if may_be_bfloat16(ref, golden, origin):
            self.untold[golden.id] = None
        if golden is not origin.golden and note is None:
            note = OfflineReason.BFLOAT16.expected("the array says float16 and holds bfloat16, as the graph says")
        self._ledger.pair(
            ref,
            origin.golden,
            aligned,
            group=self._id(group),
            rule=rule,
            span=self._span,
            confidence=confidence,
            note=note,
        )

    def _match_fed(self, op: FusionOp, ref: TensorRef, group: FusionGroup, origin: Origin) -> None:
        """Compare what is fed to the network with what the golden operator read, or say that there is no golden."""
        found = self._fed.golden_of(op, ref, origin) if origin.op.op_type in NETWORK_INPUTS else None
        if found is None:
            if not self._match_self(op, ref, group, origin):
                seen = alone(ref, origin.told)
                self._ledger.leave(ref, self._no_golden(origin), group=self._id(group), is_target=True, seen=seen)
            return
        golden, aligned = found
        if (reason := _raw(ref, golden, origin)) is not None:
            self._ledger.leave(ref, reason, group=self._id(group), is_target=True)
            return
        note = OfflineReason.NETWORK_INPUT.expected(
            f"`{origin.op.name}` feeds the network: compared with what `{golden.id}` read"
        )
        self._ledger.pair(
            ref, golden, aligned, group=self._id(group), rule=OfflineRule.NETWORK_INPUT, span=self._span, note=note
        )

    def _match_self(self, op: FusionOp, ref: TensorRef, group: FusionGroup, origin: Origin) -> bool:
        """Compare what casts and changes of layout made of a value that the golden lacks with what the first read."""
        passed = (op.name, *origin.passed) if ref.slot.role is SlotRole.OUTPUT else origin.passed
        read = (self.target.tensor(name, SlotRole.INPUT, 0) for name in reversed(self.origins.keeping(passed)))
        given = next((each for each in read if each is not None), None)
        if given is None or not (given.has_numbers and ref.has_numbers):
            return False
        note = CommonReason.SELF.expected(
            f"the golden dump lacks what `{origin.op.name}` holds: compared with `{given.id}` of the same dump"
        )
        aligned = align(ref, given, told=origin.told)
        if aligned.problem is None:
            self._ledger.pair(ref, given, aligned, group=self._id(group), rule=SELF, span=self._span, note=note)
        return aligned.problem is None

    def _id(self, group: FusionGroup) -> str:
        return f"{self.group_prefix}{group.index}"


def _by_clean_name(rules: FusionRules) -> dict[str, dict[str, None]]:
    """Return the names of originals by what they are in file names."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for op in rules.ops:
        for output in op.outputs:
            if output.origin_name:
                found[safe_name(output.origin_name)][output.origin_name] = None
    return found


def _raw(ref: TensorRef, golden: TensorRef, origin: Origin) -> Reason | None:
    """Return why an input of bytes is not compared with the numbers that the original model is fed; None of others."""
    is_raw = origin.op.op_type in NETWORK_INPUTS and ref.dtype == "uint8" and "float" in golden.dtype
    if not is_raw:
        return None
    return OfflineReason.NETWORK_INPUT.expected(
        f"`{origin.op.name}` feeds bytes, of which preprocessing on the device (AIPP) makes what the model is fed"
    )


def _with_layout(aligned: Aligned, origin: Origin) -> Aligned:
    """Keep the layout that the rules name in `TensorFacts.rule_layout` of the target, for tables that show it."""
    layout = origin.output.origin_layout if origin.output is not None else ""
    if not layout:
        return aligned
    return replace(aligned, target=aligned.target.changed(rule_layout=layout))
