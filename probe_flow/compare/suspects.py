"""`only:` - narrow a comparison to the nodes that an earlier comparison suspects."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from probe_flow.analysis.policies.bounds import parse_bound
from probe_flow.compare.asked import Only
from probe_flow.records import ComparedPair, Comparison, Pair


def only_suspects(pairs: Sequence[Pair], earlier: Comparison, only: Only) -> set[int]:
    """Return the numbers of the pairs whose node has a row in ``earlier`` that meets every condition of ``only``."""
    nodes: dict[object, None] = {}
    for row in earlier.rows:
        if all(_meets(row, key, wanted, earlier) for key, wanted in only.where.items()):
            nodes.setdefault((row.pair.shown.node.execution.identity, row.pair.shown.node.name))
    kept = set(list(nodes)[: only.limit])
    return {
        number
        for number, pair in enumerate(pairs)
        if (pair.shown.node.execution.identity, pair.shown.node.name) in kept
    }


def _meets(row: ComparedPair, key: str, globs: Sequence[str], earlier: Comparison) -> bool:
    node = row.pair.shown.node
    record = earlier.pairs.target.nodes.get(node) or earlier.pairs.golden.nodes.get(node)
    facts = {
        "verdict": row.verdict.status.value,
        "role": row.verdict.role.value,
        "node": node.name,
        "op_type": record.op_type if record else "",
    }
    if key in facts:
        return any(fnmatchcase(facts[key], glob) for glob in globs)
    value = row.measurement.metrics.get(key) if row.measurement else None
    return any(bound is not None and bound.holds(value) for bound in map(parse_bound, globs))
