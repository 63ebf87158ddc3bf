"""`version`: which probe_flow, Python and platform this is."""

from __future__ import annotations

import json
import platform

import click

from probe_flow.cli.options import format_option
from probe_flow.version import __version__


@click.command("version")
@format_option
def command(*, output_format: str) -> None:
    """Show the versions that a report of a problem should name."""
    if output_format == "json":
        system = {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()}
        click.echo(json.dumps({"probe_flow": __version__, **system}))
        return
    click.echo(f"probe-flow {__version__}")
    click.echo(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
