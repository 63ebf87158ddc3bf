"""Awkward values in the layout `dump_json_msprobe`: every cell is msprobe's, but for the differences listed here.

The same list is in docs/how-to/from-msprobe.md. What was compared: tests/generate/dump_json_awkward.py.
"""

from __future__ import annotations

import csv
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from e2e.projects import ROOT, Command

DATA = ROOT / "tests" / "data" / "dump_json"
METRICS = ("Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio", "Five Thousandths Err Ratio")
JUDGEMENT = ("Result", "Err_message")

DIFFERENCES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "of complex numbers msprobe compares the real part": {
        "complex": (*METRICS, *JUDGEMENT),
        "complex_wide": (*METRICS, *JUDGEMENT),
        "complex_real": ("Cosine", "MaxRelativeErr"),
        "single_complex": ("MaxRelativeErr",),
    },
    "msprobe subtracts 64-bit integers as float64": {
        "int_beyond_float": ("EucDist", "MaxAbsErr"),
        "int_at_limit": ("EucDist", "MaxAbsErr"),
    },
    "single unsigned integers wrap around in msprobe": {"single_uint": ("MaxAbsErr",)},
    "msprobe takes infinities of opposite sign for equal": {"inf_sign": METRICS},
    "squares and quotients leave the range of floats in msprobe": {
        "huge": ("MaxRelativeErr",),
        "huge_double": ("Cosine", "MaxRelativeErr", *JUDGEMENT),
        "tiny_double": ("EucDist",),
    },
}

ROUNDING = {"MaxRelativeErr": 1e-5, "EucDist": 1e-15}
"""Relative: the one is computed in float32 there, of the other the last digit depends on the order of the sum."""

STATISTIC = re.compile(r"(NPU|Bench) (max|min|mean|l2norm)")
"""Whole numbers have a fraction there (`10.0`) when every cell of the column is a number; here never."""

Row = dict[str, str]


@pytest.fixture(scope="session")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parent = tmp_path_factory.mktemp("awkward")
    with tarfile.open(DATA / "awkward.tar.xz") as archive:
        archive.extractall(parent, filter="data")
    return parent / "awkward"


def read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def is_same(column: str, theirs: str, ours: str, *, is_tensor: bool) -> bool:
    if theirs == ours:
        return True
    rounding = ROUNDING.get(column, 0.0) if is_tensor else 0.0
    if not rounding and not STATISTIC.fullmatch(column):
        return False
    try:
        one, other = float(theirs), float(ours)
    except ValueError:
        return False
    return one == other or abs(one - other) <= rounding * min(abs(one), abs(other))


def compare(dumps: Path, case: str, probe_flow: Command, folder: Path) -> tuple[list[Row], list[Row]]:
    reader = "dump.mindspore" if case == "mixed" else "dump.torch"
    workflow = folder / "awkward.yaml"
    workflow.write_text(
        f"""
version: 1
name: awkward
stages:
  target: {{uses: {reader}, path: "{dumps / case / "target"}"}}
  golden: {{uses: dump.torch, path: "{dumps / case / "golden"}"}}
  pairs: {{uses: match.name, target: target, golden: golden}}
  result: {{uses: compare, pairs: pairs, policy: dump_json}}
  strict: {{uses: report, comparison: result, formats: [{{csv: dump_json_msprobe}}], output: strict}}
""",
        encoding="utf-8",
    )
    probe_flow("run", workflow)
    (table,) = (folder / "strict").glob("*.csv")
    return read(dumps / "expected" / f"{case}.csv"), read(table)


@pytest.mark.parametrize("case", ["statistics", "tensor", "md5", "mixed"])
def test_every_cell_is_that_of_msprobe_but_for_listed_ones(
    case: str, dumps: Path, probe_flow: Command, tmp_path: Path
) -> None:
    expected, found = compare(dumps, case, probe_flow, tmp_path)
    assert list(found[0]) == list(expected[0])
    assert [row["NPU Name"] for row in found] == [row["NPU Name"] for row in expected]
    is_tensor = "Cosine" in expected[0]
    differing: dict[str, set[str]] = {}
    for theirs, ours in zip(expected, found, strict=True):
        columns = {name for name in theirs if not is_same(name, theirs[name], ours[name], is_tensor=is_tensor)}
        if columns:
            differing.setdefault(theirs["NPU Name"].split(".")[1], set()).update(columns)
    listed = {name: set(columns) for rows in DIFFERENCES.values() for name, columns in rows.items()}
    assert [(name, columns) for name, columns in differing.items() if not columns <= listed.get(name, set())] == []
    if case == "tensor":
        assert differing == listed  # each of them is needed
