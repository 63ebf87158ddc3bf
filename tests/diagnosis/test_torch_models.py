"""Torch models made and trained here, the target in another precision, recorded by a collector of our own.

The dumps in ``tests/data`` are of the published collector; these show that nothing hangs on how that one records.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from probe_flow.cli.main import main

pytestmark = [pytest.mark.frameworks, pytest.mark.usefixtures("one_thread")]
torch = pytest.importorskip("torch")

from generate.dump_json_models import make  # noqa: E402
from torch_collector import record  # noqa: E402


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.005)


def compare(target: Path, golden: Path, run: Path) -> dict:
    """Compare two dumps from the files on and return the record."""
    main(["compare", "-tp", str(target), "-gp", str(golden), "-o", str(run)])
    return json.loads((run / "probe_flow/run.json").read_text())


def pair(folder: Path, name: str, optimizer, dtype, *, task: str, change=None) -> dict:
    """Train both sides for two steps and compare them; ``change`` spoils the target in the first step."""
    sides = []
    for side, kind, spoil in (("target", dtype, change), ("golden", torch.float32, None)):
        model = make(name, seed=2).to(kind)
        sides.append(record(folder / side, model, optimizer(model.parameters()), steps=2, task=task, change=spoil))
    return compare(*sides, folder / "run")


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("name", ["resnet", "resnet6"])
def test_a_healthy_residual_network_with_gates_in_place_passes(tmp_path, name, task):
    found = pair(tmp_path, name, sgd, torch.bfloat16, task=task)
    assert [finding["evidence"] for finding in found["findings"] if finding["fails"]] == []


def other_expert(entry: str, output) -> None:
    """Leave the values of a top k and turn one of its indices to another expert."""
    if entry == "Torch.topk.0.forward":
        with torch._C.DisableTorchFunction():
            used = set(output[1][0].tolist())
            output[1][0, 0] = min(set(range(4)) - used)


@pytest.mark.parametrize("change", [None, other_expert])
def test_a_wrong_choice_of_a_router_is_named_and_near_ties_are_not(tmp_path, change):
    found = pair(tmp_path, "mixture", sgd, torch.bfloat16, task="tensor", change=change)
    named = [(each["node"], each["step"]) for each in found["findings"] if each["fails"]]
    assert named[:1] == ([("Torch.topk", 0)] if change else [])


def larger(entry: str, output) -> None:
    if entry == "Functional.gelu.1.forward":
        with torch._C.DisableTorchFunction():
            output.data.mul_(1.08)


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_factor_in_16_bits_does_not_lead_to_more_precision(tmp_path, task):
    found = pair(tmp_path, "transformer", sgd, torch.bfloat16, task=task, change=larger)
    first = found["findings"][0]
    assert "gelu" in first["node"]
    assert [step["code"] for step in first["advice"]] == ["PF7425", "PF7421", "PF7414"]


def halved(entry: str, output):
    return (lambda grad: grad * 0.5) if entry == "Functional.gelu.1.forward" else None


def test_behind_adamw_a_wrong_gradient_is_the_only_origin(tmp_path):
    found = pair(tmp_path, "transformer", adamw, torch.float32, task="statistics", change=halved)
    named = [(finding["node"], finding["step"]) for finding in found["findings"] if finding["fails"]]
    assert {step for _, step in named} == {0}
    assert "gelu" in named[0][0]
