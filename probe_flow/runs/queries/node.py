"""What a run knows of one node: what it is, its tensors on both sides, who feeds it and whom it feeds."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from probe_flow.record.row_index import call_code
from probe_flow.record.run_folder import StoredRun
from probe_flow.record.run_json import plain
from probe_flow.record.types.nodes import NodeRecord
from probe_flow.record.types.reading import Reader
from probe_flow.record.types.rows import RowRecord
from probe_flow.records import Role, Status
from probe_flow.reports.marks import Mark, StoredMarks
from probe_flow.runs.queries.base import EVERYWHERE, Identity, NamesFound, Scope, identity, place
from probe_flow.runs.queries.named_answer import NamedAnswer
from probe_flow.runs.queries.stored_nodes import Link, StoredNode, StoredNodes
from probe_flow.runs.queries.subgraph import Subgraph, subgraph

MAX_VIEWS = 4
"""Nodes shown in full when a part of a name fits many; the others are listed by name."""

_WORST_FIRST = (
    Status.FAIL, Status.ERROR, Status.WARNING, Status.NOT_COMPARABLE, Status.PASS,
    Status.UNMATCHED_TARGET, Status.UNMATCHED_GOLDEN, Status.SKIPPED,
)  # fmt: skip
"""What was compared comes first: a constant without a counterpart says nothing of its operator."""
_SLOT = re.compile(r"\.(?:input|output|parameter_grad|parameter|buffer|debug)\.[^\n]*|\.call")

Judgement = tuple[str | None, str | None]


class NodeView(Struct, frozen=True):
    """One call of a node in one execution, on one side.

    Args:
        node: which.
        record: its line of ``nodes.jsonl``.
        rows: the rows of its tensors.
        producers, consumers: its neighbours, with their judgements.
        has_flow: whether the dump told who feeds whom in this execution.
        before, after: neighbours in the order of execution, for dumps that do not.
        children: names of what a module holds.
        judgement: the worst verdict of its rows, and its role.
        graph: its neighbourhood, where one was asked for.
        reproductions: what came of computing it again.
    """

    node: StoredNode
    record: NodeRecord
    rows: tuple[RowRecord, ...]
    producers: tuple[tuple[Link, Judgement], ...]
    consumers: tuple[tuple[Link, Judgement], ...]
    has_flow: bool
    before: StoredNode | None
    after: StoredNode | None
    children: tuple[str, ...]
    judgement: Judgement
    graph: Subgraph | None = None
    reproductions: tuple[dict[str, Any], ...] = ()

    def data(self) -> dict[str, Any]:
        """Return the view as JSON: the record of the node and what belongs to it."""
        record = {key: value for key, value in plain(self.record).items() if key != "edges"}
        return {
            **record,
            "verdict": self.judgement[0],
            "role": self.judgement[1],
            "producers": [_link(link, judgement) for link, judgement in self.producers],
            "consumers": [_link(link, judgement) for link, judgement in self.consumers],
            "has_flow": self.has_flow,
            "before": self.before.title if self.before else None,
            "after": self.after.title if self.after else None,
            "children": list(self.children),
            "rows": [plain(row) for row in self.rows],
            "reproductions": list(self.reproductions),
            "subgraph": self.graph.data() if self.graph is not None else None,
        }


def node_view(
    run: StoredRun,
    nodes: StoredNodes,
    wanted: str,
    *,
    depth: int = 0,
    scope: Scope = EVERYWHERE,
    limit: int = MAX_VIEWS,
) -> NamedAnswer[NodeView]:
    """Return what the run knows of the nodes that a name or a part of one means.

    Args:
        run: the run.
        nodes: its nodes.
        wanted: the name.
        depth: steps of the neighbourhood; 0 = none.
        scope: where to look.
        limit: nodes shown in full.

    Raises:
        UsageError: PF7201 when no name fits, PF7114 when no such stage compared.
    """
    run.check_comparison(scope.comparison)
    found, candidates = nodes.find(wanted, scope)
    ordered = _the_wanted_first(found, candidates)
    chosen = ordered[:limit]
    answer = NamedAnswer[NodeView](wanted, found.how, matching=len(ordered))
    shown_titles = {node.title for node in chosen}
    answer.others = [title for title in dict.fromkeys(node.title for node in ordered) if title not in shown_titles]
    graphs = {node.key: subgraph(nodes, node, depth=depth) for node in chosen} if depth > 0 else {}
    judged = _Judged(run, _concerned(nodes, chosen, graphs), scope)
    records = nodes.records(chosen)
    for node in chosen:
        graph = graphs.get(node.key)
        before, after = nodes.beside(node)
        answer.views.append(
            NodeView(
                node=node,
                record=records[node.key],
                rows=tuple(judged.rows(node)),
                producers=tuple((link, judged.of(link.node)) for link in nodes.producers(node)),
                consumers=tuple((link, judged.of(link.node)) for link in nodes.consumers(node)),
                has_flow=nodes.has_flow(node),
                before=before,
                after=after,
                children=tuple(child.title for child in nodes.children(node)),
                judgement=judged.of(node),
                graph=graph.judged(judged.of, judged.mark) if graph is not None else None,
                reproductions=_reproductions(run, node),
            )
        )
    return answer


def _reproductions(run: StoredRun, node: StoredNode) -> tuple[dict[str, Any], ...]:
    """Return what the record says of computing a call of the target again, with the same in words."""
    if node.side != "target":
        return ()
    found = run.record.reproductions_of(node.name, node.known.rank, node.known.step)
    return tuple({**plain(each), "in_words": each.advice.text} for each in found)


def _the_wanted_first(found: NamesFound, nodes: Sequence[StoredNode]) -> list[StoredNode]:
    """Return targets in front, and of golden nodes only those that no target of the same call stands for."""
    targets = [node for node in nodes if node.side == "target"]
    known = {node.known for node in targets}
    rest = [node for node in nodes if node.side != "target" and node.known not in known]
    short = {name: len(name) for name in found.names}
    return sorted(targets, key=lambda node: short.get(node.node, 0)) + rest


def _concerned(
    nodes: StoredNodes, chosen: Iterable[StoredNode], graphs: Mapping[tuple[str, Identity], Subgraph]
) -> list[StoredNode]:
    found: dict[tuple[str, Identity], StoredNode] = {}
    for node in chosen:
        near = [link.node for link in (*nodes.producers(node), *nodes.consumers(node))]
        graph = graphs.get(node.key)
        for each in (node, *near, *([shown.node for shown in graph.nodes] if graph else [])):
            found.setdefault(each.key, each)
    return list(found.values())


class _Judged:
    """The rows of some nodes.

    Rows name the target's node; those of a golden node are found by the name of their golden tensor.
    """

    def __init__(self, run: StoredRun, nodes: Sequence[StoredNode], scope: Scope) -> None:
        self._marks = StoredMarks(run.record)
        self._rows: defaultdict[tuple[str, Identity], list[RowRecord]] = defaultdict(list)
        targets = {node.known for node in nodes if node.side == "target"}
        codes = {call_code(known, known.node, known.call, known.phase) for known in targets}
        others: defaultdict[tuple[str, str], list[StoredNode]] = defaultdict(list)
        for node in nodes:
            if node.side != "target":
                others[node.side, node.title].append(node)
        for rows in run.stored_rows(comparison=scope.comparison):
            for row in rows.rows(rows.index.numbers_of_calls(codes)):
                known = identity(row)
                if known in targets and row.target is not None:
                    self._rows["target", known].append(row)
            titles = (_titles(part) for part in rows.all_parts(_TENSORS)) if others else ()
            of_others = (number for number, those in enumerate(titles) if not others.keys().isdisjoint(those))
            for row in rows.rows(of_others):
                for name, tensor in row.sides:
                    for node in others.get((name, _title(tensor.name)), ()):
                        if _same_execution(node, row):
                            self._rows[name, node.known].append(row)

    def rows(self, node: StoredNode) -> list[RowRecord]:
        return self._rows.get(node.key, [])

    def of(self, node: StoredNode) -> Judgement:
        return judgement(self.rows(node))

    def mark(self, node: StoredNode) -> tuple[Mark, float | None] | None:
        return self._marks.of_rows(self.rows(node))


class _Tensor(Struct, frozen=True, gc=False):
    name: str


class _Tensors(Struct, frozen=True, gc=False):
    """The fields of a row that name its tensors."""

    target: _Tensor | None
    golden: _Tensor | None
    reference: _Tensor | None


_TENSORS = Reader(_Tensors)


def _titles(row: _Tensors) -> list[tuple[str, str]]:
    """Return side and title of the nodes whose tensors a row has."""
    sides = (("target", row.target), ("golden", row.golden), ("reference", row.reference))
    return [(name, _title(tensor.name)) for name, tensor in sides if tensor is not None]


def judgement(rows: Iterable[RowRecord]) -> Judgement:
    """Return the worst verdict of some rows, and their role: ``origin`` before ``inherited``, else None."""
    rows = list(rows)
    roles = {row.role for row in rows}
    worst = min((row.verdict for row in rows), key=_WORST_FIRST.index, default=None)
    role = next((role.value for role in (Role.ORIGIN, Role.INHERITED) if role in roles), None)
    return worst.value if worst is not None else None, role


def _title(tensor: str) -> str:
    """Return a tensor's id without its slot: what stands before the last word that is a role."""
    at = len(tensor)
    while (at := tensor.rfind(".", 0, at)) > 0:
        if _SLOT.fullmatch(tensor, at):
            return tensor[:at]
    return tensor


def _same_execution(node: StoredNode, row: RowRecord) -> bool:
    """Return True if a golden node may be that of a row; ids of graphs are each side's own, ranks and steps are not."""
    known = node.known
    return (
        known.comparison == row.comparison
        and (known.rank is None or row.rank is None or known.rank == row.rank)
        and (known.step is None or row.step is None or known.step == row.step)
    )


def _link(link: Link, judged: Judgement) -> dict[str, Any]:
    node = link.node
    return {
        "side": node.side,
        **place(node.known, node.name),
        "op_type": node.op_type,
        "input": link.input,
        "output": link.output,
        "verdict": judged[0],
        "role": judged[1],
    }
