from __future__ import annotations

import csv
import gc
import sys
import zipfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from report_builders import comparison, good_row, key, measurement, missing_golden, missing_target, tensor

from probe_flow.errors import IncompleteError, UsageError
from probe_flow.records import Comparison, Role, Status
from probe_flow.reports import xlsx
from probe_flow.reports.layout import LAYOUTS
from probe_flow.reports.xlsx import cell_number, cell_text, write_xlsx


def sheets(given: Comparison, tmp_path: Path, layout_name: str = "torchair") -> Any:
    write_xlsx(LAYOUTS[layout_name].make(given), tmp_path / "t.xlsx", created=datetime(2026, 1, 2, tzinfo=timezone.utc))
    return openpyxl.load_workbook(tmp_path / "t.xlsx")


def mixed() -> Comparison:
    return comparison(
        good_row(0),
        good_row(1, "MatMul_2", status=Status.FAIL, role=Role.ORIGIN),
        good_row(2, "Add_3", status=Status.FAIL, role=Role.INHERITED),
        missing_golden(3, expected=True),
        missing_target(4),
        gate_passed=False,
    )


@pytest.mark.parametrize("name", [name for name in LAYOUTS.built_in if LAYOUTS[name].table is not None])
def test_cells_are_those_of_the_csv(tmp_path: Path, name: str) -> None:
    given = mixed()
    LAYOUTS[name].write_csv(given, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        expected = list(csv.reader(file))
    (sheet,) = sheets(given, tmp_path, name).worksheets
    found = [["" if cell.value is None else cell.value for cell in line] for line in sheet.iter_rows()]
    # Tables of other tools leave out what only the golden side has, or shrink an operator to a row.
    assert len(found) == len(expected) == {"dump_json_msprobe": 5, "offline": 5, "msaccucmp": 2}.get(name, 6)
    for cells, texts in zip(found, expected, strict=True):
        for cell, text in zip(cells, texts, strict=True):
            assert (str(cell) == text) if isinstance(cell, str) else (cell == float(text))


def test_numbers_are_numbers_and_words_are_text(tmp_path: Path) -> None:
    (sheet,) = sheets(mixed(), tmp_path).worksheets
    columns = {cell.value: cell.column for cell in sheet[1]}
    row = {name: sheet.cell(2, column) for name, column in columns.items()}
    assert (row["Cosine"].data_type, row["Cosine"].value) == ("n", 0.999951)
    assert (row["Rank"].data_type, row["Rank"].value) == ("n", 0)
    assert (row["NPU max"].data_type, row["NPU max"].value) == ("n", 2.5)
    assert sheet.cell(5, columns["Cosine"]).value == "N/A"


@pytest.mark.parametrize(
    ("line", "color"), [(2, "FFC6EFCE"), (3, "FFFF0000"), (4, "FFFFFF00"), (5, "FFD9D9D9"), (6, "FFD9D9D9")]
)
def test_rows_are_green_red_yellow_or_grey(tmp_path: Path, line: int, color: str) -> None:
    (sheet,) = sheets(mixed(), tmp_path).worksheets
    assert {cell.fill.fgColor.rgb for cell in sheet[line]} == {color}


def test_the_header_is_frozen_and_can_filter(tmp_path: Path) -> None:
    (sheet,) = sheets(mixed(), tmp_path).worksheets
    assert sheet.freeze_panes == "A2"
    assert sheet.auto_filter.ref == sheet.dimensions


def test_text_is_never_a_formula_or_a_link(tmp_path: Path) -> None:
    names = ["=1+1", "+cmd|' /C calc'!A0", "@SUM(1)", "https://example.invalid/x", "{=1}", "\x1b[31m", "\udc80"]
    rows = [
        good_row(number, target=tensor(node=key(name)), reasons=(name,), status=Status.FAIL)
        for number, name in enumerate(names)
    ]
    book = sheets(comparison(*rows), tmp_path)
    assert {cell.data_type for line in book.worksheets[0].iter_rows() for cell in line} <= {"n", "inlineStr", "s"}
    with zipfile.ZipFile(tmp_path / "t.xlsx") as archive:
        text = archive.read("xl/worksheets/sheet1.xml").decode()
    assert "<f>" not in text
    assert "hyperlink" not in text


def test_rows_beyond_the_limit_go_to_further_sheets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "MAX_ROWS", 2)
    book = sheets(comparison(*(good_row(number, f"Op_{number}") for number in range(5))), tmp_path)
    assert book.sheetnames == ["part_1", "part_2", "part_3"]
    assert [sheet.max_row for sheet in book.worksheets] == [3, 3, 2]
    assert {sheet.cell(1, 1).value for sheet in book.worksheets} == {"Rank"}
    names = [line[3].value for sheet in book.worksheets for line in sheet.iter_rows(min_row=2)]
    assert names == [f"AddV2.Op_{number}" for number in range(5)]


