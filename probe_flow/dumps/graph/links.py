"""Answer questions about one GE graph: which operators a dump name means, and which tensors enter and leave them."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache

from msgspec import Struct

from probe_flow.dumps.file_names import safe_name
from probe_flow.dumps.graph.alignment import align
from probe_flow.dumps.graph.op_types import (
    CONSTANT_TYPES,
    FED_TYPES,
    MAYBE_VIEW_TYPES,
    RELAY_TYPES,
    TRANSPOSING_TYPES,
    VIEW_TYPES,
)
from probe_flow.records import Execution, Graph, GraphOp, GraphTensor, Node

MAX_NAME_LENGTH = 4096
MAX_STATES = 200_000
"""Bound on the search over one name; real names need some hundred states."""


class FusedSplit(Struct, frozen=True):
    """The parts in order of execution, and another split of equal rank if there is one."""

    parts: tuple[str, ...]
    alternative: tuple[str, ...] | None = None


class _State(Struct):
    """Best way to reach one position with one last part."""

    cost: tuple[int, int]
    before: tuple[int, str] | None
    other: tuple[int, str] | None = None


def split_fused_name(
    name: str,
    names: Mapping[str, Sequence[str]],
    is_connected: Callable[[str, str], bool],
    *,
    lengths: Sequence[int] | None = None,
) -> FusedSplit | None:
    """Return the parts of `name`, or None when it is no concatenation of operator names.

    Args:
        name: the fused name as the dump has it.
        names: spelling in names -> the operators that have it (exact names and file-safe forms).
        is_connected: whether data flows directly between two operators, in either direction.
        lengths: the distinct lengths of `names`, ascending; worth keeping when many names are split.
    """
    if len(name) > MAX_NAME_LENGTH:
        return None
    lengths = name_lengths(names) if lengths is None else lengths
    states: list[dict[str, _State]] = [{} for _ in range(len(name) + 1)]
    states[0][""] = _State((0, 0), None)
    count = 0
    for at in range(len(name)):
        if not states[at]:
            continue
        for length in lengths:
            if at + length > len(name):
                break
            for part in names.get(name[at : at + length], ()):
                count += len(states[at])
                if count > MAX_STATES:
                    return None
                _extend(states, at, at + length, part, is_connected)
    return _best(states)


def name_lengths(names: Iterable[str]) -> list[int]:
    """Return the distinct lengths of some names, ascending, the empty name left out."""
    return sorted({len(text) for text in names if text})


def _extend(
    states: list[dict[str, _State]], at: int, end: int, part: str, is_connected: Callable[[str, str], bool]
) -> None:
    for last, state in states[at].items():
        gaps = state.cost[0] + (1 if last and not is_connected(last, part) else 0)
        cost = (gaps, state.cost[1] + 1)
        known = states[end].get(part)
        if known is None or cost < known.cost:
            states[end][part] = _State(cost, (at, last))
        elif cost == known.cost and known.other is None:
            known.other = (at, last)


def _best(states: list[dict[str, _State]]) -> FusedSplit | None:
    ends = states[-1]
    if not ends:
        return None
    lowest = min(state.cost for state in ends.values())
    winners = [(len(states) - 1, part) for part, state in ends.items() if state.cost == lowest]
    parts, detour = _trace(states, winners[0])
    if len(winners) > 1:
        return FusedSplit(parts, _trace(states, winners[1])[0])
    return FusedSplit(parts, detour)


def _trace(states: list[dict[str, _State]], end: tuple[int, str]) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Walk back from the end; the second result leaves the best way where an equal one joins it."""
    parts: list[str] = []
    detour: tuple[str, ...] | None = None
    step: tuple[int, str] | None = end
    while step is not None and step[0]:
        state = states[step[0]][step[1]]
        parts.append(step[1])
        if state.other is not None and detour is None:
            detour = _trace(states, state.other)[0] + tuple(reversed(parts))
        step = state.before
    return tuple(reversed(parts)), detour


Source = tuple[str, int]
"""A tensor of the graph: (producer, output index)."""


class InputSources(Struct, frozen=True):
    """Where each dumped input comes from and which part reads it (None: unknown); whether shapes had to decide."""

    sources: tuple[Source | None, ...]
    readers: tuple[str | None, ...]
    is_aligned: bool = False


def graph_of(graphs: Sequence[Graph], execution: Execution) -> Graph | None:
    """Return the graph text of an execution: same graph id, same rank where both are known."""
    for graph in graphs:
        if graph.id == execution.graph and (None in (graph.rank, execution.rank) or graph.rank == execution.rank):
            return graph
    return None


