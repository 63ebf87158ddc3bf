"""A third side: who is off is told by both sides' errors against a float64 dump, and a wrong golden accuses nobody."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from run_records import first_divergence

from e2e.projects import SAMPLE, WORKFLOWS, Command

WORKFLOW = WORKFLOWS / "torchair_with_reference.yaml"
HEALTHY = ("--set", f"target={SAMPLE / 'healthy' / 'msprobe_ge_dump'}")
REFERENCE = ("--set", f"reference={SAMPLE / 'reference' / 'msprobe_fx_dump'}")


@pytest.fixture
def wrong_golden(tmp_path: Path) -> Path:
    """The golden dump with a GELU that is 5 % too large, as its output and wherever it is read."""
    folder = shutil.copytree(SAMPLE / "healthy" / "msprobe_fx_dump", tmp_path / "golden")
    (file,) = folder.rglob("gelu_1-*OUTPUT.0*")
    right = np.load(file)
    for path in folder.rglob("*.npy"):
        values = np.load(path)
        if values.shape == right.shape and np.array_equal(values, right):
            np.save(path, values * np.float32(1.05))
    return folder


def test_a_wrong_golden_is_told_and_fails_nothing(probe_flow: Command, wrong_golden: Path):
    done = probe_flow("run", WORKFLOW, *HEALTHY, *REFERENCE, "--set", f"golden={wrong_golden}")
    (finding,) = done.record["findings"]

    assert done.code == 0
    assert first_divergence(done.record) is None
    assert (finding["kind"], finding["node"], finding["fails"]) == ("golden_error", "Gelu_1", False)
    assert "not to blame" in done.out


def test_without_the_reference_the_same_golden_accuses_the_target(probe_flow: Command, wrong_golden: Path):
    sets = (*HEALTHY, "--set", f"golden={wrong_golden}")
    done = probe_flow("run", WORKFLOWS / "torchair_ge_vs_fx.yaml", *sets)
    assert done.code == 1
    assert first_divergence(done.record)["node"] == "Gelu_1"


def test_every_result_has_the_third_side(probe_flow: Command):
    done = probe_flow("run", WORKFLOW)
    rows = [row for row in done.rows if row["reference"] is not None and row["metrics"]]
    gelu = next(row for row in rows if row["node"] == "Gelu_1" and row["direction"] == "output")
    table = next(done.folder.glob("torchair_result_*.csv")).read_text().splitlines()
    nodes = [json.loads(line) for line in (done.folder / "nodes.jsonl").read_text().splitlines()]

    assert gelu["metrics"]["excess_error"] == pytest.approx(154, abs=3)
    assert gelu["metrics"]["golden_error"] < 1e-6
    assert gelu["reference"]["dtype"] == "float64"
    assert gelu["reference"]["l2norm"] == pytest.approx(gelu["golden"]["l2norm"], rel=1e-6)
    assert table[0].endswith("Match,Color,Reference Dtype,Reference Cosine,Reference EucDist,Reference MaxAbsErr,"
                             "Golden Error,Excess Error")  # fmt: skip
    assert {node["side"] for node in nodes} == {"target", "golden", "reference"}
    assert "154 x (limit 2)" in first_divergence(done.record)["evidence"]


@pytest.mark.usefixtures("all_kept")
def test_a_second_run_measures_nothing_again(tmp_path, probe_flow: Command):
    first = probe_flow("run", WORKFLOW, output="first", cache="kept")
    assert probe_flow("run", WORKFLOW, output="whole", cache="kept").rows == first.rows
    shutil.rmtree(tmp_path / "kept" / "v2" / "comparisons")
    second = probe_flow("run", WORKFLOW, output="second", cache="kept")
    planned = [
        json.loads(line)
        for line in (second.folder / "events.jsonl").read_text().splitlines()
        if '"compare.planned"' in line
    ]
    assert len(planned) == 2
    assert [event["kept"] for event in planned] == [event["tasks"] for event in planned]
    assert first.rows == second.rows
