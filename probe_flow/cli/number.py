"""Numbers on the command line that something is compared with."""

from __future__ import annotations

import math
from typing import Any

import click


class Number(click.FloatRange):
    """A number, infinity included, but not NaN: whatever is compared with that would be within it, or beyond it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value} is not a number that can be compared with.", param, ctx)
        return found
