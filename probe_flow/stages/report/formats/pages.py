"""`jsonl`, `html`, `junit`, `markdown` and `annotations`: one file for the whole comparison, or two."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from probe_flow.reports.formats import FileFormat, ReportFile, Request


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

        write_html(comparison, path, run=request.run)

    return request.one("report", ".html", write)


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
HTML = FileFormat("html", _html)
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
