"""Where each compared tensor came from: the earlier rows whose errors it carries.

With a graph (`Catalog.edges`) an input comes from the outputs that feed it, and an input without a producer is a
source: a parameter, a constant or an input of the network. A node without any edge that the graph's text does not have
either (the device's own casts and layout changes) has unknown ancestry. Without a graph, a tensor that equals an
earlier one in the golden's statistics is taken for that one, be it of an earlier step (what an optimizer keeps of each
parameter, caches); what is found nowhere has unknown ancestry. A gate that
works in place (``relu_``, ``F.relu(inplace=True)``) is recorded with the gradient that reached it on both ends, since
its input is its output by then; what it made of that gradient shows as the next one of its size that nothing wrote.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field

from probe_flow.analysis.flow.calls import is_gated
from probe_flow.records import (
    Execution,
    Flow,
    Node,
    NodeKey,
    Pairs,
    Phase,
    Relation,
    SlotRole,
    Statistics,
    TensorKind,
    TensorRef,
    shared_numbers,
)
from probe_flow.records.row import PRODUCED, Row

MAX_PASSED = 64
"""Nodes that were not compared which one search passes before it gives up: what lies that far back is unknown."""


class Given(Struct, frozen=True, gc=False):
    """What others gave for something that a call read.

    Args:
        rows: of one tensor, or of several that add up.
        gate: row of the result of a relu in place, by whose sign the gradient passed or did not.
        slope: what passed of it where that result is negative.
        cut: axis, first place and length of the part of a tensor that was handed on; None where it is all of it.
    """

    rows: tuple[int, ...]
    gate: int | None = None
    slope: float = 0.0
    cut: tuple[int, int, int] | None = None

    @classmethod
    def part_of(
        cls, rows: tuple[int, ...], place: int, whole: Sequence[int], parts: Sequence[Sequence[int]]
    ) -> Given | None:
        """Return a part of what was put together along one axis; None where the shapes do not say along which.

        Args:
            rows: of the whole.
            place: number of the part.
            whole, parts: shapes.
        """
        if any(len(part) != len(whole) for part in parts):
            return None
        found = [
            axis
            for axis in range(len(whole))
            if sum(part[axis] for part in parts) == whole[axis]
            and all((*part[:axis], *part[axis + 1 :]) == (*whole[:axis], *whole[axis + 1 :]) for part in parts)
        ]
        if len(found) != 1:
            return None
        (axis,) = found
        return cls(rows, cut=(axis, sum(part[axis] for part in parts[:place]), parts[place][axis]))


class Links(Struct, frozen=True):
    """Ancestry of rows, by row number.

    Args:
        producers: input row -> earlier rows that hold its value; ``()`` = a source; absent = unknown.
        reaching: node -> rows that feed its outputs: its own inputs, and for inputs that were not compared what feeds
            those, through nodes that were not compared either; absent = unknown, or no input at all.
        through: node -> the nodes that were not compared on the way, whose arithmetic lies between.
        before: the same for input rows that do not hold what their producers gave; of a gradient the gate in place.
    """

    producers: Mapping[int, tuple[int, ...]]
    reaching: Mapping[NodeKey, tuple[int, ...]]
    through: Mapping[NodeKey, tuple[NodeKey, ...]]
    before: Mapping[int, tuple[NodeKey, ...]] = field(default_factory=dict)


def is_flow_unknown(pairs: Pairs) -> bool:
    """Say whether nothing tells what an operator without compared inputs got its values from.

    Of a compiled model only its graph knows that; one call after another of a program is a path by itself.
    """
    return pairs.target.flow is Flow.GRAPH and not pairs.target.edges


def link(rows: Sequence[Row], pairs: Pairs) -> Links:
    """Return the ancestry of every measured row; ``rows`` in execution order."""
    if pairs.target.edges:
        found = _ByEdges(rows, pairs).links()
        return Links(_with_readers(found.producers, rows), found.reaching, found.through, found.before)
    producers, gates = _by_value(rows, pairs)
    if is_flow_unknown(pairs):  # outputs of equal values are no copies because one stands before the other
        producers = {number: these for number, these in producers.items() if not rows[number].is_produced}
    inputs: dict[NodeKey, list[int]] = defaultdict(list)
    unseen: dict[NodeKey, str] = {}
    for number, row in zip(shared_numbers(len(rows)), rows, strict=False):
        tensor = row.pair.target
        if tensor is None or tensor.slot.role in PRODUCED:
            continue
        if row.measurement is not None:
            inputs[tensor.node].append(number)
        elif tensor.kind is TensorKind.TENSOR or tensor.kind is TensorKind.STATISTICS:
            unseen[tensor.node] = row.pair.group
    reaching = {key: tuple(numbers) for key, numbers in inputs.items()}
    through = _within_groups(unseen, inputs, pairs) if unseen else {}
    for key in unseen:
        reaching.pop(key, None)
        if key in through:
            reaching[key] = tuple(n for each in (key, *through[key]) for n in inputs.get(each, ()))
    return Links(producers, reaching, through, gates)


def _within_groups(
    unseen: Mapping[NodeKey, str], inputs: Mapping[NodeKey, Sequence[int]], pairs: Pairs
) -> dict[NodeKey, tuple[NodeKey, ...]]:
    """Return the earlier nodes of each node's group: together they are one node of the golden.

    An input that was not compared lies between them (the product that a bias is added to).
    """
    groups = {group.id: group.target_nodes for group in pairs.groups if group.relation is Relation.MANY_TO_ONE}
    found = {}
    for key, group in unseen.items():
        nodes = groups.get(group, ())
        before = nodes[: nodes.index(key)] if key in nodes else ()
        if any(inputs.get(node) for node in before):
            found[key] = before
    return found


def _with_readers(producers: Mapping[int, tuple[int, ...]], rows: Sequence[Row]) -> Mapping[int, tuple[int, ...]]:
    """Return where rows came from; what several operators read of one without a file, came to each as to the first."""
    found = dict(producers)
    shown: dict[int, int] = {}
    for number, row in enumerate(rows):
        golden = row.pair.golden
        if row.measurement is None or golden is None or row.pair.target is None:
            continue
        first = shown.setdefault(id(golden), number)
        if first != number and not row.is_produced and not rows[first].is_produced and number in found:
            found[number] = (first, *found[number])
    return found


class _ByEdges:
    """Follows the edges of the target's graph."""

    def __init__(self, rows: Sequence[Row], pairs: Pairs) -> None:
        self.inputs: dict[NodeKey, dict[object, int]] = defaultdict(dict)
        self.outputs: dict[tuple[NodeKey, object], int] = {}
        for number, row in enumerate(rows):
            if row.measurement is None or row.pair.target is None:
                continue
            place = row.pair.target.slot.path[0]
            if row.is_produced:
                self.outputs[row.node, place] = number
            else:
                self.inputs[row.node][place] = number
        self.feeding: dict[NodeKey, dict[int, list[tuple[NodeKey, int]]]] = defaultdict(lambda: defaultdict(list))
        self.known = {op.name for graph in pairs.target.graphs for op in graph.ops}
        self.tensors = pairs.target.tensors
        self.linked: set[NodeKey] = set()
        for edge in pairs.target.edges:
            self.linked.update((edge.producer, edge.consumer))
            self.feeding[edge.consumer][edge.input].append((edge.producer, edge.output))

    def links(self) -> Links:
        producers: dict[int, tuple[int, ...]] = {}
        reaching: dict[NodeKey, tuple[int, ...]] = {}
        through: dict[NodeKey, tuple[NodeKey, ...]] = {}
        before: dict[int, tuple[NodeKey, ...]] = {}
        for node, inputs in self.inputs.items():
            for place, number in inputs.items():
                fed = self.feeding.get(node, {}).get(place, []) if isinstance(place, int) else []
                found = self._behind(fed)
                if found is not None and (found[0] or (not fed and self._is_of_graph(node))):
                    producers[number] = found[0]
                    if found[1]:
                        before[number] = found[1]
        for node in dict.fromkeys(node for node, _ in self.outputs):
            reached = self._reach(node)
            if reached is None:
                continue
            through[node] = reached[1]
            if reached[0] or (not self.feeding.get(node) and self._is_source(node)):
                reaching[node] = reached[0]
        return Links(producers, reaching, through, before)

    def _is_of_graph(self, node: NodeKey) -> bool:
        return not self.known or node.name in self.known or node in self.linked

    @cached_property
    def _readers(self) -> Collection[NodeKey]:
        inputs = (tensor for tensor in self.tensors if tensor.slot.role is SlotRole.INPUT)
        return {tensor.node for tensor in inputs if tensor.has_numbers}

    def _is_source(self, node: NodeKey) -> bool:
        """Whether a node without edges into it reads nothing: edges by address end where an operator left no file."""
        return bool(self.known) or node not in self._readers

    def _reach(self, node: NodeKey) -> tuple[tuple[int, ...], tuple[NodeKey, ...]] | None:
        own = self.inputs.get(node, {})
        unseen = [
            source for place, sources in self.feeding.get(node, {}).items() if place not in own for source in sources
        ]
        found = self._behind(unseen)
        if found is None:
            return None
        rows, skipped = found
        return tuple(dict.fromkeys((*own.values(), *rows))), skipped

    def _behind(self, sources: Sequence[tuple[NodeKey, int]]) -> tuple[tuple[int, ...], tuple[NodeKey, ...]] | None:
        """Return the compared rows behind these outputs and the nodes passed on the way; None when that is too far."""
        found: dict[int, None] = {}
        skipped: dict[NodeKey, None] = {}
        pending = list(sources)
        while pending:
            node, output = pending.pop()
            row = self.outputs.get((node, output))
            if row is not None:
                found[row] = None
            elif node not in skipped:
                if len(skipped) == MAX_PASSED:
                    return None
                skipped[node] = None
                own = self.inputs.get(node, {})
                found.update(dict.fromkeys(own.values()))
                for place, more in self.feeding.get(node, {}).items():
                    if place not in own:
                        pending.extend(more)
        return tuple(sorted(found)), tuple(skipped)


