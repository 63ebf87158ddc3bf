"""`probe-flow multi_acc_check`: the same check on several devices at once."""

from __future__ import annotations

from typing import Any

import click

from probe_flow.cli.peer.acc_check import check, check_options
from probe_flow.cli.peer.peer_syntax import FRAMEWORKS, PeerCommand

MAX_DEVICE = 4095


class DevicesCommand(PeerCommand):
    """A command whose option ``-d`` takes all numbers that follow it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        found: list[str] = []
        takes = False
        for arg in args:
            takes = arg in ("-d", "--device") or (takes and arg.isascii() and arg.isdigit())
            if takes and found and found[-1] not in ("-d", "--device") and arg.isdigit():
                found.append("-d")
            found.append(arg)
        return super().parse_args(ctx, found)


@click.command("multi_acc_check", cls=DevicesCommand, frameworks=FRAMEWORKS)
@click.option(
    "-d",
    "--device",
    "devices",
    type=click.IntRange(0, MAX_DEVICE),
    multiple=True,
    default=(0,),
    show_default="0",
    metavar="N [N ...]",
    help="Numbers of the devices, each once; on a machine without any, processes of the processor.",
)
@click.option(
    "-n",
    "--num_splits",
    type=click.IntRange(1, 64),
    default=8,
    help="Taken for msprobe's sake: here a call goes to whichever device is free, and nothing is split.",
)
@check_options
def command(*, devices: tuple[int, ...], num_splits: int, **given: Any) -> int:  # noqa: ARG001
    """Check the API calls of a dump on several devices, a worker process each.

    As acc_check. Each device has its own pair of tables in a folder device<ID>_<time>; the pair in the output folder
    holds all calls, in the order of the dump. A call goes to whichever device is free; one that ends its worker twice
    is not checked, and no other call suffers.
    """
    if len(set(devices)) != len(devices):
        raise click.BadParameter("a device is named twice", param_hint="`-d`")
    return check(devices=devices, **given)
