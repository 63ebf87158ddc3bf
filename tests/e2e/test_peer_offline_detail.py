"""Element-wise views of offline models by the command line, against the peer's files; the first elements only."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from e2e.projects import Command

DATA = Path(__file__).parents[1] / "data" / "offline"
PEERS = DATA / "detail"


@pytest.fixture(scope="module")
def fr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("offline")
    with tarfile.open(DATA / "cases.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "fr"


def workflow(folder: Path, fr: Path, formats: str, compare: str = "") -> Path:
    path = folder / "detail.yaml"
    path.write_text(
        f"""version: 1
name: detail
stages:
  target: {{uses: dump.om, path: {fr / "target"}}}
  golden: {{uses: dump.npy, path: {fr / "golden"}}}
  pairs: {{uses: match.fusion_rule, target: target, golden: golden, fusion_rule: {fr / "fusion_rule.json"}}}
  result: {{uses: compare, pairs: pairs, policy: offline{compare}}}
  report: {{uses: report, comparison: result, formats: [{formats}]}}
"""
    )
    return path


def test_the_files_are_those_of_the_peer_byte_for_byte(fr: Path, tmp_path: Path, probe_flow: Command) -> None:
    done = probe_flow("run", workflow(tmp_path, fr, "{detail: {node: [pool1, fc], top: 3}}"))
    names = {path.name for path in PEERS.iterdir()}
    assert {path.name for path in done.folder.glob("*_output_0*")} == names | {"pool1_output_0.npy", "fc_output_0.npy"}
    for name in sorted(names):
        assert (done.folder / name).read_bytes() == (PEERS / name).read_bytes(), name
    array = np.load(done.folder / "pool1_output_0.npy")
    (golden,) = (fr / "golden").glob("pool1.0.*.npy")
    assert (array.dtype, array.shape) == (np.float16, (1, 8, 8, 8))
    np.testing.assert_allclose(array, np.load(golden), atol=2e-3)
    assert not done.codes & {"PF6402", "PF6403", "PF6404"}


def test_what_cannot_be_shown_is_a_warning_of_the_run(fr: Path, tmp_path: Path, probe_flow: Command) -> None:
    wanted = (
        "{detail: {node: nowhere}}, {detail: {node: conv1relu1, direction: input}}, {detail: {node: '*', limit: 1}}"
    )
    done = probe_flow("run", workflow(tmp_path, fr, wanted))
    assert {"PF6402", "PF6403", "PF6404"} <= done.codes
    assert done.code == 1


def test_only_the_first_elements_are_compared(fr: Path, tmp_path: Path, probe_flow: Command) -> None:
    done = probe_flow("run", workflow(tmp_path, fr, "jsonl", ", max_elements: 3"))
    rows = {(row["node"], row["direction"]): row for row in done.rows if row["metrics"]}
    # The fault is in column 3 of the fully connected layer: beyond what was compared there.
    assert "PF6405" in done.codes
    assert rows["fc", "output"]["verdict"] == "pass"
    assert rows["fc", "output"]["metrics"]["max_abs_err"] == pytest.approx(0.001906, abs=1e-6)
