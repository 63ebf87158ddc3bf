"""What the files of graphs say of each node, made node after node, so that no graph stands in memory as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

from msgspec import Struct

from probe_flow.records.figure_columns import RecordedColumns
from probe_flow.records.levels import Level
from probe_flow.records.model_graph import (
    NO_PARTNER,
    GraphKind,
    GraphLayout,
    GraphMode,
    GraphNode,
    GraphPair,
    ModelGraph,
)
from probe_flow.reports.graph_files.items import ItemStyle, ItemTexts
from probe_flow.reports.graph_files.json_texts import json_name
from probe_flow.reports.graph_files.legend import written_score
from probe_flow.reports.graph_files.metrics import metrics_of

CODES = {GraphKind.MODULE: 0, GraphKind.API: 1, GraphKind.COLLECTION: 9}
"""What the viewer calls kinds of nodes."""

_BATCH = 1024
"""Nodes whose metrics are made at once."""


class NodeFacts(Struct, gc=False):
    """What is said of one node.

    Args:
        number: of the node in its graph.
        node: the node.
        link: names around its partner, and the partner, as JSON; nothing in it where there is none.
        score: as it is written; None where there is none.
        level: of its overflow.
        inputs, outputs: its items by their names, as JSON.
        distributed: its communication with other ranks, as the viewer reads it.
    """

    number: int
    node: GraphNode
    link: str
    score: float | None
    level: Level | None
    inputs: str
    outputs: str
    distributed: Any


def node_facts(
    pair: GraphPair, numbers: Sequence[int], style: ItemStyle, *, is_golden: bool = False
) -> Iterator[NodeFacts]:
    """Yield what is said of nodes.

    Args:
        pair: the graphs.
        numbers: nodes to write, in their order.
        style: whose texts.
        is_golden: take the golden's graph instead of the target's.
    """
    graph = pair.golden if is_golden and pair.golden is not None else pair.target
    links = _Links(pair, is_golden=is_golden)
    levels, communications = pair.levels[is_golden], pair.links[is_golden]
    is_msprobe = pair.layout is not GraphLayout.OWN
    has_checksums = pair.mode is GraphMode.MD5 or pair.layout is GraphLayout.MSPROBE_VIS
    texts = ItemTexts(graph, style, has_checksums=has_checksums, needs_maximum=is_msprobe)
    columns = RecordedColumns()
    for begin in range(0, len(numbers), _BATCH):
        batch = numbers[begin : begin + _BATCH]
        tensors = [graph.tensors_of(number) for number in batch]
        is_compared = pair.mode is not None and not is_golden
        metrics = metrics_of(pair, batch, columns, style) if is_compared else repeat("", sum(map(len, tensors)))
        for number, (inputs, outputs) in zip(batch, texts.of(tensors, metrics), strict=True):
            score = None if is_golden else pair.scores.get(number)
            yield NodeFacts(
                number,
                graph.nodes[number],
                links.of(number),
                None if score is None else written_score(score, pair),
                levels.get(number),
                inputs,
                outputs,
                _distributed(met) if (met := communications.get(number)) else {},
            )


class _Links:
    """Names around partners, each chain made once."""

    def __init__(self, pair: GraphPair, *, is_golden: bool) -> None:
        self._other: ModelGraph | None = pair.target if is_golden else pair.golden
        self._partners: Sequence[int] = pair.partners
        self._chains: dict[int, str] = {NO_PARTNER: "["}
        """Number of a node -> the names around it and its own, as a list that goes on."""
        if is_golden and pair.golden is not None:
            backward = [NO_PARTNER] * len(pair.golden.nodes)
            for number, partner in enumerate(pair.partners):
                if partner != NO_PARTNER:
                    backward[partner] = number
            self._partners = backward

    def of(self, number: int) -> str:
        """Return the names around the partner of a node, and its own."""
        if self._other is None or self._partners[number] == NO_PARTNER:
            return "[]"
        node = self._other.nodes[self._partners[number]]
        around = self._chains.get(node.parent)
        if around is None:
            names = [*self._other.chain(node.parent), self._other.nodes[node.parent].name]
            around = self._chains[node.parent] = "".join(["[", *(f"{json_name(name)}," for name in names)])
        return f"{around}{json_name(node.name)}]"


def _distributed(links: Sequence[Any]) -> Any:
    found = [
        {
            "communications_type": link.direction.value,
            "nodes_info": {str(end.rank): [end.shown or "Nan", end.name] for end in link.ends},
        }
        for link in links
    ]
    return found[0] if len(found) == 1 else found


def data_folder(graph: ModelGraph) -> str | None:
    """Return the folder of the tensor files of a graph; None where its dump holds statistics only."""
    for tensor in graph.tensors:
        if tensor.extents:
            return tensor.extents[0].file.rpartition("/")[0]
    return None
