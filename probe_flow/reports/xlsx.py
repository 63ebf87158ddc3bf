"""A result table as an Excel workbook (Office Open XML): the columns of the CSV layout, with the rows coloured."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from probe_flow.errors import Diagnostic, UsageError
from probe_flow.files.atomic import atomic_bytes
from probe_flow.reports.row_colors import Color
from probe_flow.reports.table import Cell, Table

if TYPE_CHECKING:
    from xlsxwriter import Workbook
    from xlsxwriter.format import Format
    from xlsxwriter.worksheet import Worksheet

MAX_ROWS = 1_048_500
"""Rows of a sheet below its header; the format ends at 1,048,576 lines. More go to sheets ``part_2``, ``part_3`` ..."""

MAX_CELL = 32_767
"""UTF-16 units that a cell holds; longer text ends with three dots."""

FILLS: Mapping[Color, str] = MappingProxyType(
    {Color.RED: "#FF0000", Color.YELLOW: "#FFFF00", Color.GREEN: "#C6EFCE", Color.NONE: "#D9D9D9"}
)
"""Red and yellow are those that users of the published tools know; green passes; grey was not compared."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MAX_EXACT_INTEGER = 2**53
_MIN_WIDTH, _MAX_WIDTH = 8, 60


def can_write_workbooks() -> bool:
    """Say whether XlsxWriter is installed."""
    try:
        return find_spec("xlsxwriter") is not None
    except ValueError:  # blocked by an entry None in `sys.modules`
        return False


def no_xlsx_writer() -> Diagnostic:
    """Return PF7101."""
    return Diagnostic(
        "PF7101",
        "the format `xlsx` needs the package XlsxWriter, which is not installed",
        help="pip install 'probe-flow[xlsx]', or ask for `csv` in place of `xlsx`",
    )


def write_xlsx(content: Table, path: Path, *, created: datetime | None = None) -> None:
    """Write every row of a table as a workbook: frozen header, filters, coloured rows, numbers as numbers.

    Text is never a formula or a link. A whole number beyond 2**53 stays text, because a cell would round it. Memory
    does not grow with the number of rows.

    Args:
        content: what is written.
        path: the file; it appears whole or not at all.
        created: date that the file states; None = now.

    Raises:
        UsageError: PF7101 without the package XlsxWriter.
        IncompleteError: PF7001 when the file cannot be written.
    """
    try:
        from xlsxwriter import Workbook
        from xlsxwriter.exceptions import FileCreateError
    except ImportError as exc:
        raise UsageError(no_xlsx_writer()) from exc
    options = {"constant_memory": True, "in_memory": False}
    with atomic_bytes(path) as file:
        try:
            with Workbook(file, options) as workbook:
                workbook.use_zip64()
                if created is not None:
                    workbook.set_properties({"created": created.replace(tzinfo=None)})
                _write(workbook, content)
        except FileCreateError as exc:
            raise OSError(*exc.args) from exc  # a full disk, which `atomic_bytes` explains


def _write(workbook: Workbook, content: Table) -> None:
    header_format = workbook.add_format({"bold": True, "bottom": 1})
    fills = {color: workbook.add_format({"bg_color": fill}) for color, fill in FILLS.items()}
    are_numbers = [name in content.numbers for name in content.header]
    for number, part in enumerate(_parts(iter(content.rows), MAX_ROWS), start=1):
        sheet = workbook.add_worksheet(f"part_{number}")
        sheet.freeze_panes(1, 0)
        for column, name in enumerate(content.header):
            sheet.write_string(0, column, name, header_format)
            sheet.set_column(column, column, min(max(len(name) + 3, _MIN_WIDTH), _MAX_WIDTH))
        last = 0
        for last, (color, cells) in enumerate(part, start=1):
            _write_row(sheet, last, cells, are_numbers, fills[color])
        sheet.autofilter(0, 0, last, len(content.header) - 1)


def _parts(rows: Iterator[Any], size: int) -> Iterator[Iterator[Any]]:
    """Yield the rows in parts of at most ``size``, at least one; each must be read before the next."""
    yield islice(rows, size)
    for first in rows:
        yield chain([first], islice(rows, size - 1))


def _write_row(sheet: Worksheet, row: int, cells: Sequence[Cell], are_numbers: Sequence[bool], fill: Format) -> None:
    for column, (cell, is_number) in enumerate(zip(cells, are_numbers, strict=True)):
        number = cell_number(cell) if is_number else None
        if number is not None:
            sheet.write_number(row, column, number, fill)
        elif cell != "":
            sheet.write_string(row, column, cell_text(str(cell)), fill)
        else:
            sheet.write_blank(row, column, None, fill)


def cell_number(cell: Cell) -> float | int | None:
    """Return the number that a cell of a number column holds; None for words, NaN, infinities and huge integers."""
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else None
    if isinstance(cell, int):
        return cell if abs(cell) <= _MAX_EXACT_INTEGER else None
    if _NUMBER.fullmatch(cell) is None:
        return None
    if cell.lstrip("+-").isdigit():
        integer = int(cell) if len(cell) <= len(str(_MAX_EXACT_INTEGER)) + 1 else _MAX_EXACT_INTEGER + 1
        return integer if abs(integer) <= _MAX_EXACT_INTEGER else None
    number = float(cell)
    return number if math.isfinite(number) else None


def cell_text(text: str) -> str:
    r"""Return text that a cell can hold: lone surrogates as ``\udcNN``, cut to the length of a cell."""
    encoded = text.encode("utf-8", errors="backslashreplace").decode("utf-8")
    if len(encoded.encode("utf-16-le")) <= 2 * MAX_CELL:
        return encoded
    return encoded.encode("utf-16-le")[: 2 * (MAX_CELL - 3)].decode("utf-16-le", errors="ignore") + "..."
