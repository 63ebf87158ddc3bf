"""`probe-flow diff`: what changed from one run to another, from their folders alone."""

from __future__ import annotations

from pathlib import Path

import click

from probe_flow.cli.number import tolerance_option
from probe_flow.cli.options import format_option

DEFAULT_LIMIT = 20


@click.command("diff")
@click.argument("run_a", type=click.Path(path_type=Path), required=False)
@click.argument("run_b", type=click.Path(path_type=Path), required=False)
@tolerance_option("How much larger an error may be than in RUN_A, relative to it.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=DEFAULT_LIMIT,
    show_default=True,
    metavar="N",
    help="At most this many tensors of a kind; 0 = all. JSON always has all.",
)
@format_option
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the difference as a page that needs no network.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write what would be printed into a file; the last line is printed all the same.",
)
def command(
    *,
    run_a: Path | None,
    run_b: Path | None,
    tolerance: float,
    limit: int,
    output_format: str,
    html: Path | None,
    output: Path | None,
) -> int:
    """Show what got worse, better, appeared, vanished or was matched otherwise from RUN_A to RUN_B.

    RUN_B is the newest run here where it is left out; where both are, RUN_A is the one of its workflow before it.
    Exit code 1 when something is worse in RUN_B by more than the tolerance, 3 when RUN_B is incomplete.
    """
    from probe_flow.cli.terminal.console import show
    from probe_flow.files.atomic import atomic_text
    from probe_flow.record.run_folder import read_run
    from probe_flow.runs.diff.differences import diff_runs
    from probe_flow.runs.diff.text import EXIT_CODES, diff_json, diff_lines, outcome
    from probe_flow.runs.found_runs import newest_pair

    before, after = newest_pair(Path(), run_a) if run_b is None or run_a is None else (run_a, run_b)
    names = str(before), str(after)
    found = diff_runs(read_run(before), read_run(after), tolerance=tolerance)
    show(found.problems)
    if html is not None:
        from probe_flow.runs.diff.page import write_diff_html

        write_diff_html(found, html, names=names)
    lines = list(diff_lines(found, limit=limit or None, names=names))
    text = diff_json(found) if output_format == "json" else "".join(f"{line}\n" for line in lines)
    if output is None:
        click.echo(text, nl=False)
    else:
        with atomic_text(output) as file:
            file.write(text)
        click.echo(lines[-1])
    return EXIT_CODES[outcome(found)]
