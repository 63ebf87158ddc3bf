"""One network in MindSpore and in PyTorch, compared by a mapping of its layers: real dumps of both."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from run_records import first_divergence

from e2e.projects import ROOT, Command

DATA = ROOT / "tests" / "data" / "dump_json"

WORKFLOW = """\
version: 1
name: twins
stages:
  target: {{uses: dump.mindspore, path: {target}}}
  golden: {{uses: dump.torch, path: twin}}
  pairs: {{uses: match.layer_mapping, target: target, golden: golden, mapping: {mapping}}}
  result: {{uses: compare, pairs: pairs, policy: dump_json, gate: findings}}
  report: {{uses: report, comparison: result, formats: [jsonl]}}
"""


@pytest.fixture
def workflow(tmp_path: Path):
    """Return a function that writes the workflow for one of the MindSpore dumps."""
    for name in ("ms_tensor_pair", "pt_tensor_twin"):
        with tarfile.open(DATA / f"{name}.tar.xz") as archive:
            archive.extractall(tmp_path, filter="data")

    def write(target: str) -> Path:
        file = tmp_path / "twins.yaml"
        file.write_text(WORKFLOW.format(target=target, mapping=DATA / "attention_mapping.yaml"))
        return file

    return write


def test_the_healthy_network_passes(probe_flow: Command, workflow):
    done = probe_flow("run", workflow("golden"))
    assert done.code == 0, done.out + done.err
    assert first_divergence(done.record) is None
    assert done.record["coverage"]["target"]["compared"] >= 166


def test_every_layer_has_its_counterpart(probe_flow: Command, workflow):
    done = probe_flow("run", workflow("golden"))
    alone = [(row["node"], row["phase"]) for row in done.rows if "unmatched" in row["verdict"]]
    # MindSpore records the gradient of the network's input, which PyTorch does not compute.
    expected = [("Cell.layer.Layer", "backward"), ("Cell.layer.norm1.LayerNorm", "backward")]
    assert [name for name in alone if name[0].startswith(("Cell.", "Module."))] == expected


def test_a_wrong_scale_of_the_attention_is_named(probe_flow: Command, workflow):
    done = probe_flow("run", workflow("target"))
    assert done.code == 1, done.out + done.err
    found = first_divergence(done.record)
    assert (found["node"], found["direction"], found["index"]) == ("Tensor.__mul__", "input", "1")
    assert "0.125" in found["evidence"]
