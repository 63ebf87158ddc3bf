from __future__ import annotations

import csv
from pathlib import Path

import openpyxl
import pytest
from packages_on_path import Site
from report_builders import comparison, good_row

from probe_flow.errors import UsageError
from probe_flow.reports.layout import LAYOUTS
from probe_flow.reports.xlsx import write_xlsx

GROUP = "probe_flow.reports"

LAYOUT = """
from probe_flow.reports.layout import Layout
from probe_flow.reports.parts import by_execution
from probe_flow.reports.row_colors import Color
from probe_flow.reports.table import Table


def rows(comparison, columns):
    for row in comparison.rows:
        yield Color.GREEN, [row.pair.shown.node.name, row.order, *columns]


def make(comparison, *, columns=()):
    return Table(("Node", "Order", *columns), frozenset({"Order"}), rows(comparison, columns))


SHEET = Layout("sheet", make, "acme", ("more",), by_execution, "\\r\\n")
"""


TABLES = [name for name in LAYOUTS.built_in if LAYOUTS[name].table is not None]
"""`precheck` has none: it names files that were written before (`tests/unit/precheck`)."""


@pytest.mark.parametrize("name", TABLES)
def test_every_layout_writes_a_header_and_a_row(tmp_path: Path, name: str) -> None:
    LAYOUTS[name].write_csv(comparison(good_row()), tmp_path / "result.csv")
    assert len((tmp_path / "result.csv").read_text().splitlines()) == 2


def test_an_unknown_layout_names_the_nearest_one() -> None:
    with pytest.raises(UsageError) as caught:
        LAYOUTS.find("torchar")
    assert caught.value.diagnostic.code == "PF7002"
    assert "`torchair`" in (caught.value.diagnostic.help or "")


def test_a_layout_of_a_package_has_columns_parts_and_workbooks_as_ours(site: Site, tmp_path: Path) -> None:
    site.install("acme_sheet", GROUP, "sheet = acme_sheet:SHEET", LAYOUT)
    assert list(LAYOUTS)[-1] == "sheet"
    assert site.imported == set()
    sheet, given = LAYOUTS.find("sheet"), comparison(good_row(0), good_row(1, "Add_2"))
    assert (sheet.stem, sheet.columns, len(list(sheet.parts(given, 1)))) == ("acme", ("more",), 2)
    sheet.write_csv(given, tmp_path / "t.csv", columns=["more", "of another layout"])
    assert (tmp_path / "t.csv").read_bytes().splitlines(keepends=True)[0] == b"Node,Order,more\r\n"
    write_xlsx(sheet.make(given), tmp_path / "t.xlsx")
    (part,) = openpyxl.load_workbook(tmp_path / "t.xlsx").worksheets
    with (tmp_path / "t.csv").open(newline="") as file:
        assert [[str(cell) for cell in line] for line in part.iter_rows(values_only=True)] == [
            line[:2] for line in csv.reader(file)
        ]


def test_a_function_of_a_package_still_writes_its_file(site: Site, tmp_path: Path) -> None:
    code = "def write(comparison, path):\n    path.write_text(f'{len(comparison.rows)} rows')\n"
    site.install("acme_plain", GROUP, "plain = acme_plain:write", code)
    plain = LAYOUTS.find("plain")
    plain.write_csv(comparison(good_row()), tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "1 rows"
    assert plain.table is None
    with pytest.raises(TypeError, match="has no table"):
        plain.make(comparison(good_row()))