_WEIGHTED = re.compile(
    r"(?i)(linear|dense|conv(_?transpose)?_?\d?d?|(layer|batch|group|instance|rms)_?norm|embedding|prelu|gru|lstm|rnn)\d?"
)
"""Types of which every tensor but the first is a parameter or buffer, unless something before wrote it."""

_NORM_OF_BATCHES = re.compile(r"(?i)batch_?norm\d?d?")
_RUNNING = ((1,), (2,), ("running_mean",), ("running_var",))
"""Its running statistics, which each call of the same module moves on: no dump shows what they became."""


PLAIN = 2.0**12
"""Significands that are multiples of one part in so many are of plain numbers."""

_Number = int | float | None
_Fingerprint = tuple[int, int, _Number, _Number, _Number, bool]
"""Execution, number of elements, minimum, maximum, norm, and whether they are of the target."""


def _by_value(rows: Sequence[Row], pairs: Pairs) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[NodeKey, ...]]]:
    """Return `Links.producers` by equal values, and `Links.before` for what gates in place made."""
    places, programs = _programs(rows)
    has_steps = len(set(programs.values())) < len(programs)

    def key_of(row: Row) -> _Fingerprint | None:
        return _fingerprint(row, places[id(row.node.execution)])

    parameters = {key for row in rows if row.pair.shown.slot.role is SlotRole.PARAMETER and (key := key_of(row))}
    kept: dict[object, int] = {}  # what earlier steps of the same program left for later ones to read
    last: dict[object, int] = {}
    run = -1
    producers: dict[int, tuple[int, ...]] = {}
    gates: dict[int, tuple[NodeKey, ...]] = {}
    passed: dict[object, int] = {}  # (execution, elements) -> gradient that a gate in place has yet to act on
    for number, row in zip(shared_numbers(len(rows)), rows, strict=False):
        if row.measurement is None:
            continue
        if (place := places[id(row.node.execution)]) != run:  # its rows follow each other, and take from no other's
            run, last = place, {}
        key, role = key_of(row), row.pair.shown.slot.role
        if key is not None and key in last and not _is_chance(row, rows[last[key]]):
            producers[number] = (_shown_again(row, last[key], rows, producers),)
            if row.is_produced and rows[last[key]].node == row.node and _is_gate(row, pairs):
                passed[key[:2]] = number
        elif role is SlotRole.INPUT and row.node.phase is Phase.BACKWARD and key is not None and key[:2] in passed:
            gate = passed.pop(key[:2])
            producers[number], gates[number] = (gate,), (rows[gate].node,)
        elif role is SlotRole.PARAMETER or (role is SlotRole.INPUT and (key in parameters or _is_weight(row, pairs))):
            producers[number] = ()
        elif has_steps and key is not None and not row.is_produced and (programs[key[0]], key[1:]) in kept:
            producers[number] = (kept[programs[key[0]], key[1:]],)
        if key is not None:
            last[key] = number
            if has_steps:
                kept[programs[key[0]], key[1:]] = number
    return producers, gates


