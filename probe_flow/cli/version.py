"""`version`: which probe_flow, Python and platform this is."""

from __future__ import annotations

import platform

import click

from probe_flow import __version__


@click.command("version")
def command() -> None:
    """Show the versions that a report of a problem should name."""
    click.echo(f"probe-flow {__version__}")
    click.echo(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
