"""The nodes of a stored run as a list: counted by type, or those that hold parts of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from probe_flow.record.facts import printable, where
from probe_flow.record.text_table import text_table
from probe_flow.runs.queries.base import place
from probe_flow.runs.queries.stored_nodes import StoredNodes


def counted_lines(nodes: StoredNodes) -> Iterator[str]:
    """Yield a table of types and their counts for each side, the most frequent first."""
    for side in dict.fromkeys(node.side for node in nodes):
        counts = Counter(node.op_type or "unknown" for node in nodes if node.side == side)
        yield f"{side}: {counts.total()} nodes"
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        yield from text_table(
            ("type", "count"), [(printable(name), str(count)) for name, count in ranked], right=("count",)
        )


def listed_lines(nodes: StoredNodes, *, op_type: str, name: str, fusion: str, kernel: str) -> Iterator[str]:
    """Yield ``[type][pass] name`` of the nodes that hold every given part, in the order of execution."""
    found = 0
    for node in nodes:
        passes = ",".join(node.passes)
        if op_type in node.op_type and name in node.title and fusion in passes and kernel in node.kernel:
            found += 1
            at = ", ".join(
                part for part in (node.side, where({**place(node.known), "call": None, "phase": None})) if part
            )
            yield f"[{printable(node.op_type)}][{printable(passes)}] {printable(node.title)}  ({at})"
    yield f"{found} nodes"