class Twins:
    """Operators of one graph that compute the same, of which a compiler runs one for all.

    They are of one type, have the same attributes and read the same tensors.

    Args:
        ops: the operators of a graph, producers before readers.
        held: types that hold a value which the graph gives, and are fed none.
    """

    def __init__(self, ops: Iterable[GraphOp], held: Collection[str]) -> None:
        self._held = held
        self._first: dict[str, str] = {}
        self._members: dict[str, list[str]] = defaultdict(list)
        known: dict[Hashable, str] = {}
        for op in ops:
            first = known.setdefault(self._kind(op), op.name)
            self._first[op.name] = first
            self._members[first].append(op.name)

    def _kind(self, op: GraphOp) -> Hashable:
        outputs = tuple((output.dtype, output.shape) for output in op.outputs)
        if not op.inputs:
            return (op.op_type, op.settings, outputs) if op.op_type in self._held else op.name
        read = tuple(None if each is None else (self._first.get(each[0], each[0]), each[1]) for each in op.inputs)
        return op.op_type, op.settings, read, outputs

    def run_for(self, name: str, is_dumped: Callable[[str], bool]) -> str | None:
        """Return the operator that ran in place of one without a file, None where none did or several may have."""
        members: Sequence[str] = self._members.get(self._first.get(name, name), ())
        found = [each for each in members if is_dumped(each)]
        return found[0] if len(found) == 1 else None


