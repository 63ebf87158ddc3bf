"""`validate`: all mistakes of workflow files at once, without touching any data."""

from __future__ import annotations

import os
from pathlib import Path

import click

from probe_flow.cli.options import load, set_option
from probe_flow.cli.terminal.console import show, show_json
from probe_flow.errors import Severity, WorkflowError

FOUND = 1
UNSET = "PF1302"
"""A parameter that whoever runs the workflow sets: no mistake of the file."""


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
@click.option("--strict", is_flag=True, help="Also what `lint` finds, and warnings: exit code 1 if there are any.")
def command(workflows: tuple[str, ...], sets: dict[str, str], format_: str, *, strict: bool) -> int:
    """Show every mistake of workflow files, with its place. No data path is read.

    A parameter that has to be set when the workflow is run is no mistake; it is named.
    """
    return max(_validate(path, sets, as_json=format_ == "json", is_strict=strict) for path in workflows)


def _validate(path: str, sets: dict[str, str], *, as_json: bool, is_strict: bool) -> int:
    try:
        workflow = load(path, sets)
    except WorkflowError as error:
        code = _report(path, error, as_json=as_json)
        return code or (_lint(path, sets, as_json=as_json) if is_strict else 0)
    if as_json:
        show_json(workflow.warnings)
    else:
        show(workflow.warnings, sources=workflow.sources)
        click.echo(f"{path}: ok, {len(workflow.stages)} stages")
    if not is_strict:
        return 0
    return max(_lint(path, sets, as_json=as_json), FOUND if workflow.warnings else 0)


def _lint(path: str, sets: dict[str, str], *, as_json: bool) -> int:
    from probe_flow.workflow.lint import lint_file

    linted = lint_file(Path(path), env=os.environ, cwd=Path.cwd(), sets=sets)
    if as_json:
        show_json(linted.findings)
    else:
        show(linted.findings, sources=linted.sources)
    return FOUND if linted.findings else 0


def _report(path: str, error: WorkflowError, *, as_json: bool) -> int:
    """Show the mistakes of a file; return 0 where there is none but parameters without a value."""
    found = [each for each in error.diagnostics if each.code != UNSET]
    is_ok = all(each.severity is not Severity.ERROR for each in found)
    if as_json:
        show_json(found)
    else:
        show(found, sources=error.sources)
        mistakes = f"{len(found)} mistake{'s' if len(found) > 1 else ''}"
        click.echo(f"{path}: {f'ok; running it needs {_unset(error)}' if is_ok else mistakes}")
    return 0 if is_ok else error.exit_code


def _unset(error: WorkflowError) -> str:
    """Return the options that give every parameter without a value one: ``--set a=... --set b=...``."""
    spans = [each.span for each in error.diagnostics if each.code == UNSET and each.span is not None]
    names = (error.sources[at.file].splitlines()[at.line - 1][at.column - 1 : at.end_column - 1] for at in spans)
    return " ".join(f"--set {name}=..." for name in names)
