"""The table of files of an offline comparison, with and without figures."""

from __future__ import annotations

import csv
from pathlib import Path

from msgspec.structs import replace
from offline_rows import Op, figures, gap, offline
from report_builders import GOLDEN_ROOT, TARGET_ROOT

from probe_flow.records import SELF
from probe_flow.reports.tables.offline.mapping import MAPPING_HEADER, rows_of, write_mapping


def lines(tmp_path: Path, *ops: Op | list[Op]) -> list[list[str]]:
    write_mapping(offline(*ops).pairs, tmp_path / "mapping.csv")
    with (tmp_path / "mapping.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_files_of_both_sides_by_tensor(tmp_path: Path) -> None:
    op = Op("conv1relu1", inputs=[gap("no_golden_dump", "none")], outputs=[figures()], originals=("conv1", "relu1"))
    file = f"{TARGET_ROOT}/Conv2D.conv1relu1.7.3.17"
    assert lines(tmp_path, op) == [
        ["Index", "OpType", "NPUDump", "GroundTruth", "TensorIndex", "NPUDumpPath", "GroundTruthPath"],
        ["0", "Conv2D", "conv1relu1", "conv1,relu1", "conv1relu1:input:0", file, "NaN"],
        ["0", "Conv2D", "conv1relu1", "conv1,relu1", "conv1relu1:output:0", file, f"{GOLDEN_ROOT}/conv1relu1.0.17.npy"],
    ]


def test_another_tensor_of_the_target_is_no_ground_truth(tmp_path: Path) -> None:
    given = offline(Op("trans_Cast_0", "Cast", outputs=[figures()])).pairs
    rows = [replace(row, pair=replace(row.pair, rule=SELF)) for row in rows_of(given)]
    write_mapping(given, tmp_path / "mapping.csv", rows=rows)
    with (tmp_path / "mapping.csv").open(newline="") as file:
        ((*_, path, golden),) = [*csv.reader(file)][1:]
    assert path.startswith(TARGET_ROOT)
    assert golden == "NaN"


def test_every_operator_of_a_group_has_a_line(tmp_path: Path) -> None:
    ops = [Op("om_a", "A", [gap("inner_node", "x")], originals=("t",)), Op("om_b", "B", originals=("t",))]
    assert [line[:6] for line in lines(tmp_path, ops)[1:]] == [
        ["0", "A", "om_a,om_b", "t", "om_a:output:0", f"{TARGET_ROOT}/A.om_a.7.3.17"],
        ["0", "B", "om_a,om_b", "t", "NaN", "NaN"],
    ]


def test_a_part_of_the_pairs_alone(tmp_path: Path) -> None:
    given = offline(Op("a", outputs=[figures()]), Op("b", outputs=[figures()])).pairs
    write_mapping(given, tmp_path / "mapping.csv", rows=rows_of(given)[:1])
    with (tmp_path / "mapping.csv").open(newline="") as file:
        found = list(csv.reader(file))
    assert tuple(found[0]) == MAPPING_HEADER
    assert [line[4] for line in found[1:]] == ["a:output:0"]
