"""What calls of several ranks exchange, and when: whose tensors a call receives, and the layer in which it ran.

Ranks that ran one step together communicate in the layers of `communication.Network`. A computing call belongs to the
layer of the next communication of its rank, before that; what follows the last one to a layer of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from probe_flow.analysis.communication import (
    PREFIXES,
    Exchange,
    Network,
    exchanges_of,
    reaches,
    received_into,
)
from probe_flow.analysis.flow.calls import Call, Calls
from probe_flow.records import Execution, NodeKey, Slot
from probe_flow.records.row import Row


def same_call(key: NodeKey) -> tuple[object, ...]:
    """Return what a call has in common with the same call of other ranks."""
    _, *run = key.execution.identity
    return (*run, key.name, key.call, key.phase)


def _golden_value(row: Row) -> tuple[object, ...] | None:
    """Return what two tensors of one step have in common if they are equal on the golden side.

    None of a tensor of one number, and of one whose statistics are not known: these are like many others.
    """
    run, found = row.node.execution, row.measurement
    known = found.golden_statistics if found is not None else None
    if found is None or known is None or known.min == known.max:
        return None
    return run.step, run.micro_step, found.count, known


def _is_as_before(row: Row, buffer: Row) -> bool:
    """Whether memory of one side, at least, holds after a call what it held before, by what the dump recorded."""
    sides = (row.pair.target, buffer.pair.target), (row.pair.golden, buffer.pair.golden)
    return any(
        after is not None
        and before is not None
        and after.recorded is not None
        and repr(after.recorded) == repr(before.recorded)  # NaN is what NaN was
        for after, before in sides
    )


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
        self._rows = rows
        self._exchanges: dict[NodeKey, tuple[Exchange, ...]] = {}
        self._buffers: dict[NodeKey, frozenset[Slot]] = {}
        self._unwritten: set[tuple[NodeKey, Slot]] = set()
        self._is_connected = False  # that is done when somebody asks: few dumps have anything to follow
        self._partners: dict[NodeKey, Partners] = {}
        self._layers: dict[Execution, tuple[list[int], list[int], int]] = {}
        self._is_of_several = len({call.key.execution.rank for call in calls.communicating}) > 1
        communicating = {call.key for call in calls.communicating if call.key.name.startswith(PREFIXES)}
        if not communicating:
            return
        inputs: defaultdict[NodeKey, list[Row]] = defaultdict(list)
        outputs: defaultdict[NodeKey, list[Row]] = defaultdict(list)
        for row in rows:
            if row.pair.target is not None and row.node in communicating:
                (outputs if row.is_produced else inputs)[row.node].append(row)
        for key in communicating:
            given = [row.pair.shown for row in inputs[key]]
            found = exchanges_of(key.name, given)
            if found:
                self._exchanges[key] = found
                self._buffers[key] = received_into(key.name, given, key.execution.rank)
                before = {
                    row.pair.shown.slot.path: row
                    for row in inputs[key]
                    if row.pair.shown.facts.peers is not None and self.is_buffer(row)
                }
                self._unwritten.update(
                    (key, row.pair.shown.slot)
                    for row in outputs[key]
                    if (buffer := before.get(row.pair.shown.slot.path)) is not None and _is_as_before(row, buffer)
                )

    def is_buffer(self, row: Row) -> bool:
        """Whether a row is memory that a communication writes into, so that what lay there says nothing.

        Point-to-point operations of a batch are not waited for: what they receive may be shown as it was before.
        """
        slot = row.pair.shown.slot
        if row.is_produced:
            return bool(self._unwritten) and (row.node, slot) in self._unwritten
        return bool(self._buffers) and slot in self._buffers.get(row.node, ())

    @cached_property
    def _in_graphs(self) -> tuple[Mapping[object, Sequence[int]], Mapping[object, Sequence[int]]]:
        """What communications of a graph read on all ranks, by call and by the golden's value."""
        by_call: defaultdict[object, list[int]] = defaultdict(list)
        by_value: defaultdict[object, list[int]] = defaultdict(list)
        for call in self._calls.communicating:
            if call.key not in self._exchanges:
                by_call[same_call(call.key)] += call.read
                for number in call.read:
                    if (value := _golden_value(self._rows[number])) is not None:
                        by_value[value].append(number)
        return by_call, by_value

    def given(self, call: Call) -> tuple[int, ...]:
        """Return the measured rows that other ranks gave to a call."""
        if not (self._is_of_several and call.communicates):
            return ()
        partners = self.partners(call)
        if partners is not None:
            ranks = sorted(each.key.execution.rank or 0 for each in (call, *partners.calls))
            me, name = ranks.index(call.key.execution.rank or 0), call.key.name
            given = [(n, self._rows[n]) for each in partners.calls for n in each.read]
            return tuple(n for n, row in given if not self.is_buffer(row) and reaches(name, row.pair.shown.slot, me))
        by_call, by_value = self._in_graphs
        found = by_call.get(same_call(call.key), ())
        if not call.read:  # it only receives; what the golden received is what its sender gave, to the bit
            found = [
                n for own in call.written for n in by_value.get(_golden_value(self._rows[own]), ())
            ]  # None: in none
        return tuple(n for n in found if self._rows[n].node.execution.rank != call.key.execution.rank)

    def handed_over(self, call: Call) -> int | None:
        """Return the row of another rank whose tensor a call hands over as it is; None where it gives any itself."""
        if not all(self.is_buffer(self._rows[n]) for n in call.read):
            return None
        given = self.given(call)
        return given[0] if len(given) == 1 else None

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
        own = self._calls.place(call)
        at = bisect_left(places, own)
        return Layer(layers[at], places[at] == own) if at < len(places) else Layer(after)

    def moment(self, number: int) -> tuple[Layer, bool]:
        """Return when a row happened: in the layer of its call; what a communication gave comes after what it got."""
        call = self._calls.of[number]
        if call is None:
            return _ONLY, False
        layer = self.layer(call)
        return layer, layer.is_communication and self._rows[number].is_produced

    @property
    def has_layers(self) -> bool:
        """Whether calls of several ranks have an order among each other."""
        self._connect()
        return bool(self._layers)

    def _connect(self) -> None:
        if self._is_connected or not self._exchanges:
            return
        self._is_connected = True
        spoken: dict[Execution, list[Call]] = {run: [] for run in self._calls.executions}
        for call in self._calls.communicating:
            if call.key in self._exchanges:
                spoken[call.key.execution].append(call)
        together: defaultdict[object, list[Execution]] = defaultdict(list)
        for run in spoken:
            together[run.graph, run.step, run.micro_step].append(run)
        for runs in together.values():
            by_rank = {run.rank if run.rank is not None else 0: run for run in runs}
            if len(by_rank) == len(runs):  # else nobody can tell who is meant
                self._connect_line(by_rank, spoken)

    def _connect_line(self, by_rank: Mapping[int, Execution], calls: Mapping[Execution, list[Call]]) -> None:
        spoken = {rank: calls[run] for rank, run in by_rank.items()}
        network = Network({rank: [self._exchanges[call.key] for call in line] for rank, line in spoken.items()})
        for rank, line in spoken.items():
            for number, call in enumerate(line):
                met = sorted(network.partners((rank, number)))
                found = tuple(spoken[other][place] for other, place in met)
                self._partners[call.key] = self._described(call, found, {other for other, _ in met})
            if len(by_rank) > 1:
                layers = [network.layers[rank, number] for number in range(len(line))]
                places = [self._calls.place(call) for call in line]
                self._layers[by_rank[rank]] = places, layers, layers[-1] + 1 if layers else 0

    def _described(self, call: Call, found: tuple[Call, ...], met: Iterable[int]) -> Partners:
        exchanges = [each for each in self._exchanges[call.key] if each.way != "send"]
        known = {rank for each in exchanges for rank in (each.peer, *(each.group or ())) if rank is not None}
        missing = sorted(known - {*met, call.key.execution.rank})
        absent = f"rank {', '.join(map(str, missing))}" if missing else ""
        if exchanges and not known and not found:
            absent = "any other rank"
        return Partners(found, all(each.way == "all" for each in exchanges), absent)
