"""What calls of several ranks exchange, and when: whose tensors a call receives, and the layer in which it ran.

Ranks that ran one step together communicate in the layers of `communication.Network`. A computing call belongs to the
layer of the next communication of its rank, before that; what follows the last one to a layer of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from probe_flow.analysis.first_difference.communication import (
    PREFIXES,
    Exchange,
    Network,
    exchanges_of,
    received_into,
)
from probe_flow.analysis.flow.calls import Call, Calls
from probe_flow.records import Execution, NodeKey, Slot, TensorRef
from probe_flow.records.row import Row


class Layer(Struct, frozen=True, order=True):
    """When a call ran among those of all ranks: number of the layer, computing calls before communications."""

    number: int = 0
    is_communication: bool = False


_ONLY = Layer()


class Partners(Struct, frozen=True):
    """Whom a communication exchanges data with.

    Args:
        calls: communications of other ranks that meet it.
        is_collective: whether all of them give and take.
        absent: the ranks that it receives from and that the dump lacks, in words; empty where nobody is missing.
    """

    calls: tuple[Call, ...] = ()
    is_collective: bool = False
    absent: str = ""


class AcrossRanks:
    """The communications of all ranks.

    Args:
        calls: of the dump.
        rows: all rows.
    """

    def __init__(self, calls: Calls, rows: Sequence[Row]) -> None:
        self._calls = calls
        self._exchanges: dict[NodeKey, tuple[Exchange, ...]] = {}
        self._buffers: dict[NodeKey, frozenset[Slot]] = {}
        self._is_connected = False  # that is done when somebody asks: few dumps have anything to follow
        self._partners: dict[NodeKey, Partners] = {}
        self._layers: dict[Execution, tuple[list[int], list[int], int]] = {}
        self._places: dict[NodeKey, int] = {}
        communicating = {call.key: call for call in calls if call.key.name.startswith(PREFIXES)}
        if not communicating:
            return
        inputs: defaultdict[NodeKey, list[TensorRef]] = defaultdict(list)
        for row in rows:
            if row.pair.target is not None and row.node in communicating and not row.is_produced:
                inputs[row.node].append(row.pair.target)
        for key in communicating:
            found = exchanges_of(key.name, inputs[key])
            if found:
                self._exchanges[key] = found
                self._buffers[key] = received_into(key.name, inputs[key], key.execution.rank)

    def is_buffer(self, row: Row) -> bool:
        """Whether a row is memory that a communication writes into, so that what lay there says nothing."""
        return not row.is_produced and row.pair.shown.slot in self._buffers.get(row.node, ())

    def partners(self, call: Call) -> Partners | None:
        """Return whom a call exchanges data with; None where it is no communication."""
        self._connect()
        return self._partners.get(call.key)

    def layer(self, call: Call) -> Layer:
        """Return when a call ran; the same for all calls of a dump of one rank."""
        self._connect()
        known = self._layers.get(call.key.execution)
        if known is None:
            return _ONLY
        places, layers, after = known
        own = self._places[call.key]
        at = bisect_left(places, own)
        return Layer(layers[at], places[at] == own) if at < len(places) else Layer(after)

    def _connect(self) -> None:
        if self._is_connected or not self._exchanges:
            return
        self._is_connected = True
        together: defaultdict[object, dict[Execution, list[Call]]] = defaultdict(dict)
        for call in self._calls:
            run = call.key.execution
            together[run.graph, run.step, run.micro_step].setdefault(run, []).append(call)
        for lines in together.values():
            by_rank = {run.rank if run.rank is not None else 0: line for run, line in lines.items()}
            if len(by_rank) == len(lines):  # else nobody can tell who is meant
                self._connect_line(by_rank, is_known=len(by_rank) > 1)

    def _connect_line(self, by_rank: dict[int, list[Call]], *, is_known: bool) -> None:
        spoken = {rank: [call for call in line if call.key in self._exchanges] for rank, line in by_rank.items()}
        network = Network({rank: [self._exchanges[call.key] for call in line] for rank, line in spoken.items()})
        for rank, line in spoken.items():
            for number, call in enumerate(line):
                met = sorted(network.partners((rank, number)))
                found = tuple(spoken[other][place] for other, place in met)
                self._partners[call.key] = self._described(call, found, {other for other, _ in met})
            if is_known:
                places = {call.key: place for place, call in enumerate(by_rank[rank])}
                self._places.update(places)
                layers = [network.layers[rank, number] for number in range(len(line))]
                self._layers[by_rank[rank][0].key.execution] = (
                    [places[call.key] for call in line], layers, layers[-1] + 1 if layers else 0,
                )  # fmt: skip

    def _described(self, call: Call, found: tuple[Call, ...], met: Iterable[int]) -> Partners:
        exchanges = [each for each in self._exchanges[call.key] if each.way != "send"]
        known = {rank for each in exchanges for rank in (each.peer, *(each.group or ())) if rank is not None}
        missing = sorted(known - {*met, call.key.execution.rank})
        absent = f"rank {', '.join(map(str, missing))}" if missing else ""
        if exchanges and not known and not found:
            absent = "any other rank"
        return Partners(found, all(each.way == "all" for each in exchanges), absent)
