"""Read a `statistic.csv` of a MindSpore kernel dump: one row per tensor, the columns as the collector was set up.

Rows may end with a comma that the header lacks. Numbers are decimal text; what was not asked for is not there.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping

from msgspec.structs import replace

from probe_flow.dumps.dump_json.numbers import BadNumberError, dimension, statistic
from probe_flow.dumps.mindspore_graph.items import Item, unnamed_item
from probe_flow.dumps.mindspore_graph.names import op_name, slot_of
from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.opening import lines_of, open_text
from probe_flow.files.walk import DumpFile
from probe_flow.records import Problem, Statistics

STATISTICS_FILE = "statistic.csv"
MAX_FILE_BYTES = 4 << 30

_NEEDED = ("op type", "op name", "io", "slot")
_CHECKSUMS = ("md5", "sha1", "md5 value", "sha1 value", "hash value")
_NUMBERS = ("max value", "min value", "avg value", "l2norm value")
_MAX_LISTED = 20
_EXACT_DIGITS = 9
"""Decimal digits that tell any two float32 values apart."""

_DIGITS = re.compile(r"[-+]?0*\.?0*([0-9]*\.?[0-9]*)")

Row = Mapping[str, str]


def read_statistics(file: DumpFile, problems: list[Problem]) -> list[Item]:
    """Return one item per row. A row whose numbers are wrong is an item with a reason; others are reported.

    A file that is no table stands as one unreadable item for all that it may have held.

    Problems: PF3451 the file is no table of statistics, PF3452 rows that cannot be used.
    """
    if file.size > MAX_FILE_BYTES:
        return _unusable(file, f"is larger than {MAX_FILE_BYTES} bytes", problems)
    items: list[Item] = []
    bad: list[str] = []
    digits = 0
    try:
        with open_text(file.path, newline="", errors="replace") as stream:
            reader = csv.reader(line.replace("\0", "") for line in lines_of(stream))
            header = [cell.strip().lower() for cell in next(reader, [])]
            missing = [name for name in _NEEDED if name not in header]
            if missing:
                return _unusable(file, f"lacks the columns {', '.join(f'`{name}`' for name in missing)}", problems)
            for cells in reader:
                if cells:
                    row = dict(zip(header, cells, strict=False))
                    _take(row, reader.line_num, file, items, bad)
                    digits = max(digits, *(_digits(row.get(column, "")) for column in _NUMBERS))
    except (OSError, csv.Error) as error:
        items += _unusable(file, f"cannot be read: {error}", problems)
    if bad:
        problems.append(_bad_rows(file, bad))
    return [replace(item, digits=digits) for item in items] if digits < _EXACT_DIGITS else items


def _digits(text: str) -> int:
    """Return the significant digits of a number's text.

    >>> _digits("-0.0123450e-05")
    6
    """
    found = _DIGITS.match(text.strip())
    return len(found.group(1).replace(".", "")) if found else 0


def _take(row: Row, line: int, file: DumpFile, items: list[Item], bad: list[str]) -> None:
    role, slot, name = row.get("io", "").strip().lower(), row.get("slot", "").strip(), row.get("op name", "").strip()
    if role not in ("input", "output") or not (slot.isdecimal() and len(slot) < 7) or not name:
        bad.append(f"line {line}: the columns `op name`, `io` and `slot` name no tensor")
        return
    time = row.get("timestamp", "").strip()
    shape = recorded = reason = None
    try:
        shape, recorded = _shape(row.get("shape")), _recorded(row)
    except BadNumberError as error:
        reason = f"line {line} of `{file.relative}`: {error}"
        bad.append(f"line {line}: {error}")
    items.append(
        Item(
            row["op type"].strip(),
            op_name(name),
            slot_of(role, int(slot)),
            int(time) if time.isdecimal() and len(time) < 20 else 0,
            file.path,
            dtype=row.get("data type", "").strip(),
            shape=shape,
            recorded=recorded,
            checksum=_checksum(row),
            reason=reason,
        )
    )


def _recorded(row: Row) -> Statistics:
    def number(column: str) -> float | int | bool | None:
        return statistic({column: row[column].strip()}, column) if column in row else None

    def count(column: str) -> int | None:
        value = number(column)
        return value if isinstance(value, int) else None

    infinite = [found for sign in ("positive", "negative") if (found := count(f"{sign} inf count")) is not None]
    mean, norm = number("avg value"), number("l2norm value")
    return Statistics(
        min=number("min value"),
        max=number("max value"),
        mean=None if mean is None else float(mean),
        l2norm=None if norm is None else float(norm),
        nan=count("nan count"),
        inf=sum(infinite) if len(infinite) == 2 else None,
    )


def _checksum(row: Row) -> str | None:
    return next((text.lower() for column in _CHECKSUMS if (text := row.get(column, "").strip())), None)


def _shape(text: str | None) -> tuple[int, ...] | None:
    """Return the shape of ``(4,8)``, ``(4)`` or ``()``.

    Raises:
        BadNumberError: it is no list of dimensions.
    """
    inner = (text or "").strip()
    if not inner:
        return None
    if inner[0] not in "([" or inner[-1] not in ")]":
        raise BadNumberError(f"the shape is `{inner[:40]}`")
    cells = [cell.strip() for cell in inner[1:-1].split(",")]
    return tuple(dimension(cell) for cell in cells if cell)


def _unusable(file: DumpFile, what: str, problems: list[Problem]) -> list[Item]:
    problem = Diagnostic(
        "PF3451",
        f"`{file.relative}` {what}",
        help="copy the file again, or dump again with `saved_data: statistic`",
        notes=(f"every row needs {', '.join(f'`{name}`' for name in _NEEDED)}",),
        path=file.relative,
    )
    problems.append(problem)
    return [unnamed_item(file, problem.message)]


def _bad_rows(file: DumpFile, bad: list[str]) -> Problem:
    more = (f"... and {len(bad) - _MAX_LISTED} more",) if len(bad) > _MAX_LISTED else ()
    return Diagnostic(
        "PF3452",
        f"{len(bad)} rows of `{file.relative}` are malformed",
        severity=Severity.ERROR,
        help="the file was cut off or edited: copy it again, or dump again",
        notes=(*bad[:_MAX_LISTED], *more),
        path=file.relative,
    )
