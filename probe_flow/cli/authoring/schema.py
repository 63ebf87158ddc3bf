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
    if folder is None:
        click.echo(_text(), nl=False)
        return
    from probe_flow.workflow.schema import SCHEMA_FILE

    path = folder / SCHEMA_FILE
    text = _text()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(path), hint=(error.strerror or str(error)).lower()) from error
    click.echo(f"wrote {path}")


def write_schema(folder: Path) -> Path | None:
    """Write the schema beside a new workflow and return its path.

    None where a file of that name is somebody else's, or nothing can be written: a workflow is none the worse for it.
    """
    from probe_flow.files.existing import is_there
    from probe_flow.files.opening import read_text
    from probe_flow.files.whole_files import write_whole
    from probe_flow.workflow.schema import SCHEMA_FILE, SCHEMA_ID

    path = folder / SCHEMA_FILE
    try:
        if is_there(path) and SCHEMA_ID not in read_text(path):
            return None
        write_whole(path, _text().encode())
    except (OSError, ValueError):
        return None
    return path


def _text() -> str:
    from probe_flow.stages.registry import STAGES
    from probe_flow.workflow.schema import schema_text, usable

    types, problems = usable(STAGES)
    show(problems)
    return schema_text(types)
