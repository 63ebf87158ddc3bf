"""`report`: write a comparison as files."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from msgspec import structs
from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, field_validator

from probe_flow.stages.base import ComparisonOf, Forecast, IsPath, Kind, Model, StageOptions, StageType
from probe_flow.stages.report.report_detail import Detail
from probe_flow.work import Context

if TYPE_CHECKING:
    from probe_flow.errors import Diagnostic
    from probe_flow.records import Comparison, Differences
    from probe_flow.reports.formats import Form, ReportFile, Request
    from probe_flow.reports.rank_merge.sources import Merged

DEFAULT_XLSX = "torchair"


Threshold = Annotated[float, Field(gt=0)]


def _csv_layout(name: str) -> str:
    from probe_flow.reports.registry import layout_names

    return _known(name, "CSV", layout_names())


def _xlsx_layout(name: str) -> str:
    from probe_flow.reports.registry import TABLES

    return _known(name, "XLSX", tuple(TABLES))


def _known(name: str, kind: str, known: Sequence[str]) -> str:
    from probe_flow.errors import did_you_mean

    if name not in known:
        raise ValueError(
            f"there is no {kind} layout `{name}`; {did_you_mean(name, known) or 'layouts: ' + ', '.join(known)}"
        )
    return name


class DifferenceThresholds(Model):
    """From which relative difference of a statistic on an entry differs; one that is absent keeps 0.5."""

    max_diff_rel: Threshold | None = Field(None, description="Of the maximum, e.g. 0.5 for 50 %.")
    min_diff_rel: Threshold | None = Field(None, description="Of the minimum.")
    mean_diff_rel: Threshold | None = Field(None, description="Of the mean.")
    l2norm_diff_rel: Threshold | None = Field(None, description="Of the L2 norm.")


class FormatWithOption(Model):
    """A format and its option: exactly one of these keys."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    csv: Annotated[str, AfterValidator(_csv_layout)] | None = Field(
        None,
        description="Column layout: `torchair`, `torchair_percent` (relative errors of statistics as text, `5.0%`), "
        "`torchair_legacy`, `dump_json`, `dump_json_msprobe`, `offline`, `msaccucmp` (`offline` as msprobe writes it), "
        "or one of an installed package.",
    )
    xlsx: Annotated[str, AfterValidator(_xlsx_layout)] | None = Field(
        None,
        description="The same as an Excel workbook with coloured rows: `torchair`, `torchair_percent`, "
        "`torchair_legacy`, `dump_json`, `dump_json_msprobe`, `offline` or `msaccucmp`. Needs the extra `xlsx`.",
    )
    annotations: Literal["github", "gitlab"] | None = Field(
        None,
        description="Remarks that a CI system shows: `github` (workflow commands in annotations.txt) or `gitlab` "
        "(gl-code-quality-report.json).",
    )
    rank_merge: Annotated[str, IsPath()] | None = Field(
        None,
        description="Merge the ranks into one table per measure: a YAML file with `api` (leading parts of row names) "
        "and perhaps `compare_index` (columns). A workbook with the extra `xlsx`, else CSV.",
    )
    diff_analyze: DifferenceThresholds | None = Field(
        None,
        description="The first entry of each rank that differs, as JSON, by own thresholds. Plain `diff_analyze` takes "
        "what the analysis of the run calls diverging.",
    )
    detail: Detail | None = Field(
        None,
        description="Element-wise view of chosen tensors: the target as `.npy` in logical order, tables of all "
        "elements, the largest errors, and a summary. With `html` in the same list the report maps their errors.",
    )


Format: TypeAlias = (
    Literal[
        "jsonl",
        "html",
        "junit",
        "xlsx",
        "markdown",
        "annotations",
        "diff_analyze",
        "data_mapping",
        "advisor",
        "mapping",
    ]
    | FormatWithOption
)


