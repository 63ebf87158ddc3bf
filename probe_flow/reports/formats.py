"""Which file each report format is, and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from probe_flow.records import Comparison, Differences
from probe_flow.reports.parts import MAX_CSV_ROWS, folder_of, parts_by_model, parts_of, ranks_of

if TYPE_CHECKING:
    from probe_flow.reports.elements.element_view import ElementView
    from probe_flow.reports.rank_merge.sources import Merged

FILE_STEMS = {
    "torchair": "torchair_result",
    "torchair_legacy": "msprobe_cmp_report",
    "dump_json": "compare_result",
    "dump_json_msprobe": "compare_result",
    "offline": "result",
    "msaccucmp": "result",
}
"""How the files of a layout are named, followed by the time of the run; other layouts go by their own name."""


@dataclass(frozen=True, slots=True)
class Form:
    """One file: a format with its argument.

    Args:
        word: ``csv``, ``xlsx``, ``jsonl``, ``html``, ``junit``, ``markdown``, ``annotations``, ``diff_analyze``,
            ``data_mapping``, ``rank_merge``, ``advisor`` or ``mapping``.
        argument: the layout of a table, ``comparison`` or ``nodes`` of jsonl, ``github`` or ``gitlab`` of annotations,
            the configuration file of ``rank_merge``.
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
        differences: what the analysis of first differences found, for ``diff_analyze``.
        columns: further columns of the tables that have some.
        views: element-wise views, for ``detail``.
        merged: configuration file -> merged tables by folder, for ``rank_merge``.
    """

    comparison: Comparison
    run: Mapping[str, Any]
    root: Path
    suffix: str = ""
    differences: Differences = ()
    columns: tuple[str, ...] = ()
    merged: Mapping[str, Merged] = field(default_factory=dict)
    views: tuple[ElementView, ...] = ()

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


@dataclass(frozen=True, slots=True)
class ReportFile:
    """One file of a form.

    Args:
        name: its name, which may begin with a folder.
        write: writes it, whole or not at all; raises UsageError (PF7101) when a package is missing, IncompleteError
            (PF7001) when the file cannot be written, or what the format says.
    """

    name: str
    write: Callable[[Path], None]


def files_of(form: Form, request: Request, *, names: Sequence[str] = ()) -> tuple[ReportFile, ...]:
    """Return the files of a form; a comparison of dump.json dumps gives one table per execution.

    Args:
        form: which.
        request: what is reported.
        names: all files of this report, for those that list them; read when a file is written.
    """
    return _FILES[form.word](form, request, names) if form.word in _FILES else _one_file(form, request, names)


def _one_file(form: Form, request: Request, names: Sequence[str]) -> tuple[ReportFile, ...]:
    stem, ending = _NAMES[form]
    name = f"{stem}{request.suffix}{ending}"
    return (ReportFile(name, partial(_write_one, form, request, names)),)


def _tables(form: Form, request: Request, names: Sequence[str]) -> tuple[ReportFile, ...]:
    """Return the files of a table; their names state when the run began."""
    stem = FILE_STEMS.get(form.argument, form.argument)
    max_rows = MAX_CSV_ROWS if form.word == "csv" else None
    return tuple(
        ReportFile(
            f"{part.folder}{part.prefix}{'debug_' if part.is_debug else ''}{stem}{request.suffix}{part.suffix}"
            f"_{request.started:%Y%m%d%H%M%S}{part.ending}.{form.word}",
            partial(_write_one, form, replace(request, comparison=part.comparison), names),
        )
        for part in parts_of(request.comparison, form.argument, max_rows=max_rows)
    )


def _write_one(form: Form, request: Request, names: Sequence[str], path: Path) -> None:
    _WRITERS[form.word](form, request, path, names)


def _differences(_form: Form, request: Request, _names: Sequence[str]) -> tuple[ReportFile, ...]:
    """Return the JSON files of every execution, and that of the first difference where there is one."""
    from probe_flow.reports.tables.dump_json.diff_analyze import write_entries_json, write_first_json

    comparison, found = request.comparison, request.differences
    ranks = ranks_of(found)
    steps = {each.execution.step for each in found}
    files = []
    for each, rank in zip(found, ranks, strict=True):
        folder = folder_of(each.execution, has_steps=len(steps) > 1)
        name = f"{folder}compare_result{request.suffix}_rank{rank}_{request.started:%Y%m%d%H%M%S}.json"
        files.append(ReportFile(name, partial(write_entries_json, each, comparison)))
    if any(each.first for each in found):
        name = f"diff_analyze{request.suffix}_{int(request.started.timestamp() * 1e6)}000.json"
        files.append(ReportFile(name, partial(write_first_json, found, comparison)))
    return tuple(files)


def _advisor(_form: Form, request: Request, _names: Sequence[str]) -> tuple[ReportFile, ...]:
    """Return the advice on every model."""
    from probe_flow.reports.tables.offline.advisor import write_advisor

    return tuple(
        ReportFile(f"{part.prefix}advisor_summary{request.suffix}.txt", partial(write_advisor, part.comparison))
        for part in parts_by_model(request.comparison)
    )


def _mapping(_form: Form, request: Request, _names: Sequence[str]) -> tuple[ReportFile, ...]:
    """Return the table of files of every model."""
    return tuple(
        ReportFile(
            f"{part.prefix}mapping{request.suffix}_{request.started:%Y%m%d%H%M%S}.csv",
            partial(_write_mapping, part.comparison),
        )
        for part in parts_by_model(request.comparison)
    )


def _write_mapping(comparison: Comparison, path: Path) -> None:
    from probe_flow.reports.tables.offline.mapping import write_mapping

    write_mapping(comparison.pairs, path, rows=comparison.rows)


def _details(_form: Form, request: Request, _names: Sequence[str]) -> tuple[ReportFile, ...]:
    """Return the files of the element-wise views."""
    from probe_flow.reports.elements.element_files import element_files

    folder = f"comparison{request.suffix}/" if request.suffix else ""
    return tuple(ReportFile(f"{folder}{file.name}", file.write) for file in element_files(request.views))


def _data_mapping(form: Form, request: Request, names: Sequence[str]) -> tuple[ReportFile, ...]:
    name = f"data_mapping{request.suffix}_{request.started:%Y%m%d%H%M%S}.yaml"
    return (ReportFile(name, partial(_write_one, form, request, names)),)


def _merges(form: Form, request: Request, _names: Sequence[str]) -> tuple[ReportFile, ...]:
    """Return the merged tables of every step; several configurations are told apart by their names."""
    from probe_flow.reports.rank_merge.write import merged_files

    suffix = f"{request.suffix}_{Path(form.argument).stem}" if len(request.merged) > 1 else request.suffix
    return tuple(
        ReportFile(f"{folder}{file.name}", file.write)
        for folder, sheets in request.merged.get(form.argument, {}).items()
        for file in merged_files(sheets, started=request.started, suffix=suffix)
    )


_Writer = Callable[[Form, Request, Path, Sequence[str]], None]


def _csv(form: Form, request: Request, path: Path, _names: Sequence[str]) -> None:
    from probe_flow.reports.registry import layout

    layout(form.argument, columns=request.columns)(request.comparison, path)


def _xlsx(form: Form, request: Request, path: Path, _names: Sequence[str]) -> None:
    from probe_flow.reports.xlsx import write_xlsx

    write_xlsx(request.comparison, path, layout=form.argument, columns=request.columns, created=request.started)


def _jsonl(form: Form, request: Request, path: Path, _names: Sequence[str]) -> None:
    from probe_flow.record.jsonl import write_comparison_jsonl, write_nodes_jsonl

    write = write_nodes_jsonl if form.argument == "nodes" else write_comparison_jsonl
    write(request.comparison, path)


def _html(_form: Form, request: Request, path: Path, _names: Sequence[str]) -> None:
    from probe_flow.reports.html.page import write_html

    write_html(request.comparison, path, run=request.run)


def _junit(_form: Form, request: Request, path: Path, _names: Sequence[str]) -> None:
    from probe_flow.reports.ci.junit import write_junit

    write_junit(request.comparison, path, run=request.run)


def _markdown(_form: Form, request: Request, path: Path, names: Sequence[str]) -> None:
    from probe_flow.reports.ci.markdown import write_markdown

    known = [str(name) for name in request.run.get("artifacts") or ()]
    write_markdown(request.comparison, path, run=request.run, files=tuple(dict.fromkeys((*known, *names))))


def _annotations(form: Form, request: Request, path: Path, _names: Sequence[str]) -> None:
    from probe_flow.record.conclusion import concluded
    from probe_flow.reports.ci.annotations import annotate, github_text, gitlab_text, write_annotations

    found = annotate([request.comparison], concluded(request.comparison, request.run), root=request.root)
    if form.argument == "github":
        write_annotations(github_text(found), path)
    else:
        workflow = str(request.run["workflow"]["path"])
        write_annotations(gitlab_text(found, workflow=workflow, root=request.root), path)


def _pairs(_form: Form, request: Request, path: Path, _names: Sequence[str]) -> None:
    from probe_flow.files.atomic import atomic_text
    from probe_flow.mappings.mapping_file import data_mapping_text

    with atomic_text(path) as file:
        file.write(data_mapping_text(request.comparison.pairs))


_WRITERS: Mapping[str, _Writer] = MappingProxyType(
    {
        "csv": _csv,
        "xlsx": _xlsx,
        "jsonl": _jsonl,
        "html": _html,
        "junit": _junit,
        "markdown": _markdown,
        "annotations": _annotations,
        "data_mapping": _pairs,
    }
)

_FILES: Mapping[str, Callable[[Form, Request, Sequence[str]], tuple[ReportFile, ...]]] = MappingProxyType(
    {
        "csv": _tables,
        "xlsx": _tables,
        "diff_analyze": _differences,
        "data_mapping": _data_mapping,
        "advisor": _advisor,
        "mapping": _mapping,
        "detail": _details,
        "rank_merge": _merges,
    }
)
