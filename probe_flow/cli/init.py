"""`init`: make a workflow to start from, by copying ours or extending a package's, or print code that makes dumps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from probe_flow.cli.terminal.console import show
from probe_flow.errors import Diagnostic, Severity, UsageError

if TYPE_CHECKING:
    from probe_flow.workflow.templates.shelf import Template


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
@click.option("--force", is_flag=True, help="Replace files that are there, and links to files.")
@click.option("--snippet", metavar="NAME", help="Print code for your own script instead; `torchair`: both dumps.")
def command(name: str | None, output: Path, *, with_sample: bool, force: bool, snippet: str | None) -> None:
    """Copy the packaged workflow NAME to start from, or print the code that makes the dumps it compares.

    A template of an installed package is extended instead: what its package changes later reaches the new file.
    """
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
    from probe_flow.workflow.loading.extending import extend_template
    from probe_flow.workflow.templates.copying import (
        LinkInTheWayError,
        SampleMissingError,
        WouldOverwriteError,
        copy_template,
    )

    template = _template(name)
    try:
        if template.is_ours:
            copied = copy_template(template.path, output, with_sample=with_sample, force=force)
        elif with_sample:
            raise click.UsageError(f"the template `{name}` of the package `{template.package}` has no sample data")
        else:
            copied = extend_template(template, output, force=force)
    except WouldOverwriteError as error:
        raise click.UsageError(f"`{error.path}` exists; `--force` overwrites it") from error
    except LinkInTheWayError as error:
        raise click.UsageError(f"`{error.path}` is a link to another folder; remove it, or name another DIR") from error
    except SampleMissingError as error:
        raise click.UsageError(f"the sample data of `{name}` is not installed: there is no `{error.path}`") from error
    except OSError as error:
        message = f"`{name}` cannot be written to `{output}`: {error.strerror or error}"
        cure = "name a folder that you may write with `--output`"
        raise UsageError(Diagnostic("PF6011", message, path=str(output), help=cure)) from error
    click.echo(f"{'copied' if template.is_ours else 'wrote'} {copied.workflow}")
    for folder in copied.samples:
        click.echo(f"copied {folder}")
    value = "DIR" if template.is_ours else "VALUE"
    sets = "".join(f" --set {param}={value}" for param in copied.unset)
    click.echo(f"next: probe-flow run {copied.workflow}{sets}")


def _template(name: str) -> Template:
    from probe_flow.workflow.templates.shelf import shelf

    known = shelf()
    template, problem = known.find(name)
    if problem is not None and problem.severity is Severity.ERROR:
        raise UsageError(problem)
    if problem is not None:
        show([problem])
    assert template is not None, "without a template there is an error"
    return template
