"""`validate`: all mistakes of workflow files at once, without touching any data."""

from __future__ import annotations

import click

from probe_flow.cli.console import show, show_json
from probe_flow.cli.options import load, set_option
from probe_flow.errors import WorkflowError


@click.command("validate")
@click.argument("workflows", nargs=-1, required=True, metavar="WORKFLOW...")
@set_option
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="`json`: one diagnostic a line on stdout.",
)
def command(workflows: tuple[str, ...], sets: dict[str, str], format_: str) -> int:
    """Show every mistake of workflow files, with its place. No data path is read."""
    return max(_validate(path, sets, as_json=format_ == "json") for path in workflows)


def _validate(path: str, sets: dict[str, str], *, as_json: bool) -> int:
    try:
        workflow = load(path, sets)
    except WorkflowError as error:
        if as_json:
            show_json(error.diagnostics)
        else:
            show(error.diagnostics, sources=error.sources)
            count = len(error.diagnostics)
            click.echo(f"{path}: {count} mistake{'s' if count > 1 else ''}")
        return error.exit_code
    if as_json:
        show_json(workflow.warnings)
    else:
        show(workflow.warnings, sources=workflow.sources)
        click.echo(f"{path}: ok, {len(workflow.stages)} stages")
    return 0
