"""The help of a command on one screen: options that have no room are named, and `--help-all` tells of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import Any

import click

ALL = "--help-all"
MAX_LINES = 40
"""Lines of the help of a command, as many as that of `probe-flow` itself takes."""

_FRAMEWORK_LINES = 5
"""What stands behind the options of a command that takes ``-f``: a heading and two or three lines."""

_FEW = 4
"""Options that are never named only."""


class ScreenContext(click.Context):
    """A context whose help fits a screen; click makes it when the command's ``context_class`` says so."""

    def make_formatter(self) -> click.HelpFormatter:
        """Return a formatter for this command's help."""
        lines = MAX_LINES - (_FRAMEWORK_LINES if getattr(self.command, "frameworks", ()) else 0)
        return _ScreenFormatter(self.command_path, lines, width=self.terminal_width, max_width=self.max_content_width)


class _ScreenFormatter(click.HelpFormatter):
    def __init__(self, command_path: str, lines: int, **layout: Any) -> None:
        super().__init__(**layout)
        self._command_path = command_path
        self._lines = lines

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write options, as many as there is room for; the last one, ``--help``, always."""
        given = list(rows)
        free = self._lines - self.getvalue().count("\n")
        kept, left = given, ""
        while len(kept) > _FEW and self._height(kept, left) > free:
            kept = [*kept[:-2], given[-1]]
            left = self._names(given[len(kept) - 1 : -1])
        super().write_dl(kept, col_max, col_spacing)
        self.write(left)

    def _height(self, rows: Sequence[tuple[str, str]], left: str) -> int:
        trial = click.HelpFormatter(width=self.width)
        trial.current_indent = self.current_indent
        trial.write_dl(rows)
        return (trial.getvalue() + left).count("\n")

    def _names(self, rows: Sequence[tuple[str, str]]) -> str:
        names = ", ".join(_name(spelled) for spelled, _ in rows)
        text = f"Also, as `{self._command_path} {ALL}` tells: {names}"
        indent = " " * self.current_indent
        return f"{fill(text, self.width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)}\n"


def _name(spelled: str) -> str:
    """Return the first spelling of ``-tp, --target_path PATH``."""
    return spelled.split()[0].rstrip(",")
