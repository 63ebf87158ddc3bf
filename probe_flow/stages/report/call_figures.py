"""What the graphs of calls say beyond their rows, gathered one graph after the other for the page."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping

from probe_flow.graphs.links import Exchange, exchanges_of, links_between
from probe_flow.records import NodeKey
from probe_flow.records.model_graph import GraphPair, ModelGraph
from probe_flow.reports.html.nodes import CallFigures, CallLink, SideFigures
from probe_flow.reports.numbering import Numbering


class _Scores(Mapping[NodeKey, float]):
    """Scores of calls: 30 bytes each, in a dictionary 130."""

    def __init__(self) -> None:
        self._calls, self._values = Numbering[NodeKey](), array("d")

    def add(self, call: NodeKey, score: float) -> None:
        """Note the score of a call; of several the last counts."""
        number = self._calls.number(call)
        self._values[number : number + 1] = array("d", [score])

    def __getitem__(self, call: NodeKey) -> float:
        found = self.get(call)
        if found is None:
            raise KeyError(call)
        return found

    def get(self, call: NodeKey, default: float | None = None, /) -> float | None:  # type: ignore[override]
        """Return the score of a call, the default where it has none."""
        number = self._calls.find(call)
        return default if number is None else self._values[number]

    def __iter__(self) -> Iterator[NodeKey]:
        return iter(self._calls.things)

    def __len__(self) -> int:
        return len(self._values)


_Place = tuple[str, int | None]
"""Side and step, whose ranks talk to each other."""


class Figures:
    """Scores, levels, micro steps and links across ranks of the calls of all graphs taken; no graph is kept."""

    def __init__(self) -> None:
        self._scores = _Scores()
        self._sides = {"target": SideFigures(), "golden": SideFigures()}
        self._exchanges: dict[_Place, dict[int, list[Exchange]]] = {}
        self._keys: dict[tuple[_Place, int], dict[str, NodeKey]] = {}

    def add(self, pair: GraphPair) -> None:
        """Take what a pair of graphs says, or the graph of one dump alone."""
        nodes = pair.target.nodes
        for number, score in pair.scores.items():
            if (call := nodes[number].call) is not None:
                self._scores.add(call.key, score)
        for side, graph, levels in zip(self._sides, (pair.target, pair.golden), pair.levels, strict=True):
            if graph is None:
                continue
            for number, level in levels.items():
                if (call := graph.nodes[number].call) is not None:
                    self._sides[side].levels[call.key] = level.value
            self._add_steps(side, graph)
            self._add_exchanges(side, graph)

    def of_calls(self) -> CallFigures:
        """Return them."""
        for place, ranks in self._exchanges.items():
            of_side = self._sides[place[0]].links
            for key, link in self._links(place, ranks):
                of_side[key] = (*of_side.get(key, ()), link)
        return CallFigures(self._scores, self._sides)

    def _add_steps(self, side: str, graph: ModelGraph) -> None:
        if graph.micro_steps < 2:
            return
        steps = self._sides[side].micro_steps
        for node in graph.nodes:
            if node.call is not None and node.micro_step is not None:
                steps[node.call.key] = node.micro_step

    def _add_exchanges(self, side: str, graph: ModelGraph) -> None:
        run = graph.execution
        if run.rank is None or not (found := exchanges_of(graph, run.rank, {})):
            return
        place = side, run.step
        calls = ((each.name, graph.nodes[each.number].call) for each in found)
        self._keys[place, run.rank] = {name: call.key for name, call in calls if call is not None}
        self._exchanges.setdefault(place, {})[run.rank] = found

    def _links(self, place: _Place, ranks: dict[int, list[Exchange]]) -> Iterator[tuple[NodeKey, CallLink]]:
        names = {(rank, each.number): each.name for rank, exchanges in ranks.items() for each in exchanges}
        for rank, met in links_between(ranks).items():
            for number, links in met.items():
                key = self._keys[place, rank][names[rank, number]]
                for link in links:
                    others = (self._keys[place, end.rank][end.name] for end in link.ends)
                    yield from ((key, CallLink(link.direction.value, other)) for other in others)
