"""Let rules of single operators speak for the fused ones of a device: by names written one after the other.

The quantisation tool knows the operators before the device's compiler fused them. A device operator that is named after
several of them (``conv1relu1``, or ``block/conv2relu2`` of ``block/conv2`` and ``block/relu2``) reads what the first
one reads and gives what the last one gives, to the readers of that one, too. What lies between its parts and has no
file is inside of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from probe_flow.dumps.file_names import safe_name
from probe_flow.matching.offline.index import DumpIndex
from probe_flow.matching.offline.name_parts import NameParts
from probe_flow.matching.rules.merge import FusionGroup, FusionOp, FusionRules
from probe_flow.records import Relation

MAX_DEPTH = 16
"""Operators between two parts that are looked at in a row; real fused operators hold fewer than ten."""


def with_fused_names(rules: FusionRules, target: DumpIndex) -> tuple[FusionRules, frozenset[str]]:
    """Return the rules with the fused operators of a dump, and the names of those: a guess."""
    named = {target.node(op.name) for op in rules.ops}
    names = _Names(rules)
    added: list[FusionOp] = []
    givers: dict[str, FusionOp] = {}
    for key, node in target.nodes.items():
        found = names.parts_of(safe_name(key.name)) if key not in named else []
        if found:
            inside = _inside(found[0], found[-1], rules, target)
            within = {id(op) for op in (*found, *inside)}
            ops = [op for op in rules.ops if id(op) in within]
            fused = _fused(key.name, node.op_type, found, ops, group=len(rules.groups) + len(added))
            added.append(fused)
            if target.node(found[-1].name) is None:
                givers.setdefault(found[-1].name, fused)
    if not added:
        return rules, frozenset()
    by_name = {op.name: op for op in added}
    clean = {safe_name(op.name): op for op in added}
    merged = replace(
        rules,
        ops=tuple(sorted((*rules.ops, *added), key=lambda op: op.id)),
        groups=(*rules.groups, *_groups(added)),
        by_name={**by_name, **rules.by_name, **givers},
        by_clean_name={**clean, **rules.by_clean_name},
    )
    return merged, frozenset(by_name)


class _Names:
    """Takes cleaned names of device operators apart into operators of the rules, with or without their scope."""

    def __init__(self, rules: FusionRules) -> None:
        self._ops = rules.by_clean_name
        self._whole = NameParts(self._ops)
        self._scopes: dict[str, dict[str, FusionOp]] = {}
        for op in reversed(rules.ops):
            scope, slash, name = op.name.rpartition("/")
            if slash:
                self._scopes.setdefault(safe_name(scope + slash), {})[safe_name(name)] = op
        self._in_scope = {scope: NameParts(ops) for scope, ops in self._scopes.items()}

    def parts_of(self, name: str) -> list[FusionOp]:
        """Return the operators that a name is made of, nothing if none are."""
        whole = self._whole.of(name)
        if whole:
            return [self._ops[part] for part in whole]
        for scope in sorted((scope for scope in self._scopes if name.startswith(scope)), key=len, reverse=True):
            inner = self._in_scope[scope].of(name.removeprefix(scope))
            if inner:
                return [self._scopes[scope][part] for part in inner]
        return []


def _inside(first: FusionOp, last: FusionOp, rules: FusionRules, target: DumpIndex) -> list[FusionOp]:
    """Return the operators without file between the first and the last part of a fused one."""
    inside: list[FusionOp] = []
    seen: dict[str, bool] = {}

    def leads_to_first(op: FusionOp, depth: int) -> bool:
        if op is first:
            return True
        if op.name in seen or depth > MAX_DEPTH or (op is not last and target.node(op.name) is not None):
            return seen.get(op.name, False)
        seen[op.name] = False
        before = [rules.by_name.get(reference.rpartition(":")[0]) for reference in op.inputs]
        found = [leads_to_first(each, depth + 1) for each in before if each is not None]
        seen[op.name] = any(found)
        if seen[op.name] and op is not last:
            inside.append(op)
        return seen[op.name]

    leads_to_first(last, 0)
    return inside


def _fused(name: str, op_type: str, parts: list[FusionOp], ops: list[FusionOp], *, group: int) -> FusionOp:
    """Return the fused operator of some parts; ``ops`` are these and what lies between them, in order."""
    own = {op.name for op in ops}
    inputs = [text for op in ops for text in op.inputs if text.rpartition(":")[0] not in own]
    originals = tuple(dict.fromkeys(original for op in ops for original in op.originals))
    return replace(
        parts[-1],
        name=name,
        op_type=op_type,
        inputs=tuple(dict.fromkeys(inputs)),
        originals=originals,
        group=group,
        is_filtered=False,
        is_multiop=False,
        compares_inputs=parts[0].compares_inputs,
    )


def _groups(ops: list[FusionOp]) -> Iterator[FusionGroup]:
    for op in ops:
        relation = Relation.ONE_TO_MANY if len(op.originals) > 1 else Relation.ONE_TO_ONE
        yield FusionGroup(op.group, op.originals or (op.name,), relation, (op,))
