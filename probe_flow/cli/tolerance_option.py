"""The option of the commands that hold one run against another or against a baseline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from probe_flow.cli.number import Number

Command = TypeVar("Command", bound=Callable[..., object])

DEFAULT_TOLERANCE = 0.1


def tolerance_option(help_text: str) -> Callable[[Command], Command]:
    """Return what adds ``--tolerance``, a share of at least 0."""
    return click.option(
        "--tolerance",
        type=Number(min=0.0),
        default=DEFAULT_TOLERANCE,
        show_default=True,
        metavar="SHARE",
        help=help_text,
    )
