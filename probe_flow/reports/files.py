"""Which file each report format is, and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from probe_flow.records import Comparison

FILE_STEMS = {"torchair": "torchair_result", "torchair_legacy": "msprobe_cmp_report", "dump_json": "compare_result"}
"""How the files of a layout are named, followed by the time of the run; other layouts go by their own name."""


@dataclass(frozen=True, slots=True)
class Form:
    """One file: a format with its argument.

    Args:
        word: ``csv``, ``xlsx``, ``jsonl``, ``html``, ``junit``, ``markdown`` or ``annotations``.
        argument: the layout of a table, ``comparison`` or ``nodes`` of jsonl, ``github`` or ``gitlab`` of annotations.
    """

    word: str
    argument: str = ""

    def __str__(self) -> str:
        return f"{self.word}: {self.argument}" if self.argument else self.word


@dataclass(frozen=True, slots=True)
class Request:
    """What is reported.

    Args:
        comparison: it.
        run: facts of run.json so far.
        root: folder that paths in annotations are shown relative to.
        suffix: follows the name of every file, when there are several comparisons.
    """

    comparison: Comparison
    run: Mapping[str, Any]
    root: Path
    suffix: str = ""

    @property
    def started(self) -> datetime:
        """When the run began."""
        return datetime.fromisoformat(self.run["timings"]["started"])


_NAMES: Mapping[Form, tuple[str, str]] = MappingProxyType(
    {
        Form("jsonl", "comparison"): ("comparison", ".jsonl"),
        Form("jsonl", "nodes"): ("nodes", ".jsonl"),
        Form("html"): ("report", ".html"),
        Form("junit"): ("junit", ".xml"),
        Form("markdown"): ("report", ".md"),
        Form("annotations", "github"): ("annotations", ".txt"),
        Form("annotations", "gitlab"): ("gl-code-quality-report", ".json"),
    }
)


def file_name(form: Form, request: Request) -> str:
    """Return the name of the file; that of a table states when the run began."""
    if form in _NAMES:
        stem, ending = _NAMES[form]
        return f"{stem}{request.suffix}{ending}"
    stem = FILE_STEMS.get(form.argument, form.argument)
    return f"{stem}{request.suffix}_{request.started:%Y%m%d%H%M%S}.{form.word}"


def write_file(form: Form, request: Request, path: Path, *, names: Sequence[str]) -> None:
    """Write one file, whole or not at all.

    Args:
        form: which.
        request: what is reported.
        path: where it shall be.
        names: all files of this report, for those that list them.

    Raises:
        UsageError: PF7101 when a package is missing.
        IncompleteError: PF7001 when the file cannot be written, PF7003 when a layout does not load.
    """
    _WRITERS[form.word](form, request, path, names)


_Writer = Callable[[Form, Request, Path, Sequence[str]], None]


def _csv(form: Form, request: Request, path: Path, _names: Sequence[str]) -> None:
    from probe_flow.reports.registry import layout

    layout(form.argument)(request.comparison, path)


def _xlsx(form: Form, request: Request, path: Path, _names: Sequence[str]) -> None:
    from probe_flow.reports.xlsx import write_xlsx

    write_xlsx(request.comparison, path, layout=form.argument, created=request.started)


def _jsonl(form: Form, request: Request, path: Path, _names: Sequence[str]) -> None:
    from probe_flow.reports.jsonl import write_comparison_jsonl, write_nodes_jsonl

    write = write_nodes_jsonl if form.argument == "nodes" else write_comparison_jsonl
    write(request.comparison, path)


def _html(_form: Form, request: Request, path: Path, _names: Sequence[str]) -> None:
    from probe_flow.reports.html import write_html

    write_html(request.comparison, path, run=request.run)


def _junit(_form: Form, request: Request, path: Path, _names: Sequence[str]) -> None:
    from probe_flow.reports.junit import write_junit

    write_junit(request.comparison, path, run=request.run)


def _markdown(_form: Form, request: Request, path: Path, names: Sequence[str]) -> None:
    from probe_flow.reports.markdown import write_markdown

    known = [str(name) for name in request.run.get("artifacts") or ()]
    write_markdown(request.comparison, path, run=request.run, files=tuple(dict.fromkeys((*known, *names))))


def _annotations(form: Form, request: Request, path: Path, _names: Sequence[str]) -> None:
    from probe_flow.reports.annotations import annotate, github_text, gitlab_text, write_annotations

    # What made the run incomplete so far stands in the comparison.
    run = {**request.run, "incomplete": request.comparison.incomplete}
    found = annotate([request.comparison], run, root=request.root)
    if form.argument == "github":
        write_annotations(github_text(found), path)
    else:
        workflow = str(request.run["workflow"]["path"])
        write_annotations(gitlab_text(found, workflow=workflow, root=request.root), path)


_WRITERS: Mapping[str, _Writer] = MappingProxyType(
    {
        "csv": _csv,
        "xlsx": _xlsx,
        "jsonl": _jsonl,
        "html": _html,
        "junit": _junit,
        "markdown": _markdown,
        "annotations": _annotations,
    }
)
