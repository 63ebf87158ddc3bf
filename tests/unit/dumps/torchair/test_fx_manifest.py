"""What the manifests of our own FX dumps tell a reader is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe_flow.dumps.torchair.fx import read_torchair_fx

RANK = "worldsize1_global_rank0"


def dump(root: Path, *, arrays: int = 2, step: Any = None, head: Any = None) -> Path:
    folder = root / RANK / "graph_1" / "0"
    folder.mkdir(parents=True)
    for number in range(arrays):
        np.save(folder / f"mm-aten.mm.default.OUTPUT.{number}.20260101000000000001.npy", np.ones(2))
    if head is not None:
        (root / RANK / "dump_manifest.json").write_text(json.dumps(head), encoding="utf-8")
    if step is not None:
        (folder / "step_manifest.json").write_text(json.dumps(step), encoding="utf-8")
    return root


HEAD = {"schema": "probe_flow/fx_dump/1"}


def problems(root: Path) -> list[tuple[str, str]]:
    return [(each.code, each.message) for each in read_torchair_fx(root, side="golden").problems]


def test_whole_dump_has_no_problem(tmp_path: Path) -> None:
    assert problems(dump(tmp_path, head=HEAD, step={"written": 2, "skipped": []})) == []


def test_dump_of_torchair_needs_no_manifest(tmp_path: Path) -> None:
    assert problems(dump(tmp_path)) == []


def test_execution_that_did_not_end_is_reported(tmp_path: Path) -> None:
    assert problems(dump(tmp_path, head=HEAD)) == [
        ("PF6340", f"the execution `{RANK}/graph_1/0` did not end: it has no manifest")
    ]


def test_lost_files_are_counted(tmp_path: Path) -> None:
    assert problems(dump(tmp_path, head=HEAD, step={"written": 3, "skipped": []})) == [
        ("PF6340", f"the execution `{RANK}/graph_1/0` holds 2 arrays, its manifest counts 3")
    ]


def test_tensors_that_were_left_out_are_named(tmp_path: Path) -> None:
    skipped = [{"tensor": "mm-aten.mm.default.OUTPUT.2", "reason": "it is quantised"}]

    found = read_torchair_fx(dump(tmp_path, head=HEAD, step={"written": 2, "skipped": skipped}), side="golden").problems

    assert [each.code for each in found] == ["PF6340"]
    assert found[0].notes == ("`mm-aten.mm.default.OUTPUT.2`: it is quantised",)


@pytest.mark.parametrize("step", [[], {"written": "2"}, {"written": 2, "skipped": "x"}, {"written": 2, "skipped": [3]}])
def test_odd_manifest_stops_nothing(tmp_path: Path, step: Any) -> None:
    assert {code for code, _ in problems(dump(tmp_path, head=HEAD, step=step))} <= {"PF6340"}


def test_manifest_of_another_program_says_nothing(tmp_path: Path) -> None:
    assert problems(dump(tmp_path, head={"schema": "other"})) == []
