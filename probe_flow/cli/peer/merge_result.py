"""`probe-flow merge_result`: merge the result tables of several ranks, in the syntax of the tool it replaces."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from probe_flow.cli.peer.peer_syntax import FRAMEWORKS, PeerCommand
from probe_flow.errors import Diagnostic, IncompleteError, Severity, UsageError


@click.command("merge_result", cls=PeerCommand, frameworks=FRAMEWORKS)
@click.option("-i", "--input_dir", required=True, metavar="DIR", help="Folder of result tables, one per rank.")
@click.option("-o", "--output_dir", "--output", required=True, metavar="DIR", help="Folder of the merged table.")
@click.option(
    "-config",
    "--config-path",
    required=True,
    metavar="FILE",
    help="YAML file: `api`, leading parts of row names, and perhaps `compare_index`, the columns to merge.",
)
def command(*, input_dir: str, output_dir: str, config_path: str) -> int:
    """Merge the result tables of several ranks into one table per measure.

    The tables are those that `compare` writes for folders with a folder per rank, as CSV or as workbooks. Rows keep
    the order of the dumps; where a measure has no number, the cell shows the largest values of both sides.
    """
    from probe_flow.cli.terminal.console import show
    from probe_flow.reports.rank_merge.config import read_merge_config
    from probe_flow.reports.rank_merge.sources import merge_folder

    folder, output = Path(input_dir), Path(output_dir)
    if not folder.is_dir():
        found = "is no folder" if folder.exists() else "does not exist"
        message = f"`--input_dir`: `{input_dir}` {found}"
        raise UsageError(Diagnostic("PF2101", message, path=input_dir, help="paths start from the working directory"))
    config = read_merge_config(config_path)
    try:
        paths, problems = merge_folder(folder, output, config, started=datetime.now())
    except OSError as error:
        message = f"`{input_dir}` cannot be listed: {error.strerror or error}"
        raise IncompleteError(Diagnostic("PF7123", message, path=input_dir)) from error
    show(problems, sources=config.sources)
    for path in paths:
        click.echo(f"merged: {path}")
    is_incomplete = any(problem.severity is Severity.ERROR for problem in problems)
    return IncompleteError.exit_code if is_incomplete else 0
