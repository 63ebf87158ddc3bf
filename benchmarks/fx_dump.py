"""What an FX dump costs: CPU time of one step of a transformer under the dump, against the same step in eager torch.

Run it by ``python -m benchmarks.fx_dump [FOLDER]`` where torch is installed; FOLDER is emptied after each step.
"""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

BLOCKS, WIDTH, HEADS, BATCH, LENGTH = 6, 512, 8, 4, 256
RUNS = 5
WAYS: Mapping[str, Mapping[str, Any]] = {
    "all tensors": {},
    "outputs only": {"direction": ["output"]},
    "statistics": {"data": "statistics"},
    "a filter that takes no node": {"include": ["no node has this name"]},
}


def build() -> Any:
    """Return a decoder without a vocabulary: attention and a feed-forward part in each block."""
    import torch
    from torch.nn import functional

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
            self.mixed, self.joined = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
            self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            heads = self.mixed(self.before(x)).view(BATCH, LENGTH, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            scores = heads[0] @ heads[1].transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
            seen = (torch.softmax(scores, -1) @ heads[2]).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)
            x = x + self.joined(seen)
            return x + self.down(functional.gelu(self.up(self.after(x))))

    torch.manual_seed(0)
    return torch.nn.Sequential(*(Block() for _ in range(BLOCKS))).eval()


def measure(folder: Path) -> list[str]:
    """Return a line for eager torch and one for each way of dumping; calls that compile are not counted."""
    import torch

    from probe_flow.dumpers import torchair_fx_backend

    torch.set_num_threads(1)
    model, x = build(), torch.randn(BATCH, LENGTH, WIDTH)
    runs: dict[str, Callable[[], Any]] = {"eager": lambda: model(x)}
    for number, (name, options) in enumerate(WAYS.items()):
        torch._dynamo.reset()
        compiled = torch.compile(model, backend=torchair_fx_backend(folder / str(number), **options))
        runs[name] = lambda compiled=compiled: compiled(x)
        with torch.no_grad():
            runs[name]()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    sizes: dict[str, str] = {}
    with torch.no_grad():
        for _ in range(RUNS):
            for name, run in runs.items():
                _forget_steps(folder)
                before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
                run()
                wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
                seconds[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
                sizes[name] = f"{wall:.2f} s wall in the last run, {_written(folder)}"
    eager = median(seconds["eager"])
    return [
        f"{name:28} {1000 * median(found):6.0f} CPU ms ({1000 * min(found):.0f}-{1000 * max(found):.0f}), "
        f"{median(found) / eager:.1f} x eager; {sizes[name]}"
        for name, found in seconds.items()
    ]


def _forget_steps(folder: Path) -> None:
    for step in folder.glob("*/*/graph_*/[0-9]*"):
        shutil.rmtree(step)


def _written(folder: Path) -> str:
    found = [path.stat() for path in folder.rglob("*.npy")]
    stored = sum({each.st_ino: each.st_size for each in found}.values())
    return f"{len(found)} files, {sum(each.st_size for each in found) / 1e6:.0f} MB, {stored / 1e6:.0f} MB stored"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as made:
        print("\n".join(measure(Path(made))))