def _shown_again(row: Row, latest: int, rows: Sequence[Row], producers: Mapping[int, tuple[int, ...]]) -> int:
    """Return the row whose tensor a row shows again: the latest of the same golden value.

    Two arguments of one call may be equal on the golden by accident, as a norm and a parameter that begins as that
    norm: then the target's values tell which of the rows before it is.
    """
    own = row.pair.target.recorded if row.pair.target is not None else None
    if row.is_produced or rows[latest].node != row.node or own is None:
        return latest
    number = latest
    before: tuple[int, ...] = (latest,)
    while len(before) == 1 and before[0] <= number:
        number = before[0]
        other = rows[number].pair.target
        if other is not None and other.recorded == own:
            return number
        before = producers.get(number, ())
    return latest


def _is_chance(row: Row, equal: Row) -> bool:
    """Whether a result of the golden equals what its own call read, and the target's does not.

    So it is where what was added is lost in rounding on one side only: the call computes, and does not hand on.
    """
    if not row.is_produced or equal.node != row.node:
        return False
    result, read = (None if each.pair.target is None else each.pair.target.recorded for each in (row, equal))
    if result is None or read is None:
        return False
    return (result.min, result.max, result.l2norm) != (read.min, read.max, read.l2norm)


def _programs(rows: Sequence[Row]) -> tuple[dict[int, int], dict[int, tuple[object, ...]]]:
    """Return the number of each execution, by the object since hashing one is slow, and whose step each number is."""
    runs: dict[Execution, int] = {}
    places: dict[int, int] = {}
    programs: dict[int, tuple[object, ...]] = {}
    for row in rows:
        run = row.node.execution
        if id(run) not in places:
            place = places[id(run)] = runs.setdefault(run, len(runs))
            programs[place] = run.rank, run.graph
    return places, programs


