"""One stored run that is being asked: `show` asks once, `shell` many times and keeps what was read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probe_flow.errors import UsageError
from probe_flow.record.run_folder import StoredRun, read_run
from probe_flow.runs.queries.base import EVERYWHERE, Scope, sides

if TYPE_CHECKING:
    from probe_flow.runs.queries.named_answer import NamedAnswer
    from probe_flow.runs.queries.stored_nodes import StoredNodes
    from probe_flow.runs.queries.subgraph import Subgraph
    from probe_flow.runs.queries.tensor import TensorView
    from probe_flow.runs.queries.threshold import Threshold
    from probe_flow.runs.reopen import StoredDumps
    from probe_flow.stages.base import StageOptions, StageType
    from probe_flow.work import Context

ADOPTS_ANY = "dump.auto"

DRAWN_DEPTH = 2
"""Steps each way of a drawing when none are given."""

PATTERN = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in both forms; lines are made when they are printed."""

    lines: Iterator[str]
    data: Mapping[str, Any]
    graph: Subgraph | None = None


@dataclass(slots=True)
class Asker:
    """A run, and what was read of it so far.

    Args:
        run: the run.
        shown: its folder as the user typed it.
        moved: where dumps lie now, by side.
    """

    run: StoredRun
    shown: str
    moved: Mapping[str, str] = field(default_factory=dict)
    _nodes: StoredNodes | None = None
    _dumps: StoredDumps | None = None
    _tensor_names: list[str] | None = None
    _metric_names: list[str] | None = None

    @classmethod
    def of(cls, folder: Path, moved: Iterable[str] = ()) -> Asker:
        """Return the run in a folder, with ``SIDE=PATH`` of dumps that were moved; errors as `read_run`, PF7206."""
        from probe_flow.runs.reopen import parse_dumps

        return cls(read_run(folder), str(folder), parse_dumps(moved) if moved else {})

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

            self._dumps = StoredDumps(self.run, self.moved, _adopt)
        return self._dumps

    def is_pattern(self, name: str) -> bool:
        """Say whether words are a pattern of names; those of operators may hold brackets themselves."""
        if PATTERN.isdisjoint(name):
            return False
        return all(name not in (node.name, node.title, node.entry) for node in self.nodes)

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
            metrics.update(row.get("metrics") or ())
            for _, side in sides(row):
                tensors.setdefault(str(side.get("name")))
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

        answer = origin(self.run, scope=scope)
        return Reply(origin_lines(answer), answer.data())


def _views(limit: int | None, default: int) -> int:
    return default if limit is None else limit or sys.maxsize


def write_drawing(graph: Subgraph, path: Path) -> str:
    """Write a neighbourhood as SVG, or as a file for graphviz when the name ends in ``.dot`` or ``.gv``.

    Returns what was written, for people.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    from probe_flow.files.atomic import atomic_text
    from probe_flow.runs.draw.dot import dot_text, drawn_by_dot
    from probe_flow.runs.draw.svg import drawn_in_layers

    text, by = dot_text(graph), "as text for graphviz"
    if path.suffix.lower() not in (".dot", ".gv"):
        found = drawn_by_dot(graph)
        text, by = (found, "drawn by graphviz") if found is not None else (drawn_in_layers(graph), "drawn in layers")
    with atomic_text(path) as file:
        file.write(text)
    return f"wrote {path}: {len(graph.nodes)} nodes, {by}"


def _adopt(name: str, uses: str, path: str) -> object:
    """Return the catalog of the dump at a path; errors as the stage's.

    Args:
        name: of the stage in the run.
        uses: what the stage was; `dump.auto` stands in where it is no dump stage, or takes other options.
        path: where the dump lies.
    """
    stage, options = _stage(uses, path)
    return stage.run(options, {}, _context(name))


def _stage(uses: str, path: str) -> tuple[StageType, StageOptions]:
    from pydantic import ValidationError

    from probe_flow.stages.registry import stage_types

    known = stage_types()
    if uses.startswith("dump.") and uses in known:
        try:
            stage = known[uses]
            return stage, stage.options.model_validate({"uses": uses, "path": path})
        except (ValidationError, UsageError):  # a package's stage may name its path otherwise, or be broken
            pass
    return known[ADOPTS_ANY], known[ADOPTS_ANY].options.model_validate({"uses": ADOPTS_ANY, "path": path})


def _context(stage: str) -> Context:
    def no_map(*_: object, **__: object) -> Iterator[tuple[int, Any]]:
        raise NotImplementedError("adopting a dump needs no workers")

    from probe_flow.work import Context, Settings

    return Context(
        stage=stage,
        output=Path(os.devnull),
        map=no_map,
        emit=_silent,
        report=lambda _problems: None,
        settings=Settings(),
        facts={},
    )


def _silent(event: str, **fields: Any) -> None:
    """Send nothing: a question leaves no trace in the run's folder."""
