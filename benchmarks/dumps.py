"""Write the dumps that the benchmarks compare: one chain of operators as device dump and as FX dump.

The content depends on nothing but the arguments: rounded sums of the bits of PCG64, whose raw stream numpy keeps
stable. Files are readable by their owner only, because other tools refuse dumps that anyone may change.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

WRITERS = Path(__file__).resolve().parents[1] / "tools" / "samples"
SEED = 1234
STRIDE = 7919  # operators read the base rotated by multiples of a prime, so that no two tensors are equal
ROW = 1000
TARGET = "aten.relu.default"
RANK_FOLDER = "worldsize1_global_rank0"
DEVICE_FOLDER = f"{RANK_FOLDER}/20260101000000/0/graph_1_0/1/0"
GRAPH_FILE = "dynamo_original_graph_1_rank_0_pid_4242_ts_20260101000000000001.txt"
GRAPH_DTYPES = {"float16": "DT_FLOAT16", "float32": "DT_FLOAT", "bfloat16": "DT_BF16"}
WRITTEN_AT = 1_700_000_000
START_FX = 20260101000000000000
START_GE = 1_767_225_600_000_000

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class DumpPair:
    """Two dumps of one chain: ``pairs`` tensors on each side, an input and an output for each operator."""

    target: Path
    golden: Path
    operators: int
    elements: int
    stored_bytes: int = 2

    @property
    def pairs(self) -> int:
        return 2 * self.operators

    @property
    def pair_bytes(self) -> int:
        return self.pairs * self.elements * (self.stored_bytes + 4)


def write_ge_fx(root: Path, *, operators: int, elements: int, dtype: str = "float16") -> DumpPair:
    """Write both sides below ``root``: every operator reads what the one before it wrote.

    The device stores ``dtype``, float16 or float32; the golden is float32.
    """
    sys.path.insert(0, str(WRITERS))
    from ge_graph_writer import GraphOp, OutputDesc, graph_text  # type: ignore[import-not-found]
    from ge_writer import DumpTensor, file_name, write_dump  # type: ignore[import-not-found]

    pair = DumpPair(root / "msprobe_ge_dump", root / "msprobe_fx_dump", operators, elements, np.dtype(dtype).itemsize)
    described = GRAPH_DTYPES[dtype]
    device, host = pair.target / DEVICE_FOLDER, pair.golden / RANK_FOLDER / "graph_1" / "0"
    for folder in (device, host):
        folder.mkdir(parents=True)
    shape = (elements // ROW, ROW) if elements % ROW == 0 else (elements,)
    ops = [GraphOp("arg0_1", "Data", (), (OutputDesc(described, shape),))]
    values = values_of(operators + 1, elements)
    before, before_stored = _both(next(values), shape, dtype)
    for number, value in enumerate(values):
        after, after_stored = _both(value, shape, dtype)
        node = f"relu_{number}-{TARGET}"
        edge = "arg0_1:0" if number == 0 else f"Relu_{number - 1}:0"
        ops.append(GraphOp(f"Relu_{number}", "Relu", (edge,), (OutputDesc(described, shape, f"{node}.OUTPUT.0"),)))
        write_dump(
            device / file_name("Relu", f"Relu_{number}", number + 1, 7, START_GE + 113 * number),
            op_name=f"Relu_{number}",
            inputs=[DumpTensor(before_stored, dtype)],
            outputs=[DumpTensor(after_stored, dtype)],
            dump_time=START_GE + 113 * number,
        )
        timestamp = START_FX + 37 * number
        np.save(host / f"{node}.INPUT.0.{timestamp}.npy", before, allow_pickle=False)
        np.save(host / f"{node}.OUTPUT.0.{timestamp}.npy", after, allow_pickle=False)
        before, before_stored = after, after_stored
    (pair.target / GRAPH_FILE).write_text(graph_text("graph_1", ops), encoding="utf-8")
    make_private(root)
    return pair


def make_private(root: Path) -> None:
    """Let only its owner change what lies below ``root``, and make it look old: caches mistrust new files."""
    for path in (root, *root.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
        if path.is_file():
            os.utime(path, (WRITTEN_AT, WRITTEN_AT))


def base_values(elements: int) -> Array:
    """Return float32 values around 0 with a deviation of about 1: sums of the four 16-bit parts of random words."""
    words = np.random.PCG64(SEED).random_raw(elements)
    parts = words.view(np.uint16).reshape(elements, 4)
    total = parts.sum(axis=1, dtype=np.float32)
    centred: Array = (total - np.float32(2 * 65535)) / np.float32(65536 / 3**0.5)
    return centred


def values_of(count: int, elements: int) -> Iterator[Array]:
    """Yield float32 values for ``count`` tensors, no two of them equal."""
    base = base_values(elements)
    for number in range(count):
        yield np.roll(base, STRIDE * number) * np.float32(1 + 0.001 * (number % 100))


def _both(value: Array, shape: tuple[int, ...], dtype: str) -> tuple[Array, Array]:
    golden = value.reshape(shape)
    return golden, golden.astype(dtype)
