"""Elements of a row from its dump: those whose statistics are what the run recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import probe_flow as pf

VALUES = np.random.default_rng(5).normal(size=4096).astype(np.float32)


def recorded(values: np.ndarray, name: str) -> dict[str, Any]:
    """Return an item with statistics as a collector adds them up, in float32 and one after the other."""
    mean, square = (np.cumsum(each, dtype=np.float32)[-1] for each in (values, values * values))
    figures = {
        "Max": values.max(),
        "Min": values.min(),
        "Mean": mean / np.float32(values.size),
        "Norm": np.sqrt(square),
    }
    facts = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [values.size], "data_name": f"{name}.npy"}
    return {**facts, **{key: float(value) for key, value in figures.items()}}


def dump(folder: Path, calls: int) -> Path:
    (folder / "dump_tensor_data").mkdir(parents=True)
    data = {}
    for number in range(calls):
        name = f"Tensor.mul.{number}.forward"
        for place in ("input.0", "output.0"):
            np.save(folder / "dump_tensor_data" / f"{name}.{place}.npy", VALUES + number)
        items = {place: recorded(VALUES + np.float32(number), f"{name}.{place}") for place in ("input.0", "output.0")}
        data[name] = {"input_args": [items["input.0"]], "input_kwargs": {}, "output": [items["output.0"]]}
    top = {"task": "tensor", "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (folder / "dump.json").write_text(json.dumps(top))
    return folder


def test_what_was_compared_with_nothing_is_found_by_the_statistics_of_its_collector(tmp_path: Path) -> None:
    run = pf.compare(dump(tmp_path / "target", 3), dump(tmp_path / "golden", 1), output=tmp_path / "run")
    (row,) = (each for each in run.rows() if each.target is not None and each.target.name == "Tensor.mul#2.output.0")
    assert row.golden is None
    off = abs(row.target.mean - float(np.mean(VALUES + 2, dtype=np.float64)))
    assert off > 1e-9 * abs(row.target.mean), "or nothing is tested"

    target, *_ = run.tensors(row)
    assert np.array_equal(target, VALUES + 2)
