"""Every cell of the result files that the published tool wrote for real dumps, beside ours; deviations have names.

Ours is the layout `dump_json_msprobe`, which judges by the published rules; `dump_json` shows the same facts.
"""

from __future__ import annotations

import csv
import re
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.projects import ROOT, Command

DATA = ROOT / "tests" / "data" / "dump_json"
EXAMPLES = ROOT / "examples" / "dump_json"

Row = dict[str, str]


@dataclass(frozen=True)
class Case:
    """A comparison of which the published tool's result is known; paths below the unpacked results start with `@`."""

    name: str
    target: str
    golden: str
    match: str = "match.name"
    mapping: str = ""
    reader: str = "dump.torch"


MINDSPORE = {"target": "ms_tensor_base", "golden": "twin_tensor", "reader": "dump.mindspore"}
CASES = (
    Case("pt_tensor_L0_bug", "pt_tensorL0_bug", "pt_tensorL0_base"),
    Case("pt_stat_mix_bug", "pt_stat_bug", "pt_stat_base"),
    Case("pt_md5_mix_bug", "@pt_md5_bug", "@pt_md5_base"),
    Case("pt_stat_rename_nomap", "pt_stat_rename", "pt_stat_base"),
    Case("pt_stat_rename_cellmap", "pt_stat_rename", "pt_stat_base", "match.cell_mapping", "cell_map_pt"),
    Case("ms_pt_tensor_nomap", **MINDSPORE),
    Case("ms_pt_tensor_cellmap_default", **MINDSPORE, match="match.cell_mapping"),
    Case("ms_pt_tensor_cellmap", **MINDSPORE, match="match.cell_mapping", mapping="cell_map_ms"),
    Case("ms_pt_tensor_layermap", **MINDSPORE, match="match.layer_mapping", mapping="layer_map"),
)

# --- deviations, as docs/how-to/from-msprobe.md lists them ------------------------------------------------------------


@dataclass(frozen=True)
class OtherPartner:
    """Rows that we pair otherwise, and why."""

    name: str
    cases: str
    items: str
    reason: str

    def covers(self, case: str, item: str) -> bool:
        return bool(re.match(self.cases, case) and re.fullmatch(self.items, item))


OTHER_PARTNERS = (
    OtherPartner(
        "backward through forward",
        "pt_(stat|md5)_mix_bug",
        r"Tensor\.__mul__\.\d\.backward\..*",
        "numbering backward calls by their order pairs an API called once more on one side crosswise",
    ),
    OtherPartner(
        "an extra call",
        "dist",
        r"Tensor\.__add__\.\d\..*",
        "a call that only the target makes is left over; those behind it keep their partners",
    ),
    OtherPartner(
        "raw against renumbered",
        "pt_stat_rename_cellmap",
        r"(Functional|Tensor)\..*\.backward\..*",
        "with a mapping the published tool renumbers the golden side only",
    ),
    OtherPartner(
        "primitives of a cell",
        "ms_pt_tensor_(cell|layer)map.*",
        r"Primitive\..*",
        "a primitive belongs to the cell that ran it; it is paired with the call inside the module of that cell",
    ),
    OtherPartner(
        "classes of other names",
        "ms_pt_tensor_cellmap_default",
        r"Cell\..*",
        "a cell and a module at the same place of the tree are the same layer, whatever their classes",
    ),
    OtherPartner(
        "parameters of other names",
        "ms_pt_tensor_(cell|layer)map.*",
        r"Cell\.norm\.LayerNorm\..*\.(gamma|beta)",
        "gamma and beta are weight and bias",
    ),
    OtherPartner(
        "gradients of mapped layers",
        "ms_pt_tensor_layermap",
        r"Cell\.mlp\.dense\d\.Dense\.parameters_grad\..*",
        "the published tool looks for them under a path with the layer's name twice",
    ),
    OtherPartner(
        "gradient of cross_entropy",
        "ms_pt_.*",
        r"Functional\.cross_entropy\.0\.backward\.output\.0",
        "PyTorch records the gradient of its last autograd node, which is another quantity",
    ),
)
"""All other rows must have the partner that the published tool found."""

FLOAT32_COLUMNS = {"MaxRelativeErr": 1e-5}
"""Computed in float32 there, in float64 here; relative difference allowed."""

NUMBER_COLUMNS = re.compile(r"(NPU|Bench) (max|min|mean|l2norm)")
"""Whole numbers have a fraction there (`10.0`) when every cell of the column is a number; here never."""

WORKBOOK_ROUNDING = 1e-15
"""Their workbooks hold 16 digits."""


def differing(theirs: Row, ours: Row, columns: Sequence[str], rounding: float) -> list[tuple[str, str, str]]:
    """Return the cells that differ, deviations of numbers left out."""
    return [(column, theirs[column], ours[column]) for column in columns if not is_same(column, theirs, ours, rounding)]


def is_same(column: str, theirs: Row, ours: Row, rounding: float) -> bool:
    if theirs[column] == ours[column]:
        return True
    try:
        numbers = float(theirs[column]), float(ours[column])
    except ValueError:
        return False
    if "Cosine" in theirs:
        rounding = max(rounding, FLOAT32_COLUMNS.get(column, 0.0))
    if NUMBER_COLUMNS.fullmatch(column) or rounding:
        return abs(numbers[0] - numbers[1]) <= rounding * abs(numbers[0])
    return False


# --- the comparison ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parent = tmp_path_factory.mktemp("peer_results")
    with tarfile.open(DATA / "peer_results.tar.xz") as archive:
        archive.extractall(parent, filter="data")
    return parent / "peer_results"


