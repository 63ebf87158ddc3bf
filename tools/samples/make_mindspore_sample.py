"""Make the MindSpore samples of examples/dump_json: one attention layer, run eagerly on a CPU and dumped by msprobe.

Usage: python make_mindspore_sample.py OUTPUT {golden|target} [{statistics|tensor}]

Needs mindspore, numpy < 2 and mindstudio-probe. In `target`, the attention scores are multiplied by 1 / head size
instead of 1 / sqrt(head size); everything else is equal. The norm of the collector has no CPU kernel
(`LinalgVectorNorm unregistered`), so that one function is replaced by numpy's while the program runs.
"""

import json
import math
import shutil
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from msprobe.mindspore import PrecisionDebugger, seed_all

HIDDEN, TOKENS, CLASSES = 8, 6, 5
NEUTRAL = "/opt/model/"


class Attention(nn.Cell):
    """Attention of one head."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.query = nn.Dense(HIDDEN, HIDDEN)
        self.key = nn.Dense(HIDDEN, HIDDEN)
        self.value = nn.Dense(HIDDEN, HIDDEN)
        self.scale = scale

    def construct(self, x):
        scores = ops.matmul(self.query(x), self.key(x).swapaxes(0, 1)) * self.scale
        return ops.matmul(ops.softmax(scores, axis=-1), self.value(x))


class Layer(nn.Cell):
    """Pre-norm attention and MLP with residuals."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm((HIDDEN,))
        self.attention = Attention(scale)
        self.norm2 = nn.LayerNorm((HIDDEN,))
        self.up = nn.Dense(HIDDEN, 2 * HIDDEN, activation="relu")
        self.down = nn.Dense(2 * HIDDEN, HIDDEN)

    def construct(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(self.up(self.norm2(x)))


class Net(nn.Cell):
    """One layer and a classifier."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.layer = Layer(scale)
        self.head = nn.Dense(HIDDEN, CLASSES)

    def construct(self, x):
        return self.head(self.layer(x))


def norm_by_numpy(values, *_args, **_kwargs):
    """Return the L2 norm, in place of `mint.norm`."""
    return ms.Tensor(np.linalg.norm(values.astype(ms.float32).asnumpy().ravel()), ms.float32)


def train_one_step(net, debugger) -> None:
    """Run forward and backward once, with seeded weights and input."""
    random = np.random.default_rng(7)
    for parameter in net.trainable_params():
        values = random.standard_normal(parameter.shape) / math.sqrt(parameter.shape[-1])
        parameter.set_data(ms.Tensor(values + (1.0 if "gamma" in parameter.name else 0.0), ms.float32))
    x = ms.Tensor(2.0 * random.standard_normal((TOKENS, HIDDEN)), ms.float32)
    labels = ms.Tensor(random.integers(0, CLASSES, TOKENS), ms.int32)
    step = ms.value_and_grad(lambda: ops.cross_entropy(net(x), labels), None, net.trainable_params())
    debugger.start(net)
    step()
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
    stacks = json.loads((output / "stack.json").read_text())
    for group in stacks.values():
        group[1] = short_frames(group[1])
    (output / "stack.json").write_text(json.dumps(stacks, indent=1))


def short_frames(frames: list[str]) -> list[str]:
    """Return the frames with neutral paths; library frames behind the first frame of the model are left out."""
    folders = {f"{Path(__file__).resolve().parent}/": NEUTRAL, f"{Path(ms.__file__).parents[1]}/": "site-packages/"}
    kept = []
    for frame in frames:
        for folder, short in folders.items():
            frame = frame.replace(folder, short)
        if NEUTRAL in frame or not any(NEUTRAL in other for other in kept):
            kept.append(frame)
    return kept


def main(output: Path, variant: str, task: str = "statistics") -> None:
    """Write one dump."""
    work = output.with_name(f".{output.name}.work")
    shutil.rmtree(work, ignore_errors=True)
    config = {"task": task, "dump_path": str(work / "dump"), "level": "mix", task: {"data_mode": ["all"]}}
    work.mkdir(parents=True)
    (work / "config.json").write_text(json.dumps(config))
    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.set_device("CPU")
    ms.runtime.launch_blocking()
    seed_all(1)
    ms.mint.norm = norm_by_numpy
    scale = 1.0 / HIDDEN if variant == "target" else 1.0 / math.sqrt(HIDDEN)
    train_one_step(Net(scale), PrecisionDebugger(config_path=str(work / "config.json")))
    settle(work / "dump", output)
    shutil.rmtree(work)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), *sys.argv[2:])
