"""A small dump in each format that we read, written from the format alone, with the values of its tensors by id."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from om_writer import GoldenFolder, OmFolder
from tfdbg_writer import TfdbgRun
from torchair_builders import GeDump, mul_add_relu, write_device_op

ARRAY = np.arange(6, dtype="f4").reshape(2, 3)

Written = Mapping[str, object]


def npy(folder: Path) -> Written:
    golden = GoldenFolder(folder)
    golden.output("conv", 0, ARRAY)
    golden.output("relu", 0, -ARRAY)
    return {"conv.output.0": ARRAY, "relu.output.0": -ARRAY}


def om(folder: Path) -> Written:
    device = OmFolder(folder)
    device.op("Conv2D", "conv", at=1, inputs=[ARRAY], outputs=[2 * ARRAY])
    device.op("Relu", "relu", at=2, outputs=[-ARRAY])
    return {"conv.input.0": ARRAY, "conv.output.0": 2 * ARRAY, "relu.output.0": -ARRAY}


def torchair_ge(folder: Path) -> Written:
    dump = GeDump(folder)
    dump.graph(mul_add_relu())
    device = dump.token(0)
    write_device_op(device, "Mul", "Mul", at=1, inputs=[ARRAY, -ARRAY], outputs=[-ARRAY * ARRAY])
    write_device_op(device, "Relu", "Relu", at=2, outputs=[ARRAY])
    return {"Mul.input.0": ARRAY, "Mul.input.1": -ARRAY, "Mul.output.0": -ARRAY * ARRAY, "Relu.output.0": ARRAY}


def torchair_fx(folder: Path) -> Written:
    folder.mkdir(parents=True, exist_ok=True)
    at = "20260101000000000185"
    np.save(folder / f"add_1-aten.add.Tensor.INPUT.0.{at}.npy", ARRAY)
    np.save(folder / f"add_1-aten.add.Tensor.OUTPUT.0.{at}.npy", -ARRAY)
    return {"add_1.input.0": ARRAY, "add_1.output.0": -ARRAY}


def mindspore_graph(folder: Path) -> Written:
    iteration = folder / "rank_0" / "Net" / "0" / "0"
    iteration.mkdir(parents=True)
    for role, number, values in (("input", 0, ARRAY), ("input", 1, -ARRAY), ("output", 0, 2 * ARRAY)):
        np.save(iteration / f"Add.Default_Add-op1.0.0.17{number}.{role}.{number}.DefaultFormat.float32.npy", values)
    return {"Default_Add.input.0": ARRAY, "Default_Add.input.1": -ARRAY, "Default_Add.output.0": 2 * ARRAY}


def dump_json(folder: Path) -> Written:
    (folder / "dump_tensor_data").mkdir(parents=True)
    name = "Torch.add.0.forward.output.0.npy"
    np.save(folder / "dump_tensor_data" / name, ARRAY)
    figures = {"Max": 5.0, "Min": 0.0, "Mean": 2.5, "Norm": float(np.linalg.norm(ARRAY))}
    of_tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], **figures}
    entry = {"input_args": [], "input_kwargs": {}, "output": [{**of_tensor, "data_name": name}]}
    dump = {"task": "tensor", "level": "L1", "dump_data_dir": str(folder / "dump_tensor_data")}
    (folder / "dump.json").write_text(json.dumps({**dump, "data": {"Torch.add.0.forward": entry}}))
    return {"Torch.add.output.0": ARRAY}


def tfdbg(folder: Path) -> Written:
    run = TfdbgRun(folder)
    run.add("scope/conv", ARRAY)
    run.add("scope/relu", -ARRAY, slot=1)
    return {"scope/conv.output.0": ARRAY, "scope/relu.output.1": -ARRAY}


def arrays(folder: Path) -> Written:
    """Two arrays of any name, one in a folder below."""
    (folder / "layer").mkdir(parents=True)
    for name in ("x", "layer/weight"):
        np.save(folder / f"{name}.npy", ARRAY)
    return {"x.output.0": ARRAY, "layer/weight.output.0": ARRAY}


WRITERS: Mapping[str, Callable[[Path], Written]] = {
    "dump_json": dump_json,
    "torchair_ge": torchair_ge,
    "torchair_fx": torchair_fx,
    "mindspore_graph": mindspore_graph,
    "om": om,
    "npy": npy,
    "tfdbg": tfdbg,
    "arrays": arrays,
}
"""Every reader of ours -> what writes a dump for it."""
