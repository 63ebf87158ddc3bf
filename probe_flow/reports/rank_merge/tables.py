"""Result tables of ranks as files: which files of a folder they are, and their cells, from CSV and from workbooks.

Files are untrusted: a workbook is refused when it unpacks to more than a table can hold or when its XML declares
entities; CSV is read line by line. Cells of workbooks are values as stored, formulas are not computed.
"""

from __future__ import annotations

import csv
import re
import zipfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from probe_flow.errors import Diagnostic, FormatError, Severity, UsageError
from probe_flow.files.opening import open_bytes, open_text, regular
from probe_flow.reports.rank_merge.merge import RankTable
from probe_flow.reports.table import Cell

MAX_UNPACKED_BYTES = 4 * 2**30
"""Size of a workbook's parts together; sheets are read row by row."""

MAX_STRINGS_BYTES = 2**29
"""Size of the part with the texts that cells share; it is held in memory."""

MAX_FIELD_CHARACTERS = 2**24

_STRINGS = "xl/sharedstrings.xml"
_NAME = re.compile(
    r"compare_result_rank(?P<rank>\d{1,9})(?:-rank\d{1,9})?_\d{14}(?:_part_(?P<part>\d{1,9}))?\.(?P<kind>csv|xlsx)",
    re.ASCII,
)
_NO_NUMBER = re.compile(r"compare_result_rank_\d{14}\.(csv|xlsx)", re.ASCII)
_OWN = re.compile(r"multi_ranks_compare_merge.*\.(csv|xlsx)")
_STEP = re.compile(r"step(\d{1,18})", re.ASCII)


class RankFiles(Struct, frozen=True):
    """The files of one rank's table: one, or the parts of a long one."""

    rank: int
    files: tuple[Path, ...]


Ranks = tuple[RankFiles, ...]


def find_tables(folder: Path) -> tuple[Mapping[str, Ranks], list[Diagnostic]]:
    """Return the result tables of a folder by sub-folder of the step (empty: the folder itself), ranks ascending.

    Returns:
        Those, and a remark on every table file that is none of a rank (PF7127).

    Raises:
        UsageError: PF7125 when a rank has the tables of two runs.
        OSError: the folder cannot be listed.
    """
    problems: list[Diagnostic] = []
    found: dict[str, Ranks] = {}
    steps = sorted(
        (int(match.group(1)), child)
        for child in folder.iterdir()
        if child.is_dir() and (match := _STEP.fullmatch(child.name))
    )
    for name, place in [("", folder), *((child.name, child) for _, child in steps)]:
        ranks = _of_folder(place, problems)
        if ranks:
            found[name] = ranks
    return found, problems


def _of_folder(folder: Path, problems: list[Diagnostic]) -> Ranks:
    by_rank: dict[int, dict[str, dict[int, Path]]] = {}
    for file in sorted(folder.iterdir()):
        match = _NAME.fullmatch(file.name)
        if match is not None and file.is_file():
            # The CSV and the workbook of one run say the same; the CSV is read.
            run = file.name.partition(".")[0].partition("_part_")[0]
            parts = by_rank.setdefault(int(match["rank"]), {}).setdefault(run, {})
            number = int(match["part"] or 0)
            if parts.get(number, file).suffix != ".csv" or file.suffix == ".csv":
                parts[number] = file
        elif file.suffix in {".csv", ".xlsx"} and not _OWN.fullmatch(file.name):
            problems.append(_not_of_a_rank(file))
    twice = [_twice(rank, runs) for rank, runs in sorted(by_rank.items()) if len(runs) > 1]
    if twice:
        raise UsageError(twice)
    return tuple(RankFiles(rank, tuple(_parts(next(iter(runs.values()))))) for rank, runs in sorted(by_rank.items()))


def _parts(files: Mapping[int, Path]) -> list[Path]:
    """Return the parts in order; a whole table beside parts of itself (the workbook of a cut CSV) is left out."""
    numbered = [files[number] for number in sorted(files) if number]
    return numbered or list(files.values())


@contextmanager
def opened(files: RankFiles) -> Iterator[RankTable]:
    """Yield the table of a rank, to be read once, before the block ends.

    Raises:
        UsageError: PF7128 for a workbook without the package that reads it.
        FormatError: PF7123 when a file cannot be read, also while the rows are read.
    """
    rows = _all_rows(files.files)
    try:
        header = next(rows, [])
        yield RankTable(files.rank, files.files[0].name, ["" if cell is None else str(cell) for cell in header], rows)
    finally:
        rows.close()


