"""Operators that only one of two device dumps ran: what they may be. Candidates are named, never paired.

With fusion on, the compiler may replace operators by one of another name (graph fusion). The graph text is older than
that, so nothing proves which. What speaks for it: the operators are missing on the other side, their results have the
same types and sizes, and the new one ran after what they read and before what reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from probe_flow.dumps.graph.links import GraphLinks, Source
from probe_flow.matching.torchair.arguments import fact
from probe_flow.matching.torchair.ge_golden import GeGolden
from probe_flow.matching.torchair.nodes import DumpedNode
from probe_flow.records import GraphOp

_MAX_NAMED = 3
_MAX_WALKED = 256
"""Operators without a file that one search for neighbours passes."""


class _Region(Struct):
    """Connected operators of the golden dump that the target lacks."""

    ops: list[GraphOp] = field(default_factory=list)
    results: Counter[tuple[str, int]] = field(default_factory=Counter)
    earliest: int = -1
    latest: int | None = None
    names: set[str] = field(default_factory=set)

    @property
    def words(self) -> str:
        names = [f"`{op.name}`" for op in self.ops[:_MAX_NAMED]]
        more = len(self.ops) - len(names)
        return " + ".join(names) + (f" and {more} more" if more else "")


class Renames:
    """Names candidates for operators of one side.

    Args:
        nodes: dumped operators of the target, in order of time.
        by_op: graph operator -> the target node that ran it.
        links: the graph; None when there is none.
        golden: the other side.
    """

    def __init__(
        self, nodes: Sequence[DumpedNode], by_op: Mapping[str, DumpedNode], links: GraphLinks | None, golden: GeGolden
    ) -> None:
        self._nodes = nodes
        self._by_op = by_op
        self._links = links
        self._golden = golden
        self._places = {id(node): place for place, node in enumerate(nodes)}
        self._regions: list[_Region] | None = None
        self._region_of: dict[str, _Region] = {}
        self._tails: dict[int, str] = {}
        self._unknown = [
            (place, node, _results(node)) for place, node in enumerate(nodes) if not (node.parts or node.is_private)
        ]

    def of_target(self, node: DumpedNode) -> str:
        """Return what an operator that the graph lacks may stand for, and where it ran, as a tail for its reason."""
        if id(node) not in self._tails:
            self._tails[id(node)] = self._stands_for(node)
        return self._tails[id(node)]

    def _stands_for(self, node: DumpedNode) -> str:
        place, results = self._places[id(node)], _results(node)
        fitting = [region.words for region in self._all() if _fits(region, place, results)]
        around = self._ran_between(place)
        if not fitting:
            return f"; {around}; no missing operator of the golden dump gives results of its types and sizes there"
        words = ", or ".join(fitting[:_MAX_NAMED])
        return f"; {around}; it may be a graph fusion of {words}, which the target lacks: compare these by hand"

    def of_golden(self, name: str) -> str:
        """Return which operators of the target may stand for one that it lacks, as a tail for its reason."""
        self._all()
        region = self._region_of.get(name)
        if region is None:
            return self.surroundings(name)
        if id(region) not in self._tails:
            self._tails[id(region)] = self._candidates(region)
        return self.surroundings(name) + self._tails[id(region)]

    def _candidates(self, region: _Region) -> str:
        found = [f"`{node.name}`" for place, node, results in self._unknown if _fits(region, place, results)]
        return f"; it may be part of {', '.join(found[:_MAX_NAMED])}" if found else ""

    def surroundings(self, name: str) -> str:
        """Return who feeds an operator of the graph and who reads it, as a tail for a reason."""
        op = self._links.ops.get(name) if self._links is not None else None
        if op is None or self._links is None:
            return ""
        fed = [source[0] for source in op.inputs if source is not None]
        read = [reader.name for reader in self._links.consumers.get(name, ())]
        words = [f"fed by {_listed(fed)}"] if fed else []
        words += [f"read by {_listed(read)}"] if read else []
        return f" ({', '.join(words)})" if words else ""

    def _ran_between(self, place: int) -> str:
        before = next((node.name for node in reversed(self._nodes[:place]) if node.parts), None)
        after = next((node.name for node in self._nodes[place + 1 :] if node.parts), None)
        words = [f"after `{before}`"] if before else []
        words += [f"before `{after}`"] if after else []
        return f"it ran {' and '.join(words)}" if words else "nothing of the graph ran beside it"

    def _all(self) -> list[_Region]:
        if self._regions is None:
            self._regions = self._find_regions(self._links) if self._links is not None else []
        return self._regions

    def _find_regions(self, links: GraphLinks) -> list[_Region]:
        absent = {
            name: op
            for name, op in links.ops.items()
            if name in self._golden.by_op and name not in self._by_op and links.computing(name) is not None
        }
        regions: list[_Region] = []
        for name in absent:
            if name not in self._region_of:
                regions.append(self._region(links, name, absent))
                self._region_of.update(dict.fromkeys(regions[-1].names, regions[-1]))
        return regions

    def _region(self, links: GraphLinks, start: str, absent: Mapping[str, GraphOp]) -> _Region:
        region = _Region()
        pending, seen = [start], {start}
        lower, upper = [-1], [len(self._nodes)]
        while pending and len(seen) <= _MAX_WALKED:
            name = pending.pop()
            op = links.computing(name)
            if op is None:
                continue
            if name in absent:
                region.ops.append(op)
            readers = [reader.name for reader in links.consumers.get(name, ())]
            producers = [source[0] for source in op.inputs if source is not None]
            for near, bounds in ((producers, lower), (readers, upper)):
                for other in near:
                    if (node := self._by_op.get(other)) is not None:
                        bounds.append(self._places[id(node)])
                    elif other not in seen:
                        seen.add(other)
                        pending.append(other)
        region.ops.sort(key=lambda op: op.position)
        region.earliest, region.latest = max(lower), min(upper)
        region.names = {op.name for op in region.ops}
        for op in region.ops:
            region.results.update(self._leaving(links, op, region.names))
        return region

    def _leaving(self, links: GraphLinks, op: GraphOp, inside: set[str]) -> list[tuple[str, int]]:
        """Return the facts of an operator's outputs that something outside reads, or nothing at all."""
        readers = links.consumers.get(op.name, ())
        found = []
        for index in range(max(1, len(op.outputs))):
            source: Source = (op.name, index)
            reading = [reader.name for reader in readers if source in reader.inputs]
            ref = self._golden.outputs.get(source)
            if ref is not None and (not reading or not inside.issuperset(reading)):
                found.append(fact(ref))
        return [known for known in found if known is not None]


def _results(node: DumpedNode) -> Counter[tuple[str, int]]:
    return Counter(known for ref in node.outputs if (known := fact(ref)) is not None)


def _fits(region: _Region, place: int, results: Counter[tuple[str, int]]) -> bool:
    """Tell whether an operator at a place in time with these results may stand for a region."""
    is_between = region.earliest < place and (region.latest is None or place < region.latest)
    return is_between and bool(results) and results <= region.results


def _listed(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - _MAX_NAMED
    words = ", ".join(f"`{name}`" for name in distinct[:_MAX_NAMED])
    return words + (f" and {more} more" if more > 0 else "")