Compared = Callable[[Case], tuple[list[Row], list[Row]]]


@pytest.fixture
def compared(results: Path, probe_flow: Command, tmp_path: Path) -> Compared:
    """Return a function that gives the tables of a case: by the published rules, and ours."""

    def path(name: str) -> Path:
        return results / name[1:] if name.startswith("@") else DATA / name

    def compare(case: Case) -> tuple[list[Row], list[Row]]:
        mapping = f', mapping: "{results / "mappings" / case.mapping}.yaml"' if case.mapping else ""
        workflow = tmp_path / f"{case.name}.yaml"
        workflow.write_text(
            f"""
version: 1
name: {case.name}
stages:
  target: {{uses: {case.reader}, path: "{path(case.target)}"}}
  golden: {{uses: dump.torch, path: "{path(case.golden)}"}}
  pairs: {{uses: {case.match}, target: target, golden: golden{mapping}}}
  result: {{uses: compare, pairs: pairs, policy: dump_json}}
  strict: {{uses: report, comparison: result, formats: [{{csv: dump_json_msprobe}}], output: strict_{case.name}}}
  ours: {{uses: report, comparison: result, formats: [{{csv: dump_json}}], output: ours_{case.name}}}
""",
            encoding="utf-8",
        )
        assert probe_flow("run", workflow).code in (0, 1, 3)
        strict, ours = (next((tmp_path / f"{name}_{case.name}").glob("*.csv")) for name in ("strict", "ours"))
        return read(strict), read(ours)

    return compare


def read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_cell_is_that_of_the_published_tool(case: Case, compared: Compared, results: Path):
    expected = read(results / "expected" / f"{case.name}.csv")
    found, _ = compared(case)
    assert list(found[0]) == list(expected[0])
    assert [row["NPU Name"] for row in found] == [row["NPU Name"] for row in expected]
    assert_same(case.name, expected, found)


def assert_same(case: str, expected: list[Row], found: list[Row], *, rounding: float = 0.0) -> None:
    # Stacks were removed from most expected files, where they hold paths of the machine.
    columns = [name for name in expected[0] if name != "NPU_Stack_Info"]
    moved = {
        entry_of(theirs["NPU Name"])
        for theirs, ours in zip(expected, found, strict=True)
        if theirs["Bench Name"] != ours["Bench Name"]
    }
    wrong = []
    for theirs, ours in zip(expected, found, strict=True):
        item = theirs["NPU Name"]
        has_moved = theirs["Bench Name"] != ours["Bench Name"]
        if has_moved and not any(each.covers(case, item) for each in OTHER_PARTNERS):
            wrong.append((item, ("Bench Name", theirs["Bench Name"], ours["Bench Name"])))
        compared_columns = columns
        if has_moved:
            compared_columns = [name for name in columns if name in TARGET_COLUMNS]
        elif entry_of(item) in moved:  # rules that weigh outputs against inputs see other rows
            compared_columns = [name for name in columns if name not in ("Result", "Err_message")]
        wrong += [(item, cell) for cell in differing(theirs, ours, compared_columns, rounding)]
    assert wrong == []


TARGET_COLUMNS = (
    "NPU Name",
    "NPU Dtype",
    "NPU Tensor Shape",
    "NPU Requires_grad",
    "NPU max",
    "NPU min",
    "NPU mean",
    "NPU l2norm",
    "NPU MD5",
)


def entry_of(item: str) -> str:
    return re.split(r"\.(?:input|output|parameters)\.", item)[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_our_table_shows_the_same_facts_and_the_rows_of_the_golden_side(case: Case, compared: Compared):
    strict, ours = compared(case)
    facts = [name for name in strict[0] if name not in ("Result", "Err_message")]
    assert list(ours[0]) == [*strict[0], "Role"]
    of_target = [row for row in ours if row["NPU Name"] != "N/A"]
    assert [[row[name] for name in facts] for row in of_target] == [[row[name] for name in facts] for row in strict]
    for row in ours:
        if "N/A" in (row["NPU Name"], row["Bench Name"]):
            assert row["Result"] in {"unmatched_target", "unmatched_golden"}


def test_every_deviation_is_needed_and_told(results: Path, compared: Compared):
    unused = {deviation.name for deviation in OTHER_PARTNERS if deviation.cases != "dist"}
    for case in CASES:
        expected = read(results / "expected" / f"{case.name}.csv")
        for theirs, ours in zip(expected, compared(case)[0], strict=True):
            if theirs["Bench Name"] != ours["Bench Name"]:
                unused -= {each.name for each in OTHER_PARTNERS if each.covers(case.name, theirs["NPU Name"])}
    assert unused == set()


@pytest.mark.parametrize("rank", [0, 1])
def test_every_rank_has_the_table_of_the_published_tool(rank: int, compared: Compared, results: Path, tmp_path: Path):
    load = pytest.importorskip("openpyxl").load_workbook
    sheet = load(results / "expected" / f"dist_stat_bug_before_comm_rank{rank}.xlsx").active
    header, *lines = [
        ["" if cell is None else str(cell) for cell in line] for line in sheet.iter_rows(values_only=True)
    ]
    expected = [dict(zip(header, line, strict=True)) for line in lines]
    sides = (str(EXAMPLES / f"ranks_{side}" / "step0") for side in ("target", "golden"))
    compared(Case("dist", *sides))
    (table,) = (tmp_path / "strict_dist").glob(f"compare_result_rank{rank}_*.csv")
    found = read(table)
    assert list(found[0]) == header
    assert_same("dist", expected, found, rounding=WORKBOOK_ROUNDING)
