"""A result table before it becomes a file: its columns, which of them hold numbers, and a colour per row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeAlias, cast

from msgspec import Struct

from probe_flow.files.atomic import atomic_text
from probe_flow.record.json_values import Number, number_texts
from probe_flow.reports.row_colors import Color

_BATCH = 1024

Cell: TypeAlias = str | int | float
"""Text that no spreadsheet program evaluates, or a number (never a truth value, never an infinity)."""

Rows: TypeAlias = Iterable[tuple[Color, Sequence[Cell]]]
"""Cells of each row, and its mark."""


class RowBatches(Struct, frozen=True):
    """Rows that are made many at a time, column by column.

    Args:
        made: the marks of some rows, and their columns; read once.
    """

    made: Iterator[tuple[Sequence[Color], Sequence[Sequence[Cell]]]]

    def __iter__(self) -> Iterator[tuple[Color, Sequence[Cell]]]:
        """Yield the rows."""
        for colors, columns in self.made:
            yield from zip(colors, zip(*columns, strict=True), strict=True)


class Table(Struct, frozen=True):
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
        file.writelines(_texts([(Color.NONE, table.header)], line_end))
        file.writelines(_texts(table.rows, line_end))


def _texts(rows: Rows, line_end: str) -> Iterator[str]:
    """Yield rows as csv.writer would write them, which takes many times longer for it."""
    for batch in _batches(rows):
        quoted = _Quoted()  # for this batch only: names and files differ in every row, and may be long
        columns = [_column(cells, quoted) for cells in batch]
        yield line_end.join([*map(",".join, zip(*columns, strict=True)), ""])


def _batches(rows: Rows) -> Iterator[Iterable[Sequence[Cell]]]:
    """Yield the columns of some rows at a time."""
    if isinstance(rows, RowBatches):
        yield from (columns for _, columns in rows.made)
        return
    found = iter(rows)
    while batch := [cells for _, cells in islice(found, _BATCH)]:
        yield zip(*batch, strict=True)


def _column(cells: Sequence[Cell], quoted: _Quoted) -> Sequence[str]:
    """Return the cells of a column as they stand in the file."""
    kinds = set(map(type, cells))
    if kinds == {str}:
        return _text_column(cast("Sequence[str]", cells), quoted)
    if str not in kinds:
        return number_texts(cast("Sequence[Number]", cells))
    texts = iter(_text_column([cell for cell in cells if isinstance(cell, str)], quoted))
    numbers = iter(number_texts([cell for cell in cells if not isinstance(cell, str)]))
    return [next(texts) if isinstance(cell, str) else next(numbers) for cell in cells]


def _text_column(texts: Sequence[str], quoted: _Quoted) -> Sequence[str]:
    every = "".join(texts)
    needs_quotes = "," in every or '"' in every or "\n" in every
    return list(map(quoted.__getitem__, texts)) if needs_quotes else texts


class _Quoted(dict[str, str]):
    """Text -> the same in quotes where CSV needs them, found once for each."""

    def __missing__(self, text: str) -> str:
        found = text
        if "," in text or '"' in text or "\n" in text:
            found = '"' + text.replace('"', '""') + '"'
        self[text] = found
        return found
