"""Which fusion passes stand behind the operators where errors begin, and how to turn just one of them off."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from probe_flow.dumps.rules.fusion_result import PassEffect
from probe_flow.records import Comparison, Finding, FindingKind, NodeKey

_ACCUSED = frozenset(
    {FindingKind.ORIGIN, FindingKind.NONFINITE_ORIGIN, FindingKind.CHECKSUM_ORIGIN, FindingKind.FAILURE}
)
_SHOWN = 3


def fusion_findings(comparison: Comparison, effects: Sequence[PassEffect]) -> tuple[Finding, ...]:
    """Return a finding for each pass that made an operator where an error begins.

    Ranked by the share of its operators that are accused, then by their number; a pass behind none is not named.

    Args:
        comparison: what was found.
        effects: what the compiler says of its passes; empty where that is not known.
    """
    accused = [each for each in comparison.findings if each.kind in _ACCUSED and each.node is not None]
    members: dict[str, list[NodeKey]] = defaultdict(list)
    for key, node in comparison.pairs.target.nodes.items():
        for name in dict.fromkeys(node.passes):
            members[name].append(key)
    ranked = []
    for name, keys in members.items():
        inside = [each for each in accused if each.node in set(keys)]
        if inside:
            ranked.append((len(inside) / len(keys), len(inside), name, inside))
    ranked.sort(key=lambda each: (-each[0], -each[1], each[2]))
    return tuple(
        _finding(name, inside, len(members[name]), share, comparison, effects) for share, _, name, inside in ranked
    )


def _finding(
    name: str,
    inside: Sequence[Finding],
    count: int,
    share: float,
    comparison: Comparison,
    effects: Sequence[PassEffect],
) -> Finding:
    first = inside[0]
    assert first.node is not None
    names = ", ".join(_named(comparison, each) for each in inside[:_SHOWN])
    more = f" and {len(inside) - _SHOWN} more" if len(inside) > _SHOWN else ""
    mine = [each for each in effects if each.name == name]
    took = f", took effect {sum(each.effects for each in mine)} times" if mine else ""
    switches = sorted({each.switch for each in mine}) or ["GraphFusion"]
    text = (
        f"the fusion pass `{name}` made {names}{more}: {len(inside)} of its {count} operators{took}; turn just it off "
        f"with the fusion switch file `{switch_file(name, switches)}` and compare again"
    )
    return Finding(FindingKind.REMARK, first.node, None, text, severity=share, fails=False, row=first.row)


def _named(comparison: Comparison, finding: Finding) -> str:
    assert finding.node is not None
    node = comparison.pairs.target.nodes.get(finding.node)
    return f"`{finding.node.name}` ({node.op_type})" if node is not None else f"`{finding.node.name}`"


def switch_file(name: str, switches: Sequence[str] = ("GraphFusion",)) -> str:
    """Return the text of a fusion switch file that turns one pass off.

    >>> switch_file("MyPass")
    '{"Switch": {"GraphFusion": {"MyPass": "off"}}}'
    """
    off: Mapping[str, Mapping[str, str]] = {switch: {name: "off"} for switch in switches}
    return json.dumps({"Switch": off})
