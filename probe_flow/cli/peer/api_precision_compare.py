"""`probe-flow api_precision_compare`: judge one device's checks of APIs by another's, in the syntax of msprobe."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from probe_flow.cli.peer.peer_syntax import PeerCommand
from probe_flow.errors import IncompleteError, Severity


@click.command("api_precision_compare", cls=PeerCommand, frameworks=("pytorch",))
@click.option(
    "-npu",
    "--npu_csv_path",
    "target",
    required=True,
    metavar="FILE",
    help="accuracy_checking_details_*.csv of the device under test.",
)
@click.option(
    "-gpu",
    "--gpu_csv_path",
    "golden",
    required=True,
    metavar="FILE",
    help="The same of the device that it is judged by.",
)
@click.option(
    "-o",
    "--out_path",
    "--output",
    "folder",
    default="./",
    show_default=True,
    metavar="DIR",
    help="Folder of the tables.",
)
def command(*, target: str, golden: str, folder: str) -> int:
    """Judge the PyTorch APIs that were checked on one device by the same checks on another.

    Both devices were compared with the same benchmark, so that the errors of one are held against those of the other,
    by the standard whose figures each output has. Two tables are written: api_precision_compare_result_*.csv, a row a
    call, and api_precision_compare_details_*.csv, a row an output.

    Exit code: 0 nothing is wrong; 1 a call is wrong; 2 a mistake in the command, or a table that cannot be used; 3 an
    output could not be judged that had to be.
    """
    from probe_flow.cli.peer.compare import check_paths
    from probe_flow.cli.terminal.console import show
    from probe_flow.precheck.precision_compare import compare_precision

    check_paths({"-npu": Path(target), "-gpu": Path(golden)})
    outcome = compare_precision(Path(target), Path(golden), Path(folder or "."), started=datetime.now())
    show(outcome.problems)
    for path in outcome.tables:
        click.echo(f"written: {path}")
    failing = sum(call.is_wrong for call in outcome.calls)
    click.echo(f"{failing} of {len(outcome.calls)} calls are wrong")
    if any(problem.severity is Severity.ERROR for problem in outcome.problems):
        return IncompleteError.exit_code
    return 1 if failing else 0
