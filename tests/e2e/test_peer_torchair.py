"""The 24-column table of real dumps against msprobe's own results, cell by cell.

`data/torchair/*.csv` is what mindstudio-probe 26.2.0 wrote. It computes in float32, so its figures are right to about
1e-7 of the largest value, and its divergences to 1e-6. What differs otherwise is listed in
docs/how-to/from-msprobe.md, and only that may differ.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from e2e.projects import Command

DATA = Path(__file__).parents[1] / "data" / "torchair"
WORKFLOW = """\
version: 1
name: legacy-table
extends: template:{template}
stages:
  result: {{metrics: torchair_legacy}}
  report: {{formats: [{{csv: torchair_legacy}}]}}
"""
CASES = {
    "ge_fx_old": ("torchair_ge_vs_fx", "msprobe_ge_dump", "data_dump"),
    "new_layout": ("torchair_ge_vs_fx", "msprobe_ge_dump", "msprobe_fx_dump"),
    "healthy": ("torchair_ge_vs_fx", "msprobe_ge_dump", "msprobe_fx_dump"),
    "fusion_pair": ("torchair_fusion_on_vs_off", "fusion_on", "fusion_off"),
}
ELSEWHERE = frozenset(("data_id", "golden_data_path", "my_data_path"))
"""Rows are numbered and sorted in another way, and golden tensors of a device dump are named by their slot."""

FLOAT32 = 1e-7
DIVERGENCE = 2e-6
RELATIVE = 1e-4
"""Differences of large means: sums of float32 values that cancel."""


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def is_equal(column: str, theirs: str, ours: str) -> bool:
    if theirs == ours:
        return True
    if (column, theirs, ours) == ("my_dtype", "torch.float32", "torch.bfloat16"):
        return True
    try:
        expected, found = float(theirs), float(ours)
    except ValueError:
        return False
    allowed = DIVERGENCE if column == "kl_divergence" else FLOAT32
    return abs(expected - found) <= allowed + RELATIVE * max(abs(expected), abs(found))


def differing(theirs: Mapping[str, str], ours: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [
        (column, theirs[column], ours[column])
        for column in theirs
        if column not in ELSEWHERE and not is_equal(column, theirs[column], ours[column])
    ]


@pytest.mark.parametrize("name", CASES)
def test_every_cell_of_the_24_columns_is_that_of_msprobe(
    torchair_case: Callable[[str], Path], probe_flow: Command, tmp_path: Path, name: str
) -> None:
    case = torchair_case(name)
    template, target, golden = CASES[name]
    (tmp_path / "legacy.yaml").write_text(WORKFLOW.format(template=template))
    probe_flow("run", "legacy.yaml", "--set", f"target={case / target}", "--set", f"golden={case / golden}")
    (table,) = (tmp_path / "out").glob("msprobe_cmp_report_*.csv")
    ours = {row["my_data_path"]: row for row in rows_of(table)}
    compared = 0
    for row in rows_of(DATA / f"{name}.csv"):
        found = ours[str(case.parent / row["my_data_path"])]
        if not found["golden_data_path"]:  # a list of integers, which FX keeps as numbers of another meaning
            assert row["my_dtype"] == "torch.int64"
            assert "parameter" in found["cmp_fail_reason"]
            continue
        assert (row["my_data_path"], differing(row, found)) == (row["my_data_path"], [])
        compared += 1
    assert compared == {"ge_fx_old": 120, "new_layout": 228, "healthy": 114, "fusion_pair": 177}[name]
