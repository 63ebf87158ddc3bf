"""Dumps of API calls for the tests of pre-checks, written from the format alone, and the calls of `numpy_side`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probe_flow.records import Catalog
from probe_flow.stages.base import Select
from probe_flow.stages.dump.adopt_any import adopt_any

Element = dict[str, Any]


def tensor(*shape: int, dtype: str = "Float32", **more: Any) -> Element:
    facts = {"type": "mindspore.Tensor", "dtype": dtype, "shape": list(shape or (6,))}
    return {**facts, "Max": 2.0, "Min": -2.0, "Mean": 0.0, "Norm": 1.0, **more}


def forward(*args: Any, output: Any = None, **kwargs: Any) -> Element:
    return {"input_args": list(args), "input_kwargs": kwargs, "output": [tensor()] if output is None else output}


def backward(*incoming: Any, output: Any = None) -> Element:
    return {"input": list(incoming or (tensor(),)), "output": [tensor()] if output is None else output}


def write_dump(folder: Path, data: Mapping[str, Any], **top: Any) -> Path:
    """Write a dump.json and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"task": "statistics", "level": "L1", "framework": "mindspore", "dump_data_dir": None, **top}
    path = folder / "dump.json"
    path.write_text(json.dumps({**content, "data": data}, indent=1), encoding="utf-8")
    return path


def read_dump(path: Path, **select: Any) -> Catalog:
    return adopt_any(str(path), Select(**select), side="source")


def small_net() -> dict[str, Any]:
    """A few calls: one with both directions, one that is not listed, one that fails, one without a counterpart."""
    return {
        "Mint.mul.0.forward": forward(tensor(), tensor()),
        "Mint.add.0.forward": forward(tensor(), tensor()),
        "Primitive.Custom.net.0.forward": forward(tensor()),
        "Mint.fail.0.forward": forward(tensor()),
        "Mint.rot.0.forward": forward(tensor()),
        "Mint.max.0.forward": forward(tensor(2, 3), output=[tensor(2), tensor(2, dtype="Int64")]),
        "Mint.max.0.backward": backward(tensor(2), None),
        "Mint.mul.0.backward": backward(tensor(), output=[tensor(), tensor()]),
        "Mint.mul.1.forward": forward(tensor(dtype="Float16"), {"type": "float", "value": 0.5}),
    }
