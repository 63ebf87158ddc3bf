"""Numbers on the command line that something is compared with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])

DEFAULT_TOLERANCE = 0.1


class Number(click.FloatRange):
    """A number, infinity included, but not NaN: whatever is compared with that would be within it, or beyond it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value} is not a number that can be compared with.", param, ctx)
        return found


def tolerance_option(help_text: str) -> Callable[[Command], Command]:
    """Return what adds ``--tolerance``, a share of at least 0, to a command that holds a run against another."""
    return click.option(
        "--tolerance",
        type=Number(min=0.0),
        default=DEFAULT_TOLERANCE,
        show_default=True,
        metavar="SHARE",
        help=help_text,
    )
