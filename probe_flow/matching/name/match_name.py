"""Matching by name: entries of equal name, call and direction; an extra call does not shift those behind it.

Rules of the pairs: ``exact`` - equal name, call number and direction; ``aligned`` - equal name and direction, the call
number differs because one side calls more often; ``fuzzy`` - another name, where order and shapes speak for it (only
when asked for); ``none`` - no partner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import starmap

from probe_flow.errors import Diagnostic, Severity
from probe_flow.matching.name.calls import CallPairs, pair_calls
from probe_flow.matching.name.fuzzy import FUZZY_CONFIDENCE, add_fuzzy
from probe_flow.matching.name.name_space import NameSpace, is_cross_framework
from probe_flow.matching.name.parts import Part, Parts, find_parts
from probe_flow.matching.name.reasons import Reasons, entry_of
from probe_flow.matching.name.side import Side, Sides
from probe_flow.matching.name.slots import Decision, by_slot, pair_tensors, pair_twosome
from probe_flow.matching.name.vocabulary import NameRule
from probe_flow.matching.name.wrappers import unwrapped
from probe_flow.matching.shared.executions import other_leaves_out, pair_executions, with_selections
from probe_flow.matching.shared.vocabulary import CommonRule
from probe_flow.records import CallFacts, Catalog, Execution, Group, Node, NodeKind, Pair, Pairs, Relation

ALIGNED_CONFIDENCE = 0.9


def match_name(
    target: Catalog,
    golden: Catalog,
    *,
    space: NameSpace | None = None,
    pair_ranks: Mapping[int, int] | None = None,
    step_offset: int = 0,
    fuzzy: bool = False,
) -> Pairs:
    """Pair two dumps whose nodes meet under common names: their own, unless a name space says others.

    Backward calls are paired through their forwards, recomputed forwards with their like only. Every tensor of both
    sides is in the result; one without a partner says why.

    Args:
        target, golden: the dumps.
        space: what the nodes of each side are called; None: what they are called in the dumps, without levels that wrap
            modules of one side alone.
        pair_ranks: target rank -> golden rank, where the numbers differ.
        step_offset: golden step minus target step.
        fuzzy: also pair what has other names, where order, shapes and types speak for it.

    Returns:
        The pairs in the order of the target; what only the golden has follows what it follows there. Problems are
        warnings: PF4202 to PF4204 about ranks and steps,
        PF4206 where two frameworks have few names in common.
    """
    space = space if space is not None else unwrapped(target, golden)
    sides, others = Sides(target, space.target), Sides(golden, space.golden)
    executions = pair_executions(
        list(sides),
        list(others),
        pair_ranks=pair_ranks,
        step_offset=step_offset,
        is_left=other_leaves_out(target, golden),
    )
    is_foreign = is_cross_framework(target, golden)
    groups: list[Group] = []

    def paired(run: Execution | None, partner: Execution | None) -> list[Pair]:
        side = sides[run] if run is not None else None
        other = others[partner] if partner is not None else None
        is_met = side is not None
        merge = Merge(
            str(run or partner), side, other, space, is_cross_framework=is_met and is_foreign, fuzzy=is_met and fuzzy
        )
        return merge.pairs(groups)

    pairs = executions.gathered(target, golden, starmap(paired, executions.sides(sides, others)))
    foreign = _of_foreign_names(target, pairs) if is_foreign and not space.is_mapping else ()
    return with_selections(
        Pairs(
            target=target,
            golden=golden,
            pairs=pairs,
            groups=tuple(groups),
            problems=(*executions.problems, *space.problems(), *foreign),
            unused=(*executions.unused, *space.unused()),
        )
    )


def _of_foreign_names(target: Catalog, pairs: Iterable[Pair]) -> Iterator[Diagnostic]:
    """Say so where most of what two frameworks compute has no common name."""
    met = sum(pair.target is not None and pair.golden is not None for pair in pairs)
    if 2 * met < len(target.tensors):
        yield Diagnostic(
            "PF4206",
            f"the two frameworks have a name in common for {met} of {len(target.tensors)} target tensors",
            severity=Severity.WARNING,
            help="pair them by their layers: `compare -lm`, with a file for what has other names there "
            "(`suggest-mapping` writes one); in a workflow `match.layer_mapping`",
        )


class Merge:
    """The pairs of two executions in one order; either side may be missing."""

    def __init__(
        self,
        label: str,
        target: Side | None,
        golden: Side | None,
        space: NameSpace,
        *,
        is_cross_framework: bool,
        fuzzy: bool,
    ) -> None:
        self.label = label
        self.target = target
        self.golden = golden
        self.space = space
        self.is_cross_framework = is_cross_framework
        self.calls = CallPairs()
        self.parts = Parts()
        self.guesses: frozenset[int] = frozenset()
        is_foreign = is_cross_framework and space.is_mapping
        if target is not None and golden is not None:
            self.calls = pair_calls(target, golden)
            if is_foreign:
                self.parts = find_parts(target, golden, self.calls)
            if fuzzy:
                self.guesses = add_fuzzy(target, golden, self.calls)
        self.reasons = [
            Reasons(label, mine, other, word, self.calls, is_foreign=is_foreign, names=space.names)
            if mine is not None
            else None
            for mine, other, word in ((target, golden, "golden"), (golden, target, "target"))
        ]

    def pairs(self, groups: list[Group]) -> list[Pair]:
        """Return all pairs; append the groups that they do not tell: of several nodes, and of nodes without tensors."""
        following = self._golden_only()
        pairs = self._lone_golden(following.get(-1, ()), groups)
        for number in range(len(self.target.nodes) if self.target is not None else 0):
            pairs += self._pairs_of(number, groups)
            if number in following:
                pairs += self._lone_golden(following[number], groups)
        return pairs

    def _pairs_of(self, number: int, groups: list[Group]) -> Iterable[Pair]:
        target, golden = self.target, self.golden
        assert target is not None
        node, mine = target.nodes[number], target.tensors[number]
        group = f"{self.label}: {entry_of(node)}"
        part = self.parts.of_target.get(number)
        if part is not None and golden is not None:
            return self._part(part, groups)
        partner = self.calls.golden_of.get(number)
        if partner is None or golden is None:
            reasons = self.reasons[0]
            assert reasons is not None
            if not mine:
                groups.append(Group(group, Relation.ONE_TO_ONE, node.key, ()))
            said = CommonRule.NONE, reasons.of(number)
            return [Pair.on_terms(tensor, None, group, *said, label=self._label(node)) for tensor in mine]
        found = pair_tensors(mine, golden.tensors[partner], self._decision(group, number, partner))
        if not found:
            groups.append(Group(group, Relation.ONE_TO_ONE, node.key, golden.nodes[partner].key))
        return found

    def _decision(self, group: str, number: int, partner: int) -> Decision:
        """Return how two nodes were paired."""
        assert self.target is not None
        assert self.golden is not None
        one, other = self.target.named[number], self.golden.named[partner]
        is_exact = self.target.nodes[number].key.call == self.golden.nodes[partner].key.call
        confidence = 1.0 if is_exact else ALIGNED_CONFIDENCE
        rule = CommonRule.EXACT if is_exact else CommonRule.ALIGNED
        if number in self.guesses:
            rule, confidence = NameRule.FUZZY, FUZZY_CONFIDENCE
        elif (renamed := one.rule or other.rule) is not None:
            rule, confidence = renamed, confidence * one.confidence * other.confidence
        arguments = one.arguments, other.arguments
        is_call = self.target.nodes[number].kind is NodeKind.API
        return Decision(
            group,
            rule,
            (one.span or other.span) if number not in self.guesses else None,
            confidence,
            self.is_cross_framework,
            self.space.checks_dtypes,
            self.space.aliases,
            arguments,
            is_foreign_call=self.is_cross_framework and is_call and arguments == (None, None),
            label=self._label(self.target.nodes[number]),
        )

    def _label(self, node: Node) -> str | None:
        """Return what stands in a node's group before the name of its entry, where the key says that."""
        is_usual = isinstance(node.facts, CallFacts) and node.facts.entry is None
        return self.label if is_usual else None

    def _part(self, part: Part, groups: list[Group]) -> Iterator[Pair]:
        """Yield the pairs of a node that is one of several which together are one golden node."""
        assert self.target is not None
        assert self.golden is not None
        whole = self.parts.wholes[part.golden]
        first = self.target.nodes[whole.targets[0]]
        group = f"{self.label}: {entry_of(first)}"
        decision = Decision(
            group, whole.rule, None, whole.confidence, is_cross_framework=True, arguments=(part.arguments, None)
        )
        if part.number == whole.targets[0]:
            keys = tuple(self.target.nodes[number].key for number in whole.targets)
            relation = Relation.MANY_TO_ONE if len(keys) > 1 else Relation.ONE_TO_ONE
            groups.append(Group(group, relation, keys, (self.golden.nodes[part.golden].key,)))
        rest = whole.rest(self.golden.tensors[part.golden])
        taken: set[int] = set()
        for one, other in by_slot(self.target.tensors[part.number], rest, decision):
            if one is None:
                continue
            if other is None:
                yield decision.pair(one, None, part.why_alone(one.slot))
            else:
                taken.add(id(other))
                yield from pair_twosome(one, other, decision)
        rest[:] = [tensor for tensor in rest if id(tensor) not in taken]
        if part.number == whole.targets[-1]:
            yield from (decision.pair(None, tensor, whole.why_alone(tensor.slot)) for tensor in rest)

    def _golden_only(self) -> dict[int, list[int]]:
        """Return golden nodes without partner, by the target node that they follow (-1: none)."""
        following: dict[int, list[int]] = {}
        last = -1
        for number in range(len(self.golden.nodes) if self.golden is not None else 0):
            if number in self.parts.wholes:
                last = self.parts.wholes[number].targets[-1]
                continue
            partner = self.calls.target_of.get(number)
            if partner is None:
                following.setdefault(last, []).append(number)
            else:
                last = partner
        return following

    def _lone_golden(self, numbers: Iterable[int], groups: list[Group]) -> list[Pair]:
        golden, reasons = self.golden, self.reasons[1]
        pairs: list[Pair] = []
        for number in numbers:
            assert golden is not None
            assert reasons is not None
            node = golden.nodes[number]
            group = f"{self.label}: golden {entry_of(node)}"
            if not golden.tensors[number]:
                groups.append(Group(group, Relation.ONE_TO_ONE, (), node.key))
            reason = reasons.of(number)
            pairs += [Pair(None, tensor, group, CommonRule.NONE, reason=reason) for tensor in golden.tensors[number]]
        return pairs
