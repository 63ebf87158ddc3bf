"""`jsonl`, `html`, `junit`, `markdown` and `annotations`: one file for the whole comparison, or two."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from probe_flow.reports.formats import FileFormat, ReportFile, Request

if TYPE_CHECKING:
    from probe_flow.records import Comparison, NodeKey
    from probe_flow.reports.html.nodes import CallFigures


def _jsonl(request: Request, _option: None) -> tuple[ReportFile, ...]:
    def rows(path: Path) -> None:
        from probe_flow.record.jsonl import write_comparison_jsonl

        write_comparison_jsonl(request.comparison, path)

    def nodes(path: Path) -> None:
        from probe_flow.record.jsonl import write_nodes_jsonl

        write_nodes_jsonl(request.comparison, path)

    if request.in_run_folder:
        return ()
    return (*request.one("comparison", ".jsonl", rows), *request.one("nodes", ".jsonl", nodes))


def _html(request: Request, shown: Literal["overflow"] | None) -> tuple[ReportFile, ...]:
    comparison, details = request.comparison, request.options_of("detail")
    if details:
        from probe_flow.stages.report.element_views import with_looks

        comparison = with_looks(comparison, details, io=request.io)

    def write(path: Path) -> None:
        from probe_flow.reports.html.page import write_html

        has_levels = shown == "overflow" or comparison.pairs.is_examination
        write_html(comparison, path, run=request.run, figures=_call_figures(comparison, has_levels=has_levels))

    return request.one("report", ".html", write)


def _call_figures(comparison: Comparison, *, has_levels: bool) -> CallFigures:
    """Return the scores of the target's calls, and if wanted the levels of the overflows of both sides."""
    from probe_flow.graphs.compare import ComparedRows
    from probe_flow.graphs.levels import overflow_levels
    from probe_flow.graphs.scores import scores
    from probe_flow.graphs.tree import build_graphs
    from probe_flow.records import GraphMode
    from probe_flow.reports.html.nodes import CallFigures

    pairs = comparison.pairs
    sides = {"target": pairs.target} if pairs.is_examination else {"target": pairs.target, "golden": pairs.golden}
    tasks = {catalog.task for catalog in sides.values()}
    is_scored = len(sides) == 2 and len(tasks) == 1 and tasks < {mode.value for mode in GraphMode}
    rows, mode = (ComparedRows(comparison), GraphMode(pairs.target.task)) if is_scored else (None, None)
    found: dict[NodeKey, float] = {}
    levels: dict[str, dict[NodeKey, str]] = {side: {} for side in sides}
    for side, catalog in sides.items():
        is_target = side == "target"
        if not has_levels and not (is_target and is_scored):
            continue
        for graph in build_graphs(catalog, [run for run in catalog.executions if catalog.call_order.get(run)]):
            keys = [None if node.call is None else node.call.key for node in graph.nodes]
            if is_target and rows is not None and mode is not None:
                of_node, _ = scores(graph, partial(rows.of_tensors, graph), mode)
                found.update((key, score) for number, score in of_node.items() if (key := keys[number]) is not None)
            if has_levels:
                worst = overflow_levels(graph).items()
                levels[side].update((key, level.value) for number, level in worst if (key := keys[number]) is not None)
    return CallFigures(found, levels)


def _junit(request: Request, _option: None) -> tuple[ReportFile, ...]:
    def write(path: Path) -> None:
        from probe_flow.reports.ci.junit import write_junit

        write_junit(request.comparison, path, run=request.run)

    return request.one("junit", ".xml", write)


def _markdown(request: Request, _option: None) -> tuple[ReportFile, ...]:
    def write(path: Path) -> None:
        from probe_flow.reports.ci.markdown import write_markdown

        known = request.run.artifacts
        files = tuple(dict.fromkeys((*known, *request.names)))
        write_markdown(request.comparison, path, run=request.run, files=files)

    return request.one("report", ".md", write)


def _annotations(request: Request, system: str) -> tuple[ReportFile, ...]:
    def write(path: Path) -> None:
        from probe_flow.record.conclusion import concluded
        from probe_flow.reports.ci.annotations import annotate, github_text, gitlab_text, write_annotations

        found = annotate([request.comparison], concluded(request.comparison, request.run), root=request.root)
        if system == "github":
            write_annotations(github_text(found), path)
        else:
            workflow = request.run.workflow.path
            write_annotations(gitlab_text(found, workflow=workflow, root=request.root), path)

    if system == "github":
        return request.one("annotations", ".txt", write)
    return request.one("gl-code-quality-report", ".json", write)


def _github(_written: Sequence[tuple[str, Any]]) -> str:
    return "github"


JSONL = FileFormat("jsonl", _jsonl)
HTML = FileFormat(
    "html",
    _html,
    Literal["overflow"],
    "With `overflow` the graph of calls also says how bad an overflow of each is: `medium`, `high` or `critical`; of a "
    "dump that is examined alone it always does.",
)
JUNIT = FileFormat("junit", _junit)
MARKDOWN = FileFormat("markdown", _markdown)
ANNOTATIONS = FileFormat(
    "annotations",
    _annotations,
    Literal["github", "gitlab"],
    "Remarks that a CI system shows: `github` (workflow commands in annotations.txt) or `gitlab` "
    "(gl-code-quality-report.json).",
    plain=_github,
)
