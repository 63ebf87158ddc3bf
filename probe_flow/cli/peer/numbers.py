"""Numbers on the command line as users of the published tool write them: ``0``, ``0,2``, ``4-6``."""

from __future__ import annotations

import re
from typing import Any

import click

_PART = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?", re.ASCII)
_MAX_NUMBER = 1_000_000


class Numbers(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on only
    """A list of numbers and ranges, each number once."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the numbers in the order in which they were written."""
        if isinstance(value, tuple):
            return value
        found: dict[int, None] = {}
        for part in str(value).split(","):
            match = _PART.fullmatch(part.strip())
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            if first > last or last > _MAX_NUMBER:
                self.fail(f"{value!r} is no list of numbers such as 0, 0,2 or 4-6", param, ctx)
            found.update(dict.fromkeys(range(first, last + 1)))
        return tuple(found)
