"""One stored run that is being asked: `show` asks once, `shell` many times and keeps what was read."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from probe_flow.record.run_folder import StoredRun
from probe_flow.runs.queries.base import EVERYWHERE, Scope

if TYPE_CHECKING:
    from probe_flow.runs.queries.named_answer import NamedAnswer
    from probe_flow.runs.queries.stored_nodes import StoredNodes
    from probe_flow.runs.queries.subgraph import Subgraph
    from probe_flow.runs.queries.tensor import TensorView
    from probe_flow.runs.queries.threshold import Threshold
    from probe_flow.runs.reopen import Adopt, StoredDumps

DRAWN_DEPTH = 2
"""Steps each way of a drawing when none are given."""

PATTERN = frozenset("*?[")


class Reply(Struct, frozen=True):
    """An answer in both forms; lines are made when they are printed."""

    lines: Iterator[str]
    data: Mapping[str, Any]
    graph: Subgraph | None = None


class Asker(Struct):
    """A run, and what was read of it so far.

    Args:
        run: the run.
        shown: its folder as the user typed it.
        adopt: gives the catalog of a dump that the run read, as of `StoredDumps`.
        moved: where dumps lie now, by side.
    """

    run: StoredRun
    shown: str
    adopt: Adopt
    moved: Mapping[str, str] = field(default_factory=dict)
    _nodes: StoredNodes | None = None
    _dumps: StoredDumps | None = None
    _tensor_names: list[str] | None = None
    _metric_names: list[str] | None = None

    @property
    def nodes(self) -> StoredNodes:
        """The nodes of the run, read at the first use."""
        if self._nodes is None:
            from probe_flow.runs.queries.stored_nodes import StoredNodes

            self._nodes = StoredNodes(self.run)
        return self._nodes

    @property
    def dumps(self) -> StoredDumps:
        """The dumps of the run, listed at the first use."""
        if self._dumps is None:
            from probe_flow.runs.reopen import StoredDumps

            self._dumps = StoredDumps(self.run, self.moved, self.adopt)
        return self._dumps

    def is_pattern(self, name: str) -> bool:
        """Say whether words are a pattern of names; those of operators may hold brackets themselves."""
        if PATTERN.isdisjoint(name):
            return False
        return not self.nodes.is_name(name)

    def threshold(self, wanted: Threshold, *, limit: int | None, scope: Scope = EVERYWHERE) -> Reply:
        """Return the nodes beyond a threshold."""
        from probe_flow.runs.queries.answers import threshold_lines
        from probe_flow.runs.queries.threshold import beyond

        answer = beyond(self.run, wanted, limit=limit, scope=scope)
        return Reply(threshold_lines(answer), answer.data())

    def node(
        self, wanted: str, *, depth: int, has_attributes: bool, limit: int | None = None, scope: Scope = EVERYWHERE
    ) -> Reply:
        """Return what is known of the nodes that a name means; with a drawing's data when there is a depth.

        A limit of 0 shows all of them in full.
        """
        from probe_flow.runs.queries.answers_node import node_lines
        from probe_flow.runs.queries.node import MAX_VIEWS, node_view

        answer = node_view(self.run, self.nodes, wanted, depth=depth, scope=scope, limit=_views(limit, MAX_VIEWS))
        graph = answer.views[0].graph if answer.views else None
        data = answer.data(shown="nodes", counted="nodes")
        return Reply(node_lines(answer, has_attributes=has_attributes), data, graph)

    def tensor(self, wanted: str, *, limit: int | None = None, scope: Scope = EVERYWHERE) -> Reply:
        """Return what is known of the tensors that a name means."""
        from probe_flow.runs.queries.answers_tensor import tensor_lines

        answer = self.tensor_answer(wanted, limit=limit, scope=scope)
        return Reply(tensor_lines(answer), answer.data(shown="tensors", counted="rows"))

    def tensor_answer(
        self, wanted: str, *, limit: int | None = None, scope: Scope = EVERYWHERE
    ) -> NamedAnswer[TensorView]:
        """Return the same as data, with where the elements lie."""
        from probe_flow.runs.queries.tensor import MAX_VIEWS, tensor_view

        return tensor_view(self.run, self.dumps, wanted, scope=scope, limit=_views(limit, MAX_VIEWS))

    def tensor_names(self) -> list[str]:
        """Return the ids of all tensors, target before golden in each row, each once."""
        if self._tensor_names is None:
            self._read_names()
        return self._tensor_names or []

    def metric_names(self) -> list[str]:
        """Return the metrics that any row has, sorted."""
        if self._metric_names is None:
            self._read_names()
        return self._metric_names or []

    def _read_names(self) -> None:
        tensors: dict[str, None] = {}
        metrics: set[str] = set()
        for row in self.run.rows():
            metrics.update(row.metrics)
            for _, side in row.sides:
                tensors.setdefault(side.name)
        self._tensor_names, self._metric_names = list(tensors), sorted(metrics)

    def unmatched(self, *, limit: int | None, scope: Scope = EVERYWHERE) -> Reply:
        """Return what has no counterpart."""
        from probe_flow.runs.queries.answers import unmatched_lines
        from probe_flow.runs.queries.rows import unmatched

        answer = unmatched(self.run, limit=limit, scope=scope)
        return Reply(unmatched_lines(answer), answer.data())

    def origin(self, *, scope: Scope = EVERYWHERE) -> Reply:
        """Return where the divergence begins."""
        from probe_flow.runs.queries.answers import origin_lines
        from probe_flow.runs.queries.rows import origin

        answer = origin(self.run, scope=scope, shown=self.shown)
        return Reply(origin_lines(answer), answer.data())


def _views(limit: int | None, default: int) -> int:
    return default if limit is None else limit or sys.maxsize
