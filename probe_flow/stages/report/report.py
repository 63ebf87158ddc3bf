"""`report`: write a comparison as files, in the formats that we have and those of packages (`probe_flow.formats`)."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from msgspec import structs
from msgspec.structs import replace
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
)

from probe_flow.errors import ProbeFlowError, UsageError
from probe_flow.files.machine import return_free_memory
from probe_flow.packages import PackageError, Registry
from probe_flow.reports.formats import Chosen, FileFormat
from probe_flow.stages.base import ComparisonOf, Consumes, Forecast, IsPath, Kind, Model, StageOptions, StageType
from probe_flow.stages.report.formats.tables import columns_of
from probe_flow.work import Context

if TYPE_CHECKING:
    from probe_flow.errors import Diagnostic
    from probe_flow.record.types.run import StageRecord
    from probe_flow.records import Comparison
    from probe_flow.reports.formats import ReportFile, Request


def _accept(word: str, found: object) -> FileFormat:
    if not isinstance(found, FileFormat):
        raise PackageError(f"it is no `FileFormat` but a `{type(found).__name__}`")
    if found.word != word:
        raise PackageError(f"its format is called `{found.word}`")
    if not callable(found.files):
        raise PackageError("its format has no `files` function")
    return found


_OURS = "probe_flow.stages.report.formats"

FORMATS: Registry[FileFormat] = Registry(
    ("file format", "file formats"),
    "probe_flow.formats",
    {
        "jsonl": f"{_OURS}.pages:JSONL",
        "html": f"{_OURS}.pages:HTML",
        "junit": f"{_OURS}.pages:JUNIT",
        "csv": f"{_OURS}.tables:CSV",
        "xlsx": f"{_OURS}.tables:XLSX",
        "markdown": f"{_OURS}.pages:MARKDOWN",
        "annotations": f"{_OURS}.pages:ANNOTATIONS",
        "sarif": f"{_OURS}.pages:SARIF",
        "rank_merge": f"{_OURS}.tables:RANK_MERGE",
        "diff_analyze": f"{_OURS}.questions:DIFF_ANALYZE",
        "anomaly_analyze": f"{_OURS}.questions:ANOMALY_ANALYZE",
        "detail": f"{_OURS}.questions:DETAIL",
        "data_mapping": f"{_OURS}.questions:DATA_MAPPING",
        "advisor": f"{_OURS}.questions:ADVISOR",
        "mapping": f"{_OURS}.questions:MAPPING",
    },
    _accept,
    unknown="PF1204",
    unusable="PF7004",
)
"""Every word of `formats:`."""


_OF_PACKAGES = tuple(word for word in FORMATS if word not in FORMATS.built_in)
"""Words whose formats are loaded when an entry has one of them."""


def _option(word: str, value: object) -> object:
    """Return the option of a format that a package adds."""
    from pydantic import TypeAdapter

    option = FORMATS.find(word).option
    if option is None:
        raise ValueError(f"`{word}` takes no option; write the plain word")
    try:
        return TypeAdapter(option).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = "".join(f" at `{step}`" for step in first["loc"])
        raise ValueError(f"`{word}` does not take this{where}: {first['msg']}") from error


class _OneKey(Model):
    """A format and its option: exactly one of these keys."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})


def _with_option() -> type[Model]:
    """Return the model of a format that is written with its option."""
    fields: dict[str, Any] = {}
    for word in FORMATS.built_in:
        found = FORMATS[word]
        if found.option is not None:
            fields[word] = (found.option | None, Field(None, description=found.description))
    for word in _OF_PACKAGES:
        checked = Annotated[object, AfterValidator(partial(_option, word))]
        fields[word] = (checked | None, Field(None, description="Of an installed package."))
    return create_model("FormatWithOption", __base__=_OneKey, __doc__=_OneKey.__doc__, __module__=__name__, **fields)


def plain_words(*, needs_rows: bool = True) -> tuple[str, ...]:
    """Return the words that may stand alone; those of packages are not loaded for that, and all there."""
    ours = (word for word in FORMATS.built_in if FORMATS[word].stands_alone)
    return (*(word for word in ours if needs_rows or not FORMATS[word].needs_rows), *_OF_PACKAGES)


if TYPE_CHECKING:
    FormatWithOption = Model
    Format = str | Model
else:
    FormatWithOption = _with_option()
    Format = Union[Literal[plain_words()], FormatWithOption]  # noqa: UP007 - made of values


