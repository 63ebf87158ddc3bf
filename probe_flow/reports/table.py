"""A result table before it becomes a file: its columns, which of them hold numbers, and a colour per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from probe_flow.reports.atomic import atomic_text
from probe_flow.reports.float_texts import number_texts
from probe_flow.reports.row_colors import Color

_BATCH = 1024
_MAX_KNOWN = 20_000

Cell: TypeAlias = str | int | float
"""Text that no spreadsheet program evaluates, or a number (never a truth value, never an infinity)."""

Rows: TypeAlias = Iterator[tuple[Color, Sequence[Cell]]]
"""Cells of each row, and its mark."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table, read once.

    Args:
        header: the columns.
        numbers: those of them whose cells are numbers, or words where there is none.
        rows: one cell per column, and the mark of the row.
    """

    header: tuple[str, ...]
    numbers: frozenset[str]
    rows: Rows


def write_csv(table: Table, path: Path, *, line_end: str = "\n") -> None:
    """Write a table as UTF-8 CSV. CSV has no colours.

    Args:
        table: what is written.
        path: the file; it appears whole or not at all.
        line_end: ends every line; a line feed unless scripts expect another.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    with atomic_text(path) as file:
        file.writelines(_lines([table.header], _Quoted(), line_end))
        file.writelines(_texts(table.rows, line_end))


def _texts(rows: Rows, line_end: str) -> Iterator[str]:
    quoted = _Quoted()
    while batch := [cells for _, cells in islice(rows, _BATCH)]:
        yield from _lines(batch, quoted, line_end)
        if len(quoted) > _MAX_KNOWN:
            quoted.clear()


class _Quoted(dict[Cell, str]):
    """Text -> the same in quotes where CSV needs them, found once for each."""

    def __missing__(self, cell: Cell) -> str:
        text = str(cell)
        if "," in text or '"' in text or "\n" in text:
            text = '"' + text.replace('"', '""') + '"'
        self[cell] = text
        return text


def _lines(rows: Sequence[Sequence[Cell]], quoted: _Quoted, line_end: str) -> Iterator[str]:
    """Yield rows as csv.writer would write them, which takes many times longer for it."""
    found = [cell for cells in rows for cell in cells if not isinstance(cell, str)]
    numbers = iter(number_texts(found))
    for cells in rows:
        yield ",".join([quoted[cell] if cell.__class__ is str else next(numbers) for cell in cells]) + line_end
