"""`jsonl`, `html`, `junit`, `markdown`, `sarif` and `annotations`: one file for the whole comparison, or two."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from probe_flow.reports.formats import FileFormat, ReportFile, Request

if TYPE_CHECKING:
    from probe_flow.records import Comparison, Execution, Pairs
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


def _html(request: Request, _option: None) -> tuple[ReportFile, ...]:
    comparison, details = request.comparison, request.options_of("detail")
    if details:
        from probe_flow.stages.report.element_views import with_looks

        comparison = with_looks(comparison, details, io=request.io)

    def write(path: Path) -> None:
        from probe_flow.reports.html.page import write_html

        found = _call_figures(comparison)
        write_html(comparison, path, run=request.run, figures=lambda: found)

    return request.one("report", ".html", write)


def _call_figures(comparison: Comparison) -> CallFigures:
    """Return what graphs say of the calls: scores where two dumps were compared, levels of a dump examined alone."""
    from probe_flow.reports.html.nodes import CallFigures

    pairs = comparison.pairs
    target, task = pairs.target, pairs.target.task
    runs = [run for run in target.executions if target.call_order.get(run)]
    if not runs:
        return CallFigures()
    from msgspec.structs import replace

    from probe_flow.graphs.compare import ComparedRows, rows_by_execution
    from probe_flow.graphs.levels import overflow_levels
    from probe_flow.graphs.scores import scores
    from probe_flow.graphs.tree import build_graph, build_graphs
    from probe_flow.records.model_graph import GraphMode, GraphPair
    from probe_flow.stages.report.call_figures import Figures

    is_scored = not pairs.is_examination and pairs.golden.task == task and task in {mode.value for mode in GraphMode}
    rows = rows_by_execution(comparison) if is_scored else None
    figures = Figures()

    for graph in build_graphs(target, runs):
        pair = GraphPair(graph)
        if rows is not None:
            mine = ComparedRows(rows.pop(graph.execution, ()))
            of_node, _ = scores(graph, partial(mine.of_tensors, graph), GraphMode(task))
            pair = replace(pair, scores=of_node)
        elif pairs.is_examination:
            pair = replace(pair, levels=(overflow_levels(graph), {}))
        other = _golden_of(graph.execution, pairs) if graph.micro_steps > 1 else None
        if other is not None:
            pair = replace(pair, golden=build_graph(pairs.golden, other))
        figures.add(pair)
    return figures.of_calls()


def _golden_of(run: Execution, pairs: Pairs) -> Execution | None:
    """Return the golden's execution that one of the target was compared with, if its calls are known."""
    if pairs.is_examination:
        return None
    both = ((pair.target, pair.golden) for pair in reversed(pairs.pairs))
    compared = (other.node.execution for one, other in both if one and other and one.node.execution == run)
    return next((other for other in compared if pairs.golden.call_order.get(other)), None)


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
        from probe_flow.reports.ci.annotations import annotate, github_text, gitlab_text, write_annotations

        found = annotate([request.comparison], request.run, root=request.root)
        if system == "github":
            write_annotations(github_text(found), path)
        else:
            workflow = request.run.workflow.path
            write_annotations(gitlab_text(found, workflow=workflow, root=request.root), path)

    if system == "github":
        return request.one("annotations", ".txt", write)
    return request.one("gl-code-quality-report", ".json", write)


def _sarif(request: Request, _option: None) -> tuple[ReportFile, ...]:
    def write(path: Path) -> None:
        from probe_flow.reports.ci.annotations import annotate, write_annotations
        from probe_flow.reports.ci.sarif import sarif_text

        found = annotate([request.comparison], request.run, root=request.root)
        workflow = request.run.workflow.path
        write_annotations(sarif_text(found, workflow=workflow, root=request.root), path)

    return request.one("results", ".sarif", write)


def _github(_written: Sequence[tuple[str, Any]]) -> str:
    return "github"


JSONL = FileFormat("jsonl", _jsonl)
HTML = FileFormat("html", _html)
JUNIT = FileFormat("junit", _junit)
MARKDOWN = FileFormat("markdown", _markdown)
SARIF = FileFormat("sarif", _sarif)
ANNOTATIONS = FileFormat(
    "annotations",
    _annotations,
    Literal["github", "gitlab"],
    "Remarks that a CI system shows: `github` (workflow commands in annotations.txt) or `gitlab` "
    "(gl-code-quality-report.json).",
    plain=_github,
)
