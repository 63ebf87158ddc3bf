"""`probe-flow lint`: what is valid in workflow files and most likely wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from probe_flow.cli.options import set_option
from probe_flow.cli.terminal.console import show, show_json
from probe_flow.errors import Diagnostic, WorkflowError

FOUND = 1
INVALID = 2


@click.command("lint")
@click.argument("workflows", nargs=-1, required=True, metavar="WORKFLOW...")
@set_option
@click.option("--ignore", "ignored", multiple=True, metavar="CODE", help="Leave these out. May be repeated.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "sarif"]),
    default="text",
    show_default=True,
    help="`json`: one finding a line; `sarif`: for code hosts and editors.",
)
def command(workflows: tuple[str, ...], sets: dict[str, str], ignored: tuple[str, ...], format_: str) -> int:
    """Show what is valid in workflow files and looks wrong; `explain CODE` says more of each finding.

    A stage that nothing uses, swapped sides, a dump compared with itself, bounds that decide nothing, absolute paths,
    samples, low coverage, parameters that nothing reads. `# lint: ignore CODE` behind a line keeps it quiet there.
    No data path is read. Exit code: 0 nothing found, 1 findings, 2 a file is not valid.
    """
    from probe_flow.workflow.lint import RULES, lint_file

    unknown = [code for code in ignored if code not in RULES]
    if unknown:
        raise click.BadParameter(f"`{unknown[0]}` is no code of `lint`: {', '.join(RULES)}", param_hint="--ignore")
    found: list[Diagnostic] = []
    code = 0
    for path in workflows:
        try:
            linted = lint_file(Path(path), env=os.environ, cwd=Path.cwd(), sets=sets)
        except WorkflowError as error:
            code = INVALID
            found += error.diagnostics
            if format_ == "text":
                show(error.diagnostics, sources=error.sources)
                click.echo(f"{path}: not valid")
            continue
        kept = [each for each in linted.findings if each.code not in ignored]
        found += kept
        code = max(code, FOUND if kept else 0)
        if format_ == "text":
            show(kept, sources=linted.sources)
            click.echo(f"{path}: {_counted(len(kept))}")
    if format_ == "json":
        show_json(found)
    elif format_ == "sarif":
        from probe_flow.reports.ci.sarif import of_diagnostics

        click.echo(json.dumps(of_diagnostics(found), indent=2, ensure_ascii=False))
    return code


def _counted(count: int) -> str:
    return f"{count} finding{'' if count == 1 else 's'}" if count else "ok"
