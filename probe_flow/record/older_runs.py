"""Records of runs of the format before (``probe_flow.run/1``) in the form of today.

There, findings stood several times in run.json, stacks with every node, and no record had the name that a node has in
its dump; of nodes the attribute ``entry`` has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from probe_flow.record.types.run import RUN_SCHEMA

_DIVERGENCES = ("origin", "checksum_origin")
_SUSPECT = "suspect"


def row_of_1(row: Any) -> Any:
    """Return a line of comparison.jsonl."""
    return {**row, "name": row.get("node")} if isinstance(row, dict) else row


def node_of_1(node: Any) -> Any:
    """Return a line of nodes.jsonl."""
    if not isinstance(node, dict):
        return node
    attributes = node.get("attributes")
    entry = attributes.get("entry") if isinstance(attributes, Mapping) else None
    return {**node, "name": entry if isinstance(entry, str) else node.get("node")}


def run_of_1(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what run.json says; values of wrong types stay as they are, for the reader to name."""
    findings = record.get("findings")
    if isinstance(findings, list):
        findings = [row_of_1(each) for each in findings]
    comparisons = record.get("comparisons")
    if isinstance(comparisons, dict):
        several = len(comparisons) > 1
        comparisons = {
            name: _conclusions(part, findings, name if several else None) if isinstance(part, dict) else part
            for name, part in comparisons.items()
        }
    whole = _conclusions(record, findings, None)
    return {**whole, "schema": RUN_SCHEMA, "findings": findings, "comparisons": comparisons}


def _conclusions(part: Mapping[str, Any], findings: Any, comparison: str | None) -> dict[str, Any]:
    """Return conclusions that point to findings instead of repeating them."""
    known = findings if isinstance(findings, list) else []
    own = {
        position: each
        for position, each in enumerate(known)
        if isinstance(each, dict) and comparison in (None, each.get("comparison"))
    }
    kinds = {position: each.get("kind") for position, each in own.items()}
    suspects = [position for position, kind in kinds.items() if kind in _DIVERGENCES]
    suspects += [position for position, kind in kinds.items() if kind == _SUSPECT]
    found, failing = Counter(map(str, kinds.values())), Counter[str]()
    failing.update(str(each.get("kind")) for each in own.values() if each.get("fails") and each.get("node") is not None)
    return {
        **part,
        **{name: _position(part.get(name), own) for name in ("first_divergence", "nonfinite_origin") if name in part},
        "suspects": suspects,
        "finding_counts": {kind: {"found": count, "failing": failing[kind]} for kind, count in found.items()},
    }


def _position(place: Any, findings: Mapping[int, Mapping[str, Any]]) -> Any:
    """Return which finding a place repeats."""
    if not isinstance(place, dict):
        return place
    return next(
        (
            position
            for position, each in findings.items()
            if all(each.get(key) == value for key, value in place.items())
        ),
        None,
    )
