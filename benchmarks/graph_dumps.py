"""Write dumps of a deep model, statistics with its modules and stacks, for graphs of 50,000 nodes a side.

A block is a module with 8 layers, each with one call of an API, forward and backward: 34 nodes. What a call writes the
next one reads. As in a real dump, equal stacks are stored once, and a backward call has none of its own. Figures of the
target are larger by 1e-8, and from the output of one call on by 0.5: there the error begins, and the rest inherits it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.dumps import STRIDE, make_private
from benchmarks.eager_dumps import EagerPair

LAYERS = 8
FRAMES = 9
NODES_OF_BLOCK = 2 * (1 + 2 * LAYERS)
DRIFT, ERROR, RIGHT_SHARE = 1e-8, 0.5, 0.9
"""How far the target is off before and after the error, and the share of all values before it."""

PRIME = 1_000_003
"""Greater than the number of values, so that no two are equal: equal ones would be taken for one tensor."""

STEP = "step0"


def write_graphs(root: Path, *, blocks: int, ranks: int = 1) -> EagerPair:
    """Write both sides below ``root``, and return the dumps of the first rank; each has values of its own."""
    for side in ("target", "golden"):
        for rank in range(ranks):
            folder = root / side / STEP / f"rank{rank}"
            folder.mkdir(parents=True)
            model = _Model(blocks, rank, is_target=side == "target")
            head = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None}
            (folder / "dump.json").write_text(json.dumps({**head, "data": model.data}), encoding="utf-8")
            (folder / "construct.json").write_text(json.dumps(model.construct), encoding="utf-8")
            (folder / "stack.json").write_text(json.dumps(_stacks(model.data)), encoding="utf-8")
    make_private(root)
    target, golden = (root / side / STEP / "rank0" / "dump.json" for side in ("target", "golden"))
    return EagerPair(target, golden, 0)


class _Model:
    """What one rank of a side records."""

    def __init__(self, blocks: int, rank: int, *, is_target: bool) -> None:
        self.data: dict[str, Any] = {}
        self.construct: dict[str, str | None] = {}
        self._calls = LAYERS * blocks
        self._before = rank * (2 * self._calls + 1)
        self._is_target = is_target
        for number in range(blocks):
            self._add_block(number, "forward")
        for number in reversed(range(blocks)):
            self._add_block(number, "backward")

    def _add_block(self, number: int, phase: str) -> None:
        block = f"Module.layers.{number}.Block.{phase}.0"
        first = LAYERS * number if phase == "forward" else 2 * self._calls - LAYERS * (number + 1) + 1
        for step in range(LAYERS):
            layer = step if phase == "forward" else LAYERS - 1 - step
            module = f"Module.layers.{number}.fc{layer}.Linear.{phase}.0"
            api = f"Functional.linear.{LAYERS * number + layer}.{phase}"
            for name, parent in ((api, module), (module, block)):
                self.construct[name] = parent
                self.data[name] = self._call(name, first + step, first + step + 1)
        self.construct[block] = None
        self.data[block] = self._call(block, first, first + LAYERS)

    def _call(self, name: str, read: int, written: int) -> dict[str, Any]:
        found, given, weight = self._tensor(read), self._tensor(written), _tensor(1.5 + read % 1024)
        if ".backward" in name:
            return {"input": [found], "output": [given]}
        if name.startswith("Module."):
            return {"input_args": [found], "input_kwargs": {}, "output": [given], "parameters": {"weight": weight}}
        return {"input_args": [found, weight], "input_kwargs": {}, "output": [given]}

    def _tensor(self, place: int) -> dict[str, Any]:
        off = (ERROR if place > RIGHT_SHARE * 2 * self._calls else DRIFT) if self._is_target else 0.0
        return _tensor((1 + STRIDE * (self._before + place) % PRIME / PRIME) * (1 + off))


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
