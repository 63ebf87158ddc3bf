"""`probe-flow shell`: ask a run one thing after the other at a prompt."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from probe_flow.cli.options import run_argument, run_or_newest
from probe_flow.cli.terminal.console import show

if TYPE_CHECKING:
    from probe_flow.cli.shell.prompt import CommandLine


@click.command("shell")
@run_argument
@click.option(
    "--dump", "dumps", multiple=True, metavar="SIDE=PATH", help="Where a dump of the run lies now. May be repeated."
)
@click.option("--no-history", is_flag=True, help="Keep no history of what is typed.")
@click.pass_obj
def command(command_line: CommandLine, run: Path | None, dumps: tuple[str, ...], *, no_history: bool) -> int:
    """Ask a RUN (default: the newest here) one thing after the other; `help` at the prompt lists what can be asked.

    RUN may also be the folder of a TensorFlow training step (`precision_data`, with `npu` and `tf`), of which nothing
    was compared yet: `ac -c` at the prompt compares it.

    What was read is kept, names are completed with the Tab key (extra `shell`). Input that is no terminal is read
    line by line; the exit code is then that of the worst line.
    """
    from probe_flow.api.dumps import asker_of
    from probe_flow.cli.shell.input import history_file, open_lines
    from probe_flow.cli.shell.session import Session

    if run is not None and _is_training_data(run):
        session = Session(None, command_line, data=run)
    else:
        session = Session(asker_of(run_or_newest(run), dumps), command_line)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    history = None if no_history else history_file(os.environ)
    lines, note = open_lines(session, history=history, is_terminal=is_terminal)
    if is_terminal:
        if note is not None:
            show([note])
        click.echo(session.greeting())
    worst = session.to_end(lines)
    return 0 if is_terminal else worst


def _is_training_data(folder: Path) -> bool:
    """Whether a folder is laid out as `precision_data`, and is no run."""
    from probe_flow.files.existing import is_file, is_folder

    npu = folder / "npu"
    return not is_file(folder / "run.json") and is_folder(npu) and any(npu.glob("debug_*"))
