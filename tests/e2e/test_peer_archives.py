"""The dumps of an independent generator, compared by the command line, against what the peer tool printed for them."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from run_records import first_divergence

from e2e.projects import TORCHAIR, Command, Done
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge

TABLES = Path(__file__).parents[1] / "data" / "torchair"
ROLES = {"input": "inputs", "output": "outputs"}

FLOAT32_SUMS = 1e-5
"""The peer computes norms in float32 (unit roundoff 6e-8) over up to some 1e4 elements; ours are float64. The largest
difference in these archives is 1.4e-7; what a wrong element, axis or operand would cause is larger than 1e-3."""


@dataclass(frozen=True)
class Expected:
    """What is known of an archive.

    Args:
        code: exit code.
        origin: device operator, FX node and step of the fault.
        counts: rows by verdict.
        tensors: of the target and of the golden.
        outputs: output rows that the peer compared.
    """

    code: int
    origin: tuple[str, str, int] | None
    counts: dict[str, int]
    tensors: tuple[int, int]
    outputs: int


CASES = {
    "healthy": Expected(
        0, None, {"pass": 72, "fail": 68, "unmatched_target": 35, "unmatched_golden": 173}, (177, 284), 55
    ),
    "new_layout": Expected(
        1,
        ("Gelu_1", "gelu_1", 1),
        {"pass": 124, "fail": 156, "unmatched_target": 70, "unmatched_golden": 346},
        (354, 568),
        110,
    ),
    "ge_fx_old": Expected(
        1,
        ("SoftmaxV2_1", "_softmax_1", 0),
        {"pass": 60, "fail": 84, "unmatched_target": 35, "unmatched_golden": 171},
        (181, 284),
        57,
    ),
}


def sides(root: Path) -> tuple[Path, Path]:
    fx = root / "msprobe_fx_dump"
    return root / "msprobe_ge_dump", fx if fx.is_dir() else root / "data_dump"


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def done(case: str, torchair_case: Callable[[str], Path], probe_flow: Command) -> Done:
    target, golden = sides(torchair_case(case))
    return probe_flow("run", TORCHAIR, "--set", f"target={target}", "--set", f"golden={golden}")


def test_the_fault_is_named_and_nothing_else(case: str, done: Done):
    expected = CASES[case]
    assert done.code == expected.code
    first = first_divergence(done.record)
    assert (first and (first["node"], first["golden_node"], first["step"])) == expected.origin
    if first:
        assert (first["direction"], first["index"]) == ("output", "0")
        assert first["node"] in done.out
    assert done.record["incomplete"] == []


def test_every_tensor_of_both_dumps_has_a_row(
    case: str, done: Done, torchair_case: Callable[[str], Path], tmp_path: Path
):
    target, golden = sides(torchair_case(case))
    catalogs = read_torchair_ge(target, side="target"), read_torchair_fx(golden, side="golden")
    assert tuple(len(catalog.tensors) for catalog in catalogs) == CASES[case].tensors
    for catalog in catalogs:
        # A file and a name tell tensors of all ranks, graphs and steps apart.
        known = {(str(Path(ref.source or "").relative_to(catalog.root)), ref.id) for ref in catalog.tensors}
        assert len(known) == len(catalog.tensors)
        own = [row for row in done.rows if row["rule"] != "self"]
        seen = {(row[catalog.side]["file"], row[catalog.side]["name"]) for row in own if row[catalog.side]}
        selves = [row[side] for row in done.rows if row["rule"] == "self" for side in ("target", "golden")]
        if catalog.side == "target":
            seen |= {(tensor["file"], tensor["name"]) for tensor in selves}
        assert seen == known


def test_rows_and_coverage_add_up(case: str, done: Done):
    expected = CASES[case]
    counts = Counter(row["verdict"] for row in done.rows)
    assert counts == expected.counts
    assert {name: count for name, count in done.record["counts"].items() if count} == expected.counts
    for side, tensors in zip(("target", "golden"), expected.tensors, strict=True):
        coverage = done.record["coverage"][side]
        assert coverage["tensors"] == tensors == coverage["compared"] + coverage["expected"]
        assert coverage["missing"] == 0


def peer_key(row: dict[str, str], target: Path) -> tuple[str, ...]:
    """Return device file, role, place and golden file; the golden of an inserted cast is its own input."""
    name, role, index = row["my_data_path"].rsplit(",", 2)
    golden = row["golden_data_path"].partition(",")[0]
    return name.partition(f"{target.name}/")[2], role, index, Path(golden).name


def our_key(row: dict[str, Any]) -> tuple[str, ...]:
    return row["target"]["file"], ROLES[row["direction"]], row["index"], Path(row["golden"]["file"]).name


def test_the_relative_euclidean_distance_is_the_peers_on_every_output(
    case: str, done: Done, torchair_case: Callable[[str], Path]
):
    target, _ = sides(torchair_case(case))
    with (TABLES / f"{case}.csv").open(newline="") as file:
        table = {peer_key(row, target): row for row in csv.DictReader(file)}
    printed = {key: row for key, row in table.items() if key[1] == "outputs" and not row["cmp_fail_reason"]}
    ours = {our_key(row): row["metrics"] for row in done.rows if row["target"] and row["golden"]}
    assert len(printed) == CASES[case].outputs
    for key, row in printed.items():
        distance = float(row["relative_euclidean_distance"])
        assert ours[key]["relative_euclidean_distance"] == pytest.approx(distance, rel=FLOAT32_SUMS, abs=0), key
