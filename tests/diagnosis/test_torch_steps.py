"""Several steps with an optimizer inside of the dump: what it keeps, divides by, and makes of gradients that are noise.

The gradient of the bias of the keys of attention is zero in mathematics: both sides hold other noise there, which Adam
turns into whole steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import probe_flow as pf
from probe_flow.cli.main import main

pytestmark = [pytest.mark.frameworks, pytest.mark.usefixtures("one_thread")]
torch = pytest.importorskip("torch")

STEPS = 3
OPTIMIZERS = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, foreach=False),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, momentum=0.5, foreach=False),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=False),
}


class Attention(torch.nn.Module):
    """One block of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(40, 32)
        self.norm = torch.nn.LayerNorm(32)
        self.query, self.keys, self.values = (torch.nn.Linear(32, 32) for _ in range(3))
        self.wide, self.narrow = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(x)
        normed = self.norm(hidden)
        scores = self.query(normed) @ self.keys(normed).transpose(-1, -2) / 32**0.5
        hidden = hidden + torch.softmax(scores, -1) @ self.values(normed)
        return hidden + self.narrow(torch.nn.functional.gelu(self.wide(hidden)))


def dumped(folder: Path, optimizer: str, data: str, spoil: Callable[..., None] | None = None) -> Path:
    torch.manual_seed(5)
    model = Attention()
    stepping = OPTIMIZERS[optimizer](model.parameters())
    batches = [torch.randint(0, 40, (4, 16)) for _ in range(STEPS)]
    with pf.dump_torch(model, str(folder), data=data) as dump:
        for step, batch in enumerate(batches):
            model(batch).pow(2).mean().backward()
            stepping.step()
            stepping.zero_grad()
            dump.step()
            if spoil is not None and step == 0:
                spoil(model, stepping)
    return folder


def compared(folder: Path, optimizer: str, data: str, spoil: Callable[..., None] | None = None) -> list[dict]:
    """Return what fails in a comparison of two trainings that round otherwise."""
    torch.backends.mkldnn.enabled = False  # other kernels, which round otherwise
    try:
        target = dumped(folder / "target", optimizer, data, spoil)
    finally:
        torch.backends.mkldnn.enabled = True
    golden = dumped(folder / "golden", optimizer, data)
    main(["compare", "-tp", str(target), "-gp", str(golden), "-o", str(folder / "run")])
    found = json.loads((folder / "run/probe_flow/run.json").read_text())
    return [each for each in found["findings"] if each["fails"]]


@pytest.mark.parametrize("data", ["tensor", "statistics"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_healthy_trainings_accuse_nobody(tmp_path, optimizer, data):
    assert [each["evidence"] for each in compared(tmp_path, optimizer, data)] == []


def test_a_state_that_changes_between_steps_is_named_where_it_is_read(tmp_path):
    def spoil(model, optimizer):
        optimizer.state[model.wide.weight]["exp_avg"].numpy()[...] *= 1.5  # no call of torch, which would be dumped

    first, *_ = compared(tmp_path, "adamw", "tensor", spoil)
    assert (first["node"], first["call"], first["step"]) == ("Tensor.lerp_", 9, 1)
