"""Let rules of single operators speak for the fused ones of a device: by names written one after the other.

The quantisation tool knows the operators before the device's compiler fused them. A device operator that is named after
several of them reads what the first one reads and gives what the last one gives, to the readers of that one, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from probe_flow.formats.torchair_names import safe_name
from probe_flow.matching.fusion_rules import FusionGroup, FusionOp, FusionRules
from probe_flow.matching.offline_index import DumpIndex
from probe_flow.matching.offline_name_parts import NameParts
from probe_flow.records import Relation


def with_fused_names(rules: FusionRules, target: DumpIndex) -> tuple[FusionRules, frozenset[str]]:
    """Return the rules with the fused operators of a dump, and the names of those: a guess."""
    named = {target.node(op.name) for op in rules.ops}
    parts = NameParts(rules.by_clean_name)
    added: list[FusionOp] = []
    givers: dict[str, FusionOp] = {}
    for key, node in target.nodes.items():
        found = [rules.by_clean_name[part] for part in parts.of(safe_name(key.name))] if key not in named else []
        if found:
            fused = _fused(key.name, node.op_type, found, group=len(rules.groups) + len(added))
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


def _fused(name: str, op_type: str, parts: list[FusionOp], *, group: int) -> FusionOp:
    originals = tuple(dict.fromkeys(original for part in parts for original in part.originals))
    return replace(
        parts[-1],
        name=name,
        op_type=op_type,
        inputs=parts[0].inputs,
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
