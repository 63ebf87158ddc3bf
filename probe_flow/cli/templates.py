"""`templates`: the packaged workflows."""

from __future__ import annotations

import click


@click.command("templates")
def command() -> None:
    """List the packaged workflows: `init NAME` copies one, `extends: template:NAME` changes one."""
    from probe_flow.workflow.templates import describe, templates

    known = templates()
    width = max((len(name) for name in known), default=0)
    for name, path in known.items():
        click.echo(f"{name:<{width}}  {describe(path)}")
