"""Run small models in MindSpore's graph mode on a CPU, with its own kernel dump switched on.

Usage: python mindspore_graph.py OUTPUT {base|scaled|epsilon|rounded|loop|long}

The dump lies in OUTPUT/rank_0 as MindSpore writes it, with two changes: the graph texts lose their source lines, which
name paths of this machine, and `.dump_metadata` is removed.

base     two residual blocks and a head, in float32 with one step in bfloat16; two training steps with SGD
scaled   the same, but the second block multiplies its result by 1.1: one operator more
epsilon  the same, but the first layer norm has an epsilon of 0.1 instead of 1e-7
rounded  the same, but every weight is off by at most one rounding error
loop     a while loop and a branch: several kernel graphs, operators that run more than once
long     cells with names so long that file names would exceed 255 bytes
"""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np

NET = "Net"
SIZE, CLASSES, BATCH = 6, 3, 4


def switch_dump_on(output: Path) -> None:
    """Write the configuration; MindSpore reads it when it is imported."""
    config = {
        "common_dump_settings": {
            "op_debug_mode": 0,
            "dump_mode": 0,
            "path": str(output),
            "net_name": NET,
            "iteration": "all",
            "saved_data": "tensor",
            "input_output": 0,
            "kernels": [],
            "support_device": [0],
        },
        "e2e_dump_settings": {"enable": True, "trans_flag": True},
    }
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    file = output / "config.json"
    file.write_text(json.dumps(config))
    os.environ["MINDSPORE_DUMP_CONFIG"] = str(file)


def train(variant: str) -> None:
    """Train the residual net for two steps."""
    import mindspore as ms
    from mindspore import nn, ops

    class Block(nn.Cell):
        def __init__(self, *, scale: float, epsilon: float) -> None:
            super().__init__()
            self.norm = nn.LayerNorm((SIZE,), epsilon=epsilon)
            self.fc = nn.Dense(SIZE, SIZE)
            self.act = nn.ReLU()
            self.scale = scale

        def construct(self, x):
            h = self.act(self.fc(self.norm(x)))
            if self.scale != 1.0:
                h = h * self.scale
            return x + h

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.b1 = Block(scale=1.0, epsilon=0.1 if variant == "epsilon" else 1e-7)
            self.b2 = Block(scale=1.1 if variant == "scaled" else 1.0, epsilon=1e-7)
            self.head = nn.Dense(SIZE, CLASSES)

        def construct(self, x):
            x = self.b2(self.b1(x))
            x = ops.cast(ops.cast(x, ms.bfloat16), ms.float32)
            return ops.softmax(self.head(x))

    class Loss(nn.Cell):
        def __init__(self, net: nn.Cell) -> None:
            super().__init__()
            self.net = net

        def construct(self, x, y):
            p = self.net(x)
            return ((p - y) * (p - y)).mean()

    random = np.random.default_rng(5)
    net = Net()
    for parameter in net.trainable_params():
        values = random.standard_normal(parameter.shape).astype(np.float32)
        if variant == "rounded":
            values *= np.float32(1 + 2.0**-23)
        parameter.set_data(ms.Tensor(values, ms.float32))
    step = nn.TrainOneStepCell(Loss(net), nn.SGD(net.trainable_params(), 0.1))
    for _ in range(2):
        x = ms.Tensor(random.standard_normal((BATCH, SIZE)), ms.float32)
        step(x, ms.Tensor(np.eye(CLASSES)[random.integers(0, CLASSES, BATCH)], ms.float32))


def run_loop() -> None:
    """Run a net with a loop whose length depends on the data, and a branch."""
    import mindspore as ms
    from mindspore import nn

    class Loop(nn.Cell):
        def construct(self, x, limit):
            while x.sum() < limit:
                x = x * 1.5 + 0.25
            if x.max() > 3:
                return x - 1
            return x + 1

    ms.set_context(jit_config={"jit_level": "O0"})
    Loop()(ms.Tensor(np.linspace(0.1, 1, 4), ms.float32), ms.Tensor(20.0, ms.float32))


def run_long() -> None:
    """Run a net with nested cells of long names."""
    import mindspore as ms
    from mindspore import nn

    class Inner(nn.Cell):
        def __init__(self, depth: int) -> None:
            super().__init__()
            name = f"a_layer_with_a_rather_long_name_at_depth_{depth}"
            setattr(self, name, Inner(depth - 1) if depth else nn.Dense(3, 3))
            self.inner = getattr(self, name)

        def construct(self, x):
            return self.inner(x)

    Inner(6)(ms.Tensor(np.eye(3), ms.float32))


def settle(output: Path) -> None:
    """Remove what names this machine."""
    (output / "config.json").unlink()
    shutil.rmtree(output / "rank_0" / ".dump_metadata", ignore_errors=True)
    for file in output.glob("rank_0/graphs/*"):
        if file.suffix != ".ir":
            file.chmod(0o600)
            file.unlink()
            continue
        lines = [line for line in file.read_text().splitlines(keepends=True) if "# In file" not in line]
        file.chmod(0o600)
        file.write_text("".join(lines))
    for file in output.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)


def main(output: Path, variant: str) -> None:
    """Write one dump."""
    switch_dump_on(output)
    import mindspore as ms

    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")
    ms.set_seed(1)
    {"loop": run_loop, "long": run_long}.get(variant, lambda: train(variant))()
    settle(output)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2])
