"""Ask a GE graph about FX values: which FX tensor a graph tensor is, and which FX node an unnamed operator serves.

Values are followed through operators that only hand them on: views, casts within a class, moves.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

from probe_flow.dumps.file_names import FxOutput, parse_output_name
from probe_flow.dumps.graph.links import GraphLinks, Source
from probe_flow.matching.torchair.fx_golden import dtype_class
from probe_flow.records import Graph, GraphOp

MAX_RELAYS = 64
"""Tensors of one value that are looked at; real chains have fewer than ten."""


def upstream(links: GraphLinks, source: Source) -> Iterator[tuple[Source, str]]:
    """Yield a tensor and those whose value it is, nearest first, with the relays that lie between."""
    through: list[str] = []
    seen: set[str] = set()
    while source[0] not in seen:
        seen.add(source[0])
        yield source, ", ".join(through)
        op = links.ops.get(source[0])
        above = _handed_on(links, op, source) if op is not None else None
        if above is None:
            return
        through.append(f"`{source[0]}`")
        source = above


def downstream(links: GraphLinks, source: Source) -> Iterator[tuple[Source, str]]:
    """Yield the tensors that have the value of a tensor because relays hand it on, nearest first."""
    pending = [(source, "")]
    seen = {source}
    while pending and len(seen) <= MAX_RELAYS:
        current, path = pending.pop(0)
        for reader in links.consumers.get(current[0], ()):
            handed = (reader.name, 0)
            if handed not in seen and _handed_on(links, reader, handed) == current:
                seen.add(handed)
                through = f"{path}, `{reader.name}`" if path else f"`{reader.name}`"
                yield handed, through
                pending.append((handed, through))


def same_values(links: GraphLinks, source: Source) -> Iterator[tuple[Source, str]]:
    """Yield every tensor of one value, itself first, then those before it, then those behind it."""
    yield from upstream(links, source)
    yield from downstream(links, source)


def _handed_on(links: GraphLinks, op: GraphOp, result: Source) -> Source | None:
    """Return the tensor whose value an operator only hands on."""
    source = links.relayed(op)
    if source is None:
        return None
    before, after = (links.output(tensor) for tensor in (source, result))
    if before is None or after is None or before.dtype is None or after.dtype is None:
        return source
    return source if dtype_class(before.dtype) == dtype_class(after.dtype) else None


MAX_EXPANSION = 64
"""Operators that are visited to find the end of a converter's expansion; real ones have fewer than twenty."""


class FxGraph:
    """A GE graph together with the FX names that its tensors carry.

    Attributes:
        carriers: FX tensor -> the graph tensor that is it.
        carrying_ops: FX key -> operators with an output of that key.
    """

    def __init__(self, graph: Graph) -> None:
        self.links = GraphLinks(graph)
        self.carriers: dict[FxOutput, Source] = {}
        self.carrying_ops: dict[str, tuple[GraphOp, ...]] = {}
        self._owners: dict[str, str | None] = {}
        for op in graph.ops:
            for index, output in enumerate(op.outputs):
                name = parse_output_name(output.fx_name or "")
                if name is not None:
                    source = op.name, index
                    self.carriers.setdefault(name, source)
                    before = self.carrying_ops.get(name[0], ())
                    if op not in before[-1:]:
                        self.carrying_ops[name[0]] = (*before, op)

    def in_run(self, links: GraphLinks) -> FxGraph:
        """Return the same graph with the sizes of one execution (`GraphLinks.in_run`)."""
        if links is self.links:
            return self
        found = copy.copy(self)
        found.links = links
        return found

    def name(self, source: Source) -> FxOutput | None:
        """Return the FX tensor that a graph tensor is by its own name."""
        return parse_output_name(self.links.fx_name(source) or "")

    def values(self, source: Source) -> Sequence[tuple[FxOutput, str]]:
        """Return FX tensors with the value of a graph tensor, nearest first, with the relays that lie between.

        Relays (views, casts within one class of types) hand the value of their first input on.
        """
        named = ((self.name(tensor), through) for tensor, through in upstream(self.links, source))
        return [(name, through) for name, through in named if name is not None]

    def is_constant(self, source: Source) -> bool:
        """Tell whether a graph tensor is a constant: of a constant type other than a graph input, or not described."""
        return self.links.computing(source[0]) is None and not self.is_graph_input(source)

    def is_graph_input(self, source: Source) -> bool:
        """Tell whether a graph tensor enters the graph from outside (an activation or a weight)."""
        op = self.links.ops.get(source[0])
        return op is not None and self.links.is_fed(op)

    def is_internal(self, source: Source) -> bool:
        """Tell whether a graph tensor is computed without being an FX tensor: inside a converter's expansion."""
        if self.values(source):
            return False
        root = self.root(source)
        return not self.is_constant(root) and not self.is_graph_input(root)

    def root(self, source: Source) -> Source:
        """Follow unnamed relays upwards to the tensor whose value they hand on."""
        seen: set[str] = set()
        while self.name(source) is None and source[0] not in seen:
            seen.add(source[0])
            op = self.links.ops.get(source[0])
            above = self.links.relayed(op) if op is not None else None
            if above is None:
                break
            source = above
        return source

    def owner(self, op_name: str) -> str | None:
        """Return the FX key that an operator works for: its own, or that of the expansion it belongs to."""
        if op_name not in self._owners:
            self._owners[op_name] = self._find_owner(op_name)
        return self._owners[op_name]

    def expansion(self, key: str) -> Sequence[GraphOp]:
        """Return the operators that a converter made of an FX node, in file order: those named, and unnamed before."""
        inside: dict[str, GraphOp] = {}
        pending = list(self.carrying_ops.get(key, ()))
        while pending and len(inside) < MAX_EXPANSION:
            op = pending.pop()
            if op.name in inside:
                continue
            inside[op.name] = op
            for source in op.inputs:
                above = self.links.computing(source[0]) if source is not None else None
                if above is not None and not self._is_named(above):
                    pending.append(above)
        return sorted(inside.values(), key=lambda op: op.position)

    def _is_named(self, op: GraphOp) -> bool:
        return self._own_key(op) is not None

    def _own_key(self, op: GraphOp) -> str | None:
        names = (parse_output_name(output.fx_name) for output in op.outputs if output.fx_name)
        return next((name[0] for name in names if name is not None), None)

    def _find_owner(self, op_name: str) -> str | None:
        start = self.links.ops.get(op_name)
        pending = [start] if start is not None else []
        seen: set[str] = set()
        keys: dict[str, None] = {}
        while pending and len(seen) < MAX_EXPANSION:
            op = pending.pop()
            if op.name in seen:
                continue
            seen.add(op.name)
            key = self._own_key(op)
            if key is not None:
                keys[key] = None
            else:
                pending.extend(self.links.consumers.get(op.name, ()))
        return next(iter(keys)) if len(keys) == 1 else None
