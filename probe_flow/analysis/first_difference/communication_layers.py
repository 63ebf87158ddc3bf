"""Layers of communication over all ranks: which entries of different ranks happen together, and in which order.

The k-th transfer from one rank to another meets the k-th receipt there, the k-th call of a collective API in a group
meets the k-th of every member. A receipt and a collective wait for their partners, a transmission for nobody; an
entry's layer is the length of the longest chain of waiting before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from probe_flow.analysis.first_difference.communication import Exchange

Call: TypeAlias = tuple[int, int]
"""Rank, and number of the communication entry on it."""

Lines: TypeAlias = Mapping[int, Sequence[Sequence[Exchange]]]
"""Rank -> what each of its communication entries exchanges, in order."""


class Network:
    """The communication entries of all ranks, connected.

    Args:
        lines: them.
    """

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._awaited: dict[Call, set[Call]] = {}
        self._linked: dict[Call, set[Call]] = {}
        self._connect()
        self.layers = self._layered()
        """Layer of every entry, from 0."""

    def partners(self, call: Call) -> frozenset[Call]:
        """Return the entries of other ranks that exchange data with an entry."""
        return frozenset(self._linked.get(call, ()))

    def _connect(self) -> None:
        meetings: dict[object, list[tuple[Call, str]]] = {}
        for rank, line in self._lines.items():
            counts: Counter[object] = Counter()
            for number, exchanges in enumerate(line):
                for exchange in exchanges:
                    channel = self._channel(rank, exchange)
                    if channel is not None:
                        meetings.setdefault((channel, counts[channel]), []).append(((rank, number), exchange.way))
                        counts[channel] += 1
        for met in meetings.values():
            for call, way in met:
                others = {other for other, _ in met if other[0] != call[0]}
                self._linked.setdefault(call, set()).update(others)
                if way != "send":
                    self._awaited.setdefault(call, set()).update(others)

    def _channel(self, rank: int, exchange: Exchange) -> tuple[object, ...] | None:
        if exchange.way == "all":
            return exchange.api, exchange.group or tuple(sorted(self._lines))
        if exchange.peer is None:
            return None
        ends = (rank, exchange.peer) if exchange.way == "send" else (exchange.peer, rank)
        # Calls with and without waiting meet each other; lists of objects travel by themselves.
        return "objects" if "object" in exchange.api else "tensors", *ends

    def _layered(self) -> dict[Call, int]:
        layers: dict[Call, int] = {}
        reached = dict.fromkeys(self._lines, 0)
        last = dict.fromkeys(self._lines, -1)
        while waiting := [rank for rank, line in self._lines.items() if reached[rank] < len(line)]:
            ready = [rank for rank in waiting if self._is_ready((rank, reached[rank]), reached)]
            # Ranks that wait for each other in a circle: the one that is furthest behind goes on alone.
            for rank in ready or [min(waiting, key=lambda rank: (last[rank], rank))]:
                call = (rank, reached[rank])
                others = self._awaited.get(call, ()) if ready else ()
                bounds = [layers.get(other, last[other[0]] + 1) for other in others]
                layers[call] = max((last[rank] + 1, *bounds))
                last[rank] = layers[call]
                reached[rank] += 1
        return layers

    def _is_ready(self, call: Call, reached: Mapping[int, int]) -> bool:
        return all(reached[rank] >= number for rank, number in self._awaited.get(call, ()))
