"""`probe-flow run_overflow_check`: are the overflows in a dump normal, in the syntax of the tool it replaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from probe_flow.cli.peer.acc_check import run_calls, run_options
from probe_flow.cli.peer.multi_acc_check import MAX_DEVICE
from probe_flow.cli.peer.peer_syntax import FRAMEWORKS, PeerCommand


@click.command("run_overflow_check", cls=PeerCommand, frameworks=FRAMEWORKS)
@click.option(
    "-d",
    "--device",
    "device",
    type=click.IntRange(0, MAX_DEVICE),
    default=0,
    show_default=True,
    metavar="N",
    help="Number of the device.",
)
@run_options
def command(*, device: int, **given: Any) -> int:
    """Run the API calls of a dump again whose recorded results are not finite, alone.

    Each is asked of the device and of a benchmark in float64, rounded to the type of the result. An overflow that both
    have is normal: the result does not fit its type, whatever computes it. One that only one of them has is abnormal
    and an `error`. Other calls are left out. Tables and run are those of acc_check; the message says which it is.
    Where the dump records finite results only, nothing is run and nothing is written.

    Exit code: 0 all overflows are normal, or there is none; 1 one is abnormal; 2 a mistake in the command; 3 one does
    not come again when its call runs alone, or the call could not be run; 130 interrupted.
    """
    from probe_flow.precheck.jobs import may_overflow

    dump = Path(given["api_info"])
    if dump.is_file() and not may_overflow(dump):
        click.echo("no result in the dump overflowed, so that there is nothing to run again")
        return 0
    return run_calls(**given, devices=[device], judge="overflow")
