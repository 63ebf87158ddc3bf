"""Communication between the graphs of several ranks: which call of one rank met which call of another.

Point-to-point calls meet by both ranks and running number. Collectives meet by API, ranks of their group and running
number; those with a root link the root with the others. Source: `distributed_analyzer` in `msprobe.visualization`,
which tells groups apart by an id of their own where we take their ranks, and knows no call without a keyword for its
group or peer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.records import (
    Catalog,
    GraphLayout,
    GraphLink,
    GraphPair,
    LinkDirection,
    LinkEnd,
    ModelGraph,
    SlotRole,
    TensorRef,
)

_PREFIXES = ("Distributed.", "MintDistributed.", "communication.comm_func.")
_SENDS = frozenset(("send", "isend"))
_RECEIVES = frozenset(("recv", "irecv"))
_SENT, _RECEIVED = ("dst", "group_dst"), ("src", "group_src")
_ROOTED: Mapping[str, tuple[LinkDirection, tuple[str | int, ...]]] = {
    "broadcast": (LinkDirection.SEND, (1, "src")),
    "scatter": (LinkDirection.SEND, ("src",)),
    "gather": (LinkDirection.RECEIVE, ("dst",)),
    "reduce": (LinkDirection.RECEIVE, (1, "dst")),
}
"""Collectives with a root: what the root does, and the arguments that name it."""

_OPPOSITE = {
    LinkDirection.SEND: LinkDirection.RECEIVE,
    LinkDirection.RECEIVE: LinkDirection.SEND,
    LinkDirection.BOTH: LinkDirection.BOTH,
}
_NUMBERS = re.compile(r"\d+")

_Facts: TypeAlias = tuple[object, ...]


class Exchange(Struct, frozen=True, gc=False):
    """One transfer of a call.

    Args:
        number: node of the call.
        name: its name.
        direction: what its rank does; of a collective with a root what the root does.
        channel: what both ends have in common, the same for each transfer between them.
        peers: the other ranks; None = all there are.
        root: rank of the root, where there is one.
        shown: score or level of the call as text.
        output: what version 1.2.1 of msprobe wants equal on both ends; None elsewhere.
    """

    number: int
    name: str
    direction: LinkDirection
    channel: tuple[object, ...]
    peers: tuple[int, ...] | None
    root: int | None = None
    shown: str | None = None
    output: _Facts | None = None


def exchanges_of(graph: ModelGraph, shown: Mapping[int, str]) -> list[Exchange]:
    """Return what the calls of one rank exchange with others, in the order of the graph.

    Args:
        graph: of the rank.
        shown: number of a node -> its score or level as text.
    """
    rank = graph.execution.rank
    if rank is None:
        return []
    found: list[Exchange] = []
    for number, node in enumerate(graph.nodes):
        if node.call is None or not node.name.startswith(_PREFIXES):
            continue
        api = node.call.key.name.rpartition(".")[2]
        exchanges = _exchanges(api, rank, graph, number)
        found += (replace(each, number=number, name=node.name, shown=shown.get(number)) for each in exchanges)
    return found


def links_between(ranks: Mapping[int, Sequence[Exchange]]) -> dict[int, dict[int, tuple[GraphLink, ...]]]:
    """Return the links of each rank, by the number of the node.

    Args:
        ranks: what the calls of each rank exchange.
    """
    meetings: dict[object, dict[int, Exchange]] = {}
    for rank, exchanges in ranks.items():
        counts: Counter[object] = Counter()
        for each in exchanges:
            meetings.setdefault((each.channel, counts[each.channel]), {})[rank] = each
            counts[each.channel] += 1
    found: dict[int, dict[int, tuple[GraphLink, ...]]] = {rank: {} for rank in ranks}
    for met in meetings.values():
        for rank, link in _links(met):
            of_rank, number = found[rank], met[rank].number
            of_rank[number] = (*of_rank.get(number, ()), link)
    return found


def with_links(pairs: Sequence[GraphPair], *, has_levels: bool = False) -> list[GraphPair]:
    """Return the graphs of several ranks with their links, as `RankLinks` finds them."""
    links = RankLinks(has_levels=has_levels)
    for pair in pairs:
        links.add(pair)
    return [links.linked(pair) for pair in pairs]


class RankLinks:
    """The links across ranks, collected rank after rank, so that no two graphs need to be in memory.

    Args:
        has_levels: show the level of the call at the other end in place of its score.
    """

    def __init__(self, *, has_levels: bool = False) -> None:
        self._has_levels = has_levels
        self._exchanges: dict[tuple[int | None, bool], dict[int, Sequence[Exchange]]] = {}

    def add(self, pair: GraphPair) -> None:
        """Take what the calls of one rank exchange, on both sides."""
        step, rank = pair.target.execution.step, pair.target.execution.rank
        for is_golden, graph in ((False, pair.target), (True, pair.golden)):
            if graph is not None and rank is not None:
                shown = shown_of(pair, is_golden=is_golden, has_levels=self._has_levels)
                self._exchanges.setdefault((step, is_golden), {})[rank] = exchanges_of(graph, shown)

    @cached_property
    def _links(self) -> Mapping[tuple[int | None, bool], Mapping[int, Mapping[int, tuple[GraphLink, ...]]]]:
        return {where: links_between(ranks) for where, ranks in self._exchanges.items()}

    def linked(self, pair: GraphPair) -> GraphPair:
        """Return the graphs of a rank with their links; all ranks must have been added before."""
        step, rank = pair.target.execution.step, pair.target.execution.rank
        if rank is None:
            return pair
        target, golden = (self._links.get((step, is_golden), {}).get(rank, {}) for is_golden in (False, True))
        return replace(pair, links=(target, golden))


def communicates(catalog: Catalog) -> bool:
    """Tell whether any call of a dump talks to other ranks."""
    return any(key.name.startswith(_PREFIXES) for key in catalog.nodes)


def shown_of(pair: GraphPair, *, is_golden: bool, has_levels: bool) -> dict[int, str]:
    """Return what links show of a call: its level, or its score, as text."""
    if has_levels:
        return {number: level.value for number, level in pair.levels[is_golden].items()}
    return {} if is_golden else {number: str(score) for number, score in pair.scores.items()}


def _links(met: Mapping[int, Exchange]) -> Iterable[tuple[int, GraphLink]]:
    """Yield the links of one meeting by rank."""
    for rank, exchange in met.items():
        others = [
            (other, end)
            for other, end in met.items()
            if other != rank and (exchange.peers is None or other in exchange.peers) and end.output == exchange.output
        ]
        direction = exchange.direction
        if exchange.root is not None:
            if exchange.root not in met:
                continue
            if rank != exchange.root:
                direction = _OPPOSITE[direction]
                others = [(other, end) for other, end in others if other == exchange.root]
        if others:
            ends = tuple(LinkEnd(other, end.name, end.shown) for other, end in others)
            yield rank, GraphLink(direction, ends)


def _exchanges(api: str, rank: int, graph: ModelGraph, number: int) -> Iterable[Exchange]:
    """Yield what one call exchanges."""
    is_own = graph.layout is GraphLayout.OWN
    tensors = graph.tensors_of(number)
    operations = [each.facts.peers for each in tensors if each.facts.peers is not None and not graph.is_output(each)]
    if operations:
        for operation in operations if is_own else ():  # msprobe means to, and looks at what its database does not hold
            assert operation is not None
            if isinstance(peer := operation.get("peer"), int):
                yield _to_peer(rank, peer, str(operation.get("op")).removeprefix("i"), operation.get("group_id", ""))
        return
    arguments = {each.slot.path: each for each in tensors if each.slot.role is SlotRole.INPUT}
    if api in _SENDS or api in _RECEIVES:
        names: list[str | int] = [*(_SENT if api in _SENDS else _RECEIVED)]
        peer = _rank(arguments, [*names, 1] if is_own else names[:1])
        if peer is not None:
            output = _output(tensors) if graph.layout is GraphLayout.MSPROBE_VIS else None
            yield replace(_to_peer(rank, peer, api if not is_own else api.removeprefix("i"), ""), output=output)
        return
    group = _group(tensors, arguments, is_own=is_own)
    if group is None:
        return
    peers = group or None
    direction, places = _ROOTED.get(api, (LinkDirection.BOTH, ()))
    root = None
    if places:
        root = _rank(arguments, places if is_own else places[:1])
        if root is None:
            return
    yield Exchange(0, "", direction, (api, group), peers, root)


def _to_peer(rank: int, peer: int, api: str, group: object) -> Exchange:
    """Return a transfer between two ranks; calls with and without waiting are told apart by the name of the API."""
    is_receiving = api.lstrip("i") == "recv"
    ends = (peer, rank) if is_receiving else (rank, peer)
    direction = LinkDirection.RECEIVE if is_receiving else LinkDirection.SEND
    return Exchange(0, "", direction, (api.startswith("i"), group, *ends), (peer,))


def _rank(arguments: Mapping[tuple[int | str, ...], TensorRef], places: Iterable[int | str]) -> int | None:
    """Return the rank that an argument names, the first of several places that has one."""
    for place in places:
        value = arguments[(place,)].value if (place,) in arguments else None
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _group(
    tensors: Iterable[TensorRef], arguments: Mapping[tuple[int | str, ...], TensorRef], *, is_own: bool
) -> tuple[int, ...] | None:
    """Return the ranks of the group of a collective; none of them where the call names no group, which means all.

    msprobe knows those that are named by keyword; None for the others.
    """
    named = arguments.get(("group",))
    groups = [named] if named is not None else [*tensors] if is_own else []
    for each in groups:
        if each.stored_dtype.endswith("ProcessGroup") and each.value:
            return tuple(sorted({int(number) for number in _NUMBERS.findall(str(each.value))}))
    return () if is_own else None


def _output(tensors: Iterable[TensorRef]) -> _Facts:
    first = next((each for each in tensors if each.slot.role is SlotRole.OUTPUT), None)
    return () if first is None else (first.stored_dtype, first.shape, first.recorded)
