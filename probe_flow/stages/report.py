"""`report`: write a comparison as files."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, field_validator

from probe_flow.stages.base import ComparisonOf, Context, IsPath, Kind, Model, StageOptions, StageType

if TYPE_CHECKING:
    from probe_flow.errors import Diagnostic
    from probe_flow.records import Comparison
    from probe_flow.reports.files import Form, Request

DEFAULT_XLSX = "torchair"


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


class FormatWithOption(Model):
    """A format and its option: exactly one of these keys."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    csv: Annotated[str, AfterValidator(_csv_layout)] | None = Field(
        None, description="Column layout: `torchair`, `torchair_legacy`, `dump_json`, or one of an installed package."
    )
    xlsx: Annotated[str, AfterValidator(_xlsx_layout)] | None = Field(
        None,
        description="The same as an Excel workbook with coloured rows: `torchair`, `torchair_legacy` or `dump_json`. "
        "Needs the extra `xlsx`.",
    )
    annotations: Literal["github", "gitlab"] | None = Field(
        None,
        description="Remarks that a CI system shows: `github` (workflow commands in annotations.txt) or `gitlab` "
        "(gl-code-quality-report.json).",
    )


Format: TypeAlias = Literal["jsonl", "html", "junit", "xlsx", "markdown", "annotations"] | FormatWithOption


class Options(StageOptions):
    """Write result files into the run's folder."""

    uses: Literal["report"]
    comparison: ComparisonOf = Field(description="Stage that compared.")
    formats: list[Format] = Field(
        ["jsonl"],
        description="Files to write. `jsonl` (comparison.jsonl, nodes.jsonl) and run.json are always written. `xlsx` "
        "without a layout takes that of the first `csv`, else `torchair`; `annotations` alone are those for GitHub.",
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
                    "an entry has exactly one of `csv`, `xlsx` and `annotations`; begin a new one for each"
                )
        return formats


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the paths of the files written; several comparisons (of a matrix) are numbered.

    A file that cannot be written costs itself: the others are written, and the run is incomplete for it.
    """
    from probe_flow.reports.files import Request, file_name

    folder = Path(options.output) if options.output else context.output
    comparisons = inputs["comparison"]
    written: list[Path] = []
    problems: list[Diagnostic] = []
    for number, comparison in enumerate(comparisons, start=1):
        suffix = f"_{number}" if len(comparisons) > 1 else ""
        request = Request(_as_known(comparison, context), context.facts, Path.cwd(), suffix)
        names = {form: file_name(form, request) for form in forms(options)}
        for form, name in names.items():
            problem = _write(form, request, folder / name, names=tuple(names.values()), context=context)
            if problem is None:
                written.append(folder / name)
            else:
                problems.append(problem)
    context.report(problems)
    return written


def forms(options: Options) -> tuple[Form, ...]:
    """Return the files that the options ask for, in their order, each once."""
    from probe_flow.reports.files import Form
    from probe_flow.reports.registry import TABLES

    layouts = [entry.csv for entry in options.formats if isinstance(entry, FormatWithOption)]
    tables = [layout for layout in layouts if layout in TABLES]
    arguments = {"xlsx": next(iter(tables), None) or DEFAULT_XLSX, "annotations": "github"}
    found: list[Form] = []
    for entry in options.formats:
        if isinstance(entry, FormatWithOption):
            ((word, argument),) = entry.model_dump(exclude_none=True).items()
            found.append(Form(word, argument))
        elif entry != "jsonl":
            found.append(Form(entry, arguments.get(entry, "")))
        elif options.output:  # the run's own folder has these from the engine
            found += [Form("jsonl", "comparison"), Form("jsonl", "nodes")]
    return tuple(dict.fromkeys(found))


def _as_known(comparison: Comparison, context: Context) -> Comparison:
    """Return the comparison with every reason to call the run incomplete that is known by now."""
    errors = [
        f"[{problem['code']}] {problem['message']}"
        for problem in context.facts.get("problems") or ()
        if problem["severity"] == "error"
    ]
    return replace(comparison, incomplete=tuple(dict.fromkeys((*comparison.incomplete, *errors))))


def _write(form: Form, request: Request, path: Path, *, names: Sequence[str], context: Context) -> Diagnostic | None:
    """Write one file; return why that failed."""
    from probe_flow.errors import Diagnostic, ProbeFlowError
    from probe_flow.reports.files import write_file

    try:
        write_file(form, request, path, names=names)
    except ProbeFlowError as exc:
        return exc.diagnostic
    except Exception as exc:  # a writer of any origin: its failure must not take the other files along
        context.emit("report.crashed", form=str(form), traceback=traceback.format_exc())
        return Diagnostic(
            "PF7102",
            f"`{path.name}` is not written: {type(exc).__name__}: {exc}",
            help="the traceback is in `events.jsonl` of the run's folder, event `report.crashed`",
        )
    return None


STAGE = StageType(
    uses="report",
    produces=Kind.REPORT,
    options=Options,
    run=run,
    summary="Write a comparison as files.",
)
