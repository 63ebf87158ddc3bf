"""Matching by name: entries of equal name, call and direction; an extra call does not shift those behind it.

Rules of the pairs: ``exact`` - equal name, call number and direction; ``aligned`` - equal name and direction, the call
number differs because one side calls more often; ``none`` - no partner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from probe_flow.errors import Diagnostic, Severity
from probe_flow.matching.name_calls import CallPairs, pair_calls
from probe_flow.matching.name_executions import pair_executions
from probe_flow.matching.name_side import Side, sides_of
from probe_flow.matching.name_slots import pair_tensors
from probe_flow.records import (
    Catalog,
    Execution,
    Expectation,
    Group,
    Node,
    Pair,
    Pairs,
    Phase,
    Reason,
    Relation,
    TensorRef,
)

EXACT, ALIGNED, NONE = "exact", "aligned", "none"
ALIGNED_CONFIDENCE = 0.9
_ONLY_KIND = {"L0": "module", "L1": "api"}


def match_name(
    target: Catalog,
    golden: Catalog,
    *,
    pair_ranks: Mapping[int, int] | None = None,
    step_offset: int = 0,
) -> Pairs:
    """Pair two dumps whose entries carry the same names.

    Backward calls are paired through their forwards, recomputed forwards with their like only. Every tensor of both
    sides is in the result; one without a partner says why.

    Args:
        target, golden: the dumps.
        pair_ranks: target rank -> golden rank, where the numbers differ.
        step_offset: golden step minus target step.

    Returns:
        The pairs in the order of the target; what only the golden has follows what it follows there. Problems are
        warnings: PF4201 both sides are one folder, PF4202 to PF4204 about ranks and steps.
    """
    sides, others = sides_of(target), sides_of(golden)
    executions = pair_executions(list(sides), list(others), pair_ranks=pair_ranks, step_offset=step_offset)
    is_cross_framework = _family(target.framework) != _family(golden.framework)
    pairs: list[Pair] = []
    groups: list[Group] = []
    for run, side in sides.items():
        partner = executions.golden_of.get(run)
        other = others[partner] if partner is not None else None
        merge = _Merge(run, partner, side, other, is_cross_framework=is_cross_framework)
        pairs.extend(merge.pairs(groups))
    partners = set(executions.golden_of.values())
    for run, other in others.items():
        if run not in partners:
            pairs.extend(_Merge(None, run, None, other, is_cross_framework=False).pairs(groups))
    return Pairs(
        target=target,
        golden=golden,
        pairs=tuple(pairs),
        groups=tuple(groups),
        problems=(*_same_folder(target, golden), *executions.problems),
    )


def _family(framework: str) -> str:
    return "mindspore" if framework in {"mindspore", "mindtorch"} else framework


def _same_folder(target: Catalog, golden: Catalog) -> list[Diagnostic]:
    if not target.root or Path(target.root) != Path(golden.root):
        return []
    if target.fingerprint != golden.fingerprint:  # two ranks or steps of one dump are two dumps
        return []
    message = f"target and golden are the same dump `{target.root}`: everything will agree"
    return [Diagnostic("PF4201", message, severity=Severity.WARNING, path=target.root)]


class _Merge:
    """The pairs of two executions in one order; either side may be missing."""

    def __init__(
        self,
        run: Execution | None,
        partner: Execution | None,
        target: Side | None,
        golden: Side | None,
        *,
        is_cross_framework: bool,
    ) -> None:
        self.label = str(run or partner)
        self.target = target
        self.golden = golden
        self.is_cross_framework = is_cross_framework
        self.calls = pair_calls(target, golden) if target is not None and golden is not None else CallPairs()
        self.names = [
            {(node.key.name, node.key.phase) for node in side.nodes} if side is not None else set()
            for side in (target, golden)
        ]

    def pairs(self, groups: list[Group]) -> Iterator[Pair]:
        """Yield all pairs; append one group per paired or lone node."""
        following = self._golden_only()
        yield from self._lone_golden(following.get(-1, ()), groups)
        for number, node in enumerate(self.target.nodes if self.target is not None else ()):
            assert self.target is not None
            partner = self.calls.golden_of.get(number)
            group = f"{self.label}: {_entry(node)}"
            mine = self.target.tensors[number]
            if partner is None or self.golden is None:
                groups.append(Group(group, Relation.ONE_TO_ONE, (node.key,), ()))
                reason = self._alone(node, is_repeat=number in self.target.repeats, is_target=True)
                yield from (Pair(tensor, None, group, NONE, reason=reason) for tensor in mine)
            else:
                other = self.golden.nodes[partner]
                groups.append(Group(group, Relation.ONE_TO_ONE, (node.key,), (other.key,)))
                is_exact = node.key.call == other.key.call
                yield from pair_tensors(
                    mine,
                    self.golden.tensors[partner],
                    group=group,
                    rule=EXACT if is_exact else ALIGNED,
                    confidence=1.0 if is_exact else ALIGNED_CONFIDENCE,
                    is_cross_framework=self.is_cross_framework,
                )
            yield from self._lone_golden(following.get(number, ()), groups)

    def _golden_only(self) -> dict[int, list[int]]:
        """Return golden nodes without partner, by the target node that they follow (-1: none)."""
        following: dict[int, list[int]] = {}
        last = -1
        for number in range(len(self.golden.nodes) if self.golden is not None else 0):
            partner = self.calls.target_of.get(number)
            if partner is None:
                following.setdefault(last, []).append(number)
            else:
                last = partner
        return following

    def _lone_golden(self, numbers: list[int] | tuple[()], groups: list[Group]) -> Iterator[Pair]:
        for number in numbers:
            assert self.golden is not None
            node = self.golden.nodes[number]
            group = f"{self.label}: golden {_entry(node)}"
            groups.append(Group(group, Relation.ONE_TO_ONE, (), (node.key,)))
            reason = self._alone(node, is_repeat=number in self.golden.repeats, is_target=False)
            tensors: list[TensorRef] = list(self.golden.tensors[number])
            yield from (Pair(None, tensor, group, NONE, reason=reason) for tensor in tensors)

    def _alone(self, node: Node, *, is_repeat: bool, is_target: bool) -> Reason:
        """Say why a node has no partner."""
        other, word = (self.golden, "golden") if is_target else (self.target, "target")
        if other is None:
            return Reason(f"no_{word}_execution", f"{self.label} has no counterpart in the {word}", Expectation.MISSING)
        if is_repeat:
            text = f"`{_entry(node)}` is a recomputed forward, which the {word} does not have"
            return Reason("recomputed", text, Expectation.EXPECTED)
        kind = node.attrs.get("kind")
        if kind in _ONLY_KIND.values() and other.level in _ONLY_KIND and kind != _ONLY_KIND[other.level]:
            text = f"the {word} was dumped at level {other.level}, which records no {kind} calls"
            return Reason("not_dumped", text, Expectation.EXPECTED)
        key = node.key
        if (key.name, key.phase) not in self.names[1 if is_target else 0]:
            return Reason(
                f"no_{word}_node", f"the {word} has no `{key.name}`{_direction(key.phase)}", Expectation.MISSING
            )
        where = f" in `{node.parent}`" if node.parent else ""
        text = f"no call of `{key.name}`{where} in the {word} corresponds to `{_entry(node)}`"
        return Reason(f"no_{word}_call", text, Expectation.MISSING)


def _direction(phase: Phase) -> str:
    return "" if phase is Phase.NONE else f" ({phase.value})"


def _entry(node: Node) -> str:
    """Return the entry's own name, or one made of the key."""
    entry = node.attrs.get("entry")
    return str(entry) if entry is not None else f"{node.key.name}#{node.key.call}.{node.key.phase.value}"
