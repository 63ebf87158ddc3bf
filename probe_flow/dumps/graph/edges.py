"""Derive the data flow between dumped operators from a GE graph, passing over operators that were not dumped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from probe_flow.dumps.graph.links import GraphLinks, Source
from probe_flow.dumps.graph.op_types import may_write_in_place


class DumpedOp(Struct, frozen=True):
    """A dumped operator as the graph knows it: its parts, element counts of its inputs, shapes of its outputs."""

    parts: tuple[str, ...]
    input_numels: tuple[int | None, ...]
    outputs: tuple[tuple[int, ...] | None, ...]


Link = tuple[str, int, str, int, bool]
"""(producer, output, consumer, input, whether it was in the step before), producer and consumer by dumped name."""


def _state_writers(links: GraphLinks) -> dict[str, str]:
    """Return the inputs of a graph that its operators overwrite (caches), each with the last that does.

    The next step reads what that one left.
    """
    found: dict[str, str] = {}
    held: dict[str, str] = {}
    for op in links.ops.values():
        first = op.inputs[0] if op.inputs else None
        above = links.ops.get(first[0]) if first is not None else None
        if first is None or above is None:
            continue
        name = above.name if links.is_fed(above) else held.get(above.name)
        if name is None:
            continue
        if may_write_in_place(op.op_type) and links.numel((op.name, 0)) == links.numel(first):
            found[name], held[op.name] = op.name, name
        elif links.is_view(op):
            held[op.name] = name
    return found


def dumped_links(links: GraphLinks, dumped: Mapping[str, DumpedOp]) -> list[Link]:
    """Return every direct flow from a dumped output to a dumped input, that of what the step before left included.

    An operator in between that was not dumped lets all of its inputs through: what it reads may explain what it gives.
    One that left its outputs only (``dump_mode`` output) reads what the graph says, in the graph's order.
    """
    links = links.in_run(
        shown_shapes(
            links,
            (
                given
                for op in dumped.values()
                for given in zip(exits_of(links, op.parts, len(op.outputs)), op.outputs, strict=False)
            ),
        )
    )
    owners = {part: name for name, op in dumped.items() for part in op.parts}
    states = _state_writers(links)
    origins = _Origins(links, owners, dumped, states)
    left = {state: origins.of((writer, 0)) for state, writer in states.items() if writer in owners}
    found: list[Link] = []
    for name, op in dumped.items():
        sources = (
            links.input_sources(op.parts, op.input_numels).sources
            if op.input_numels
            else [source for source, _ in links.external_inputs(op.parts)]
        )
        for index, source in enumerate(sources):
            if source is not None:
                for above, output in origins.of(source):
                    given = left.get(above, ()) if above in states else [(above, output)]
                    found.extend((*each, name, index, above in states) for each in given)
    return found


class _Origins:
    """Resolves graph tensors to the dumped outputs that they come from, each operator once."""

    def __init__(
        self, links: GraphLinks, owners: Mapping[str, str], dumped: Mapping[str, DumpedOp], states: Iterable[str]
    ) -> None:
        self._links = links
        self._owners = owners
        self._dumped = dumped
        self._passed: dict[str, tuple[Source, ...]] = {name: ((name, 0),) for name in states}
        self._output_index: dict[str, dict[Source, int]] = {}

    def of(self, source: Source) -> tuple[Source, ...]:
        owner = self._owners.get(source[0])
        if owner is not None:
            return ((owner, self._output(owner, source)),)
        if source[0] not in self._passed:
            self._pass_over(source[0])
        return self._passed.get(source[0], ())

    def _pass_over(self, start: str) -> None:
        """Fill `_passed` for an undumped operator and all undumped ones above it, without recursion."""
        pending = [start]
        open_ops: set[str] = set()
        while pending:
            name = pending[-1]
            op = self._links.ops.get(name)
            inputs: Sequence[Source] = [] if op is None else [source for source in op.inputs if source is not None]
            if name not in open_ops:
                open_ops.add(name)
                above = {source[0] for source in inputs if source[0] not in self._owners}
                pending.extend(sorted(name for name in above if name not in open_ops and name not in self._passed))
                continue
            pending.pop()
            if name in self._passed:
                continue
            # A cycle (no writer makes one) finds its own start unfinished; what is known by then is the answer.
            reached: dict[Source, None] = {}
            for source in inputs:
                if (owner := self._owners.get(source[0])) is not None:
                    reached[(owner, self._output(owner, source))] = None
                else:
                    reached.update(dict.fromkeys(self._passed.get(source[0], ())))
            self._passed[name] = tuple(reached)

    def _output(self, owner: str, source: Source) -> int:
        """Return which dumped output of `owner` a graph tensor is."""
        parts = self._dumped[owner].parts
        if len(parts) == 1:
            return source[1]
        if owner not in self._output_index:
            exits = fused_outputs(self._links, parts, len(self._dumped[owner].outputs))
            self._output_index[owner] = {exit_: index for index, exit_ in enumerate(exits)}
        return self._output_index[owner].get(source, 0)


def exits_of(links: GraphLinks, parts: Sequence[str], dumped: int) -> Sequence[Source]:
    """Return which graph tensors the `dumped` outputs of an operator are, as far as the graph knows them."""
    return [(parts[0], index) for index in range(dumped)] if len(parts) == 1 else fused_outputs(links, parts, dumped)


def shown_shapes(
    links: GraphLinks, given: Iterable[tuple[Source, tuple[int, ...] | None]]
) -> Mapping[Source, tuple[int, ...]]:
    """Return the shapes that outputs have in an execution where the graph text leaves sizes open, or gives others.

    The text of a graph of dynamic shapes is written once, whatever sizes its executions have. What a device left empty
    shows nothing.

    Args:
        links: the graph.
        given: outputs, and the shapes that they were dumped with.
    """
    return {
        source: shape
        for source, shape in given
        if shape is not None and (count := math.prod(shape)) and count != links.numel(source)
    }


def fused_outputs(links: GraphLinks, parts: Sequence[str], dumped: int) -> list[Source]:
    """Return which graph tensors the `dumped` outputs of a fused operator are.

    As many as its last part has: these. As many as leave it in all: these, part by part. Otherwise the first ones of
    the last part.
    """
    last = [(parts[-1], index) for index in range(len(links.ops[parts[-1]].outputs))]
    if dumped > len(last):
        leaving = links.external_outputs(parts)
        if len(leaving) == dumped:
            return leaving
    return last[:dumped]
