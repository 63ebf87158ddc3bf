"""Find the operators that a device operator stands for where its name does not tell: fusion keeps one, or makes one up.

The evidence: which operators the header says the outputs are of, which graph operators left no file of their own, and
that the inputs of all parts together are those that were dumped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence

from probe_flow.dumps.graph.links import GraphLinks
from probe_flow.records import GraphOp

MAX_PARTS = 12
"""Operators that a device operator is tried to be made of; the longest fusions of graphs known have about ten."""

MAX_TRIED = 2_000
"""Sets of operators that are tried for one device operator."""

MAX_BEHIND = 2
"""Operators behind the one that gave its name that may have been absorbed: a bias and what is applied to it."""


def absorbed_parts(
    links: GraphLinks,
    named: Sequence[str],
    results: Sequence[str],
    inputs: Sequence[int | None],
    outputs: Sequence[int | None],
    is_free: Callable[[str], bool],
) -> tuple[str, ...]:
    """Return the graph operators that a device operator stands for, in the order of the graph; none where it is unsure.

    Args:
        links: the graph.
        named: operators that its name means; may be none.
        results: operators that the header says its outputs are of; may be none.
        inputs, outputs: element counts of what was dumped (None: unknown).
        is_free: whether a graph operator has no file of its own.

    ``MatMulV2`` with three inputs, of which the graph has two and the ``Add`` behind it the third, is both.
    """
    if not results and _reads(links, named, inputs):
        return ()
    exits = [tuple(dict.fromkeys(results))] if results else _ends(links, named, outputs, is_free)
    for ends in exits:
        found = _grown(links, {*named, *ends}, ends, inputs, is_free)
        if found is not None:
            return tuple(sorted(found, key=links.places.__getitem__))
    return ()


def _ends(
    links: GraphLinks, named: Sequence[str], outputs: Sequence[int | None], is_free: Callable[[str], bool]
) -> Iterator[tuple[str, ...]]:
    """Yield operators whose result may be what was dumped: those behind the named one, nearest first, then itself.

    Fusion keeps the name of the first of its operators or of the last. Of inputs alone (``dump_mode``) any may be.
    """
    end = named[-1]
    for _ in range(MAX_BEHIND):
        readers = links.consumers.get(end, ())
        if len(readers) != 1 or not is_free(readers[0].name):
            break
        end = readers[0].name
        sizes = [links.numel((end, index)) for index in range(len(links.ops[end].outputs))]
        if not outputs or _fit(sizes, outputs):
            yield (end,)
    yield (named[-1],)


def _grown(
    links: GraphLinks,
    wanted: set[str],
    ends: Sequence[str],
    inputs: Sequence[int | None],
    is_free: Callable[[str], bool],
) -> frozenset[str] | None:
    """Return the smallest set of operators that has those wanted, and reads what was dumped.

    One that leaves nothing to be computed beforehand comes first.
    """
    first = frozenset(ends)
    tried, pending = {first}, deque([first])
    second: frozenset[str] | None = None
    while pending and len(tried) <= MAX_TRIED:
        parts = pending.popleft()
        if wanted <= parts and _reads(links, parts, inputs):
            unmade = _unmade(links, parts, is_free)
            if not unmade:
                return parts
            if second is None and all(op.name in links.constants for op in unmade):
                second = parts
        if len(parts) >= MAX_PARTS:
            continue
        for part in parts:
            for source in links.ops[part].inputs:
                op = links.computing(source[0]) if source is not None else None
                if op is None or op.name in parts:
                    continue
                larger = parts | {op.name}
                if larger not in tried and (op.name in wanted or is_free(op.name)):
                    tried.add(larger)
                    pending.append(larger)
    return second


def _fit(known: Sequence[int | None], dumped: Sequence[int | None]) -> bool:
    """Whether element counts of the graph are those of a dump, as far as both are known."""
    return len(known) == len(dumped) and all(
        None in pair or pair[0] == pair[1] for pair in zip(known, dumped, strict=True)
    )


def _reads(links: GraphLinks, parts: Collection[str], inputs: Sequence[int | None]) -> bool:
    """Whether what enters some operators is what was dumped; constants may have gone into the kernel."""
    ordered = sorted(parts, key=links.places.__getitem__)
    entering = [source for source, _ in links.external_inputs(ordered) if source is not None]
    known = dict.fromkeys(entering)
    fed = [
        source
        for source in known
        if (op := links.ops.get(source[0])) is None or links.computing(op.name) or links.is_fed(op)
    ]
    return any(_fit([links.numel(source) for source in each], inputs) for each in (entering, [*known], fed))


def _unmade(links: GraphLinks, parts: frozenset[str], is_free: Callable[[str], bool]) -> list[GraphOp]:
    """Return the operators that make what some read, and have no file; views and the like are passed over.

    What an equal operator with a file has made is no such.
    """
    pending = [source[0] for source, _ in links.external_inputs([*parts]) if source is not None]
    seen: set[str] = set(parts)
    found: list[GraphOp] = []
    while pending:
        op = links.computing(pending.pop())
        if op is None or op.name in seen or not is_free(op.name):
            continue
        seen.add(op.name)
        if links.twins.run_for(op.name, lambda name: not is_free(name)) is not None:
            continue
        if links.is_view(op) or links.may_be_view(op):
            pending += [source[0] for source in op.inputs if source is not None]
        else:
            found.append(op)
    return found
