"""`init`: copy a packaged workflow to start from, or print code that makes dumps."""

from __future__ import annotations

from pathlib import Path

import click

from probe_flow.errors import did_you_mean


@click.command("init")
@click.argument("name", required=False)
@click.option(
    "--output",
    "-o",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Folder to copy to; default: the working directory.",
)
@click.option("--with-sample", is_flag=True, help="Copy the sample dumps too, so that the workflow runs as it is.")
@click.option("--force", is_flag=True, help="Overwrite what is there.")
@click.option("--snippet", metavar="NAME", help="Print code for your own script instead; `torchair`: both dumps.")
def command(name: str | None, output: Path, *, with_sample: bool, force: bool, snippet: str | None) -> None:
    """Copy the packaged workflow NAME to start from, or print the code that makes the dumps it compares."""
    if (name is None) == (snippet is None):
        raise click.UsageError("give either the NAME of a packaged workflow, or `--snippet NAME`")
    if snippet is not None:
        click.echo(_snippet(snippet), nl=False)
    else:
        assert name is not None, "one of the two is given"
        _copy(name, output, with_sample=with_sample, force=force)


def _snippet(name: str) -> str:
    from probe_flow.dumpers.snippets import SNIPPETS

    if name not in SNIPPETS:
        raise click.UsageError(f"there is no snippet `{name}`; snippets: {', '.join(SNIPPETS)}")
    return SNIPPETS[name]


def _copy(name: str, output: Path, *, with_sample: bool, force: bool) -> None:
    from probe_flow.workflow.copying import SampleMissingError, WouldOverwriteError, copy_template
    from probe_flow.workflow.templates import template_name, templates

    known = templates()
    wanted = template_name(name)
    if wanted not in known:
        near = did_you_mean(wanted, known)
        raise click.UsageError(f"there is no packaged workflow `{name}`" + (f": {near}" if near else ""))
    try:
        copied = copy_template(known[wanted], output, with_sample=with_sample, force=force)
    except WouldOverwriteError as error:
        raise click.UsageError(f"`{error.path}` exists; `--force` overwrites it") from error
    except SampleMissingError as error:
        raise click.UsageError(f"the sample data of `{name}` is not installed: there is no `{error.path}`") from error
    click.echo(f"copied {copied.workflow}")
    for folder in copied.samples:
        click.echo(f"copied {folder}")
    if copied.unset:
        sets = " ".join(f"--set {param}=DIR" for param in copied.unset)
        click.echo(f"next: probe-flow run {copied.workflow} {sets}")
    else:
        click.echo(f"next: probe-flow run {copied.workflow}")