class Options(StageOptions):
    """Write result files into the run's folder."""

    uses: Literal["report"]
    comparison: ComparisonOf = Field(description="Stage that compared.")
    formats: list[Format] = Field(
        ["jsonl"],
        description="Files to write. `jsonl` (comparison.jsonl, nodes.jsonl) and run.json are always written. `xlsx` "
        "without a layout takes that of the first `csv`, else `torchair`; `annotations` alone are those for GitHub; "
        "`data_mapping` is what was paired, as a file for `match.data_mapping`. For offline models: `advisor` "
        "(advisor_summary.txt) and `mapping` (which file is compared with which).",
    )
    columns: list[Literal["overflow", "model_flags"]] = Field(
        default_factory=list,
        description="Further columns of the layouts `offline` and `msaccucmp`: `overflow` (OverFlow: a float16 tensor "
        "reached its largest value) and `model_flags` (IsNpuOps, IsOutputNode, IsPrecisionError).",
    )
    output: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None, description="Folder for these files; default: the run's own folder."
    )

    # On the list: what fails inside one member of a union is told as if the other members had been meant.
    @field_validator("formats")
    @classmethod
    def _one_key_each(cls, formats: list[Format]) -> list[Format]:
        for entry in formats:
            if isinstance(entry, FormatWithOption) and len(entry.model_dump(exclude_none=True)) != 1:
                raise ValueError(
                    "an entry has exactly one of `csv`, `xlsx`, `annotations`, `rank_merge`, `diff_analyze` and "
                    "`detail`; begin a new one for each"
                )
        return formats

    @field_validator("columns")
    @classmethod
    def _of_a_table(cls, columns: list[str], info: ValidationInfo) -> list[str]:
        from probe_flow.reports.registry import WITH_COLUMNS

        entries = [entry for entry in info.data.get("formats", ()) if isinstance(entry, FormatWithOption)]
        layouts = {layout for entry in entries for layout in (entry.csv, entry.xlsx)}
        if columns and "formats" in info.data and not layouts & WITH_COLUMNS:
            raise ValueError("no table of `formats` has these columns; add `{csv: offline}` there")
        return columns


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the paths of the files written; several comparisons (of a matrix) are numbered.

    A file that cannot be written costs itself: the others are written, and the run is incomplete for it.
    """
    from probe_flow.files.leftovers import remove_leftovers
    from probe_flow.reports.formats import Request, files_of

    folder = Path(options.output) if options.output else context.output
    if options.output:
        remove_leftovers(folder, goes_below=False)
    comparisons = inputs["comparison"]
    written: list[Path] = []
    problems: list[Diagnostic] = []
    for number, comparison in enumerate(comparisons, start=1):
        suffix = f"_{number}" if len(comparisons) > 1 else ""
        request = Request(
            _as_known(comparison, context), context.facts, Path.cwd(), suffix, columns=tuple(options.columns)
        )
        request, said = _prepared(options, request, context)
        problems += said
        names: list[str] = []  # filled before the first file is written
        files = _told_apart([(form, file) for form in forms(options) for file in files_of(form, request, names=names)])
        names += [file.name for _, file in files]
        for form, file in files:
            path = folder / file.name
            problem = _problem(form, file, path, context)
            if problem is None:
                written.append(path)
            else:
                problems.append(problem)
    context.report(problems)
    return written


def forms(options: Options) -> tuple[Form, ...]:
    """Return the files that the options ask for, in their order, each once."""
    from probe_flow.reports.formats import Form
    from probe_flow.reports.registry import TABLES

    layouts = [entry.csv for entry in options.formats if isinstance(entry, FormatWithOption)]
    tables = [layout for layout in layouts if layout in TABLES]
    arguments = {"xlsx": next(iter(tables), None) or DEFAULT_XLSX, "annotations": "github"}
    found: list[Form] = []
    for entry in options.formats:
        if isinstance(entry, FormatWithOption):
            ((word, argument),) = entry.model_dump(exclude_none=True).items()
            found.append(Form(word, argument if isinstance(argument, str) else ""))
        elif entry != "jsonl":
            found.append(Form(entry, arguments.get(entry, "")))
        elif options.output:  # the run's own folder has these from the engine
            found += [Form("jsonl", "comparison"), Form("jsonl", "nodes")]
    return tuple(dict.fromkeys(found))


def _told_apart(files: Sequence[tuple[Form, ReportFile]]) -> list[tuple[Form, ReportFile]]:
    """Put the layout into the names of files that would overwrite each other."""
    count = Counter(file.name for _, file in files)
    return [
        (form, replace(file, name=_with_layout(file.name, form)) if count[file.name] > 1 else file)
        for form, file in files
    ]


def _with_layout(name: str, form: Form) -> str:
    path = Path(name)
    return str(path.with_name(f"{path.stem}_{form.argument or form.word}{path.suffix}"))


def _as_known(comparison: Comparison, context: Context) -> Comparison:
    """Return the comparison with every reason to call the run incomplete that is known by now."""
    from probe_flow.record.conclusion import error_reasons

    problems = context.facts.get("problems") or ()
    errors = error_reasons(
        (problem["code"], problem["message"]) for problem in problems if problem["severity"] == "error"
    )
    return structs.replace(comparison, incomplete=tuple(dict.fromkeys((*comparison.incomplete, *errors))))


def _prepared(options: Options, request: Request, context: Context) -> tuple[Request, list[Diagnostic]]:
    """Return the request with what some forms need found, and what is to say about it."""
    problems: list[Diagnostic] = []
    for form in forms(options):
        if form.word in _PREPARED:
            try:
                request, said = _PREPARED[form.word](form, options, request, context)
            except Exception as exc:  # as in `_problem`
                said = [_failure(form, f"what `{form.word}` shows is not found", exc, context)]
            problems += said
    return request, problems


def _with_differences(
    _form: Form, options: Options, request: Request, _context: Context
) -> tuple[Request, list[Diagnostic]]:
    differences, said = _first_differences(options, request.comparison)
    return replace(request, differences=differences), said


def _with_merged(
    form: Form, _options: Options, request: Request, _context: Context
) -> tuple[Request, list[Diagnostic]]:
    merged, said = _merged(form.argument, request.comparison)
    return replace(request, merged={**request.merged, form.argument: merged}), said


def _with_views(_form: Form, options: Options, request: Request, context: Context) -> tuple[Request, list[Diagnostic]]:
    from probe_flow.stages.report.element_views import views_of, with_looks

    wanted = [entry.detail for entry in options.formats if isinstance(entry, FormatWithOption) and entry.detail]
    views, said = views_of(request.comparison, wanted)
    if "html" in options.formats:
        request = replace(request, comparison=with_looks(request.comparison, wanted, io=context.settings.io))
    return replace(request, views=views), said


_PREPARED: Mapping[str, Callable[[Form, Options, Request, Context], tuple[Request, list[Diagnostic]]]] = (
    MappingProxyType({"diff_analyze": _with_differences, "rank_merge": _with_merged, "detail": _with_views})
)


def _merged(path: str, comparison: Comparison) -> tuple[Merged, list[Diagnostic]]:
    from probe_flow.errors import ProbeFlowError
    from probe_flow.reports.rank_merge.config import read_merge_config
    from probe_flow.reports.rank_merge.sources import merge_comparison

    try:
        return merge_comparison(comparison, read_merge_config(path))
    except ProbeFlowError as exc:
        return {}, list(exc.diagnostics)


def _first_differences(options: Options, comparison: Comparison) -> tuple[Differences, list[Diagnostic]]:
    """Return the first differences by the thresholds of the options, and what is to say where there are none."""
    from probe_flow.analysis.first_difference.search import first_differences
    from probe_flow.errors import Diagnostic, Severity

    mappings = (entry.diff_analyze for entry in options.formats if isinstance(entry, FormatWithOption))
    given = next((entry for entry in mappings if entry is not None), None)
    found = first_differences(comparison, given.model_dump(exclude_none=True) if given else None)
    if any(each.first for each in found):
        return found, []
    message = "no entry differs from the golden, so `diff_analyze` writes no file of first differences"
    return found, [Diagnostic("PF7140", message, severity=Severity.NOTE)]


def _problem(form: Form, file: ReportFile, path: Path, context: Context) -> Diagnostic | None:
    """Write one file; return why it is not there."""
    from probe_flow.errors import ProbeFlowError

    try:
        context.announce(path)
        file.write(path)
    except ProbeFlowError as exc:
        return exc.diagnostic
    except Exception as exc:  # a writer of any origin: its failure must not take the other files along
        return _failure(form, f"`{path.name}` is not written", exc, context)
    return None


def _failure(form: Form, what: str, error: Exception, context: Context) -> Diagnostic:
    from probe_flow.errors import Diagnostic

    context.emit("report.crashed", form=str(form), traceback="".join(traceback.format_exception(error)))
    return Diagnostic(
        "PF7102",
        f"{what}: {type(error).__name__}: {error}",
        help="the traceback is in `events.jsonl` of the run's folder, event `report.crashed`",
    )


def forecast(options: Options) -> Forecast | None:
    """Say before anything is measured that a file cannot be written for want of a package."""
    from probe_flow.reports.xlsx import can_write_workbooks, no_xlsx_writer

    wanted = any(entry == "xlsx" or (isinstance(entry, FormatWithOption) and entry.xlsx) for entry in options.formats)
    return Forecast("writes workbooks", (no_xlsx_writer(),)) if wanted and not can_write_workbooks() else None


STAGE = StageType(
    uses="report",
    produces=Kind.REPORT,
    options=Options,
    run=run,
    summary="Write a comparison as files.",
    forecast=forecast,
)
