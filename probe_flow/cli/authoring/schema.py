"""`schema`: the JSON Schema of workflow files, for editors."""

from __future__ import annotations

from pathlib import Path

import click

from probe_flow.cli.terminal.console import show


@click.command("schema")
@click.option(
    "--write",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write workflow.schema.json into this folder instead of printing it.",
)
def command(folder: Path | None) -> None:
    """Print the JSON Schema of workflow files, with the stages of installed packages."""
    from probe_flow.stages.registry import STAGES
    from probe_flow.workflow.schema import SCHEMA_FILE, schema_text, usable

    types, problems = usable(STAGES)
    show(problems)
    text = schema_text(types)
    if folder is None:
        click.echo(text, nl=False)
        return
    path = folder / SCHEMA_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(path), hint=(error.strerror or str(error)).lower()) from error
    click.echo(f"wrote {path}")