def _all_rows(files: Sequence[Path]) -> Generator[Sequence[Cell | None], None, None]:
    """Yield the header and the rows of all parts."""
    header: Sequence[Cell | None] | None = None
    for file in files:
        for sheet in _sheets(file):
            for number, row in enumerate(sheet):
                if number:
                    yield row
                elif header is None:
                    header = row
                    yield row
                elif list(row) != list(header):
                    raise _unreadable(file, "its parts have different columns")


def _sheets(file: Path) -> Iterator[Iterator[Sequence[Cell | None]]]:
    if file.suffix == ".csv":
        yield _csv_rows(file)
    else:
        yield from _workbook(file)


def _csv_rows(file: Path) -> Iterator[Sequence[Cell | None]]:
    with _named(file), _long_fields(), open_text(file, encoding="utf-8-sig", newline="") as opened_file:
        yield from csv.reader(opened_file, strict=True)


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let cells of tables be as long as stacks are; the limit is one of the whole process."""
    before = csv.field_size_limit(MAX_FIELD_CHARACTERS)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _workbook(file: Path) -> Iterator[Iterator[Sequence[Cell | None]]]:
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        message = f"`{file.name}` needs the package openpyxl, which is not installed"
        help_text = "pip install 'probe-flow[xlsx]', or compare without workbooks and merge the CSV tables"
        raise UsageError(Diagnostic("PF7128", message, path=str(file), help=help_text)) from error
    with _named(file):
        _check_archive(file)
        book = load_workbook(regular(file), read_only=True, data_only=True, keep_links=False)
        try:
            for sheet in book.worksheets:
                sheet.reset_dimensions()
                yield _cells(file, sheet)
        finally:
            book.close()


def _cells(file: Path, sheet: Any) -> Iterator[Sequence[Cell | None]]:
    """Yield the rows of a sheet, which is parsed while it is read."""
    with _named(file):
        yield from sheet.iter_rows(values_only=True)


def _check_archive(file: Path) -> None:
    """Refuse archives that unpack to more than they should, and XML with a document type."""
    with open_bytes(file) as opened_file, zipfile.ZipFile(opened_file) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > MAX_UNPACKED_BYTES:
            raise _unreadable(file, f"it unpacks to more than {MAX_UNPACKED_BYTES >> 30} GiB")
        for member in members:
            if member.filename.lower() == _STRINGS and member.file_size > MAX_STRINGS_BYTES:
                raise _unreadable(file, f"its texts unpack to more than {MAX_STRINGS_BYTES >> 20} MiB")
            with archive.open(member) as part:
                if b"<!DOCTYPE" in part.read(4096).upper():
                    raise _unreadable(file, f"`{member.filename}` declares a document type")


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Say which table it is that goes wrong; the readers have no error of their own: XML, zip, zlib, keys, values."""
    try:
        yield
    except FormatError:
        raise
    except (OSError, UnicodeDecodeError, csv.Error, zipfile.BadZipFile) as error:
        raise _unreadable(file, str(error)) from error
    except Exception as error:
        raise _unreadable(file, f"{type(error).__name__}: {error}") from error


def _unreadable(file: Path, why: str) -> FormatError:
    message = f"`{file.name}` cannot be read: {why}"
    return FormatError(Diagnostic("PF7123", message, path=str(file), help="write or copy it again"))


def _twice(rank: int, runs: Mapping[str, Mapping[int, Path]]) -> Diagnostic:
    names = " and ".join(f"`{next(iter(files.values())).name}`" for files in runs.values())
    folder = next(iter(next(iter(runs.values())).values())).parent
    message = f"rank {rank} has {len(runs)} result tables: {names}"
    return Diagnostic("PF7125", message, path=str(folder), help="move the tables of other runs away")


def _not_of_a_rank(file: Path) -> Diagnostic:
    reason = "has no rank in its name" if _NO_NUMBER.fullmatch(file.name) else "is not the result table of a rank"
    return Diagnostic(
        "PF7127",
        f"`{file.name}` {reason} and is not merged",
        severity=Severity.WARNING,
        path=str(file),
        help="tables of ranks are named like `compare_result_rank0_20260102030405.csv`",
    )
