"""`probe-flow show`: what a run concluded and its rows, from its folder alone."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from probe_flow.cli.console import wants_color
from probe_flow.cli.plan_options import format_option

DEFAULT_LIMIT = 20
WIDTH_WITHOUT_TERMINAL = 100

_VERDICTS = (
    "pass",
    "warning",
    "fail",
    "unmatched_target",
    "unmatched_golden",
    "not_comparable",
    "error",
    "skipped",
)
_ROLES = ("origin", "inherited", "clean", "unknown")


@click.command("show")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--verdict", type=click.Choice(_VERDICTS), metavar="VERDICT", help="Rows with this verdict.")
@click.option("--role", type=click.Choice(_ROLES), metavar="ROLE", help="Rows with this role in the spread of errors.")
@click.option(
    "--node", metavar="NAME", help="Rows of this node, or of all nodes that match a pattern such as `MatMul*`."
)
@click.option("--comparison", metavar="STAGE", help="Rows of this stage, where a run compares more than once.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=DEFAULT_LIMIT,
    show_default=True,
    metavar="N",
    help="At most this many rows, in execution order; 0 = all.",
)
@format_option
@click.option("--quiet", is_flag=True, help="Only the last line: verdict, counts, where the record lies.")
def command(
    *,
    run: Path,
    verdict: str | None,
    role: str | None,
    node: str | None,
    comparison: str | None,
    limit: int,
    output_format: str,
    quiet: bool,
) -> None:
    """Show what a RUN concluded, from its folder alone: verdict, origins, worst pairs.

    With --verdict, --role, --node or --comparison: the rows that meet all of these. Exit code 0 whatever the verdict.
    """
    from probe_flow.reports.run_folder import read_run
    from probe_flow.reports.run_view import Filter, Selection, render_rows, render_run, run_json

    stored = read_run(run)
    wanted = Filter(verdict, role, node)
    selection = None
    if not wanted.is_empty or comparison is not None:
        selection = Selection(stored, wanted, limit=limit or None, comparison=comparison)
    if output_format == "json":
        for part in run_json(stored, selection):
            click.echo(part, nl=False)
    elif selection is not None:
        for line in render_rows(selection, stored, folder=str(run)):
            click.echo(line)
    elif quiet:
        from probe_flow.reports.console import last_line

        click.echo(last_line(stored.record, folder=str(run)))
    else:
        width = shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns
        color = wants_color(os.environ, is_terminal=sys.stdout.isatty())
        click.echo(render_run(stored, color=color, width=width, folder=str(run)), nl=False, color=color)
