"""`csv` and `xlsx`: the rows as tables, in one of the layouts; `rank_merge`: one table per measure for all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator

from probe_flow.errors import Diagnostic, ProbeFlowError, UsageError, did_you_mean
from probe_flow.reports.formats import FileFormat, ReportFile, Request
from probe_flow.reports.layout import LAYOUTS
from probe_flow.stages.base import IsPath

if TYPE_CHECKING:
    from probe_flow.reports.layout import Layout
    from probe_flow.reports.parts import Part
    from probe_flow.reports.table import Table


DEFAULT_XLSX = "torchair"


def _csv_layout(name: str) -> str:
    return _known(name, "CSV", list(LAYOUTS))


def _xlsx_layout(name: str) -> str:
    _known(name, "XLSX", list(LAYOUTS))
    if LAYOUTS[name].table is None:
        raise ValueError(f"the layout `{name}` is of CSV files only; write `csv: {name}`")
    return name


def _known(name: str, kind: str, known: Sequence[str]) -> str:
    if name not in known:
        hint = did_you_mean(name, known) or "layouts: " + ", ".join(known)
        raise ValueError(f"there is no {kind} layout `{name}`; {hint}")
    LAYOUTS.check(name)
    return name


def _layout_of_the_first_csv(written: Sequence[tuple[str, Any]]) -> str:
    for word, layout in written:
        if word == "csv" and _problem(layout) is None and LAYOUTS[layout].table is not None:
            return str(layout)
    return DEFAULT_XLSX


def _problem(layout: str) -> Diagnostic | None:
    try:
        LAYOUTS.find(layout)
    except UsageError as error:
        return error.diagnostic
    return None


def _workbook_problem(layout: str) -> Diagnostic | None:
    from probe_flow.reports.xlsx import can_write_workbooks, no_xlsx_writer

    return _problem(layout) if can_write_workbooks() else no_xlsx_writer()


def _csv_files(request: Request, name: str) -> Iterable[ReportFile]:
    from probe_flow.reports.parts import MAX_CSV_ROWS

    def write(part: Part, path: Path) -> None:
        layout.write_csv(part.comparison, path, columns=request.columns)

    layout = LAYOUTS.find(name)
    for part in layout.parts(request.comparison, MAX_CSV_ROWS):
        yield ReportFile(_name(request, layout, part, "csv"), partial(write, part))


def _xlsx_files(request: Request, name: str) -> Iterable[ReportFile]:
    def write(part: Part, path: Path) -> None:
        from probe_flow.reports.xlsx import write_xlsx

        table: Table = layout.make(part.comparison, columns=request.columns)
        write_xlsx(table, path, created=request.started)

    layout = LAYOUTS.find(name)
    for part in layout.parts(request.comparison, None):
        yield ReportFile(_name(request, layout, part, "xlsx"), partial(write, part))


def _name(request: Request, layout: Layout, part: Part, ending: str) -> str:
    """Return the name of a table's file, which states when the run began."""
    stem = f"{'debug_' if part.is_debug else ''}{layout.stem or layout.name}{request.suffix}{part.suffix}"
    return f"{part.folder}{part.prefix}{stem}_{request.started:%Y%m%d%H%M%S}{part.ending}.{ending}"


CSV = FileFormat(
    "csv",
    _csv_files,
    Annotated[str, AfterValidator(_csv_layout)],
    "Column layout: `torchair`, `torchair_percent` (relative errors of statistics as text, `5.0%`), "
    "`torchair_legacy`, `dump_json`, `dump_json_msprobe`, `offline`, `msaccucmp` (`offline` as msprobe writes it), "
    "`precheck` (names the tables that the stage `precheck` wrote), or one of an installed package.",
    stands_alone=False,
    problem=_problem,
)
XLSX = FileFormat(
    "xlsx",
    _xlsx_files,
    Annotated[str, AfterValidator(_xlsx_layout)],
    "The same as an Excel workbook with coloured rows: `torchair`, `torchair_percent`, `torchair_legacy`, `dump_json`, "
    "`dump_json_msprobe`, `offline`, `msaccucmp`, or one of an installed package. Needs the extra `xlsx`.",
    plain=_layout_of_the_first_csv,
    problem=_workbook_problem,
)


def columns_of(layouts: Iterable[str]) -> Iterator[str]:
    """Yield the further columns that these layouts have.

    Raises:
        UsageError: PF7003 if one of them is of a package and cannot be used.
    """
    for name in layouts:
        yield from LAYOUTS.find(name).columns


def _merged_ranks(request: Request, path: str) -> Iterable[ReportFile]:
    """Yield the merged tables of every step; those of several configurations are told apart by their names."""
    from probe_flow.reports.rank_merge.config import read_merge_config
    from probe_flow.reports.rank_merge.sources import merge_comparison
    from probe_flow.reports.rank_merge.write import merged_files

    try:
        merged, problems = merge_comparison(request.comparison, read_merge_config(path))
    except ProbeFlowError as error:
        request.problems.extend(error.diagnostics)
        return
    request.problems.extend(problems)
    is_one = sum(each.format.word == "rank_merge" for each in request.chosen) == 1
    suffix = request.suffix if is_one else f"{request.suffix}_{Path(path).stem}"
    for folder, sheets in merged.items():
        for file in merged_files(sheets, started=request.started, suffix=suffix):
            yield ReportFile(f"{folder}{file.name}", file.write)


RANK_MERGE = FileFormat(
    "rank_merge",
    _merged_ranks,
    Annotated[str, IsPath()],
    "Merge the ranks into one table per measure: a YAML file with `api` (leading parts of row names) and perhaps "
    "`compare_index` (columns). A workbook with the extra `xlsx`, else CSV.",
    stands_alone=False,
)
