"""Write dumps of a deep model, statistics with its modules and stacks, for graphs of 50,000 nodes a side.

A block is a module with 8 layers, each with one call of an API, forward and backward: 34 nodes. As in a real dump,
equal stacks are stored once, and a backward call has none of its own. All figures of the target are larger by 1e-8, and
from `WRONG_FROM` of its blocks on by 0.5, as if that block had made an error.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.dumps import base_values, make_private
from benchmarks.eager_dumps import EagerPair

LAYERS = 8
FRAMES = 9
NODES_OF_BLOCK = 2 * (1 + 2 * LAYERS)
DRIFT, ERROR, WRONG_FROM = 1e-8, 0.5, 0.9
EXECUTION = "step0/rank0"


def write_graphs(root: Path, *, blocks: int) -> EagerPair:
    """Write both sides below ``root``."""
    values = [abs(float(value)) + 1.0 for value in base_values(4096)]
    paths = []
    for side in ("target", "golden"):
        folder = root / side / EXECUTION
        folder.mkdir(parents=True)
        data: dict[str, Any] = {}
        construct: dict[str, str | None] = {}
        for phase in ("forward", "backward"):
            for number in range(blocks) if phase == "forward" else reversed(range(blocks)):
                off = (ERROR if number >= WRONG_FROM * blocks else DRIFT) if side == "target" else 0.0
                _add_block(data, construct, number, phase, [value * (1 + off) for value in _few(values, number)])
        head = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None}
        (folder / "dump.json").write_text(json.dumps({**head, "data": data}), encoding="utf-8")
        (folder / "construct.json").write_text(json.dumps(construct), encoding="utf-8")
        (folder / "stack.json").write_text(json.dumps(_stacks(data)), encoding="utf-8")
        paths.append(folder / "dump.json")
    make_private(root)
    return EagerPair(paths[0], paths[1], 0)


def _few(values: list[float], number: int) -> list[float]:
    start = 16 * number % (len(values) - 16)
    return values[start : start + 16]


def _add_block(
    data: dict[str, Any], construct: dict[str, str | None], number: int, phase: str, values: list[float]
) -> None:
    block = f"Module.layers.{number}.Block.{phase}.0"
    for layer in range(LAYERS) if phase == "forward" else reversed(range(LAYERS)):
        module = f"Module.layers.{number}.fc{layer}.Linear.{phase}.0"
        api = f"Functional.linear.{LAYERS * number + layer}.{phase}"
        for name, parent in ((api, module), (module, block)):
            construct[name] = parent
            data[name] = _call(name, values[layer : layer + 2], phase)
    construct[block] = None
    data[block] = _call(block, values[:2], phase)


def _call(name: str, values: list[float], phase: str) -> dict[str, Any]:
    read, written = (_tensor(value) for value in values)
    if phase == "backward":
        return {"input": [read], "output": [written]}
    if name.startswith("Module."):
        return {"input_args": [read], "input_kwargs": {}, "output": [written], "parameters": {"weight": written}}
    return {"input_args": [read, written], "input_kwargs": {}, "output": [written]}


def _tensor(value: float) -> dict[str, Any]:
    figures = {"Max": value, "Min": -value, "Mean": value / 8, "Norm": value * 32}
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [128, 256], **figures, "requires_grad": True}


def _stacks(data: dict[str, Any]) -> dict[str, list[list[str]]]:
    places: dict[str, list[str]] = {}
    for name in data:
        if ".forward" in name:
            parts = name.split(".")
            number = int(parts[2])
            place = f"linear {number % LAYERS}" if parts[0] == "Functional" else ".".join(parts[3:5])
            places.setdefault(place, []).append(name)
    return {str(group): [names, _frames(group)] for group, names in enumerate(places.values())}


def _frames(group: int) -> list[str]:
    inner = f"File /home/user/model/blocks.py, line {40 + group}, in forward, \n x = self.fc{group % LAYERS}(x)"
    outer = "File /opt/py/site-packages/torch/nn/modules/module.py, line {}, in _call_impl, \n return inner()"
    return [inner, *(outer.format(1700 + frame) for frame in range(FRAMES - 1))]
