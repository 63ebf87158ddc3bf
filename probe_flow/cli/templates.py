"""`templates`: the packaged workflows."""

from __future__ import annotations

import json

import click

from probe_flow.cli.plan_options import format_option


@click.command("templates")
@format_option
def command(*, output_format: str) -> None:
    """List the packaged workflows: `init NAME` copies one, `extends: template:NAME` changes one."""
    from probe_flow.workflow.templates import describe, templates

    known = templates()
    if output_format == "json":
        records = [{"name": name, "description": describe(path)} for name, path in known.items()]
        click.echo(json.dumps(records, indent=2, ensure_ascii=False))
        return
    width = max((len(name) for name in known), default=0)
    for name, path in known.items():
        click.echo(f"{name:<{width}}  {describe(path)}")
