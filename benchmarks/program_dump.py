"""What a dump of a program costs: CPU time of a training step of a transformer under the dump, against it alone.

Run it by ``python -m benchmarks.program_dump [PYTHON]`` where torch is installed. PYTHON is an interpreter that has
torch and msprobe: its debugger is then measured in turn with ours, on the same model and levels.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

BLOCKS, WIDTH, BATCH, LENGTH = 6, 256, 2, 256
RUNS, TURNS = 5, 3
CASES = (("L0", "statistics"), ("mix", "tensor"))


def build() -> Any:
    """Return blocks of attention and a feed-forward part."""
    import torch
    from torch.nn import functional

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
            self.mixed, self.joined = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
            self.up, self.down = torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            query, key, value = self.mixed(self.before(x)).chunk(3, -1)
            scores = torch.softmax(query @ key.transpose(1, 2) / WIDTH**0.5, -1)
            x = x + self.joined(scores @ value)
            return x + self.down(functional.gelu(self.up(self.after(x))))

    torch.manual_seed(0)
    return torch.nn.Sequential(*(Block() for _ in range(BLOCKS)))


def one(who: str, level: str, data: str, folder: Path) -> tuple[float, float]:
    """Return CPU seconds of a step alone and of a dumped one, of ``ours`` or the ``peer``."""
    import torch

    torch.set_num_threads(1)
    start, stop = _ours(level, data, folder) if who == "ours" else _peer(level, data, folder)
    model, x = build(), torch.randn(BATCH, LENGTH, WIDTH)

    def step() -> None:
        model.zero_grad()
        model(x).square().mean().backward()

    def dumped() -> None:
        start(model)
        step()
        stop()

    for run in (step, dumped):
        run()
    return _seconds(step), _seconds(dumped)


def _seconds(run: Callable[[], None]) -> float:
    found = []
    for _ in range(RUNS):
        before = time.process_time()
        run()
        found.append(time.process_time() - before)
    return median(found)


def _ours(level: str, data: str, folder: Path) -> tuple[Callable[[Any], None], Callable[[], None]]:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from probe_flow.dumpers import dump_torch

    opened: list[Any] = []

    def start(model: Any) -> None:
        if not opened:
            opened.append(dump_torch(model, folder, level=level, data=data))
            opened[0].__enter__()
        opened[0].start()

    def stop() -> None:
        opened[0].step()
        opened[0].stop()

    return start, stop


def _peer(level: str, data: str, folder: Path) -> tuple[Callable[[Any], None], Callable[[], None]]:
    folder.mkdir(parents=True)
    section = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}
    config = {"task": data, "dump_path": str(folder), "rank": [], "step": [], "level": level, data: section}
    file = folder.with_suffix(".json")
    file.write_text(json.dumps(config))
    from msprobe.pytorch import PrecisionDebugger  # type: ignore[import-not-found]

    debugger = PrecisionDebugger(config_path=str(file))

    def stop() -> None:
        debugger.stop()
        debugger.step()

    return lambda model: debugger.start(model=model), stop


def main() -> None:
    pythons = {"ours": sys.executable} | ({"peer": sys.argv[1]} if len(sys.argv) > 1 else {})
    for level, data in CASES:
        found: dict[str, list[tuple[float, float]]] = {who: [] for who in pythons}
        for _ in range(TURNS):
            for who, python in pythons.items():
                with tempfile.TemporaryDirectory() as place:
                    command = [python, __file__, "one", who, level, data, str(Path(place) / "dump")]
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                found[who].append(tuple(json.loads(done.stdout.splitlines()[-1])))
        for who, pairs in found.items():
            alone, dumped = (1000 * median(pair[number] for pair in pairs) for number in (0, 1))
            print(f"{level:4} {data:11} {who:5} {dumped:6.0f} CPU ms, alone {alone:.0f}: {dumped / alone:.2f} times")


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(one(*sys.argv[2:5], Path(sys.argv[5]))))
        shutil.rmtree(sys.argv[5], ignore_errors=True)
    else:
        main()
