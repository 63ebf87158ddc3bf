"""Reduce generated TorchAir pairs to statistics, from the arrays that the generator holds: no reader is involved."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from generate.torchair_pairs import Case
from probe_flow.dumps.reduced.reduced_files import ReducedArray, ReducedDevice, ReducedTensor

Array = NDArray[Any]

SCRIPT = ("min", "max")
"""What scripts have always written: two columns in the tensors' own dtype, and nothing else."""

FULL = ("min", "max", "mean", "l2norm", "count", "nan_count", "inf_count")


def reduce_target(case: Case, statistics: Sequence[str] = SCRIPT) -> None:
    """Replace every device file of a pair by its reduced form."""
    for run in case.runs:
        folders = {path.parent for path in case.target.rglob("*.*") if path.parent.name == str(run.token)}
        for folder in sorted(folder for folder in folders if _rank_of(folder) in (None, run.rank)):
            files = sorted(folder.iterdir(), key=lambda path: path.name.split(".")[-1])
            for path, task in zip(files, run.device.tasks, strict=True):
                sides = [[(held.array, held.dtype) for held in side] for side in (task.inputs, task.outputs)]
                write_device(path, sides[0], sides[1], statistics)
                path.unlink()


def _rank_of(folder: Path) -> int | None:
    for part in folder.parts:
        if part.startswith("worldsize"):
            return int(part.rpartition("rank")[2])
    return None


def reduce_golden(case: Case, statistics: Sequence[str] = SCRIPT) -> None:
    """Replace every FX array of a pair by its reduced form."""
    for path in sorted(case.golden.rglob("*.npy")):
        values = np.load(path, allow_pickle=False)
        reduced = path.with_name(f"{path.stem}_min_max.npy")
        if tuple(statistics) == SCRIPT:
            np.save(reduced, np.array([values.min(), values.max()], values.dtype))
        else:
            tensor = ReducedTensor(figures(values, statistics), str(values.dtype), values.shape)
            reduced.write_bytes(ReducedArray(tuple(statistics), tensor).to_bytes())
        path.unlink()


def write_device(
    path: Path, inputs: Sequence[tuple[Array, str]], outputs: Sequence[tuple[Array, str]], statistics: Sequence[str]
) -> None:
    """Write what stands for one device file."""
    target = path.with_name(f"{path.name}_min_max.npz")
    if tuple(statistics) == SCRIPT:
        rows = [
            np.array([[stored.min(), stored.max()] for stored in (_stored(*item) for item in side)])
            for side in (inputs, outputs)
        ]
        np.savez(target, inputs=rows[0], outputs=rows[1])
        return
    sides = [
        tuple(ReducedTensor(figures(_stored(values, dtype), statistics), dtype, values.shape) for values, dtype in side)
        for side in (inputs, outputs)
    ]
    target.write_bytes(ReducedDevice(tuple(statistics), sides[0], sides[1]).to_bytes())


def _stored(values: Array, dtype: str) -> Array:
    return values.astype(np.float32) if dtype == "bfloat16" else values.astype(dtype)


def figures(values: Array, statistics: Sequence[str]) -> tuple[float, ...]:
    """Return statistics in float64, by their definitions."""
    wide = values.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        known = {
            "min": float(wide.min()),
            "max": float(wide.max()),
            "mean": float(wide.mean()),
            "l2norm": float(np.sqrt((wide * wide).sum())),
            "count": float(wide.size),
            "nan_count": float(np.isnan(wide).sum()),
            "inf_count": float(np.isinf(wide).sum()),
            "crc32": float(zlib.crc32(np.ascontiguousarray(_hashed(values)).tobytes())),
        }
    return tuple(known[name] for name in statistics)


def _hashed(values: Array) -> Array:
    return values.astype(np.float32) if values.dtype == ml_dtypes.bfloat16 else values
