"""`probe-flow report`: reports of a finished run, from its folder alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from probe_flow.cli.options import run_argument, run_or_newest
from probe_flow.exit_codes import EXIT_INCOMPLETE, EXIT_PASSED

if TYPE_CHECKING:
    from probe_flow.record.types.run import RunRecord


@click.command("report")
@run_argument
@click.option(
    "--format",
    "formats",
    multiple=True,
    required=True,
    metavar="FORMAT[=OPTION]",
    help="As in `formats` of a report stage: `html`, `junit`, `csv=LAYOUT`, `annotations=gitlab` ... May be repeated.",
)
@click.option("--column", "columns", multiple=True, metavar="NAME", help="A further column of the tables that have it.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    metavar="FOLDER",
    help="Where the files go; default: the working directory.",
)
def command(*, run: Path | None, formats: Sequence[str], columns: Sequence[str], output: Path) -> int:
    """Make reports of the finished RUN (default: the newest here) without its dumps.

    It is made of comparison.msgpack, which every run with a comparison leaves. Exit code 3 when a file is not written.
    """
    from probe_flow.cli.terminal.console import show
    from probe_flow.errors import Diagnostic, Severity, UsageError
    from probe_flow.record.run_folder import read_run
    from probe_flow.record.stored.kinds import FILE
    from probe_flow.record.stored.reading import not_stored, read_comparison
    from probe_flow.stages.report.report import STAGE, Options
    from probe_flow.work import Context, Settings

    options = _options(formats, columns, output, Options)
    stored = read_run(run_or_newest(run))
    if not stored.comparisons:
        raise UsageError(not_stored(stored.folder, "it compared nothing"))
    found = [read_comparison(stored.file(FILE, comparison=name)) for name in stored.comparisons]
    problems: list[Diagnostic] = []

    def nothing(*_given: Any, **_named: Any) -> Any:
        return None

    context = Context(
        "report",
        output,
        nothing,
        nothing,
        problems.extend,
        Settings(),
        _before_reports(stored.record),
        consumed={"comparison": tuple(stored.comparisons)},
    )
    written = STAGE.run(options, {"comparison": found}, context)
    for path in written if isinstance(written, list) else ():
        click.echo(path)
    show(problems)
    return EXIT_INCOMPLETE if any(problem.severity is Severity.ERROR for problem in problems) else EXIT_PASSED


def _options(formats: Sequence[str], columns: Sequence[str], output: Path, kind: Any) -> Any:
    from pydantic import ValidationError

    from probe_flow.errors import Diagnostic, UsageError, did_you_mean
    from probe_flow.stages.report.report import FormatWithOption, plain_words

    usual = "write e.g. `--format html --format csv=torchair`"
    known = sorted({*plain_words(), *FormatWithOption.model_fields})
    parts = [each.partition("=") for each in formats]
    for word, *_ in parts:
        if word not in known:
            message = f"`{word}` is no format of a report; there are {', '.join(known)}"
            raise UsageError(Diagnostic("PF7118", message, help=did_you_mean(word, known) or usual))
    entries = [{word: option} if equals else word for word, equals, option in parts]
    given = {"uses": "report", "comparison": "result", "formats": entries, "columns": list(columns)}
    try:
        return kind.model_validate({**given, "output": str(output)})
    except ValidationError as error:
        said = dict.fromkeys(each["msg"].removeprefix("Value error, ") for each in error.errors(include_url=False))
        message = f"`--format` or `--column` is not understood: {'; '.join(said)}"
        raise UsageError(Diagnostic("PF7118", message, help=usual)) from error


def _before_reports(record: RunRecord) -> RunRecord:
    """Return the record of a run as its first report stage had it, so that a report says the same now as then."""
    from msgspec.structs import replace

    from probe_flow.record.row_index import FILE as INDEX
    from probe_flow.record.run_folder import DETAILS, NODES, RECORD, ROWS
    from probe_flow.record.stored.kinds import FILE
    from probe_flow.stages.report.report import before_reports

    before = before_reports(record.stages)
    later = {*(stage.name for stage in record.stages[len(before) :]), "run"}
    files = RECORD, "events.jsonl", ROWS, NODES, INDEX, DETAILS, FILE
    return replace(
        record,
        status="running",
        verdict="incomplete",
        exit_code=EXIT_INCOMPLETE,
        incomplete=("the run has not ended",),
        stages=before,
        timings=replace(record.timings, wall_s=None),
        artifacts=tuple(name for name in record.artifacts if name.rpartition("/")[2] in files),
        problems=tuple(problem for problem in record.problems if problem.stage not in later),
        cache=None,
    )
