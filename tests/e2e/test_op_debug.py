"""Records of overflows: which operator came first, in which unit, and what a comparison of that run says."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from bundled_samples import EXAMPLES
from om_writer import OmFolder, om_tree, op_debug_record, op_debug_table, tensor

from e2e.projects import WORKFLOWS, Command, Done

STEP = EXAMPLES / "tf_training" / "healthy"
BIG = np.full((2, 3), 70000.0, "f4")


def workflow(folder: Path, path: Path) -> Path:
    file = folder / "overflow.yaml"
    file.write_text(
        f"version: 1\nname: overflow\nstages:\n  found: {{uses: analysis.op_debug, path: {path}}}\n"
        "  report: {uses: report, comparison: found, formats: [jsonl, html, junit]}\n"
    )
    return file


def examined(probe_flow: Command, folder: Path, path: Path, **how: str) -> Done:
    return probe_flow("run", workflow(folder, path), **how)


def overflows(done: Done) -> list[dict]:
    return [finding for finding in done.record["findings"] if finding["kind"] == "overflow"]


@pytest.fixture
def run(tmp_path):
    """A run of two operators, of which the second overflowed first."""
    folder = OmFolder(om_tree(tmp_path / "dump", time="20260101000000"))
    folder.task, folder.stream = 11, 3
    folder.op("Add", "net/late", at=5, inputs=[BIG / 1e4], outputs=[BIG / 1e4])
    folder.task = 12
    folder.op("Cast", "net/first", at=2, inputs=[BIG], outputs=[tensor(BIG / 1e4, "float16")])
    return folder


def record(folder: OmFolder, at: int, task: int, status: int, *, unit: str = "AIC", version: int = 0) -> None:
    fields = {"task_id": task, "stream_id": 3}
    folder.op_debug(op_debug_record(unit, fields, status=(status,), version=version), at=at)


def test_every_overflow_is_named_in_order_of_time_with_bits_unit_and_operator(probe_flow, run, tmp_path):
    record(run, 9, 11, 0x20)
    record(run, 7, 12, 0x1_0000_0120, unit="AIV", version=1)
    done = examined(probe_flow, tmp_path, tmp_path / "dump")

    assert done.code == 1
    first, second = overflows(done)
    assert (first["node"], first["op_type"], second["node"]) == ("net/first", "Cast", "net/late")
    assert "`net/first` (Cast) overflowed first: AIV status" in first["evidence"]
    for words in (
        "0x20 overflow of a floating-point operation",
        "0x100 overflow of a conversion to float16",
        "0x100000000 unknown",
        "task 12, stream 3",
        "its input 0 reaches 70000, beyond 65504",
        "compare nothing before no overflow is left",
    ):
        assert words in first["evidence"]
    assert "overflowed as number 2" in second["evidence"]
    assert done.record["verdict"] == "fail"
    assert "The run overflowed, first at net/first (Cast)." in done.out


def test_the_old_layout_names_each_unit_that_overflowed(probe_flow, run, tmp_path):
    ids = {"task_id": 12, "stream_id": 3}
    content = op_debug_table(
        {"dha": ids, "l2": ids, "ai_core": ids}, dha_status=0xB00, l2_status=2 << 16, ai_core_status=(0, 0, 0)
    )
    run.op_debug(content, at=7)
    texts = [finding["evidence"] for finding in overflows(examined(probe_flow, tmp_path, tmp_path / "dump"))]
    assert len(texts) == 2
    assert "DHA Atomic Add status 0xb NaN in the source" in texts[0]
    assert "L2 Atomic Add status 0x2 underflow" in texts[1]


def test_records_without_dumps_name_the_task_and_ids_of_minus_one_are_those_of_the_file(probe_flow, tmp_path):
    folder = OmFolder(tmp_path / "dump", task=44, stream=6)
    record(folder, 1, 2**64 - 1, 0x8)
    done = examined(probe_flow, tmp_path, tmp_path / "dump")

    assert done.code == 1
    (found,) = overflows(done)
    assert "an operator without dump (task 44, stream 3) overflowed first" in found["evidence"]
    assert "0x8 sign inversion" in found["evidence"]


def test_nothing_that_overflowed_is_green_and_nothing_at_all_is_not(probe_flow, run, tmp_path):
    record(run, 7, 12, 0)
    assert examined(probe_flow, tmp_path, tmp_path / "dump").code == 0
    (tmp_path / "empty").mkdir()
    assert examined(probe_flow, tmp_path, tmp_path / "empty", output="second").code == 3
    assert examined(probe_flow, tmp_path, tmp_path / "nowhere", output="third").code == 2


def test_a_damaged_record_is_told_and_the_others_count(probe_flow, run, tmp_path):
    record(run, 7, 12, 0x20)
    run.op_debug(b"\x00" * 100, at=8)
    done = examined(probe_flow, tmp_path, tmp_path / "dump")
    assert len(overflows(done)) == 1
    assert "PF3310" in done.codes


def test_records_of_the_newest_run_count(probe_flow, run, tmp_path):
    record(run, 7, 12, 0x20)
    newer = OmFolder(om_tree(tmp_path / "dump", time="20260202000000"), task=12)
    newer.op("Cast", "net/first", at=2, outputs=[BIG / 1e4])
    record(newer, 9, 12, 0x10)
    done = examined(probe_flow, tmp_path, tmp_path / "dump")
    (found,) = overflows(done)
    assert "0x10 overflow of an integer operation" in found["evidence"]


def test_a_comparison_of_a_run_that_overflowed_says_so_first(probe_flow, tmp_path):
    root = tmp_path / "data"
    shutil.copytree(STEP, root)
    plain = probe_flow("run", WORKFLOWS / "tf_training.yaml", f"--set=data={root}", output="plain")
    assert (plain.code, list(plain.record["comparisons"])) == (0, ["compared"])

    folder = OmFolder(om_tree(root / "overflow" / "dump", time="20260101000000"), task=12, stream=3)
    folder.op("Tanh", "dense2/Tanh", at=2, inputs=[BIG], outputs=[BIG / 1e5])
    record(folder, 7, 12, 0x20)
    done = probe_flow("run", WORKFLOWS / "tf_training.yaml", f"--set=data={root}")

    assert (done.code, list(done.record["comparisons"])) == (1, ["compared"])
    assert done.record["findings"][0]["kind"] == "overflow"
    assert "The run overflowed, first at dense2/Tanh (Tanh)." in done.out
    assert any("exclude it first" in caveat for caveat in done.record["caveats"])
    assert len(done.rows) == len(plain.rows)