class GraphLinks:
    """Index over the operators of one graph.

    Args:
        graph: the graph; of operators that share a name the first counts.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ops: dict[str, GraphOp] = {}
        for op in graph.ops:
            self.ops.setdefault(op.name, op)
        self._spellings: dict[str, tuple[str, ...]] = {name: (name,) for name in self.ops}
        for name in self.ops:
            safe = safe_name(name)
            if safe != name:
                self._spellings[safe] = (*self._spellings.get(safe, ()), name)
        self._lengths = name_lengths(self._spellings)
        self._fused: dict[str, FusedSplit | None] = {}
        self._shapes: Mapping[Source, tuple[int, ...]] = {}

    def in_run(self, shapes: Mapping[Source, tuple[int, ...]]) -> GraphLinks:
        """Return the same graph as it was executed once.

        Args:
            shapes: of tensors whose sizes the text leaves open (dynamic) or gives as those of another execution.
        """
        if not shapes:
            return self
        found = copy.copy(self)
        found._shapes = shapes
        return found

    @cached_property
    def _neighbours(self) -> frozenset[tuple[str, str]]:
        return frozenset((source[0], op.name) for op in self.graph.ops for source in op.inputs if source is not None)

    @cached_property
    def consumers(self) -> dict[str, list[GraphOp]]:
        """Producer -> the operators that read any of its outputs, in file order."""
        found: dict[str, list[GraphOp]] = defaultdict(list)
        for op in self.graph.ops:
            for producer in dict.fromkeys(source[0] for source in op.inputs if source is not None):
                found[producer].append(op)
        return found

    def split(self, name: str) -> FusedSplit | None:
        """Return the graph operators that a dump name means (one, or the parts of a fused operator), or None."""
        if found := self._spelled(name):
            return FusedSplit(found[:1], found[1:2] or None)
        if name not in self._fused:  # every step of a graph asks the same
            self._fused[name] = split_fused_name(name, self._spellings, self._is_connected, lengths=self._lengths)
        return self._fused[name]

    def parts_of(self, node: Node) -> tuple[str, ...]:
        """Return the operators that a dumped node stands for: what its reader found, or its name means."""
        if node.originals and all(part in self.ops for part in node.originals):
            return node.originals
        split = self.split(node.key.name)
        return split.parts if split is not None else ()

    def _spelled(self, name: str) -> tuple[str, ...]:
        return self._spellings.get(name) or self._spellings.get(safe_name(name)) or ()

    def operator(self, name: str) -> GraphOp | None:
        """Return the one operator that a name means, as it is or as file names spell it."""
        found = self._spelled(name)
        return self.ops[found[0]] if found else None

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Operator -> its place in the file."""
        return {name: place for place, name in enumerate(self.ops)}

    def computing(self, name: str) -> GraphOp | None:
        """Return the operator of a name, None for what only holds a value: graph inputs, weights, constants."""
        op = self.ops.get(name)
        return None if op is None or op.op_type in CONSTANT_TYPES else op

    @cached_property
    def constants(self) -> set[str]:
        """The operators that a compiler can compute beforehand: nothing that is fed to the graph reaches them."""
        found: set[str] = set()
        for op in self.ops.values():
            above = [source[0] for source in op.inputs if source is not None]
            if not self.is_fed(op) and all(name in found or name not in self.ops for name in above):
                found.add(op.name)
        return found

    def is_fed(self, op: GraphOp) -> bool:
        """Return True for an input of the graph: an activation or a weight."""
        return op.op_type in FED_TYPES

    def is_view(self, op: GraphOp) -> bool:
        """Return True if an operator moves no data, so that the device drops it."""
        return op.op_type in VIEW_TYPES

    def moves_no_data(self, op: GraphOp) -> bool:
        """Return True for a view and for what only holds a value."""
        return op.op_type in VIEW_TYPES or op.op_type in CONSTANT_TYPES

    def may_be_view(self, op: GraphOp) -> bool:
        """Return True if the device often replaces operators of this type by addressing."""
        return op.op_type in MAYBE_VIEW_TYPES

    def is_relay(self, op: GraphOp) -> bool:
        """Return True if an operator gives the value of its first input in another form."""
        return op.op_type in RELAY_TYPES

    def relayed(self, op: GraphOp) -> Source | None:
        """Return the tensor whose value an operator gives in another form, None where it computes."""
        return op.inputs[0] if op.inputs and self.is_relay(op) else None

    @cached_property
    def twins(self) -> Twins:
        """Operators that compute the same."""
        return Twins(self.ops.values(), CONSTANT_TYPES - FED_TYPES)

    def is_folded(self, op: GraphOp) -> bool:
        """Return True if an operator that has no file may be a flag of all products that read it: a transposition."""
        readers = self.consumers.get(op.name, ()) if op.op_type in TRANSPOSING_TYPES else ()
        return bool(readers) and all("MatMul" in each.op_type for each in readers)

    def spellings(self) -> Sequence[str]:
        """All names by which a dump can mean an operator, for hints."""
        return list(self._spellings)

    def _is_connected(self, first: str, second: str) -> bool:
        return (first, second) in self._neighbours or (second, first) in self._neighbours

    def fx_name(self, source: Source) -> str | None:
        """Return the FX tensor that a graph tensor is, e.g. ``add_1-aten.add.Tensor.OUTPUT.0``."""
        output = self.output(source)
        return output.fx_name or None if output is not None else None

    def output(self, source: Source) -> GraphTensor | None:
        """Return the descriptor of a graph tensor, None when the graph does not describe it."""
        op = self.ops.get(source[0])
        return op.outputs[source[1]] if op is not None and source[1] < len(op.outputs) else None

    def numel(self, source: Source | None) -> int | None:
        """Return the element count of a tensor; None when it is unknown."""
        shape = self.shape(source) if source is not None else None
        return None if shape is None else math.prod(shape)

    def shape(self, source: Source) -> tuple[int, ...] | None:
        """Return the shape that an execution showed (`in_run`), else that of the text; None when unknown or dynamic."""
        shown = self._shapes.get(source)
        if shown is not None:
            return shown
        output = self.output(source)
        return None if output is None or output.shape is None else _shape_of(output.shape)

    def external_inputs(self, parts: Sequence[str]) -> list[tuple[Source | None, str]]:
        """Return the tensors that enter the parts from outside with their readers, part by part in input order."""
        own = set(parts)
        return [
            (source, part)
            for part in parts
            for source in self.ops[part].inputs
            if source is None or len(parts) == 1 or source[0] not in own
        ]

    def external_outputs(self, parts: Sequence[str]) -> list[Source]:
        """Return what leaves a fused operator, part by part: inner tensors that others read, then the last part's."""
        last = parts[-1]
        own = set(parts)
        outputs: list[Source] = []
        for part in parts[:-1]:
            readers = [op for op in self.consumers.get(part, ()) if op.name not in own]
            read = {source for op in readers for source in op.inputs if source is not None and source[0] == part}
            outputs.extend(sorted(read, key=lambda source: source[1]))
        outputs.extend((last, index) for index in range(len(self.ops[last].outputs) or 1))
        return outputs

    def input_sources(self, parts: Sequence[str], numels: Sequence[int | None]) -> InputSources:
        """Say for each dumped input which graph tensor it is.

        Args:
            parts: the operators behind the dumped one.
            numels: element count per dumped input (None: unknown).

        The k-th dumped input is the k-th external one when the counts agree, with unconnected optional inputs or
        repeated tensors left out if only then they do; surplus dumped inputs are parameters that the graph does not
        show. Where an element count contradicts this, inputs are aligned in order by element count.
        """
        every = self.external_inputs(parts)
        connected = [(source, reader) for source, reader in every if source is not None]
        first_readers: dict[Source | None, str] = {}
        for source, reader in connected:
            first_readers.setdefault(source, reader)
        for candidate in (every, connected, list(first_readers.items())):
            if len(candidate) == len(numels) and self._fits(candidate, numels):
                return _sources(candidate)
        if len(every) < len(numels) and len(parts) == 1 and self._fits(every, numels):
            return _sources([*every, *([(None, parts[0])] * (len(numels) - len(every)))])
        wanted = [self.numel(source) for source, _ in connected]
        chosen: list[tuple[Source | None, str | None]] = [(None, None)] * len(numels)
        for at, index in align(numels, wanted):
            chosen[at] = connected[index]
        return _sources(chosen, is_aligned=True)

    def _fits(self, inputs: Sequence[tuple[Source | None, str]], numels: Sequence[int | None]) -> bool:
        for (source, _), numel in zip(inputs, numels, strict=False):
            expected = self.numel(source)
            if expected is not None and numel is not None and expected != numel:
                return False
        return True


@lru_cache(maxsize=4096)
def _shape_of(text: str) -> tuple[int, ...] | None:
    try:
        dims = tuple(int(dim) for dim in text.split(",") if dim)
    except ValueError:
        return None
    return dims if all(dim >= 0 for dim in dims) else None


def _sources(inputs: Sequence[tuple[Source | None, str | None]], *, is_aligned: bool = False) -> InputSources:
    return InputSources(tuple(source for source, _ in inputs), tuple(reader for _, reader in inputs), is_aligned)
