"""Make the PyTorch twin of the network in make_mindspore_sample.py: same weights, input and epsilons, other names.

Usage: python make_pytorch_twin.py OUTPUT [{statistics|tensor}]

Needs torch and mindstudio-probe.
"""

import json
import math
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from msprobe.pytorch import PrecisionDebugger, seed_all
from torch import nn
from torch.nn import functional

HIDDEN, TOKENS, CLASSES = 8, 6, 5
EPSILON = 1e-7
NEUTRAL = "/opt/model/"


class SelfAttention(nn.Module):
    """Attention of one head."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj = nn.Linear(HIDDEN, HIDDEN)
        self.k_proj = nn.Linear(HIDDEN, HIDDEN)
        self.v_proj = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x):
        scores = torch.matmul(self.q_proj(x), self.k_proj(x).transpose(0, 1)) * (1.0 / math.sqrt(HIDDEN))
        return torch.matmul(functional.softmax(scores, dim=-1), self.v_proj(x))


class LinearRelu(nn.Linear):
    """A linear layer that owns its activation, as MindSpore's Dense does."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.activation = nn.ReLU()

    def forward(self, x):
        return self.activation(super().forward(x))


class Block(nn.Module):
    """Pre-norm attention and MLP with residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(HIDDEN, eps=EPSILON)
        self.attn = SelfAttention()
        self.ln2 = nn.LayerNorm(HIDDEN, eps=EPSILON)
        self.fc1 = LinearRelu(HIDDEN, 2 * HIDDEN)
        self.fc2 = nn.Linear(2 * HIDDEN, HIDDEN)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.fc2(self.fc1(self.ln2(x)))


class Net(nn.Module):
    """One block and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        return self.head(self.block(x))


def train_one_step(net, debugger) -> None:
    """Run forward and backward once, with the weights and the input of the MindSpore script."""
    random = np.random.default_rng(7)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            values = random.standard_normal(tuple(parameter.shape)) / math.sqrt(parameter.shape[-1])
            is_gain = "ln" in name and name.endswith("weight")
            parameter.copy_(torch.tensor(values + (1.0 if is_gain else 0.0), dtype=torch.float32))
    x = torch.tensor(2.0 * random.standard_normal((TOKENS, HIDDEN)), dtype=torch.float32)
    labels = torch.tensor(random.integers(0, CLASSES, TOKENS))
    debugger.start(model=net)
    functional.cross_entropy(net(x), labels).backward()
    debugger.stop()
    debugger.step()


def settle(folder: Path, output: Path) -> None:
    """Move the dump out of its process folder and shorten the paths that it names."""
    (dump,) = folder.glob("step0/*")
    shutil.rmtree(output, ignore_errors=True)
    shutil.move(dump, output)
    top = json.loads((output / "dump.json").read_text())
    if top["dump_data_dir"] is not None:
        top["dump_data_dir"] = NEUTRAL + "dump_tensor_data"
    (output / "dump.json").write_text(json.dumps(top, indent=1))
    stacks = (output / "stack.json").read_text()
    shortened = {
        f"{Path(__file__).resolve().parent}/": NEUTRAL,
        f"{Path(torch.__file__).parents[1]}/": "site-packages/",
    }
    for path, short in shortened.items():
        stacks = stacks.replace(path, short)
    (output / "stack.json").write_text(stacks)


def main(output: Path, task: str = "statistics") -> None:
    """Write the dump."""
    work = output.with_name(f".{output.name}.work")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    config = {"task": task, "dump_path": str(work / "dump"), "level": "mix", task: {"data_mode": ["all"]}}
    (work / "config.json").write_text(json.dumps(config))
    seed_all(1)
    train_one_step(Net(), PrecisionDebugger(config_path=str(work / "config.json")))
    settle(work / "dump", output)
    shutil.rmtree(work)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), *sys.argv[2:])
