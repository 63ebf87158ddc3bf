"""Write small TorchAir dumps for tests: graph texts, device files, FX arrays, from the formats alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ge_writer
import numpy as np
from ge_writer import DumpTensor

TIME = "20260101000000"
TS20 = "20260101000000000001"
FIRST_US = 1_767_225_600_000_000

DTYPES = {
    "float16": "DT_FLOAT16", "float32": "DT_FLOAT", "int8": "DT_INT8", "int64": "DT_INT64", "int32": "DT_INT32",
    "bool": "DT_BOOL", "bfloat16": "DT_BF16",
}  # fmt: skip


@dataclass
class Op:
    """One operator of a graph text: inputs as written, outputs as (FX name or None, shape), attributes as text."""

    name: str
    type: str
    inputs: Sequence[str] = ()
    outputs: Sequence[tuple[str | None, Sequence[int]]] = ()
    dtype: str = "float32"
    attrs: Mapping[str, str] = field(default_factory=dict)


def op_text(op: Op) -> str:
    lines = ["op {", f'  name: "{op.name}"', f'  type: "{op.type}"']
    lines += [f'  input: "{source}"' for source in op.inputs]
    lines += [f'  attr {{ key: "{key}" value {{ {value} }} }}' for key, value in op.attrs.items()]
    for fx_name, shape in op.outputs:
        lines += ["  output_desc {", f"    dtype: {DTYPES[op.dtype]}", "    shape {"]
        lines += [f"      dim: {dim}" for dim in shape]
        lines += ["    }"]
        if fx_name is not None:
            lines += ["    attr {", '      key: "_fx_tensor_name"', "      value {", f'        s: "{fx_name}"']
            lines += ["      }", "    }"]
        lines += ["  }"]
    return "\n".join([*lines, "}"])


def graph_text(ops: Iterable[Op], name: str = "graph_1") -> str:
    return "\n".join([f'name: "{name}"', *(op_text(op) for op in ops)]) + "\n"


def device_tensor(values: object, dtype: str = "float32") -> DumpTensor:
    return DumpTensor(np.asarray(values, dtype=dtype), dtype)


def write_device_op(
    folder: Path,
    op_type: str,
    name: str,
    *,
    at: int,
    inputs: Sequence[object] = (),
    outputs: Sequence[object] = (),
    dtype: str = "float32",
    tail: Sequence[int] = (),
) -> Path:
    """Write one device file; ``at`` is its place in time (microseconds after the first)."""
    folder.mkdir(parents=True, exist_ok=True)
    file_name = ge_writer.file_name(op_type, name, 10 + at, 7, FIRST_US + at, tail)
    tensors = [
        [item if isinstance(item, DumpTensor) else device_tensor(item, dtype) for item in side]
        for side in (inputs, outputs)
    ]
    return ge_writer.write_dump(folder / file_name, op_name=name, inputs=tensors[0], outputs=tensors[1])


def write_fx_node(
    folder: Path,
    key: str,
    *,
    at: int,
    inputs: Mapping[str, object] | Sequence[object] = (),
    outputs: Sequence[object] = (),
) -> None:
    """Write the arrays of one fx node; ``inputs`` may give indices such as ``0.10`` as keys."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = f"{20260101000000000000 + at}"
    named = inputs if isinstance(inputs, Mapping) else {str(i): value for i, value in enumerate(inputs)}
    for index, value in named.items():
        np.save(folder / f"{key}.INPUT.{index}.{stamp}.npy", np.asarray(value))
    for index, value in enumerate(outputs):
        np.save(folder / f"{key}.OUTPUT.{index}.{stamp}.npy", np.asarray(value))


@dataclass
class GeDump:
    """A device dump in the making. ``worldsize`` None writes the earlier layout."""

    root: Path
    worldsize: int | None = 1
    time: str = TIME
    _written: list[Path] = field(default_factory=list)

    def token(
        self,
        token: int,
        *,
        rank: int = 0,
        graph: int = 1,
        device: int = 0,
        model_id: int = 1,
        model_name: str | None = None,
    ) -> Path:
        base = self.root
        if self.worldsize is not None:
            base = base / f"worldsize{self.worldsize}_global_rank{rank}"
        name = model_name if model_name is not None else f"graph_{graph}_0"
        folder = base / self.time / str(device) / name / str(model_id) / str(token)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def graph(
        self, ops: Iterable[Op], *, graph: int = 1, rank: int = 0, pid: int = 7, ts: str = TS20, old: bool = False
    ) -> Path:
        self.root.mkdir(parents=True, exist_ok=True)
        name = f"dynamo_original_graph_{graph}_rank_{rank}_pid_{pid}_ts_{ts}.txt"
        path = self.root / (f"dynamo_original_graph_{ts}.txt" if old else name)
        path.write_text(graph_text(ops, f"graph_{graph}"))
        return path


def fx_token(root: Path, step: int, *, layout: str = "new", rank: int = 0, graph: int = 1) -> Path:
    """Return the folder of one step: layouts ``new`` (base 0), ``7.1.0`` and ``old`` (base 1, no rank, no graph id)."""
    if layout == "new":
        return root / "msprobe_fx_dump" / f"worldsize1_global_rank{rank}" / f"graph_{graph}" / str(step)
    base = root / "msprobe_fx_dump" / "data_dump" if layout == "7.1.0" else root / "data_dump"
    return base / str(step + 1) / f"gm_{20260101000000000000 + graph}_dump"


def mul_add_relu(prefix: str = "") -> list[Op]:
    """Return ``relu(x * y + z)`` with x, y, z of shape (2, 3) as graph inputs."""
    shape = (2, 3)
    return [
        Op("x", "Data", (), [(None, shape)]),
        Op("y", "Data", (), [(None, shape)]),
        Op("z", "Data", (), [(None, shape)]),
        Op(f"{prefix}Mul", "Mul", ("x:0", "y:0"), [("mul-aten.mul.Tensor.OUTPUT.0", shape)]),
        Op(f"{prefix}Add", "Add", (f"{prefix}Mul:0", "z:0"), [("add-aten.add.Tensor.OUTPUT.0", shape)]),
        Op(f"{prefix}Relu", "Relu", (f"{prefix}Add:0",), [("relu-aten.relu.default.OUTPUT.0", shape)]),
    ]


X, Y, Z = (np.arange(6, dtype=np.float32).reshape(2, 3) + base for base in (0, 10, -40))


def write_mul_add_relu(device: Path | None, fx: Path | None, *, fused: bool = False, prefix: str = "") -> None:
    """Write one execution of `mul_add_relu` to a device folder and an FX folder; ``fused`` joins Mul and Add."""
    product, total = X * Y, X * Y + Z
    result = np.maximum(total, 0)
    if device is not None:
        if fused:
            name = f"{prefix}Mul{prefix}Add"
            write_device_op(device, "AutomaticBufferFusionOp", name, at=1, inputs=[X, Y, Z], outputs=[total])
        else:
            write_device_op(device, "Mul", f"{prefix}Mul", at=1, inputs=[X, Y], outputs=[product])
            write_device_op(device, "Add", f"{prefix}Add", at=2, inputs=[product, Z], outputs=[total])
        write_device_op(device, "Relu", f"{prefix}Relu", at=3, inputs=[total], outputs=[result])
    if fx is not None:
        write_fx_node(fx, "mul-aten.mul.Tensor", at=1, inputs=[X, Y], outputs=[product])
        write_fx_node(fx, "add-aten.add.Tensor", at=2, inputs=[product, Z], outputs=[total])
        write_fx_node(fx, "relu-aten.relu.default", at=3, inputs=[total], outputs=[result])
