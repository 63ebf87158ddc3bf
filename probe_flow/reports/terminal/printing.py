"""Lines, lists and aligned labels for a terminal, as text: what the long and the short summary are printed with."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

MIN_WIDTH = 40
"""A narrower terminal counts as this one."""

_LABEL_WIDTH = 9
"""Of the labels of a short summary: `called at`, `in dump`, `evidence` stand in one column whatever is left out."""


class Printer:
    """Collects what is printed.

    Args:
        color: whether to use terminal colours.
        width: columns of the terminal; below 40 counts as 40.
    """

    def __init__(self, *, color: bool, width: int) -> None:
        from rich.console import Console

        self._buffer = io.StringIO()
        self._console = Console(
            file=self._buffer,
            width=max(width, MIN_WIDTH),
            force_terminal=color,
            force_interactive=False,
            color_system="standard" if color else None,
            no_color=not color,
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
        )

    def lines(self) -> list[str]:
        """Return the lines that were printed, without blanks at their ends."""
        return [line.rstrip() for line in self._buffer.getvalue().splitlines()]

    def line(self, text: str, style: str = "") -> None:
        """Print a text, wrapped at the width."""
        from rich.text import Text

        self._console.print(Text(text, style=style))

    def spans(self, *spans: tuple[str, str]) -> None:
        """Print texts with a style each, one after the other."""
        from rich.text import Text

        text = Text()
        for each, style in spans:
            text.append(each, style=style)
        self._console.print(text)

    def title(self, text: str) -> None:
        """Print the title of a section, after an empty line."""
        self.line("")
        self.line(text, "bold")

    def unbroken(self, text: str, style: str = "") -> None:
        """Print a line that is copied as a whole: the terminal may wrap it, we do not."""
        from rich.text import Text

        self._console.print(Text(text, style=style), soft_wrap=True)

    def items(self, texts: Iterable[str]) -> None:
        """Print texts as a list."""
        self.grid((("-", text) for text in texts), gap=1)

    def grid(self, rows: Iterable[Sequence[str]], *, gap: int = 2) -> None:
        """Print a label and a text per row, the texts aligned and wrapped below themselves."""
        self._grid(rows, gap=gap, label_width=None)

    def labels(self, rows: Iterable[Sequence[str]]) -> None:
        """Print a label and a text per row as `grid` does, in columns that are those of every other call."""
        self._grid(rows, gap=2, label_width=_LABEL_WIDTH)

    def _grid(self, rows: Iterable[Sequence[str]], *, gap: int, label_width: int | None) -> None:
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, gap, 0, 0))
        grid.add_column(no_wrap=True, min_width=label_width)
        grid.add_column(overflow="fold")
        for label, text in rows:
            grid.add_row(Text(label), Text(text))
        self.indented(grid)

    def indented(self, table: Table) -> None:
        """Print a table that has rows, two columns from the left."""
        from rich.padding import Padding

        if table.row_count:
            self._console.print(Padding(table, (0, 0, 0, 2), expand=False))

    def table(self, header: Sequence[str], *, numbers: int) -> Table:
        """Return a table without lines whose last ``numbers`` columns are right-aligned."""
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for place, name in enumerate(header):
            is_number = place >= len(header) - numbers
            table.add_column(name, justify="right" if is_number else "left", overflow="fold", no_wrap=is_number)
        return table
