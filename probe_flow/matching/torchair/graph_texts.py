"""The graph texts of two device dumps: which belongs to an execution, and whether both describe one graph."""

from __future__ import annotations

from probe_flow.dumps.graph.links import GraphLinks
from probe_flow.errors import Diagnostic, Severity
from probe_flow.records import Execution, Graph

_MAX_LISTED = 5


class GraphTexts:
    """Indices of graph texts, each made once, and what was said about pairs of them."""

    def __init__(self) -> None:
        self._links: dict[int, GraphLinks] = {}
        self._checked: set[tuple[int, int]] = set()

    def links(self, graph: Graph | None) -> GraphLinks | None:
        """Return the index of a graph text; None for none."""
        if graph is None:
            return None
        if id(graph) not in self._links:
            self._links[id(graph)] = GraphLinks(graph)
        return self._links[id(graph)]

    def check(self, execution: Execution, target: Graph | None, golden: Graph | None) -> list[Diagnostic]:
        """Report where a text serves for both sides (PF4012) or the two differ (PF4013), once for each pair of them."""
        if (id(target), id(golden)) in self._checked or (target is None and golden is None):
            return []
        self._checked.add((id(target), id(golden)))
        if target is None or golden is None:
            return [_one_text(execution, is_of_golden=target is None)]
        problem = _difference(target, golden)
        return [problem] if problem is not None else []


def _one_text(execution: Execution, *, is_of_golden: bool) -> Diagnostic:
    lacking, having = ("target", "golden") if is_of_golden else ("golden", "target")
    return Diagnostic(
        "PF4012",
        f"the {lacking} dump has no graph text for {execution}; that of the {having} dump is used for both",
        severity=Severity.WARNING,
        help="copy `dynamo_original_graph_*.txt` from the folder of the device dump",
    )


def _difference(target: Graph, golden: Graph) -> Diagnostic | None:
    """Compare operators by name, type and inputs: equal names must mean equal operators."""
    mine, theirs = ({op.name: op for op in graph.ops} for graph in (target, golden))
    shared = mine.keys() & theirs.keys()
    other = {name for name in shared if mine[name].op_type != theirs[name].op_type}
    fed = {name for name in shared - other if mine[name].inputs != theirs[name].inputs}
    only = mine.keys() ^ theirs.keys()
    if not (other or fed or only):
        return None
    odd = sorted([*other, *fed, *only], key=lambda name: (mine.get(name) or theirs[name]).position)
    listed = ", ".join(f"`{name}`" for name in odd[:_MAX_LISTED]) + (" ..." if len(odd) > _MAX_LISTED else "")
    return Diagnostic(
        "PF4013",
        f"the graph texts of the two sides differ: {len(only)} operators on one side only, {len(other)} of another "
        f"type, {len(fed)} with other inputs, {len(shared) - len(other) - len(fed)} equal: {listed}",
        severity=Severity.WARNING,
        help="compile both sides from one model and one input shape; equal names may mean different operators",
        path=target.file,
    )
