"""Tests that every layout of tables and every file format of reports has to pass."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from probe_flow.errors import Diagnostic
from probe_flow.records import Comparison
from probe_flow.reports.formats import Chosen, FileFormat, ReportFile, Request
from probe_flow.reports.layout import Layout
from probe_flow.reports.table import Table
from probe_flow.testing.builders import sample_comparisons
from probe_flow.testing.expect import expect
from probe_flow.testing.run_records import run_record

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


class LayoutTests:
    """Tests of a `Layout`: name it as ``layout``."""

    layout: Layout

    def comparisons(self) -> Mapping[str, Comparison]:
        """Return what is shown, by what it is about; a layout for certain dumps only gives comparisons of these."""
        return sample_comparisons()

    def test_every_row_fits_the_header(self) -> None:
        """As many cells in each row as there are columns."""
        for what, table in self._tables():
            for _, cells in table.rows:
                expect(len(cells) == len(table.header), f"{what}: {len(cells)} cells below {len(table.header)} columns")

    def test_cells_are_text_or_finite_numbers(self) -> None:
        """Truth values, None and infinities are words of the layout's own."""
        for what, table in self._tables():
            for _, cells in table.rows:
                for cell, column in zip(cells, table.header, strict=False):
                    is_finite = isinstance(cell, str) or (not isinstance(cell, bool) and math.isfinite(cell))
                    expect(is_finite, f"{what}: the cell {cell!r} of `{column}`")

    def test_no_text_is_a_formula(self) -> None:
        """A name out of a dump is never what a spreadsheet program would evaluate."""
        for what, table in self._tables():
            for _, cells in table.rows:
                for cell in cells:
                    is_formula = isinstance(cell, str) and cell.startswith(_FORMULAS) and not _is_number(cell)
                    expect(not is_formula, f"{what}: a spreadsheet program would evaluate the cell {cell!r}")

    def test_a_table_is_the_same_every_time(self) -> None:
        """Two tables of one comparison have the same cells."""
        first, second = ([(table.header, list(table.rows)) for _, table in self._tables()] for _ in range(2))
        expect(first == second, "two tables of one comparison differ")

    def test_further_columns_are_there_when_asked_for(self) -> None:
        """Each of ``columns`` makes the table wider."""
        if self.layout.table is None:
            return
        given = next(iter(self.comparisons().values()))
        width = len(self.layout.make(given).header)
        for column in self.layout.columns:
            wider = len(self.layout.make(given, columns=[column]).header)
            expect(wider > width, f"the column `{column}` is not there when it is asked for")

    def test_it_is_written_as_csv(self, tmp_path: Path) -> None:
        """The file is UTF-8, and has the cells of the table."""
        for number, (what, given) in enumerate(self.comparisons().items()):
            path = tmp_path / f"{number}.csv"
            self.layout.write_csv(given, path)
            expect(path.is_file(), f"{what}: no file is written")
            with path.open(encoding="utf-8", newline="") as file:
                lines = list(csv.reader(file))
            if self.layout.table is not None:
                expect(tuple(lines[0]) == self.layout.make(given).header, f"{what}: the file has another header")

    def _tables(self) -> Sequence[tuple[str, Table]]:
        if self.layout.table is None:
            return ()
        return [(what, self.layout.make(given)) for what, given in self.comparisons().items()]


class FileFormatTests:
    """Tests of a `FileFormat`: name it as ``file_format``, and options that it takes as ``options``."""

    file_format: FileFormat
    options: Sequence[Any] = (None,)
    """`None` stands for the plain word."""

    def comparisons(self) -> Mapping[str, Comparison]:
        """Return what is shown, by what it is about."""
        return sample_comparisons()

    def test_its_option_is_described(self) -> None:
        """The page of the workflow file has something to show."""
        has_text = self.file_format.option is None or self.file_format.description
        expect(has_text, f"the option of `{self.file_format.word}` has no description")

    def test_files_stay_in_the_folder_of_the_report(self) -> None:
        """Names are relative and lead nowhere else; the report itself numbers those that several files have."""
        for what, files in self._files():
            names = [file.name for file in files]
            for name in names:
                path = PurePosixPath(name)
                is_inside = name and not path.is_absolute() and ".." not in path.parts
                expect(is_inside, f"{what}: the file `{name}` is not in the folder of the report")

    def test_a_comparison_without_files_says_why(self) -> None:
        """Some comparison gives a file, and one that gives none has a problem that says so."""
        made = self._requests()
        for what, request, files in made:
            wrong = [each for each in request.problems if not isinstance(each, Diagnostic)]
            expect(not wrong, f"{what}: these problems are no `Diagnostic`: {wrong}")
            expect(files or request.problems, f"{what}: `{self.file_format.word}` gives no file, and does not say why")
        expect(any(files for _, _, files in made), f"`{self.file_format.word}` gives no file of any comparison")

    def test_every_comparison_is_written(self, tmp_path: Path) -> None:
        """What it announces is written, whatever the comparison holds."""
        for number, (what, files) in enumerate(self._files()):
            for file in files:
                path = tmp_path / str(number) / file.name
                path.parent.mkdir(parents=True, exist_ok=True)
                file.write(path)
                expect(path.exists(), f"{what}: `{file.name}` is announced and not written")

    def test_the_same_comparison_gives_the_same_bytes(self, tmp_path: Path) -> None:
        """Two reports of one comparison are equal, byte by byte."""
        written: list[dict[str, bytes]] = []
        for attempt in ("first", "second"):
            found: dict[str, bytes] = {}
            for number, (_, files) in enumerate(self._files()):
                for file in files:
                    path = tmp_path / attempt / str(number) / file.name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    file.write(path)
                    found[f"{number}/{file.name}"] = path.read_bytes() if path.is_file() else b""
            written.append(found)
        expect(written[0] == written[1], "two reports of one comparison differ")

    def _files(self) -> Sequence[tuple[str, Sequence[ReportFile]]]:
        return [(what, files) for what, _, files in self._requests()]

    def _requests(self) -> Sequence[tuple[str, Request, Sequence[ReportFile]]]:
        found = []
        for what, given in self.comparisons().items():
            for option in self.options:
                chosen = Chosen(self.file_format, self.file_format.plain([]) if option is None else option)
                if self.file_format.is_joint:
                    chosen = Chosen(self.file_format, () if option is None else (option,))
                request = Request(given, run_record(), Path.cwd(), chosen=(chosen,), in_run_folder=False)
                files = list(self.file_format.files(request, chosen.option))
                request.names.extend(file.name for file in files)
                found.append((f"{what}, option {option!r}", request, files))
        return found


def _is_number(text: str) -> bool:
    try:
        float(text.rstrip("%"))
    except ValueError:
        return text in ("-", "--")
    return True
