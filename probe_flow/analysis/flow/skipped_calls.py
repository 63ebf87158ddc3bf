"""Calls that the golden alone makes, where the target hands on what they read.

What such a call gave in the golden is read by a call that both sides make. Where the target reads there, to the last
recorded digit, what the call of the golden had read, it left the call out: that tensor is where the row comes from, and
what the call would have done to it is the error. A target that makes another call in its place reads another tensor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence

from probe_flow.records import NodeKey, SlotRole
from probe_flow.records.row import Row


class SkippedCalls:
    """What calls of the golden alone read, by what they gave.

    Args:
        rows: all rows.
        identity: gives what identifies the golden tensor of a row that was not compared, or None.
    """

    def __init__(self, rows: Sequence[Row], identity: Callable[[Row], Hashable | None]) -> None:
        self._read: dict[NodeKey, list[Hashable]] = defaultdict(list)
        self._made: dict[Hashable, NodeKey] = {}
        for row in rows:
            if row.pair.target is not None or (known := identity(row)) is None:
                continue
            if row.is_produced:
                self._made[known] = row.node
            else:
                self._read[row.node].append(known)

    def handed(self, row: Row, known: Hashable, last: Mapping[Hashable, int], rows: Sequence[Row]) -> int | None:
        """Return the row that the target hands on to ``row``; None where nothing tells that it left a call out.

        Args:
            row: what is read.
            known: identity of its golden tensor.
            last: identity -> latest row of it.
            rows: all rows.
        """
        node, own = self._made.get(known), row.pair.target
        if node is None or own is None or own.recorded is None or row.slot_role is not SlotRole.INPUT:
            return None
        for number in (last[read] for read in self._read.get(node, ()) if read in last):
            before = rows[number].pair.target
            if before is not None and (before.shape, before.recorded) == (own.shape, own.recorded):
                return number
        return None