class Options(StageOptions):
    """Write result files into the run's folder."""

    uses: Literal["report"]
    comparison: ComparisonOf = Field(description="Stage that compared.")
    reproductions: list[Annotated[str, Consumes(Kind.SCRIPTS)]] = Field(
        [], description="Stages `repro` that run before, so that the report tells what they found."
    )
    formats: list[Format] = Field(
        ["jsonl"],
        description="Files to write. `jsonl` (comparison.jsonl, nodes.jsonl) and run.json are always written. `xlsx` "
        "without a layout takes that of the first `csv`, else `torchair`; `annotations` alone are those for GitHub; "
        "`sarif` (results.sarif) is what code hosts and editors show at source lines; "
        "`data_mapping` is what was paired, as a file for `match.data_mapping`; `anomaly_analyze` lists the calls in "
        "which NaN or infinity begins, in the form of msprobe's overflow check. For offline models: `advisor` "
        "(advisor_summary.txt) and `mapping` (which file is compared with which).",
    )
    columns: list[str] = Field(
        [],
        description="Further columns of the layouts that have some: `overflow` (OverFlow: a float16 tensor reached its "
        "largest value) and `model_flags` (IsNpuOps, IsOutputNode, IsPrecisionError) of `offline` and `msaccucmp`.",
    )
    output: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None, description="Folder for these files; default: the run's own folder."
    )

    # On the list: what fails inside one member of a union is told as if the other members had been meant.
    @field_validator("formats")
    @classmethod
    def _are_entries(cls, formats: list[Format]) -> list[Format]:
        for entry in formats:
            if isinstance(entry, str):
                if entry in _OF_PACKAGES and not FORMATS.find(entry).stands_alone:
                    raise ValueError(f"`{entry}` needs an option; write `{{{entry}: ...}}`")
            elif len(_given(entry)) != 1:
                *words, last = (f"`{word}`" for word in FormatWithOption.model_fields)
                raise ValueError(f"an entry has exactly one of {', '.join(words)} and {last}; begin a new one for each")
        return formats

    @field_validator("columns")
    @classmethod
    def _of_a_table(cls, columns: list[str], info: ValidationInfo) -> list[str]:
        if not columns or "formats" not in info.data:
            return columns
        entries = [option for entry in info.data["formats"] for option in _given(entry)]
        known = dict.fromkeys(columns_of(str(option) for word, option in entries if word in ("csv", "xlsx")))
        if not known:
            raise ValueError("no table of `formats` has these columns; add `{csv: offline}` there")
        for column in columns:
            if column not in known:
                raise ValueError(f"no table of `formats` has the column `{column}`; columns: {', '.join(known)}")
        return columns


