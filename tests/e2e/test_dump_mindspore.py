"""`dump.mindspore` with a model: beside the same model in torch, green, or with the layer that is wrong named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
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


GRAPH_NET = """
import numpy as np
import mindspore
from mindspore import nn


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        random = np.random.default_rng(1)
        self.fc = nn.Dense(4, 3)
        self.fc.weight.set_data(mindspore.Tensor(random.random((3, 4)).astype(np.float32)))
        self.fc.bias.set_data(mindspore.Tensor(random.random(3).astype(np.float32)))
        self.relu = nn.ReLU()
        self.out = nn.Dense(3, 2)
        self.out.weight.set_data(mindspore.Tensor(random.random((2, 3)).astype(np.float32)))

    def construct(self, x):
        return self.out(self.relu(self.fc(x)))


def build():
    return Net()


def faulty():
    net = Net()
    net.fc.bias.set_data(net.fc.bias * 1.5)
    return net
"""


def graph_workflow(tmp_path: Path, target: str, more: str = "") -> Path:
    (tmp_path / "net.py").write_text(GRAPH_NET)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((2, 4), np.float32))
    stage = f"{{uses: dump.mindspore_graph, import_from: ., inputs: {{files: [x.npy]}}{more}, model: "
    (tmp_path / "w.yaml").write_text(
        "version: 1\nname: w\nstages:\n"
        f"  target: {stage}'net:{target}'}}\n  golden: {stage}'net:build'}}\n"
        "  pairs: {uses: match.name, target: target, golden: golden}\n"
        "  result: {uses: compare, pairs: pairs, policy: dump_json}\n"
    )
    return tmp_path / "w.yaml"


def test_kernels_of_a_model_in_graph_mode_are_dumped_and_compared(tmp_path: Path, probe_flow: Command) -> None:
    done = probe_flow("run", graph_workflow(tmp_path, "build", ", calls: 2"))

    assert done.code == 0, done.out + done.err
    folder = done.folder / "dumps/golden/kernel_dump/rank_0/net/0"
    assert {each.name for each in folder.iterdir()} == {"0", "1"}  # an iteration each
    tensors = {
        name: np.load(next((folder / "0").glob(f"{name}.*.npy")))
        for name in ("Parameter.x", "Parameter.fc_weight", "MatMul.Default_fc-Dense_MatMul-op*.output.0")
    }
    x, weight, result = tensors.values()
    assert (x == np.load(tmp_path / "x.npy")).all()
    np.testing.assert_allclose(result, x @ weight.T, rtol=1e-6)
    assert done.record["coverage"]["target"]["compared"] >= 8


def test_a_kernel_that_is_fed_wrongly_in_graph_mode_is_named(tmp_path: Path, probe_flow: Command) -> None:
    done = probe_flow("run", graph_workflow(tmp_path, "faulty"))

    assert done.code == 1, done.out + done.err
    found = first_divergence(done.record)
    assert "fc" in found["node"], found


def test_kernels_that_no_graph_has_leave_an_error(tmp_path: Path, probe_flow: Command) -> None:
    done = probe_flow("run", graph_workflow(tmp_path, "build", ", kernels: [Default/none-op0]"))

    assert done.code == 3, done.out + done.err
    assert "PF6327" in done.out + done.err
    assert "MindSpore ran no kernel of a graph that is asked for" in " ".join((done.out + done.err).split())
