"""`probe-flow start`: two dumps, and nothing else to know."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from probe_flow.cli.authoring.schema import write_schema
from probe_flow.errors import Diagnostic, UsageError

NAME = "probe-flow start"
"""What messages call a workflow that is in no file."""


@click.command("start")
@click.argument("target", type=click.Path(path_type=Path))
@click.argument("golden", type=click.Path(path_type=Path))
@click.option(
    "--write",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the workflow into this file, and its schema for editors beside it.",
)
@click.option("--force", is_flag=True, help="With --write: replace a file that is there.")
@click.option("--run", "runs", is_flag=True, help="Run the comparison at once.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="With --run: folder of the run.")
def command(*, target: Path, golden: Path, write: Path | None, force: bool, runs: bool, output: Path | None) -> int:
    """Say what the dumps TARGET (under test) and GOLDEN (right) are, and propose a workflow that compares them.

    Without --write and --run nothing is written, and no tensor is read. Exit code: 0, or that of the run; 2 where the
    two do not go together, 3 where one of them cannot be read.
    """
    from probe_flow.api.starting import propose

    if output is not None and not runs:
        raise click.UsageError("`--output` belongs to `--run`")
    if write is not None and os.path.lexists(write) and not force:
        raise click.UsageError(f"`{write}` exists; `--force` overwrites it")
    folder = write.parent if write is not None else Path()
    proposal = propose(target, golden, folder=folder)
    for found in proposal.sides:
        click.echo(found.line)
    click.echo(f"workflow after `{proposal.template}`:\n")
    for line in proposal.text.splitlines():
        click.echo(f"    {line}")
    click.echo("")
    for note in proposal.notes:
        click.echo(f"note: {note}")
    if write is not None:
        _write(proposal.text, write)
    if runs:
        click.echo("")
        return _run(proposal.text, write, output)
    if write is None:
        words = shlex.join(["probe-flow", "start", str(target), str(golden)])
        click.echo(f"next: {words} --run, or --write FILE to keep and change it")
    else:
        click.echo(f"next: probe-flow run {shlex.quote(str(write))}")
    return 0


def _write(text: str, path: Path) -> None:
    from probe_flow.files.whole_files import write_whole

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        message = f"the workflow cannot be written to `{path}`: {error.strerror or error}"
        raise UsageError(Diagnostic("PF6011", message, path=str(path), help="name a file in another folder")) from error
    click.echo(f"wrote {path}")
    schema = write_schema(path.parent)
    if schema is not None:
        click.echo(f"wrote {schema}, by which editors complete and check it")


def _run(text: str, path: Path | None, output: Path | None) -> int:
    from probe_flow.api.running import How
    from probe_flow.cli.terminal.running import show_run
    from probe_flow.engine.run.plan import make_plan
    from probe_flow.workflow.loading.loader import load_workflow

    cwd = Path.cwd()
    workflow = load_workflow(path or Path(NAME), env=os.environ, cwd=cwd, text=None if path is not None else text)
    return show_run(make_plan(workflow), output=output, cwd=cwd, is_verbose=None, how=How())
