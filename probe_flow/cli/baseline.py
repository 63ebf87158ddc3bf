"""`probe-flow baseline`: accept a run, look at what was accepted, hold a run against it."""

from __future__ import annotations

from pathlib import Path

import click

from probe_flow.cli.number import tolerance_option
from probe_flow.cli.options import format_option

WORSE = 1

RUN_ARGUMENT = click.argument("run", type=click.Path(path_type=Path))
FILE_ARGUMENT = click.argument("file", type=click.Path(path_type=Path))


@click.group("baseline")
def command() -> None:
    """Accept the failures of a run, so that later runs fail only on what is worse.

    `baseline: FILE` at the compare stage of the workflow puts a baseline to use.
    """


@command.command("accept")
@RUN_ARGUMENT
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default="baseline.yaml",
    show_default=True,
    metavar="FILE",
    help="File to write; an older baseline of the same workflow there is replaced.",
)
def accept(*, run: Path, output: Path) -> None:
    """Write what fails the gate of RUN into a file with one line a node, to be reviewed and kept with the workflow."""
    from probe_flow.record.run_folder import read_run
    from probe_flow.runs.baseline.accept import accept as accept_run
    from probe_flow.runs.baseline.text import accepted_lines

    for line in accepted_lines(accept_run(read_run(run), output), str(output)):
        click.echo(line)


@command.command("show")
@FILE_ARGUMENT
@format_option
def show(*, file: Path, output_format: str) -> None:
    """Show what a baseline FILE accepts."""
    from probe_flow.record.baseline_file import read_baseline
    from probe_flow.runs.baseline.text import file_json, file_lines

    found = read_baseline(file)
    if output_format == "json":
        click.echo(file_json(found))
        return
    for line in file_lines(found):
        click.echo(line)


@command.command("check")
@RUN_ARGUMENT
@FILE_ARGUMENT
@tolerance_option("How much larger than accepted an error may be, relative to it.")
@format_option
def check(*, run: Path, file: Path, tolerance: float, output_format: str) -> int:
    """Hold RUN against a baseline FILE that its workflow need not name. Exit code 1 when something is worse."""
    from probe_flow.record.run_folder import read_run
    from probe_flow.runs.baseline.accept import check as check_run
    from probe_flow.runs.baseline.text import check_json, check_lines

    uses = check_run(read_run(run), file, tolerance=tolerance)
    if output_format == "json":
        click.echo(check_json(uses))
    else:
        for line in check_lines(uses):
            click.echo(line)
    return WORSE if any(use.worse for use in uses.values()) else 0
