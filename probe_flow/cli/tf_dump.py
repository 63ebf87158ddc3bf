"""`probe-flow tf_dump`: extract the tensors of a run of TensorFlow's debugger as arrays."""

from __future__ import annotations

from pathlib import Path

import click

from probe_flow.errors import Severity

DATA = Path("precision_data", "tf")
RUNS, ARRAYS = "tf_debug", "dump"


@click.command("tf_dump")
@click.argument("tf_debug", required=False, type=click.Path(path_type=Path), metavar="[TF_DEBUG]")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the arrays.")
@click.option(
    "--run", "run", default="last", show_default=True, metavar="last|all|N", help="Which run; they count from 0."
)
@click.option("--force", is_flag=True, help="Replace the arrays of an earlier extraction.")
def command(*, tf_debug: Path | None, output: Path | None, run: str, force: bool) -> int:
    """Write the tensors of a run as arrays OPERATOR.OUTPUT.MICROSECONDS.npy, in the order of the run.

    TF_DEBUG is the folder that TensorFlow's debugger wrote to (default: precision_data/tf/tf_debug); the arrays go to
    `dump` beside it. Neither TensorFlow nor a prompt is needed. A comparison needs no arrays: `dump.tfdbg` reads the
    runs themselves.

    Exit code: 0 all was written; 2 a mistake in the command, or arrays are there already; 3 something is missing.
    """
    from probe_flow.cli.terminal.console import show
    from probe_flow.records import TensorKind
    from probe_flow.transform.convert.extract import extract

    runs = DATA / RUNS if tf_debug is None else tf_debug
    folder = output or (runs.parent / ARRAYS if runs.name == RUNS else DATA / ARRAYS)
    if run in ("last", "all"):
        choice: str | int = run
    elif run.isascii() and run.isdigit():
        choice = int(run)
    else:
        raise click.UsageError(f"`--run {run}` is neither `last` nor `all` nor a number")
    found = extract(runs, folder, run=choice, replaces=force)  # type: ignore[arg-type]
    show([problem for problem in found.problems if problem.severity is not Severity.NOTE or problem.code == "PF3443"])
    written = sum(1 for ref in found.tensors if ref.kind is TensorKind.TENSOR)
    left = len(found.tensors) - written
    click.echo(f"{written} arrays in {folder}" + (f"; {left} tensors hold no numbers" if left else ""))
    return 0
