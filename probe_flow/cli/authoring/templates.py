"""`templates`: the workflows to start from, ours and those of installed packages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from probe_flow.cli.options import format_option
from probe_flow.cli.terminal.console import show

if TYPE_CHECKING:
    from probe_flow.workflow.templates.shelf import Template


@click.command("templates")
@format_option
def command(*, output_format: str) -> None:
    """List the workflows to start from, and the package that each comes from.

    `run template:NAME` runs one as it is, `init NAME` makes a file to start from, `extends: template:NAME` changes one.
    Packages that cannot be used, and names that several templates have, are told on stderr.
    """
    from probe_flow.record.places import printable
    from probe_flow.workflow.templates.shelf import describe, shelf

    known = shelf()
    described = [(each, *describe(each)) for each in known.templates]
    if output_format == "json":
        records = [
            {
                "name": known.label(each),
                "description": description,
                "package": each.package,
                "version": each.version,
                "path": str(each.path),
            }
            for each, description, _ in described
        ]
        click.echo(json.dumps(records, indent=2, ensure_ascii=False))
    else:
        rows = [
            (printable(known.label(each)), printable(_from(each)), printable(description))
            for each, description, _ in described
        ]
        widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
        for name, package, description in rows:
            click.echo(f"{name:<{widths[0]}}  {package:<{widths[1]}}  {description}".rstrip())
    show([*known.problems, *known.clashes(), *(problem for *_, problem in described if problem is not None)])


def _from(template: Template) -> str:
    return f"{template.package} {template.version}".rstrip()