def test_a_full_last_sheet_leaves_no_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "MAX_ROWS", 2)
    assert sheets(comparison(good_row(0), good_row(1)), tmp_path).sheetnames == ["part_1"]


def test_a_comparison_without_rows_is_a_header(tmp_path: Path) -> None:
    (sheet,) = sheets(comparison(), tmp_path).worksheets
    assert sheet.max_row == 1


def test_the_same_comparison_gives_the_same_bytes(tmp_path: Path) -> None:
    sheets(mixed(), tmp_path)
    first = (tmp_path / "t.xlsx").read_bytes()
    sheets(mixed(), tmp_path)
    assert (tmp_path / "t.xlsx").read_bytes() == first


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    with pytest.raises(UsageError) as caught:
        write_xlsx(LAYOUTS["torchair"].make(mixed()), tmp_path / "t.xlsx")
    assert caught.value.diagnostic.code == "PF7101"
    assert "probe-flow[xlsx]" in (caught.value.diagnostic.help or "")
    assert list(tmp_path.iterdir()) == []


# The archive of XlsxWriter closes itself when it is collected, on a file that has gone by then.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "write", full)
    with pytest.raises(IncompleteError) as caught:
        write_xlsx(LAYOUTS["torchair"].make(mixed()), tmp_path / "t.xlsx")
    assert caught.value.diagnostic.code == "PF7001"
    assert list(tmp_path.iterdir()) == []
    del caught
    gc.collect()


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("0.25", 0.25), ("-3", -3), ("1e-05", 1e-05), ("9007199254740992", 2**53), ("9007199254740993", None),
        ("-9007199254740993", None), ("1" * 400, None), ("1e400", None), ("nan", None), (" inf", None), ("N/A", None),
        ("", None), ("50.0%", None), ("'-x", None), ("٣", None), ("1_0", None), ("True", None),
    ],
)  # fmt: skip
def test_only_what_a_cell_holds_exactly_is_a_number(cell: str, number: float | None) -> None:
    assert cell_number(cell) == number


def test_text_beyond_a_cell_ends_with_dots_and_is_cut_between_characters() -> None:
    assert cell_text("a" * 32_767) == "a" * 32_767
    assert cell_text("a" * 32_768) == "a" * 32_764 + "..."
    shown = cell_text("\U0001f600" * 20_000)
    assert len(shown.encode("utf-16-le")) // 2 <= 32_767
    assert shown == "\U0001f600" * 16_382 + "..."


def test_measurements_of_huge_integers_keep_their_digits(tmp_path: Path) -> None:
    given = comparison(good_row(measured=measurement({"max_abs_err": 2**60})))
    (sheet,) = sheets(given, tmp_path).worksheets
    columns = {cell.value: cell.column for cell in sheet[1]}
    assert sheet.cell(2, columns["MaxAbsErr"]).value == str(2**60)
