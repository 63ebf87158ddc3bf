"""Write a device dump and an FX dump that were reduced to extremes while the model ran: small files only.

Names and keys are those of the format description: `{file}_min_max.npz` with the rows of the inputs and outputs of an
operator and what the device said of them, `{stem}_min_max.npy` with the two extremes of an array. Archives are written
by Python's own modules, so that what is read is not what probe_flow itself wrote.
"""

from __future__ import annotations

import io
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.dumps import (
    DEVICE_FOLDER,
    GRAPH_FILE,
    RANK_FOLDER,
    START_FX,
    START_GE,
    WRITERS,
    Array,
    base_values,
    make_private,
)

NOISE = 2e-4
SHAPE = (1, 128, 4096)
_DEVICE_STEPS = str(Path(DEVICE_FOLDER).parent)
_ADD, _RELU = "aten.add.Tensor", "aten.relu.default"


@dataclass(frozen=True)
class ReducedPair:
    """Two reduced dumps of one graph that ran ``steps`` times, on average with five tensors for two operators."""

    target: Path
    golden: Path
    operators: int
    steps: int

    @property
    def tensors(self) -> int:
        """Tensors of each side, which are the rows of the comparison."""
        return self.steps * (self.operators * 2 + self.operators // 2)

    @property
    def files(self) -> int:
        """Reduced files of both sides: one for an operator of the device, one for each array."""
        return self.steps * self.operators + self.tensors


def write_reduced(root: Path, *, operators: int, steps: int, noise: float = NOISE) -> ReducedPair:
    """Write both sides below ``root``: additions and activations in turn, each of what the two before it wrote.

    Extremes of the device are float16 numbers and differ from those of the golden side by up to ``noise`` of them.
    """
    sys.path.insert(0, str(WRITERS))
    from ge_graph_writer import GraphOp, OutputDesc, graph_text  # type: ignore[import-not-found]

    pair = ReducedPair(root / "msprobe_ge_dump", root / "msprobe_fx_dump", operators, steps)
    plan = [_Operator(number) for number in range(operators)]
    ops = [GraphOp(f"arg{number}_1", "Data", (), (OutputDesc("DT_FLOAT16", SHAPE),)) for number in range(2)]
    for op in plan:
        edges = tuple(f"{_name(source)}:0" for source in op.sources)
        described = OutputDesc("DT_FLOAT16", SHAPE, f"{op.fx_name}.OUTPUT.0")
        ops.append(GraphOp(op.name, op.op_type, edges, (described,)))
    for step in range(steps):
        device = pair.target / _DEVICE_STEPS / str(step)
        host = pair.golden / RANK_FOLDER / "graph_1" / str(step)
        device.mkdir(parents=True)
        host.mkdir(parents=True)
        golden, target = _extremes(operators + 2, step, noise)
        for op in plan:
            _write_operator(device, host, op, golden, target, START_GE + step * 10**6, START_FX + step * 10**9)
    (pair.target / GRAPH_FILE).write_text(graph_text("graph_1", ops), encoding="utf-8")
    make_private(root)
    return pair


@dataclass(frozen=True)
class _Operator:
    """One operator: rows 0 and 1 of the extremes are the model's inputs, the output of operator n is row n + 2."""

    number: int

    @property
    def sources(self) -> tuple[int, ...]:
        return (self.number + 1, self.number) if self.number % 2 else (self.number + 1,)

    @property
    def op_type(self) -> str:
        return "Add" if self.number % 2 else "Relu"

    @property
    def name(self) -> str:
        return f"{self.op_type}_{self.number}"

    @property
    def fx_name(self) -> str:
        return f"{'add' if self.number % 2 else 'relu'}_{self.number}-{_ADD if self.number % 2 else _RELU}"


def _name(row: int) -> str:
    return f"arg{row}_1" if row < 2 else _Operator(row - 2).name


def _extremes(count: int, step: int, noise: float) -> tuple[Array, Array]:
    """Return least and largest of each tensor on both sides, shape (count, 2): float32, and float16 on the device."""
    spread = np.abs(np.roll(base_values(2 * count), 2 * step)).reshape(count, 2) + np.float32(0.5)
    golden = spread * np.array([-1, 1], np.float32)
    drift = np.float32(noise / 4) * np.roll(base_values(2 * count), 2 * step + 1).reshape(count, 2)
    return golden, (golden * (1 + drift)).astype(np.float16)


def _write_operator(
    device: Path, host: Path, op: _Operator, golden: Array, target: Array, start_ge: int, start_fx: int
) -> None:
    timestamp, output = start_ge + 113 * op.number, op.number + 2
    shape = ",".join(map(str, SHAPE))
    arrays = {
        "inputs": target[list(op.sources)].astype(np.float64),
        "in_dtypes": np.array(["float16"] * len(op.sources)),
        "in_shapes": np.array([shape] * len(op.sources)),
        "outputs": target[[output]].astype(np.float64),
        "out_dtypes": np.array(["float16"]),
        "out_shapes": np.array([shape]),
        "stat_names": np.array(["min", "max"]),
        "op_name": np.array(op.name),
        "op_type": np.array(op.op_type),
        "timestamp": np.array(timestamp, np.uint64),
    }
    _save_archive(device / f"{op.op_type}.{op.name}.{op.number + 1}.7.{timestamp}_min_max.npz", arrays)
    named = {f"INPUT.{index}": golden[source] for index, source in enumerate(op.sources)}
    for slot, values in {**named, "OUTPUT.0": golden[output]}.items():
        path = host / f"{op.fx_name}.{slot}.{start_fx + 37 * op.number}_min_max.npy"
        np.save(path, values.astype(np.float64), allow_pickle=False)


def _save_archive(path: Path, arrays: dict[str, Array]) -> None:
    """Write what `numpy.savez` writes, with one date, so that the bytes are the same each time."""
    with zipfile.ZipFile(path, "w") as archive:
        for key, values in arrays.items():
            content = io.BytesIO()
            np.save(content, values, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{key}.npy"), content.getvalue())