def _given(entry: Format) -> list[tuple[str, Any]]:
    """Return words and options of an entry; a plain word has none."""
    return [] if isinstance(entry, str) else [(word, option) for word, option in entry if option is not None]


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the paths of the files written; those of several comparisons (of a matrix) are named after their variant.

    A file that cannot be written costs itself: the others are written, and the run is incomplete for it.
    """
    from probe_flow.files.leftovers import remove_leftovers
    from probe_flow.record.conclusion import concluded
    from probe_flow.reports.formats import Request

    folder = Path(options.output) if options.output else context.output
    if options.output:
        remove_leftovers(folder, goes_below=False)
    comparisons = inputs["comparison"]
    written: list[Path] = []
    problems: list[Diagnostic] = []
    for suffix, comparison in zip(context.file_suffixes("comparison", len(comparisons)), comparisons, strict=True):
        known = as_known(comparison, context)
        facts = structs.replace(context.facts, stages=before_reports(context.facts.stages))
        request = Request(
            known,
            concluded(known, facts, context.summary(comparison)),
            Path.cwd(),
            suffix=suffix,
            columns=tuple(options.columns),
            chosen=chosen(options.formats),
            in_run_folder=not options.output,
            io=context.settings.io,
            problems=problems,
        )
        files = _told_apart([(each, file) for each in request.chosen for file in _files(each, request, context)])
        request.names.extend(file.name for _, file in files)
        for each, file in files:
            path = folder / file.name
            problem = _problem(each, file, path, context)
            if problem is None:
                written.append(path)
            else:
                problems.append(problem)
    context.report(problems)
    return written


def chosen(formats: Sequence[Format]) -> tuple[Chosen, ...]:
    """Return what a list of formats asks for, in its order, each once.

    Raises:
        UsageError: PF7004 if a format is of a package and cannot be used.
    """
    written = [pair for entry in formats for pair in _given(entry)]
    found: list[Chosen] = []
    for entry in formats:
        ((word, option),) = [(entry, None)] if isinstance(entry, str) else _given(entry)
        kind = FORMATS.find(word)
        each = Chosen(kind, kind.plain(written) if isinstance(entry, str) else option)
        if kind.is_joint:
            _join(found, each)
        elif each not in found:
            found.append(each)
    return tuple(found)


def _join(found: list[Chosen], each: Chosen) -> None:
    """Add an entry to those of its word before it."""
    more = () if each.option is None else (each.option,)
    for number, other in enumerate(found):
        if other.format is each.format:
            found[number] = Chosen(each.format, (*other.option, *more))
            return
    found.append(Chosen(each.format, more))


def _files(each: Chosen, request: Request, context: Context) -> list[ReportFile]:
    """Return the files of one format; none where it cannot say which there are."""
    try:
        return list(each.format.files(request, each.option))
    except ProbeFlowError as exc:
        request.problems.append(exc.diagnostic)
    except Exception as exc:  # as in `_problem`
        request.problems.append(_failure(each, f"what `{each.format.word}` shows is not found", exc, context))
    return []


def _told_apart(files: Sequence[tuple[Chosen, ReportFile]]) -> list[tuple[Chosen, ReportFile]]:
    """Put the option, or even a number, into the names of files that would overwrite each other."""
    count = Counter(file.name for _, file in files)
    taken: Counter[str] = Counter()
    found = []
    for each, file in files:
        name = _with(file.name, each.label) if count[file.name] > 1 else file.name
        taken[name] += 1
        found.append((each, replace(file, name=name if taken[name] == 1 else _with(name, str(taken[name])))))
    return found


def _with(name: str, part: str) -> str:
    path = Path(name)
    return str(path.with_name(f"{path.stem}_{part}{path.suffix}"))


def before_reports(stages: Sequence[StageRecord]) -> tuple[StageRecord, ...]:
    """Return the stages before the first report: all reports name the same, whenever they are made."""
    return tuple(takewhile(lambda stage: stage.uses != "report", stages))


def as_known(comparison: Comparison, context: Context, problems: Sequence[Diagnostic] = ()) -> Comparison:
    """Return the comparison with every reason to call the run incomplete that is known by now.

    Args:
        comparison: it.
        context: of the stage.
        problems: further ones, which the stage did not report yet.
    """
    from probe_flow.errors import Severity
    from probe_flow.record.conclusion import error_reasons, stage_gaps

    facts = context.facts
    gaps = stage_gaps(before_reports(facts.stages))
    known = [
        (each.code, each.message) for each in facts.problems if each.severity == "error" and each.stage not in gaps
    ]
    known += [(each.code, each.message) for each in problems if each.severity is Severity.ERROR]
    reasons = (*gaps.values(), *comparison.incomplete, *error_reasons(known))
    return structs.replace(comparison, incomplete=tuple(dict.fromkeys(reasons)))


def _problem(each: Chosen, file: ReportFile, path: Path, context: Context) -> Diagnostic | None:
    """Write one file; return why it is not there."""
    try:
        context.announce(path)
        file.write(path)
    except ProbeFlowError as exc:
        return exc.diagnostic
    except Exception as exc:  # a writer of any origin: its failure must not take the other files along
        return _failure(each, f"`{path.name}` is not written", exc, context)
    finally:
        return_free_memory()  # each format needs some of its own
    return None


def _failure(each: Chosen, what: str, error: Exception, context: Context) -> Diagnostic:
    from probe_flow.errors import Diagnostic

    context.emit("report.crashed", form=str(each), traceback="".join(traceback.format_exception(error)))
    return Diagnostic(
        "PF7102",
        f"{what}: {type(error).__name__}: {error}",
        help="the traceback is in `events.jsonl` of the run's folder, event `report.crashed`",
    )


def forecast(options: Options) -> Forecast | None:
    """Say before anything is measured that a file cannot be written for want of a package, or for a broken one."""
    try:
        problems = [each.format.problem(each.option) for each in chosen(options.formats)]
    except UsageError as error:
        problems = list(error.diagnostics)
    found: list[Diagnostic] = []
    for problem in problems:
        if problem is not None and problem not in found:
            found.append(problem)
    return Forecast("writes files", tuple(found)) if found else None


STAGE = StageType(
    uses="report",
    produces=Kind.REPORT,
    options=Options,
    run=run,
    summary="Write a comparison as files.",
    forecast=forecast,
)
