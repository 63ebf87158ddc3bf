"""Layers that PyTorch and MindSpore make of other calls, paired by structure: the same numbers alarm nobody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from layers_of_both_frameworks import LAYERS

from e2e.projects import ROOT, Command

pytest.importorskip("mindspore", reason="needs MindSpore")
pytest.importorskip("torch", reason="needs torch")

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]

WORKFLOW = """version: 1
name: layers
stages:
  target: {{uses: dump.mindspore, path: {target}}}
  golden: {{uses: dump.torch, path: {golden}}}
  pairs: {{uses: match.structure, target: target, golden: golden}}
  result: {{uses: compare, pairs: pairs, policy: dump_json, gate: findings}}
"""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layers")
    script = ROOT / "tests" / "support" / "layers_of_both_frameworks.py"
    for framework in ("torch", "mindspore"):
        order = [sys.executable, str(script), framework, str(folder / framework)]
        done = subprocess.run(order, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("layer", LAYERS)
def test_a_healthy_layer_is_green(dumps: Path, tmp_path: Path, probe_flow: Command, layer: str) -> None:
    workflow = tmp_path / "w.yaml"
    workflow.write_text(WORKFLOW.format(target=dumps / "mindspore" / layer, golden=dumps / "torch" / layer))

    done = probe_flow("run", workflow)

    assert done.code == 0, done.out + done.err
    assert done.record["coverage"]["target"]["compared"] > 5
