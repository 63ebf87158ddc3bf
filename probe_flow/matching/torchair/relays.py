"""Follow the value of a graph tensor through operators that only hand it on: views, casts within a class, moves."""

from __future__ import annotations

from collections.abc import Iterator

from probe_flow.dumps.graph.links import RELAY_TYPES, GraphLinks, Source
from probe_flow.matching.torchair.fx_golden import dtype_class
from probe_flow.records import GraphOp

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
    if op.op_type not in RELAY_TYPES or not op.inputs or op.inputs[0] is None:
        return None
    source = op.inputs[0]
    before, after = (links.output(tensor) for tensor in (source, result))
    if before is None or after is None or before.dtype is None or after.dtype is None:
        return source
    return source if dtype_class(before.dtype) == dtype_class(after.dtype) else None
