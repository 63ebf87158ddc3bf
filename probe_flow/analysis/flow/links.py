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

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Calls
from probe_flow.records import (
    Flow,
    NodeKey,
    Pairs,
    Relation,
    SlotRole,
    TensorKind,
)
from probe_flow.records.row import PRODUCED, ManyRows, Row
from probe_flow.records.tensor import marks

MAX_PASSED = 64
"""Nodes that were not compared which one search passes before it gives up: what lies that far back is unknown."""


Sources: TypeAlias = Callable[[int], tuple[int, ...] | None]
"""Rows whose errors explain a row's; ``()`` for a source, None where they are not known."""


class Given(Struct, frozen=True, gc=False):
    """What others gave for something that a call read.

    Args:
        rows: of one tensor, or of several that add up.
        gate: row of the result of a relu in place, by whose sign the gradient passed or did not.
        slope: what passed of it where that result is negative.
        cut: axis, first place and length of the part of a tensor that was handed on; None where it is all of it.
        cast: rounding of the narrower type that some of it went through on its way; 0 where none is known.
    """

    rows: tuple[int, ...]
    gate: int | None = None
    slope: float = 0.0
    cut: tuple[int, int, int] | None = None
    cast: float = 0.0

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


class _Reaching(Mapping[NodeKey, tuple[int, ...]]):
    """Node -> rows that feed its outputs, as `Links.reaching`: those that its call read, but for some nodes.

    Args:
        calls: of all rows.
        others: nodes with inputs that were not compared -> what feeds them; None = unknown.
    """

    def __init__(self, calls: Calls, others: Mapping[NodeKey, tuple[int, ...] | None]) -> None:
        self._calls, self._others = calls.by_key, others

    def __getitem__(self, node: NodeKey) -> tuple[int, ...]:
        call = self._calls[node]
        found = self._others.get(node, call.read or None)
        if found is None:
            raise KeyError(node)
        return found

    def __iter__(self) -> Iterator[NodeKey]:
        return (node for node in self._calls if node in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Links(Struct, frozen=True):
    """Ancestry of rows, by row number.

    Args:
        producers: input row -> earlier rows that hold its value; ``()`` = a source; absent = unknown.
        reaching: node -> rows that feed its outputs: its own inputs, and for inputs that were not compared what feeds
            those, through nodes that were not compared either; absent = unknown, or no input at all.
        through: node -> the nodes that were not compared on the way, whose arithmetic lies between.
        before: the same for input rows that do not hold what their producers gave; of a gradient the gate in place.
        wrote: row of a parameter -> that of the call which wrote it in a step before, one of an optimizer.
    """

    producers: Mapping[int, tuple[int, ...]]
    reaching: Mapping[NodeKey, tuple[int, ...]]
    through: Mapping[NodeKey, tuple[NodeKey, ...]]
    before: Mapping[int, tuple[NodeKey, ...]] = field(default_factory=dict)
    wrote: Mapping[int, int] = field(default_factory=dict)

    def with_sums(self, sums: Mapping[int, tuple[int, ...]], count: int) -> Links:
        """Return it with rows that are the sum of others, by number; ``count`` is that of all rows."""
        from probe_flow.analysis.flow.equal_values import Producers

        return replace(self, producers=Producers(count, self.producers, sums))


def calls_of(rows: Sequence[Row], pairs: Pairs) -> Calls:
    """Return the calls of all rows, which are in execution order."""
    if not isinstance(rows, ManyRows):
        return Calls(rows, pairs)
    from probe_flow.analysis.flow.many_calls import ManyCalls

    return ManyCalls(rows, pairs)


def is_flow_unknown(pairs: Pairs) -> bool:
    """Say whether nothing tells what an operator without compared inputs got its values from.

    Of a compiled model only its graph knows that; one call after another of a program is a path by itself.
    """
    return pairs.target.flow is Flow.GRAPH and not pairs.target.edges


def link(rows: Sequence[Row], pairs: Pairs, calls: Calls) -> Links:
    """Return the ancestry of every measured row; ``rows`` in execution order, ``calls`` of them."""
    if pairs.target.edges:
        found = _ByEdges(rows, pairs).links()
        return Links(_with_readers(found.producers, rows, pairs), found.reaching, found.through, found.before)
    from probe_flow.analysis.flow.equal_values import by_value

    producers, gates, wrote = by_value(rows, pairs)
    if is_flow_unknown(pairs):  # outputs of equal values are no copies because one stands before the other
        for number in [number for number in producers if rows[number].is_produced]:
            producers.forget(number)
    unseen: dict[NodeKey, str] = {}
    for row in rows:
        tensor = row.pair.target
        if row.measurement is not None or tensor is None or tensor.slot.role in PRODUCED:
            continue
        if tensor.kind is TensorKind.TENSOR or tensor.kind is TensorKind.STATISTICS:
            unseen[tensor.node] = row.pair.group
    through = _within_groups(unseen, calls, pairs) if unseen else {}
    reaching = {
        key: tuple(n for each in (key, *through[key]) for n in _read(each, calls)) if key in through else None
        for key in unseen
    }
    return Links(producers, _Reaching(calls, reaching), through, gates, wrote)


def _read(node: NodeKey, calls: Calls) -> tuple[int, ...]:
    call = calls.by_key.get(node)
    return () if call is None else call.read


def _within_groups(unseen: Mapping[NodeKey, str], calls: Calls, pairs: Pairs) -> dict[NodeKey, tuple[NodeKey, ...]]:
    """Return the earlier nodes of each node's group: together they are one node of the golden.

    An input that was not compared lies between them (the product that a bias is added to).
    """
    groups = {group.id: group.target_nodes for group in pairs.groups if group.relation is Relation.MANY_TO_ONE}
    found = {}
    for key, group in unseen.items():
        nodes = groups.get(group, ())
        before = nodes[: nodes.index(key)] if key in nodes else ()
        if any(_read(node, calls) for node in before):
            found[key] = before
    return found


def _with_readers(
    producers: Mapping[int, tuple[int, ...]], rows: Sequence[Row], pairs: Pairs
) -> Mapping[int, tuple[int, ...]]:
    """Return where rows came from; what several operators read of one without a file, came to each as to the first."""
    found = dict(producers)
    shown: dict[int, int] = {}
    for number, row in enumerate(rows):
        golden = row.pair.golden
        if row.measurement is None or golden is None or row.pair.target is None:
            continue
        (mark,) = marks((golden,), pairs.golden.tensors)
        first = shown.setdefault(mark, number)
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
