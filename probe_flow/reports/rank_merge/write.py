"""Merged tables as files: one workbook with a sheet per measure, or one CSV per measure without XlsxWriter."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from probe_flow.files.atomic import atomic_bytes
from probe_flow.record.cells import text_cell
from probe_flow.reports.rank_merge.merge import NAME, Sheet
from probe_flow.reports.row_colors import Color
from probe_flow.reports.table import Cell, Table, write_csv
from probe_flow.reports.xlsx import MAX_ROWS, can_write_workbooks, cell_number, cell_text

if TYPE_CHECKING:
    from xlsxwriter.worksheet import Worksheet

STEM = "multi_ranks_compare_merge"
_NAME_WIDTH, _WIDTH = 60, 24
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")


class MergedFile(Struct, frozen=True):
    """One file of merged tables; writing it raises IncompleteError (PF7001) when that fails."""

    name: str
    write: Callable[[Path], None]


def merged_files(sheets: Sequence[Sheet], *, started: datetime, suffix: str = "") -> tuple[MergedFile, ...]:
    """Return the files of merged tables.

    Args:
        sheets: them.
        started: time in the names.
        suffix: follows the stem of the names.

    Returns:
        One workbook; without XlsxWriter, and for more rows than a sheet holds, one CSV per measure.
    """
    stem, time = f"{STEM}{suffix}", f"{started:%Y%m%d%H%M%S}"
    if can_write_workbooks() and all(len(sheet.rows) <= MAX_ROWS for sheet in sheets):
        return (MergedFile(f"{stem}_{time}.xlsx", partial(_write_workbook, sheets, started)),)
    return tuple(
        MergedFile(f"{stem}_{_UNSAFE.sub('_', sheet.measure)}_{time}.csv", partial(_write_csv, sheet))
        for sheet in sheets
    )


def _write_csv(sheet: Sheet, path: Path) -> None:
    rows = ((Color.NONE, [_csv_cell(cell) for cell in row]) for row in sheet.rows)
    write_csv(Table(sheet.header, frozenset(), rows), path)


def _csv_cell(cell: Cell | None) -> Cell:
    if isinstance(cell, bool):
        return str(cell)
    return "" if cell is None else text_cell(cell) if isinstance(cell, str) and cell_number(cell) is None else cell


def _write_workbook(sheets: Sequence[Sheet], created: datetime, path: Path) -> None:
    from xlsxwriter import Workbook
    from xlsxwriter.exceptions import FileCreateError

    with atomic_bytes(path) as file:
        try:
            with Workbook(file, {"constant_memory": True, "in_memory": False}) as workbook:
                workbook.set_properties({"created": created.replace(tzinfo=None)})
                bold = workbook.add_format({"bold": True, "bottom": 1})
                for sheet in sheets:
                    page = workbook.add_worksheet(sheet.measure)
                    page.freeze_panes(1, 1)
                    page.set_column(0, 0, _NAME_WIDTH)
                    page.set_column(1, len(sheet.header) - 1, _WIDTH)
                    for column, name in enumerate(sheet.header):
                        page.write_string(0, column, name, bold)
                    _write_rows(page, sheet)
        except FileCreateError as error:
            raise OSError(*error.args) from error  # a full disk, which `atomic_bytes` explains


def _write_rows(page: Worksheet, sheet: Sheet) -> None:
    are_names = [name == NAME for name in sheet.header]
    for line, row in enumerate(sheet.rows, start=1):
        for column, (cell, is_name) in enumerate(zip(row, are_names, strict=True)):
            number = None if is_name or isinstance(cell, bool) else cell_number(str(cell)) if cell is not None else None
            if isinstance(cell, bool):
                page.write_boolean(line, column, cell)
            elif number is not None:
                page.write_number(line, column, number)
            elif cell is not None:
                page.write_string(line, column, cell_text(str(cell)))