def _is_gate(row: Row, pairs: Pairs) -> bool:
    """Whether a row is of the backward pass of a call whose derivative jumps."""
    node = pairs.target.nodes.get(row.node)
    return row.node.phase is Phase.BACKWARD and node is not None and is_gated(node.op_type)


def is_running_statistic(tensor: TensorRef, node: Node | None) -> bool:
    """Whether a tensor is a running mean or variance that a norm of batches reads and moves on."""
    is_norm = node is not None and _NORM_OF_BATCHES.fullmatch(node.op_type) is not None
    return is_norm and tensor.slot.path[:1] in _RUNNING and tensor.requires_grad is False


def _is_weight(row: Row, pairs: Pairs) -> bool:
    """Whether an input that nothing wrote is a weight by its place in the call."""
    tensor = row.pair.shown
    if tensor.node.phase is not Phase.FORWARD or tensor.slot.path[:1] in ((0,), ()):
        return False
    node = pairs.target.nodes.get(tensor.node)
    if node is None or _WEIGHTED.fullmatch(node.op_type) is None:
        return False
    return not is_running_statistic(tensor, node)


def _fingerprint(row: Row, run: int) -> _Fingerprint | None:
    """Return what identifies the golden values, or None when that says too little (constants, plain scalars).

    It begins with execution and number of elements.

    What the dump recorded comes first: it is the same in both modes, and of the same precision wherever a tensor shows.
    Of a difference that is zero on the golden everywhere the target's values tell, which are what rounding left.
    """
    measurement, golden = row.measurement, row.pair.golden
    if measurement is None or golden is None or not measurement.count:
        return None
    recorded = golden.recorded
    measured = recorded if measurement.given_golden is golden else measurement.golden_statistics
    if measured is None:
        return None
    # Of integers no norm is recorded.
    statistics = measured if recorded is None or recorded.l2norm is None else recorded
    if statistics.l2norm is None:
        return None
    if not _is_constant(statistics, measurement.count):
        return run, measurement.count, statistics.min, statistics.max, statistics.l2norm, False
    target = row.pair.target.recorded if row.pair.target is not None else None
    if statistics.max != 0 or target is None or not target.l2norm or _is_constant(target, measurement.count):
        return None
    return run, measurement.count, target.min, target.max, target.l2norm, True


def _is_constant(statistics: Statistics, count: int) -> bool:
    """Whether a tensor holds one value everywhere, or is a number that others are as well."""
    return statistics.min == statistics.max and (count > 1 or not _is_telling(statistics.min))


def _is_telling(value: _Number) -> bool:
    """Whether a number needs more bits than 0, 1, 0.5 and what 16 bits hold, so that another one hardly is the same."""
    return value is not None and math.isfinite(value) and not (math.frexp(value)[0] * PLAIN).is_integer()
