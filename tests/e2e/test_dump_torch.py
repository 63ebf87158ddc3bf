"""`dump.torch` with a model: two models are run and compared by one command; what goes wrong is said."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_records import first_divergence

from e2e.projects import WORKFLOWS, Command

pytest.importorskip("torch", reason="needs torch")

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]


def project(tmp_path: Path, golden: str, code: str = "", **files: str) -> Path:
    """Write a workflow of a single stage that runs a model, and the model's code."""
    (tmp_path / "net.py").write_text(textwrap.dedent(code))
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    for name, text in files.items():
        (tmp_path / f"{name}.json").write_text(text)
    workflow = tmp_path / "w.yaml"
    text = f"""
        version: 1
        name: w
        stages:
          golden: {{uses: dump.torch, import_from: ., inputs: {{files: [x.npy]}}, {golden}}}
          shown: {{uses: report.graph, catalog: golden, formats: [vis]}}
    """
    workflow.write_text(textwrap.dedent(text))
    return workflow


NET = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(4, 3)

        def forward(self, x):
            return torch.relu(self.fc(x))

    def build():
        return Net()

    def loss(result):
        return result.square().mean()

    def no_loss(result):
        return result
"""


def dump_of(done: Any, step: int = 0) -> dict[str, Any]:
    folder = done.folder / "dumps/golden/torch_dump" / f"step{step}/proc0"
    return json.loads((folder / "dump.json").read_text())


def test_the_sample_names_the_layer_that_is_wrong(probe_flow: Command) -> None:
    done = probe_flow("run", WORKFLOWS / "torch_vs_torch.yaml")

    assert done.code == 1, done.out + done.err
    found = first_divergence(done.record)
    assert (found["node"], found["call"], found["index"]) == ("Functional.linear", 6, "1")
    assert done.record["coverage"]["target"]["missing"] == 0
    # The call is that of the layer `up` of the second block, whose weights are off.
    nodes = [json.loads(line) for line in (done.folder / "nodes.jsonl").read_text().splitlines()]
    (origin,) = {each["parent"] for each in nodes if each.get("entry", "") == "Functional.linear.6.forward"} or {None}
    assert origin in (None, "Module.layers.1.up.Linear")


def test_two_healthy_models_are_green(probe_flow: Command) -> None:
    sample = WORKFLOWS.parent / "examples/torch/models"
    sets = [f"--set={side}={sample / 'model.py'}" for side in ("target", "golden")]
    done = probe_flow("run", WORKFLOWS / "torch_vs_torch.yaml", *sets, f"--set=inputs={sample / 'input.npy'}")

    assert done.code == 0, done.out + done.err
    assert done.record["verdict"] == "pass"


def test_a_model_with_its_backward_pass_and_a_loss(tmp_path: Path, probe_flow: Command) -> None:
    workflow = project(tmp_path, "model: 'net:build', backward: true, loss: 'net:loss', calls: 2", NET)
    done = probe_flow("run", workflow)

    assert done.code == 0, done.out + done.err
    data = dump_of(done)["data"]
    assert "Module.fc.Linear.parameters_grad.0" in data
    assert "Tensor.mean.0.forward" in data, "the loss is part of the program"
    first, second = (dump_of(done, step)["data"]["Module.fc.Linear.parameters_grad.0"] for step in (0, 1))
    names = ("Max", "Min", "Norm")
    assert [first["weight"][0][n] for n in names] == [second["weight"][0][n] for n in names], "they are not added up"
    record = json.loads((done.folder / "dumps/golden/model_run.json").read_text())
    assert record["entries"] == len(data) * 2
    assert (done.folder / "dumps/golden/input/0/0.npy").is_file()


def test_float64_and_the_sum_of_the_results(tmp_path: Path, probe_flow: Command) -> None:
    workflow = project(tmp_path, "model: 'net:build', backward: true, precision: float64, level: L1", NET)
    done = probe_flow("run", workflow, "--only", "golden")

    assert done.code == 0, done.out + done.err
    data = dump_of(done)["data"]
    assert list(data) == [
        "Functional.linear.0.forward",
        "Torch.relu.0.forward",
        "Torch.relu.0.backward",
        "Functional.linear.0.backward",
    ]
    assert data["Torch.relu.0.forward"]["output"][0]["dtype"] == "torch.float64"


def test_a_configuration_of_msprobe(tmp_path: Path, probe_flow: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"task": "statistics", "level": "L0", "dump_path": "configured", "statistics": {"data_mode": ["forward"]}}
    workflow = project(tmp_path, "model: 'net:build', config: c.json", NET, c=json.dumps(config))
    monkeypatch.chdir(tmp_path)
    done = probe_flow("run", workflow)

    assert done.code == 0, done.out + done.err
    (file,) = tmp_path.rglob("configured/torch_dump/step0/proc0/dump.json")
    assert list(json.loads(file.read_text())["data"]) == ["Module.fc.Linear.forward.0"]


@pytest.mark.parametrize(
    ("golden", "code", "words"),
    [
        ("model: 'net:build', backward: true, loss: 'net:no_loss'", 3, "`loss` returned a tensor of shape (2, 3)"),
        ("model: 'net:build', backward: true, loss: 'net:los'", 2, "`net` has no `los`"),
        ("model: 'net:build', loss: 'net:loss'", 2, "`loss` is for the backward pass"),
        ("model: 'net:build', include: [nothing_of_this_name]", 3, "nothing was dumped"),
        ("model: 'net:build', config: c.json, level: L0", 2, "leave `level` out"),
        ("model: 'net:build', config: c.json", 2, "`async_dump: true` is not done"),
        ("model: 'net:build', scope: [Module.a.A.forward.0, Torch.b.0.forward], level: L1", 2, "does not record"),
        ("path: ., level: L0", 2, "only a stage that runs a `model` takes it"),
    ],
)
def test_what_cannot_be_done_is_said(golden: str, code: int, words: str, tmp_path: Path, probe_flow: Command) -> None:
    done = probe_flow("run", project(tmp_path, golden, NET, c='{"async_dump": true}'))

    assert done.code == code, done.out + done.err
    assert words in done.out + done.err
    assert "Traceback" not in done.out


def test_a_model_that_fails_leaves_what_it_computed_until_then(tmp_path: Path, probe_flow: Command) -> None:
    code = NET.replace("return torch.relu(self.fc(x))", "return torch.relu(self.fc(x)) @ x")
    done = probe_flow("run", project(tmp_path, "model: 'net:build'", code))

    assert done.code == 3
    assert "failed in call 0" in done.out + done.err
    folder = done.folder / "dumps/golden/torch_dump/step0/proc0"
    assert json.loads((folder / "dump_manifest.json").read_text())["is_complete"] is False
    assert "Torch.relu.0.forward" in dump_of(done)["data"]


def test_repeated_runs_name_what_is_not_deterministic(tmp_path: Path, probe_flow: Command) -> None:
    code = NET.replace("return torch.relu(self.fc(x))", "import time; return torch.relu(self.fc(x)) + time.time_ns()")
    done = probe_flow("run", project(tmp_path, "model: 'net:build', repeat: 2, level: L1", code))

    said = done.out + done.err
    assert "PF6330" in said
    assert "Tensor.__add__.0.forward" in said
    steady = probe_flow("run", project(tmp_path, "model: 'net:build', repeat: 2, level: L1", NET))
    assert "PF6330" not in steady.out + steady.err


NOISY = """
    import pathlib

    import torch

    class Net(torch.nn.Module):
        def forward(self, x):
            runs = pathlib.Path(__file__).with_name("runs")
            runs.write_text(runs.read_text() + "." if runs.exists() else ".")
            noise = (0.01, 0.02, 0.015, 0.025)[(len(runs.read_text()) - 1) % 4]
            return torch.relu(x * 2) + torch.from_numpy(x.numpy() * noise)

    def build():
        return Net()
