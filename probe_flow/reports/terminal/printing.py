"""Lines, lists and aligned labels for a terminal, as text: what the long and the short summary are printed with.

Rich is loaded where it draws: for colours, tables, and characters beyond ASCII, which are not all one column wide.
Without them the short summary takes a twentieth of the CPU time of a small run less (55 of 1,090 ms).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MIN_WIDTH = 40
"""A narrower terminal counts as this one."""

_LABEL_WIDTH = 9
"""Of the labels of a short summary: `called at`, `in dump`, `evidence` stand in one column whatever is left out."""

_INDENT = 2
_WORD = re.compile(r" *[^ ]+ *")


class Printer:
    """Collects what is printed.

    Args:
        color: whether to use terminal colours.
        width: columns of the terminal; below 40 counts as 40.
    """

    def __init__(self, *, color: bool, width: int) -> None:
        self._buffer = io.StringIO()
        self._color = color
        self._width = max(width, MIN_WIDTH)

    @cached_property
    def _console(self) -> Console:
        from rich.console import Console

        return Console(
            file=self._buffer,
            width=self._width,
            force_terminal=self._color,
            force_interactive=False,
            color_system="standard" if self._color else None,
            no_color=not self._color,
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
        self.spans((text, style))

    def spans(self, *spans: tuple[str, str]) -> None:
        """Print texts with a style each, one after the other."""
        whole = "".join(text for text, _ in spans)
        if self._is_plain(whole):
            self._write(wrapped(whole, self._width))
            return
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
        if self._is_plain(text):
            self._write((text,))
            return
        from rich.text import Text

        self._console.print(Text(text, style=style), soft_wrap=True)

    def sentence(self, text: str, style: str = "") -> None:
        """Print a text for a terminal, wrapped between words: a word that is wider than all of it stays whole."""
        for line in between_words(text, self._width):
            self.unbroken(line, style)

    def items(self, texts: Iterable[str]) -> None:
        """Print texts as a list."""
        self.grid((("-", text) for text in texts), gap=1)

    def grid(self, rows: Iterable[Sequence[str]], *, gap: int = 2) -> None:
        """Print a label and a text per row, the texts aligned and wrapped below themselves."""
        self._grid(list(rows), gap=gap, label_width=0)

    def labels(self, rows: Iterable[Sequence[str]]) -> None:
        """Print a label and a text per row as `grid` does, in columns that are those of every other call."""
        self._grid(list(rows), gap=2, label_width=_LABEL_WIDTH)

    def _grid(self, rows: Sequence[Sequence[str]], *, gap: int, label_width: int) -> None:
        column = max([label_width, *(len(label) for label, _ in rows)]) + gap
        left = self._width - _INDENT - column
        if left > 0 and all(self._is_plain(text) for row in rows for text in row):
            for label, text in rows:
                first, *others = wrapped(text, left)
                self._write(
                    (f"{'':{_INDENT}}{label:<{column}}{first}", *(" " * (_INDENT + column) + each for each in others))
                )
            return
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, gap, 0, 0))
        grid.add_column(no_wrap=True, min_width=label_width or None)
        grid.add_column(overflow="fold")
        for label, text in rows:
            grid.add_row(Text(label), Text(text))
        self.indented(grid)

    def indented(self, table: Table) -> None:
        """Print a table that has rows, two columns from the left."""
        from rich.padding import Padding

        if table.row_count:
            self._console.print(Padding(table, (0, 0, 0, _INDENT), expand=False))

    def table(self, header: Sequence[str], *, numbers: int) -> Table:
        """Return a table without lines whose last ``numbers`` columns are right-aligned."""
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for place, name in enumerate(header):
            is_number = place >= len(header) - numbers
            table.add_column(name, justify="right" if is_number else "left", overflow="fold", no_wrap=is_number)
        return table

    def _is_plain(self, text: str) -> bool:
        """Return whether a text needs no colour, and each character of it is one column wide."""
        return not self._color and text.isascii() and text.isprintable()

    def _write(self, lines: Iterable[str]) -> None:
        self._buffer.writelines(f"{line}\n" for line in lines)


def columns_of(line: str) -> int:
    """Return how many columns of a terminal a printed line takes; codes of colours take none."""
    if line.isascii() and line.isprintable():
        return len(line)
    from rich.text import Text

    return Text.from_ansi(line).cell_len


def between_words(text: str, width: int) -> list[str]:
    """Return a text as lines that are at most ``width`` columns wide, but for words that are wider by themselves.

    >>> between_words("25.5 x rounding | runs/a-long-name/report.html", 20)
    ['25.5 x rounding |', 'runs/a-long-name/report.html']
    """
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and columns_of(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def wrapped(text: str, width: int) -> list[str]:
    """Return a line of printable ASCII as lines of a width, broken before words as rich breaks them.

    Blanks belong to the word before them. A word that is longer than a line begins a new one and is cut.

    >>> wrapped("of twelve columns", 12)
    ['of twelve', 'columns']
    """
    breaks: list[int] = []
    used = 0
    for match in _WORD.finditer(text):
        word, start = match[0], match.start()
        length = len(word.rstrip())
        if length <= width - used:
            used += len(word)
        elif length > width:
            breaks.extend(range(start, match.end(), width))
            used = (len(word) - 1) % width + 1
        else:
            breaks.append(start)
            used = len(word)
    edges = [0, *filter(None, breaks), len(text)]
    return [text[begin:end].rstrip() for begin, end in pairwise(edges)]
