"""What is in memory while a report of many rows is written: nothing that grows with the length of their names."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from report_builders import comparison, good_row

from probe_flow.records import Comparison
from probe_flow.reports.ci.junit import write_junit
from probe_flow.reports.html.page import write_html
from probe_flow.reports.row_colors import Color
from probe_flow.reports.table import Table, write_csv
from probe_flow.testing.run_records import run_record

ROWS = 3000
LONG = 4000
RUN = run_record(workflow={"name": "w"})


def peak_of(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def named(length: int) -> Comparison:
    names = [f"{number}_".ljust(length, "x") for number in range(ROWS)]
    return comparison(*(good_row(place, name) for place, name in enumerate(names)))


@pytest.mark.parametrize("write", [write_html, write_junit])
def test_long_names_are_not_copied_for_all_rows_at_once(write: Callable[..., Any], tmp_path: Path) -> None:
    def peak(length: int) -> int:
        found = named(length)
        write(found, tmp_path / "warm", run=RUN)
        return peak_of(lambda: write(found, tmp_path / "report", run=RUN))

    # Each text once: the name of a file without its folder is a copy, and the files are called like the operators.
    assert peak(LONG) - peak(40) < 2 * ROWS * LONG


def test_a_table_forgets_the_texts_of_rows_that_are_written(tmp_path: Path) -> None:
    def rows(count: int) -> Iterator[tuple[Color, list[str]]]:
        return ((Color.NONE, [f"{number},".ljust(LONG, "x")]) for number in range(count))

    def peak(count: int) -> int:
        table = Table(("name",), frozenset(), rows(count))
        return peak_of(lambda: write_csv(table, tmp_path / "table.csv"))

    assert peak(8 * 1024) < 1.2 * peak(2 * 1024)
