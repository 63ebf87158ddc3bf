"""`dump.mindspore` with a model: beside the same model in torch, green, or with the layer that is wrong named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_records import first_divergence

from e2e.projects import ROOT, WORKFLOWS, Command

pytest.importorskip("mindspore", reason="needs MindSpore")
pytest.importorskip("torch", reason="needs torch")

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]

TWINS = ROOT / "examples/torch/twins"


def test_the_same_network_in_two_frameworks_is_green(probe_flow: Command) -> None:
    done = probe_flow("run", WORKFLOWS / "mindspore_vs_pytorch.yaml")

    assert done.code == 0, done.out + done.err
    assert done.record["coverage"]["target"]["missing"] == 0
    assert done.record["coverage"]["golden"]["missing"] == 0
    # Both sides got the same bytes.
    first, second = ((done.folder / f"dumps/{side}/input/0/0.bin").read_bytes() for side in ("target", "golden"))
    assert first == second


def test_a_layer_that_is_wrong_in_one_of_them_is_named(tmp_path: Path, probe_flow: Command) -> None:
    text = (TWINS / "net_in_mindspore.py").read_text().replace("self.act(self.up(x))", "self.act(self.up(x)) * 1.05")
    faulty = tmp_path / "faulty.py"
    faulty.write_text(text)
    sets = (f"target={faulty}", f"golden={TWINS / 'net_in_torch.py'}", f"inputs={TWINS / 'input.npy'}")
    done = probe_flow("run", WORKFLOWS / "mindspore_vs_pytorch.yaml", *(f"--set={each}" for each in sets))

    assert done.code == 1, done.out + done.err
    found = first_divergence(done.record)
    assert found["node"] == "Cell.mlp.down.Dense"
    assert found["direction"] == "input", "what it reads is wrong already: it was made between two cells"


def test_an_api_without_a_kernel_is_named_with_what_to_do(tmp_path: Path, probe_flow: Command) -> None:
    (tmp_path / "net.py").write_text(
        "from mindspore import nn, mint\n\n\nclass Net(nn.Cell):\n    def construct(self, x):\n"
        "        return mint.cumsum(x, 0)\n\n\ndef build():\n    return Net()\n"
    )
    workflow = tmp_path / "w.yaml"
    inputs = "{random: {tensors: [{shape: [2, 3]}]}}"
    workflow.write_text(
        "version: 1\nname: w\nstages:\n"
        f"  golden: {{uses: dump.mindspore, model: 'net:build', import_from: ., inputs: {inputs}, level: L1}}\n"
        "  shown: {uses: report.graph, catalog: golden, formats: [vis]}\n"
    )
    done = probe_flow("run", workflow)

    assert done.code == 3, done.out + done.err
    said = " ".join((done.out + done.err).split())
    assert "`Mint.cumsum` has no kernel on CPU" in said
    assert "dump.torch" in said
    assert json.loads((done.folder / "dumps/golden/model_run.json").read_text())["failure"]["code"] == "PF6324"
