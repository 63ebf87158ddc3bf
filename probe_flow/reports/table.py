"""A result table before it becomes a file: its columns, which of them hold numbers, and a colour per row."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from probe_flow.reports.atomic import atomic_text
from probe_flow.reports.row_colors import Color


@dataclass(frozen=True, slots=True)
class Table:
    """One table, read once.

    Args:
        header: the columns.
        numbers: those of them whose cells are numbers, or words where there is none.
        rows: cells as texts that no spreadsheet program evaluates, one per column, and the mark of the row.
    """

    header: tuple[str, ...]
    numbers: frozenset[str]
    rows: Iterator[tuple[Color, list[str]]]


def write_csv(table: Table, path: Path) -> None:
    """Write a table as UTF-8 CSV, lines ended by a line feed. CSV has no colours.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    with atomic_text(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.header)
        writer.writerows(cells for _, cells in table.rows)
