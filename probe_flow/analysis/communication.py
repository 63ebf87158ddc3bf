"""Communication entries of a dump: what each of them exchanges with which ranks.

Recognised by name; peers come from the arguments: keywords ``src``, ``dst``, ``group_src``, ``group_dst``, the position
that the API gives them, or the fields of point-to-point operations. Unknown peers leave an entry unconnected. Memory
that a receiver hands over to be written is an input of the call, and no value that it reads.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from probe_flow.records import Slot, SlotRole, TensorRef

PREFIXES = ("Distributed.", "MintDistributed.", "communication.comm_func.")

_WORDS = (
    "send",
    "recv",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_to_all",
)
"""One of these is part of the name of every API that moves data between ranks."""

_SENDS = frozenset(("send", "isend", "send_object_list"))
_RECEIVES = frozenset(("recv", "irecv", "recv_object_list"))
_PEER_AT = 1
"""Position of the peer among the arguments of `send` and `recv` of both frameworks, and of the root of `broadcast`."""

_MAY_WRITE_FIRST = re.compile(r"_?(all_gather|reduce_scatter|all_to_all)(?!_object)")
"""APIs that may be given the memory of their result, before what they send."""

_FIRST = frozenset((0, "tensor", "tensor_list", "output", "output_tensor", "output_tensor_list", "output_list"))

_SENT, _RECEIVED = ("dst", "group_dst"), ("src", "group_src")
_NUMBERS = re.compile(r"\d+")


class Form(Struct, frozen=True):
    """Where a communication has its tensors, by position.

    Args:
        into: what it receives, which the dump shows among its results.
        source: what it gives.
        root: number of the root; -1 where there is none.
        operation: what combines; -1 where nothing is combined.
        is_of_root: whether it receives what the root, or a sender, gives, and not what all do.
        is_of_parts: whether what is given has a part for each rank: a list, or one tensor of as many parts.
        is_listed: whether what it receives is a list, with a tensor of each rank.
        is_receiver: whether it meets a sender alone.
    """

    into: int
    source: int
    root: int = -1
    operation: int = -1
    is_of_root: bool = False
    is_of_parts: bool = False
    is_listed: bool = False
    is_receiver: bool = False


_SCATTER = Form(0, 1, operation=2, is_of_parts=True)
_RECEIVE = Form(0, 0, is_of_root=True, is_receiver=True)

FORMS: Mapping[str, Form] = {
    "all_reduce": Form(0, 0, operation=1),
    "reduce": Form(0, 0, root=1, operation=2),
    "reduce_scatter": _SCATTER,
    "reduce_scatter_tensor": _SCATTER,
    "_reduce_scatter_base": _SCATTER,
    "broadcast": Form(0, 0, root=1, is_of_root=True),
    "scatter": Form(0, 1, root=2, is_of_root=True, is_of_parts=True),
    "all_gather": Form(0, 1, is_listed=True),
    "gather": Form(1, 0, root=2, is_listed=True),
    "all_gather_into_tensor": Form(0, 1),
    "_all_gather_base": Form(0, 1),
    "all_to_all": Form(0, 1, is_of_parts=True, is_listed=True),
    "all_to_all_single": Form(0, 1, is_of_parts=True),
    "recv": _RECEIVE,
    "irecv": _RECEIVE,
}
"""Collectives and receivers of ``torch.distributed``, whose results are shown at the places of their arguments."""


class Exchange(Struct, frozen=True):
    """One transfer: ``send`` to or ``recv`` from ``peer``, or ``all`` within ``group`` (None = every rank)."""

    way: str
    api: str
    peer: int | None = None
    group: tuple[int, ...] | None = None


def exchanges_of(name: str, inputs: Sequence[TensorRef]) -> tuple[Exchange, ...]:
    """Return what a call exchanges; nothing when it is no communication.

    Args:
        name: true name of the node, e.g. ``Distributed.all_reduce``.
        inputs: its input slots.
    """
    api = name.rpartition(".")[2]
    if not name.startswith(PREFIXES) or not any(word in api for word in _WORDS):
        return ()
    operations = [ref.facts.peers for ref in inputs if ref.facts.peers is not None]
    if operations:
        return tuple(map(_of_operation, operations))
    group = _group(inputs)
    if api in _SENDS:
        return (Exchange("send", api, _peer(inputs, _SENT, group)),)
    if api in _RECEIVES:
        return (Exchange("recv", api, _peer(inputs, _RECEIVED, group)),)
    return (Exchange("all", api, group=group),)


def reaches(name: str, slot: Slot, member: int) -> bool:
    """Return whether what a rank gives to a communication reaches a member: of a list of parts each reaches one.

    Args:
        name: true name of the node.
        slot: of the input.
        member: number of the receiver in the group, in the order of ranks.
    """
    form = FORMS.get(name.rpartition(".")[2])
    is_part = form is not None and form.is_of_parts and len(slot.path) > 1 and slot.path[0] == form.source
    return not is_part or slot.path[1] == member


def received_into(name: str, inputs: Sequence[TensorRef], rank: int | None) -> frozenset[Slot]:
    """Return the inputs of a communication that are memory for what it receives: what lay there is read by nobody.

    Args:
        name: true name of the node.
        inputs: its input slots.
        rank: on which it ran.
    """
    if not exchanges_of(name, inputs):
        return frozenset()
    api = name.rpartition(".")[2]
    data = [ref for ref in inputs if ref.slot.role is SlotRole.INPUT and (ref.has_numbers or ref.facts.peers)]
    operations = [ref for ref in data if ref.facts.peers is not None]
    if operations:
        return frozenset(ref.slot for ref in operations if _of_operation(ref.facts.peers or {}).way == "recv")
    if api == "gather":
        return frozenset(ref.slot for ref in data if ref.slot.path[0] in (1, "gather_list"))
    first = frozenset(ref.slot for ref in data if ref.slot.path[0] in _FIRST)
    if api in _RECEIVES or api == "scatter":
        return first
    if api == "broadcast":
        root = _peer(inputs, _RECEIVED, _group(inputs))
        return frozenset() if rank is None or root is None or root == rank else first
    return first if _MAY_WRITE_FIRST.match(api) and len(first) < len(data) else frozenset()


def _of_operation(operation: Mapping[str, object]) -> Exchange:
    peer = operation.get("peer")
    way = "recv" if "recv" in str(operation.get("op")) else "send"
    return Exchange(way, "P2POp", peer if isinstance(peer, int) else None)


def _group(inputs: Sequence[TensorRef]) -> tuple[int, ...] | None:
    for ref in inputs:
        if ref.slot.role is SlotRole.INPUT and ref.stored_dtype.endswith("ProcessGroup") and ref.value:
            return tuple(sorted({int(number) for number in _NUMBERS.findall(str(ref.value))})) or None
    return None


def _peer(inputs: Sequence[TensorRef], names: Sequence[str], group: tuple[int, ...] | None) -> int | None:
    by_path = {ref.slot.path: ref.value for ref in inputs if ref.slot.role is SlotRole.INPUT}
    for name in names:
        value = _rank(by_path.get((name,)))
        if value is not None:
            in_group = name.startswith("group_") and group is not None and value < len(group)
            return group[value] if in_group and group is not None else value
    return _rank(by_path.get((_PEER_AT,)))


def _rank(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return value if isinstance(value, int) else None


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
