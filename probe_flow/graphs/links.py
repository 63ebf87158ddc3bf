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
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.records import Catalog, SlotRole, TensorRef
from probe_flow.records.model_graph import GraphLayout, GraphLink, GraphPair, LinkDirection, LinkEnd, ModelGraph

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


def exchanges_of(graph: ModelGraph, rank: int, shown: Mapping[int, str]) -> list[Exchange]:
    """Return what the calls of one rank exchange with others, in the order of the graph.

    Args:
        graph: of the rank.
        rank: its number; that of the target where the sides call it otherwise.
        shown: number of a node -> its score or level as text.
    """
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
    attended: dict[int, list[object]] = {}
    for rank, exchanges in ranks.items():
        counts: Counter[object] = Counter()
        for each in exchanges:
            meeting = each.channel, counts[each.channel]
            counts[each.channel] += 1
            meetings.setdefault(meeting, {})[rank] = each
            attended.setdefault(rank, []).append(meeting)
    found: dict[int, dict[int, tuple[GraphLink, ...]]] = {rank: {} for rank in ranks}
    for rank, mine in attended.items():
        for place in mine:
            link = _link(rank, meetings[place])
            if link is not None:
                number = meetings[place][rank].number
                found[rank][number] = (*found[rank].get(number, ()), link)
    return found


class RankLinks:
    """The links between the graphs of all ranks and steps, found before any graph is written.

    Graphs are taken one after the other and not kept: each is made once to be taken and once more to get its links.

    Args:
        has_levels: show the level of the call at the other end in place of its score.
    """

    def __init__(self, *, has_levels: bool = False) -> None:
        self._has_levels = has_levels
        self._exchanges: dict[tuple[bool, int | None], dict[int, list[Exchange]]] = {}
        self._links: dict[tuple[bool, int | None], dict[int, dict[int, tuple[GraphLink, ...]]]] = {}

    def add(self, pair: GraphPair) -> None:
        """Take what the calls of one rank and step exchange."""
        run = pair.target.execution
        for is_golden, graph in enumerate((pair.target, pair.golden)):
            if graph is not None and run.rank is not None:
                shown = shown_of(pair, is_golden=bool(is_golden), has_levels=self._has_levels)
                found = exchanges_of(graph, run.rank, shown)
                self._exchanges.setdefault((bool(is_golden), run.step), {})[run.rank] = found

    def linked(self, pair: GraphPair) -> GraphPair:
        """Return the graphs of one rank and step with their links, once those of all ranks were taken."""
        if not self._links:
            self._links = {place: links_between(ranks) for place, ranks in self._exchanges.items()}
        run = pair.target.execution
        sides = [self._links.get((is_golden, run.step), {}) for is_golden in (False, True)]
        links = [side.get(run.rank, {}) if run.rank is not None else {} for side in sides]
        return replace(pair, links=(links[0], links[1]))


def with_links(pairs: Sequence[GraphPair], *, has_levels: bool = False) -> list[GraphPair]:
    """Return the graphs of all ranks and steps with their links, all at once."""
    links = RankLinks(has_levels=has_levels)
    for pair in pairs:
        links.add(pair)
    return [links.linked(pair) for pair in pairs]


def communicates(catalog: Catalog) -> bool:
    """Return True for a dump with calls that talk to other ranks."""
    return any(key.name.startswith(_PREFIXES) for key in catalog.nodes)


def shown_of(pair: GraphPair, *, is_golden: bool, has_levels: bool) -> dict[int, str]:
    """Return what links show of a call: its level, or its score, as text."""
    if has_levels:
        return {number: level.value for number, level in pair.levels[is_golden].items()}
    return {} if is_golden else {number: str(score) for number, score in pair.scores.items()}


def _link(rank: int, met: Mapping[int, Exchange]) -> GraphLink | None:
    """Return the link of one rank with those that it met, None where it met nobody."""
    exchange = met[rank]
    direction, root = exchange.direction, exchange.root
    if root is not None:
        if root not in met:
            return None
        direction = direction if rank == root else _OPPOSITE[direction]
    ends = [
        LinkEnd(other, end.name, end.shown)
        for other, end in met.items()
        if other != rank
        and (exchange.peers is None or other in exchange.peers)
        and (root is None or root in (rank, other))
        and end.output == exchange.output
    ]
    return GraphLink(direction, tuple(ends)) if ends else None


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