"""


def test_what_runs_differ_by_accuses_nobody(tmp_path: Path, probe_flow: Command) -> None:
    """Each run adds another noise: without a second one somebody is blamed for it, with one nobody is."""
    workflow = project(tmp_path, "model: 'net:build', level: L1", NOISY)
    results = {}
    for repeat in (1, 2):
        (tmp_path / "runs").unlink(missing_ok=True)
        stage = (
            f"{{uses: dump.torch, import_from: ., inputs: {{files: [x.npy]}}, model: 'net:build', repeat: {repeat}}}"
        )
        lines = ["version: 1", "name: w", "stages:", *(f"  {side}: {stage}" for side in ("target", "golden"))]
        lines += ["  pairs: {uses: match.name, target: target, golden: golden}"]
        lines += ["  result: {uses: compare, pairs: pairs, policy: dump_json}"]
        workflow.write_text("\n".join(lines) + "\n")
        results[repeat] = probe_flow("run", workflow, output=tmp_path / f"run{repeat}")

    assert results[1].code == 1, results[1].out + results[1].err
    assert first_divergence(results[1].record) is not None
    assert results[2].code == 0, results[2].out + results[2].err
    assert first_divergence(results[2].record) is None
    assert {each["kind"] for each in results[2].record["findings"]} == {"not_deterministic"}
