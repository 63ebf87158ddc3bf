"""Matching by structure: two dumps whose names differ, paired by what the model is made of and what it computes.

Siblings under paired modules are aligned in order by kind, shapes, parameters, content and recorded values; backward
calls are paired through their forwards, gradients of parameters through their modules. Every pair has the rule
``structure`` and a confidence below 1; one that other nodes fit as well, or that crosses the order, says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from probe_flow.errors import Diagnostic, Severity
from probe_flow.matching.alike.operations import family, kin
from probe_flow.matching.alike.slots_by_shape import Twosome, no_slot, pair_slots, parameter_names, without_transposed
from probe_flow.matching.alike.values import EQUAL, likeness
from probe_flow.matching.name.name_space import is_cross_framework
from probe_flow.matching.name.reasons import entry_of
from probe_flow.matching.name.side import Side, Sides
from probe_flow.matching.name.slots import Decision, no_values, pair_twosome
from probe_flow.matching.shared.executions import other_leaves_out, pair_executions, with_selections
from probe_flow.matching.shared.vocabulary import CommonRule
from probe_flow.matching.structure.align import Link
from probe_flow.matching.structure.confidence import Confidence
from probe_flow.matching.structure.nodes import NodeLinks, link_nodes
from probe_flow.matching.structure.reasons import StructureReasons, within_call, within_row
from probe_flow.records import (
    Catalog,
    Group,
    NodeKind,
    Pair,
    Pairs,
    Phase,
    Reason,
    Relation,
    Rule,
    SlotRole,
    TensorRef,
)


def pair_fused(
    row: Sequence[Sequence[TensorRef]], single: Sequence[TensorRef]
) -> tuple[list[Twosome], list[TensorRef]]:
    """Pair the border of a row of calls with the tensors of one call.

    Args:
        row: tensors of each call of the row, in order of execution.
        single: tensors of the one call.

    Returns:
        Twosomes (tensor of the row, tensor of the one call), and the tensors that pass within the row.
    """
    border: list[TensorRef] = []
    internal: list[TensorRef] = []
    produced: list[TensorRef] = []
    for refs in row:
        for ref in refs:
            if ref.slot.role is SlotRole.INPUT:
                maker = next((made for made in reversed(produced) if _is_same(made, ref)), None)
                if maker is not None:
                    produced.remove(maker)
                    internal += [maker, ref]
                    continue
                border.append(ref)
        produced += [ref for ref in refs if ref.slot.role is SlotRole.OUTPUT]
    return pair_slots([*border, *produced], single, is_cross_framework=True, knows_slots=False), internal


def _is_same(made: TensorRef, used: TensorRef) -> bool:
    """Say whether an output is what a later call takes."""
    if made.logical_shape is None or made.logical_shape != used.logical_shape or made.dtype != used.dtype:
        return False
    alike = likeness(made, used)
    return alike is None or alike >= EQUAL


STRUCTURE = Rule("structure")
FEW = 0.5
"""Share of the smaller side's nodes below which the models have little in common."""

SHOWN = 3


def match_structure(
    target: Catalog,
    golden: Catalog,
    *,
    pair_ranks: Mapping[int, int] | None = None,
    step_offset: int = 0,
) -> Pairs:
    """Pair two dumps by structure, order, shapes and values; names are weak evidence only.

    Args:
        target, golden: the dumps.
        pair_ranks: target rank -> golden rank, where the numbers differ.
        step_offset: golden step minus target step.

    Returns:
        The pairs in the order of the target; what only the golden has follows what it follows there. Problems are
        warnings: PF4202 to PF4204 as in matching by name, PF4240 little in common, PF4241 guesses, PF4242 no call tree.
    """
    target, golden = target.in_full(), golden.in_full()
    sides, others = Sides(target), Sides(golden)
    executions = pair_executions(
        list(sides),
        list(others),
        pair_ranks=pair_ranks,
        step_offset=step_offset,
        is_left=other_leaves_out(target, golden),
    )
    is_foreign = is_cross_framework(target, golden)
    pairs: list[Pair] = []
    groups: list[Group] = []
    problems = [*executions.problems]
    for run, partner in executions.sides(sides, others):
        side = sides[run] if run is not None else None
        other = others[partner] if partner is not None else None
        rows = _Rows(str(run or partner), side, other, is_foreign=is_foreign)
        pairs.extend(rows.pairs(groups))
        problems += rows.problems()
    return with_selections(
        Pairs(
            target=target,
            golden=golden,
            pairs=tuple(pairs),
            groups=tuple(groups),
            problems=tuple(problems),
            unused=executions.unused,
        )
    )


