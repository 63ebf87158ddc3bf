"""Dumps of a few calls, written down one by one, for tests of graphs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

FRAMES = (
    "File /venv/site-packages/torch/nn/functional.py, line 7, in linear, \n return _C.linear(x)",
    "File demo/model.py, line 34, in forward, \n h = self.fc(h) * 1.1",
)


class Call(NamedTuple):
    """One call: its entry, that of its caller, the factor of what it gives, the factor of what it reads.

    A call whose ``output`` is None has no entry in dump.json, only a name in construct.json.
    """

    entry: str
    caller: str | None = None
    output: float | None = 1.0
    given: float = 1.0


def write_calls(folder: Path, calls: Sequence[Call]) -> Path:
    """Write a dump of these calls, in the order in which they ended; return its folder."""
    data = {
        call.entry: _entry(call.entry, given=_tensor(call.given), output=_tensor(call.output))
        for call in calls
        if call.output is not None
    }
    dump = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": data}
    folder.mkdir(parents=True)
    (folder / "dump.json").write_text(json.dumps(dump), encoding="utf-8")
    (folder / "construct.json").write_text(json.dumps({call.entry: call.caller for call in calls}), encoding="utf-8")
    (folder / "stack.json").write_text(json.dumps({call.entry: FRAMES for call in calls}), encoding="utf-8")
    return folder


def _entry(name: str, *, given: dict[str, Any], output: dict[str, Any]) -> dict[str, Any]:
    if ".backward" in name:
        return {"input": [given], "output": [output]}
    return {"input_args": [given], "input_kwargs": {}, "output": [output]}


def _tensor(factor: float) -> dict[str, Any]:
    figures = {"Max": 2.0 * factor, "Min": -1.0 * factor, "Mean": 0.5 * factor, "Norm": 8.0 * factor}
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4, 8], **figures, "requires_grad": True}
