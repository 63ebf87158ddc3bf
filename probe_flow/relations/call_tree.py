"""The call tree of one catalog: what called each node, by the entries of the dump, else by names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from probe_flow.records import Node, NodeKey, Phase


class CallTree:
    """Finds the callers of the nodes of one catalog, within their executions.

    A node names its caller by the entry of the dump (`Node.caller`), else by name alone (`Node.parent`).

    Args:
        nodes: of the catalog, in the order of the dump; of nodes with one entry in one execution the last counts.
    """

    def __init__(self, nodes: Mapping[NodeKey, Node]) -> None:
        self._nodes = nodes
        self._entries: dict[tuple[object, ...], dict[str, NodeKey]] | None = None

    @property
    def has_entries(self) -> bool:
        """Whether any node names its caller by an entry."""
        return any(node.caller is not None for node in self._nodes.values())

    def recorded(self, key: NodeKey, node: Node) -> NodeKey | None:
        """Return the caller that a node names by its entry; None when it names none, or one that was not dumped."""
        return self._by_entry(key, node.caller) if node.caller is not None else None

    def caller(self, key: NodeKey, node: Node) -> NodeKey | None:
        """Return the key of the caller; None when the dump names none. It need not be a node of the catalog.

        Where a name alone is known, the first call of that name and phase is meant, and for the gradients of parameters
        the backward call.
        """
        entry = node.caller
        if entry is not None:
            return self._by_entry(key, entry) or NodeKey(key.execution, node.parent or entry, _call(entry), key.phase)
        if node.parent is None:
            return None
        phases = (Phase.BACKWARD, Phase.FORWARD) if key.phase is Phase.NONE else (key.phase,)
        candidates = [NodeKey(key.execution, node.parent, 0, phase) for phase in phases]
        known = [candidate for candidate in candidates if candidate in self._nodes]
        return known[0] if known else candidates[0]

    def _by_entry(self, key: NodeKey, entry: str) -> NodeKey | None:
        if self._entries is None:
            self._entries = {}
            callers = {node.caller for node in self._nodes.values()}
            for each, node in self._nodes.items():
                name = node.entry
                if name in callers and name is not None:
                    self._entries.setdefault(each.execution.identity, {})[name] = each
        return self._entries.get(key.execution.identity, {}).get(entry)


def _call(entry: str) -> int:
    number = entry.rpartition(".")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else 0


def without_circles(above: Sequence[int | None]) -> list[int | None]:
    """Return the callers without those that close a circle, which only a damaged dump has."""
    found = list(above)
    is_done = [False] * len(found)
    for start in range(len(found)):
        path: dict[int, None] = {}
        at: int | None = start
        while at is not None and not is_done[at]:
            path[at] = None
            caller = found[at]
            if caller in path:
                found[at] = caller = None
            at = caller
        for each in path:
            is_done[each] = True
    return found
