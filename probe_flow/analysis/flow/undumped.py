"""What calls made that a comparison does not hold: of a dump's part (a list of names, a scope), or of selected nodes.

What these made may be random, decisions, or any number of roundings, so an error of it says nothing of its reader.
Besides a selection three signs tell such a part. Calls of one name are numbered from 0 as the program makes them, so
numbers that no step shows are of calls that were left out. In a whole dump few inputs are unlike all that was recorded
before them. And what has another size than the golden's has that of an earlier result, or a row for each number of
one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from operator import ge, le

from probe_flow.analysis.flow.calls import Call, Calls
from probe_flow.analysis.flow.links import Sources
from probe_flow.analysis.limits import UNFED
from probe_flow.dumps.selection import selected_nodes
from probe_flow.records import Execution, Node, NodeKey, NodeKind, Pairs, Phase, SlotRole, TensorKind
from probe_flow.records.row import Row
from probe_flow.relations.call_tree import left_out

COUNTED = 8
"""Calls from which it is no chance that the numbers of all names together leave none out."""

FLOATS = ("float", "bfloat")
_FORWARD, _INPUT = Phase.FORWARD, SlotRole.INPUT
"""Asked for each row: a member of an enumeration takes longer to find than most else."""


def _is_unseen(row: Row) -> bool:
    """Return whether a row is of a float result that the target alone shows."""
    tensor = row.pair.target
    return (
        tensor is not None and row.pair.golden is None and row.is_produced and tensor.kind is TensorKind.TENSOR
        and tensor.dtype.startswith(FLOATS)
    )  # fmt: skip


class Undumped:
    """What was made by calls that the target's dump does not hold.

    Args:
        rows: all rows.
        pairs: what they come from.
        calls: of the rows.
        sources: gives the rows that a row was made of; None where nobody knows.
    """

    def __init__(self, rows: Sequence[Row], pairs: Pairs, calls: Calls, sources: Sources) -> None:
        self._rows = rows
        self._pairs = pairs
        self._calls = calls
        self._sources = sources

    def unseen(self, nodes: Iterable[NodeKey]) -> list[int]:
        """Return the rows of what these nodes gave and the golden does not show, as a product within an `addmm`."""
        return [number for node in nodes for number in self._unseen.get(node, ())]

    @cached_property
    def _unseen(self) -> Mapping[NodeKey, list[int]]:
        found: dict[NodeKey, list[int]] = defaultdict(list)
        for number, row in enumerate(self._rows):
            if _is_unseen(row):
                found[row.node].append(number)
        return found

    @cached_property
    def is_any(self) -> bool:
        """Whether the dump holds a part of the calls of its program only."""
        if self._is_selected:
            return True
        nodes = self._pairs.target.nodes.values()
        if self._pairs.target.edges or not any(node.kind is NodeKind.API for node in nodes):
            return False
        return self._is_numbered_with_gaps() or self._is_mostly_unfed()

    @cached_property
    def _is_selected(self) -> bool:
        """Whether nodes were selected, on either side: a graph then leads to what was left out."""
        return any(selected_nodes(side) is not None for side in (self._pairs.target, self._pairs.golden))

    def made(self, number: int, maker: Call) -> bool:
        """Whether such calls made a row, or what its own call made it of.

        That is an input that nothing recorded wrote, and a gradient whose forward call is missing.

        Args:
            number: the row.
            maker: the call whose arithmetic it shows.
        """
        if self._rows[number].is_produced or maker != self._calls.of[number]:
            return maker.key.phase is Phase.BACKWARD and not maker.forward and self.is_any
        sources = self._sources(number)
        return self.is_any and (sources is None or (self._is_selected and not sources))

    def _is_numbered_with_gaps(self) -> bool:
        """Whether a number below the largest of a name is that of no call, in no step.

        Where one count goes over all names, as other collectors than msprobe's may number, none is missing.
        """
        catalog = self._pairs.target
        programs = {each.execution: id(each.program) for each in catalog.ran}
        nodes, ranks = catalog.nodes_by_run(), defaultdict[object, list[Execution]](list)
        for run in nodes:
            ranks[run.rank].append(run)
        alike = {tuple([programs.get(run, run) for run in runs]): runs for runs in ranks.values()}
        return any(_has_gaps(nodes[run] for run in runs) for runs in alike.values())

    @cached_property
    def _decides(self) -> bool:
        """Whether a call of the program gives indices or masks, by which rows may be picked."""
        return any(row.is_produced and row.pair.shown.is_index for row in self._rows)

    def _is_mostly_unfed(self) -> bool:
        """Whether so much of what calls of the forward pass work on came from nowhere, or has a size of nothing."""
        counted = unfed = 0
        begun: dict[object, NodeKey] = {}
        widths: dict[NodeKey, int | None] = {}  # of the calls of one execution
        sizes: defaultdict[object, set[int | None]] = defaultdict(set)
        run, own = None, sizes[None]
        for number, row in enumerate(self._rows):
            call, target, golden = self._calls.of[number], row.pair.target, row.pair.golden
            if call is None or target is None or golden is None or ((size := target.numel) or 0) < 2:
                continue
            key = call.key
            if key.execution is not run:  # rows of one follow each other
                run = key.execution
                own = sizes[run]
                widths = {}
            if row.is_produced:
                own.add(size)
                continue
            picked = (target.shape or ())[:1]  # by an index: collectors record no subscript
            is_other = size != golden.numel and run in begun and own.isdisjoint((size, *picked))
            if is_other and not _is_part(target.shape, golden.shape, may_pick=self._decides):
                return True
            is_first = begun.setdefault(run, key) == key
            if key.phase is not _FORWARD or not _is_of_floats(row) or (is_first and not golden.requires_grad):
                continue
            place = target.slot.path[:1]
            width = widths.setdefault(key, size if place == (0,) else None)
            if (place == (0,) or size == width) and _varies(row):  # no weight, nor a constant, which is known nowhere
                counted += 1
                unfed += self._sources(number) is None
        return unfed > UNFED * counted


def _is_part(shape: Sequence[int] | None, other: Sequence[int] | None, *, may_pick: bool) -> bool:
    """Whether one of two shapes is a part of the other, as of a subscript, which no collector records.

    What was picked by a decision has another number of rows: where ``may_pick``, these are no sign.
    """
    if shape is None or other is None or len(shape) != len(other) or (may_pick and shape[:1] != other[:1]):
        return False
    return all(map(le, shape, other)) or all(map(ge, shape, other))


def _has_gaps(executions: Iterable[Sequence[Node]]) -> bool:
    """Whether the numbers of a name in some executions have gaps, and are no part of one count over all names."""
    numbers: defaultdict[str, set[int]] = defaultdict(set)
    for nodes in executions:
        for node in nodes:
            if node.key.phase is Phase.FORWARD:
                numbers[node.key.name].add(node.key.call)
    return any(map(left_out, numbers.values())) and not _is_one_count(numbers.values())


def _is_one_count(numbers: Collection[set[int]]) -> bool:
    """Whether the numbers of several names together are those from 0 on, each once."""
    every = set().union(*numbers)
    return len(every) >= COUNTED and sum(map(len, numbers)) == len(every) == max(every) + 1


def _varies(row: Row) -> bool:
    """Whether the golden's elements are not all one number: such a tensor is told from others by nothing."""
    known = row.measurement.golden_statistics if row.measurement is not None else None
    return known is not None and known.min != known.max


def _is_of_floats(row: Row) -> bool:
    target = row.pair.target
    if target is None or target.traits.slot.role is not _INPUT or row.measurement is None:
        return False
    return target.dtype.startswith(FLOATS)
