"""Make the sample of graph mode: a small net run by MindSpore on a CPU, with its own kernel dump and IR switched on.

Usage: python make_mindspore_graph_sample.py OUTPUT {golden|target}

OUTPUT/rank_0 is the dump as MindSpore writes it. Changed: paths in the graph text (`/opt/model`, and
`/opt/python/site-packages` for libraries, whose source lines are left out); binary graphs and `.dump_metadata` are
removed. Needs MindSpore 2.10.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np

SIZE, CLASSES, BATCH = 6, 3, 4


def switch_dump_on(output: Path) -> None:
    """Write the configuration; MindSpore reads it when it is imported."""
    settings = {
        "op_debug_mode": 0,
        "dump_mode": 0,
        "path": str(output),
        "net_name": "Net",
        "iteration": "all",
        "saved_data": "tensor",
        "input_output": 0,
        "kernels": [],
        "support_device": [0],
    }
    output.mkdir(parents=True)
    file = output / "config.json"
    everything = {"common_dump_settings": settings, "e2e_dump_settings": {"enable": True, "trans_flag": True}}
    file.write_text(json.dumps(everything))
    os.environ["MINDSPORE_DUMP_CONFIG"] = str(file)


def run(*, slope: float) -> None:
    """Run the net once."""
    import mindspore as ms
    from mindspore import nn, ops

    class Block(nn.Cell):
        def __init__(self, slope: float) -> None:
            super().__init__()
            self.up = nn.Dense(SIZE, 2 * SIZE)
            self.down = nn.Dense(2 * SIZE, SIZE)
            self.slope = slope

        def construct(self, x):
            h = self.up(x)
            h = ops.maximum(h, h * self.slope)
            return x + self.down(h)

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.b1 = Block(0.01)
            self.b2 = Block(slope)
            self.head = nn.Dense(SIZE, CLASSES)

        def construct(self, x):
            return ops.softmax(self.head(self.b2(self.b1(x))))

    random = np.random.default_rng(5)
    net = Net()
    for parameter in net.trainable_params():
        parameter.set_data(ms.Tensor(random.standard_normal(parameter.shape), ms.float32))
    net(ms.Tensor(random.standard_normal((BATCH, SIZE)), ms.float32))


def settle(output: Path) -> None:
    """Remove what names this machine."""
    (output / "config.json").unlink()
    shutil.rmtree(output / "rank_0" / ".dump_metadata", ignore_errors=True)
    here = re.escape(str(Path(__file__).resolve()))
    for file in output.glob("rank_0/graphs/*"):
        file.chmod(0o600)
        if file.suffix != ".ir":
            file.unlink()
            continue
        text = re.sub(here, "/opt/model/net.py", file.read_text())
        library = r"In file \S*/site-packages/(\S+\.py:[\d~]+(?:, [\d~]+)?)/.*"
        text = re.sub(library, r"In file /opt/python/site-packages/\1/    .../", text)
        file.write_text(text)
    for file in output.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)


def main(output: Path, variant: str) -> None:
    """Write one dump."""
    switch_dump_on(output)
    import mindspore as ms

    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")
    run(slope={"golden": 0.01, "target": 0.2}[variant])
    settle(output)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2])