class _Rows:
    """The pairs of two executions in one order; either side may be missing."""

    def __init__(self, label: str, target: Side | None, golden: Side | None, *, is_foreign: bool) -> None:
        self.label = label
        self.target = target
        self.golden = golden
        self.is_foreign = is_foreign
        self.links = link_nodes(target, golden) if target is not None and golden is not None else NodeLinks()
        self.reasons = StructureReasons(self.label, (target, golden), self.links, is_foreign=is_foreign)
        self.confidence = Confidence(target, golden, self.links) if target is not None and golden is not None else None
        self.names: dict[tuple[str, str], Mapping[str, str]] = {}

    def pairs(self, groups: list[Group]) -> Iterator[Pair]:
        """Yield all pairs; append one group per link or lone node."""
        following = self._golden_only()
        made: dict[int, list[Pair]] = {}
        yield from self._lone(following.get(-1, ()), groups, is_target=False)
        for number in range(len(self.target.nodes) if self.target is not None else 0):
            link = self.links.of_target.get(number)
            if link is None:
                yield from self._lone((number,), groups, is_target=True)
            else:
                if number == link.target[0]:
                    made.update(self._linked(link, groups))
                yield from made.pop(number)
            yield from self._lone(following.get(number, ()), groups, is_target=False)

    def problems(self) -> list[Diagnostic]:
        """Return what is worth saying about how the nodes were paired."""
        if self.target is None or self.golden is None or self.confidence is None:
            return []
        smaller = min(len(self.target.nodes), len(self.golden.nodes))
        found = []
        if len(self.links.links) < FEW * smaller:
            found.append(
                _warning(
                    "PF4240",
                    f"{self.label}: {len(self.links.links)} of {smaller} calls could be paired by structure",
                    "check that both dumps are of one model; pair by name or with a mapping file",
                )
            )
        guesses = [link for link in self.links.links if self.confidence.is_guess(link)]
        if guesses:
            shown = ", ".join(f"`{entry_of(self.target.nodes[link.target[0]])}`" for link in guesses[:SHOWN])
            more = f" and {len(guesses) - SHOWN} more" if len(guesses) > SHOWN else ""
            found.append(
                _warning(
                    "PF4241",
                    f"{self.label}: {len(guesses)} calls are paired by guess: {shown}{more}",
                    "their rows say what speaks for the pair; write a mapping file to decide",
                )
            )
        flat = [word for word, side in (("target", self.target), ("golden", self.golden)) if _is_flat(side)]
        if flat:
            where = " and the ".join(flat)
            found.append(
                _warning(
                    "PF4242",
                    f"{self.label}: the {where} does not tell what called what; calls are paired by order",
                    "dump with `extra_info` at level mix, and keep `construct.json` beside `dump.json`",
                )
            )
        return found

    def _linked(self, link: Link, groups: list[Group]) -> dict[int, list[Pair]]:
        """Return the pairs of a link by the target node that they belong to."""
        target, golden = self.target, self.golden
        assert target is not None
        assert golden is not None
        assert self.confidence is not None
        group = f"{self.label}: {entry_of(target.nodes[link.target[0]])}"
        relation = Relation.ONE_TO_ONE
        if len(link.target) != len(link.golden):
            relation = Relation.MANY_TO_ONE if len(link.golden) == 1 else Relation.ONE_TO_MANY
        keys = tuple(target.nodes[n].key for n in link.target), tuple(golden.nodes[n].key for n in link.golden)
        groups.append(Group(group, relation, *keys))
        decision = Decision(group, STRUCTURE, confidence=self.confidence.of(link), is_cross_framework=self.is_foreign)
        if relation is Relation.ONE_TO_ONE:
            decision = decision.knowing(target.tensors[link.target[0]], golden.tensors[link.golden[0]])
        twosomes, internal = self._twosomes(link)
        bare = no_values(target.tensors[link.target[0]], golden.tensors[link.golden[0]])
        note = self.confidence.note(link)
        number_of = dict(zip(keys[0], link.target, strict=True))
        made: dict[int, list[Pair]] = {number: [] for number in link.target}
        for one, other in twosomes:
            place = number_of[one.node] if one is not None else link.target[-1]
            if one is not None and other is not None:
                made[place] += [_noted(pair, note) for pair in pair_twosome(one, other, decision)]
            else:
                shown = one or other
                assert shown is not None
                is_row = relation is not Relation.ONE_TO_ONE
                why = bare or no_slot(shown, is_target=one is not None, is_foreign=self.is_foreign, is_row=is_row)
                made[place].append(Pair(one, other, group, STRUCTURE, reason=why))
        for ref, why in internal:
            is_target = ref.node in number_of
            place = number_of[ref.node] if is_target else link.target[-1]
            made[place].append(_lone(ref, group, STRUCTURE, why, is_target=is_target))
        order = {id(ref): place for number in link.target for place, ref in enumerate(target.tensors[number])}
        for rows in made.values():
            rows.sort(key=lambda pair: order.get(id(pair.target), len(order)))
        return made

    def _twosomes(self, link: Link) -> tuple[list[Twosome], list[tuple[TensorRef, Reason]]]:
        """Return the tensors of a link that correspond, and those that have no meaning outside their side's calls."""
        assert self.target is not None
        assert self.golden is not None
        inner: list[TensorRef] = []
        mine, theirs = (
            [self._outer(side, number, inner) for number in numbers]
            for side, numbers in ((self.target, link.target), (self.golden, link.golden))
        )
        internal = [(ref, within_call(ref)) for ref in inner]
        if len(mine) != len(theirs):
            is_turned = len(mine) < len(theirs)
            row, single = (theirs, mine[0]) if is_turned else (mine, theirs[0])
            twosomes, passed = pair_fused(row, single)
            internal += [(ref, within_row(ref)) for ref in passed]
            return without_transposed([each[::-1] for each in twosomes] if is_turned else twosomes), internal
        one, other = self.target.nodes[link.target[0]], self.golden.nodes[link.golden[0]]
        known = one.key.name.removesuffix(".parameters_grad"), other.key.name.removesuffix(".parameters_grad")
        twosomes = pair_slots(mine[0], theirs[0], is_cross_framework=self.is_foreign, names=self.names.get(known))
        if one.key.phase is Phase.FORWARD and known not in self.names:
            self.names[known] = parameter_names(twosomes)
        if self.is_foreign and kin(family(one.op_type)) == "linear":
            twosomes = without_transposed(twosomes)
        return twosomes, internal

    def _outer(self, side: Side, number: int, inner: list[TensorRef]) -> Sequence[TensorRef]:
        """Return the tensors of a call; where frameworks differ, gradients of steps within it are added to ``inner``.

        PyTorch hooks the last step of a call, so the gradient that `linear` gives of three axes is that of a reshape.
        """
        forward = side.forward_of(number) if self.is_foreign else None
        if forward is None:
            return side.tensors[number]
        shapes = {ref.logical_shape for ref in side.tensors[forward] if ref.slot.role is not SlotRole.OUTPUT}
        outer: list[TensorRef] = []
        for ref in side.tensors[number]:
            is_step = ref.slot.role is SlotRole.OUTPUT and ref.logical_shape is not None
            (inner if is_step and ref.logical_shape not in shapes else outer).append(ref)
        return outer

    def _golden_only(self) -> dict[int, list[int]]:
        """Return golden nodes without partner, by the target node that they follow (-1: none)."""
        following: dict[int, list[int]] = {}
        last = -1
        for number in range(len(self.golden.nodes) if self.golden is not None else 0):
            link = self.links.of_golden.get(number)
            if link is None:
                following.setdefault(last, []).append(number)
            else:
                last = link.target[-1]
        return following

    def _lone(self, numbers: Sequence[int], groups: list[Group], *, is_target: bool) -> Iterator[Pair]:
        side = self.target if is_target else self.golden
        for number in numbers:
            assert side is not None
            node = side.nodes[number]
            group = f"{self.label}: {'' if is_target else 'golden '}{entry_of(node)}"
            groups.append(Group(group, Relation.ONE_TO_ONE, *(((node.key,), ()) if is_target else ((), (node.key,)))))
            reason = self.reasons.of(number, is_target=is_target)
            for ref in side.tensors[number]:
                yield _lone(ref, group, CommonRule.NONE, reason, is_target=is_target)


def _lone(ref: TensorRef, group: str, rule: Rule, reason: Reason, *, is_target: bool) -> Pair:
    return Pair(ref if is_target else None, None if is_target else ref, group, rule, reason=reason)


def _noted(pair: Pair, note: Reason | None) -> Pair:
    if note is None or pair.target is None or pair.golden is None:
        return pair
    if pair.reason is None:
        return replace(pair, reason=note)
    return replace(pair, reason=replace(note, text=f"{pair.reason.text}; {note.text}"))


def _warning(code: str, message: str, cure: str) -> Diagnostic:
    return Diagnostic(code, message, severity=Severity.WARNING, help=cure)


def _is_flat(side: Side) -> bool:
    kinds = Counter(node.kind for node in side.nodes)
    return kinds[NodeKind.MODULE] + kinds[NodeKind.API] > 1 and not side.calls.has_callers
