"""Write dumps that a dump.json describes: tensors in torch files (cases A and B), or statistics alone (case C).

Tensor i of the golden is the base rolled by 7919 i and scaled by 1 + 0.001 i; the target adds 1e-4 of the base rolled
by 104729 i + 13. The base comes from the raw stream of PCG64, so all bytes are the same everywhere; a CRC-32 tells.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.dumps import ROW, STRIDE, Array, base_values, make_private
from benchmarks.torch_file import write_torch

NOISE_STRIDE, NOISE_START, NOISE = 104729, 13, np.float32(1e-4)
DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
NAMES = ("Torch.matmul.{}.forward", "Functional.linear.{}.forward")
EXECUTION = "step0/rank0"
ROW_DRIFT = 1e-8


@dataclass(frozen=True)
class EagerPair:
    """The dump.json of both sides, and the CRC-32 over the payloads: target, then golden, tensor by tensor."""

    target: Path
    golden: Path
    crc: int


@dataclass(frozen=True)
class TensorPlan:
    """How many tensors of how many elements; ``crc`` is what their payloads must give."""

    tensors: int
    elements: int
    dtype: str
    crc: int

    @property
    def dump_bytes(self) -> int:
        """Bytes of both sides."""
        size: int = 2 * self.tensors * self.elements * np.dtype(DTYPES[self.dtype]).itemsize
        return size


def write_tensors(root: Path, plan: TensorPlan) -> EagerPair:
    """Write both sides below ``root``.

    Raises:
        RuntimeError: the payloads are not those of the plan; figures would not be comparable.
    """
    folders = [_side(root, side) for side in ("target", "golden")]
    described: list[dict[str, Any]] = [{}, {}]
    crc, base = 0, base_values(plan.elements)
    shape = (plan.elements // ROW, ROW) if plan.elements % ROW == 0 else (plan.elements,)
    for number in range(plan.tensors):
        golden = golden_values(base, number)
        name = NAMES[number % 2].format(number)
        for folder, data, value in zip(folders, described, (target_values(base, golden, number), golden), strict=True):
            stored = value.astype(DTYPES[plan.dtype])
            payload = stored.tobytes()
            crc = zlib.crc32(payload, crc)
            file = f"{name}.output.0.pt"
            write_torch(folder / "dump_tensor_data" / file, payload, dtype=plan.dtype, shape=shape)
            data[name] = _call([], [_described(value, plan.dtype, shape) | {"data_name": file}])
    if crc != plan.crc:
        raise RuntimeError(f"the payloads have CRC-32 {crc:#010x} instead of {plan.crc:#010x}")
    for folder, data in zip(folders, described, strict=True):
        _write_dump(folder, "tensor", data)
    make_private(root)
    return EagerPair(folders[0] / "dump.json", folders[1] / "dump.json", crc)


def golden_values(base: Array, number: int) -> Array:
    """Return tensor ``number`` of the golden, float32."""
    value: Array = np.roll(base, STRIDE * number) * np.float32(1 + 0.001 * number)
    return value


def target_values(base: Array, golden: Array, number: int) -> Array:
    """Return tensor ``number`` of the target, float32: the golden and a little of something else."""
    value: Array = golden + NOISE * np.roll(base, NOISE_STRIDE * number + NOISE_START)
    return value


def write_statistics(root: Path, *, rows: int, drift: float = ROW_DRIFT) -> EagerPair:
    """Write two dumps of ``rows`` tensors without payloads: an input and an output for each call.

    The figures of the target's outputs are larger by ``drift``, relative to those of the golden; what calls read is
    equal, for nothing in the dumps made it.
    """
    folders = [_side(root, side) for side in ("target", "golden")]
    base = [float(value) for value in base_values(2 * rows)]
    crc = 0
    for folder, of_side in zip(folders, (drift, 0.0), strict=True):
        data = {}
        for number in range(rows // 2):
            read, made = (base[4 * number + part : 4 * number + part + 2] for part in (0, 2))
            call = _call([_statistics(read, 0.0)], [_statistics(made, of_side)])
            data[NAMES[number % 2].format(number // 2)] = call
        crc = zlib.crc32(_write_dump(folder, "statistics", data), crc)
    make_private(root)
    return EagerPair(folders[0] / "dump.json", folders[1] / "dump.json", crc)


def _statistics(values: list[float], drift: float) -> dict[str, Any]:
    largest, mean = (abs(value) * (1 + drift) for value in values)
    return _tensor("float32", (128, 256), largest + 1, -largest - 0.5, mean / 8, 128 * mean + 32)


def _described(value: Array, dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
    wide = value.astype(np.float64)
    norm = float(np.sqrt(np.square(wide).sum()))
    return _tensor(dtype, shape, float(value.max()), float(value.min()), float(wide.mean()), norm)


def _tensor(
    dtype: str, shape: tuple[int, ...], largest: float, least: float, mean: float, norm: float
) -> dict[str, Any]:
    return {
        "type": "torch.Tensor",
        "dtype": f"torch.{dtype}",
        "shape": list(shape),
        "Max": largest,
        "Min": least,
        "Mean": mean,
        "Norm": norm,
        "requires_grad": False,
    }


def _call(inputs: list[dict[str, Any]], outputs: list[dict[str, Any]]) -> dict[str, Any]:
    return {"input_args": inputs, "input_kwargs": {}, "output": outputs}


def _side(root: Path, side: str) -> Path:
    folder = root / side / EXECUTION
    (folder / "dump_tensor_data").mkdir(parents=True)
    return folder


def _write_dump(folder: Path, task: str, data: dict[str, Any]) -> bytes:
    head = {"task": task, "level": "L1", "framework": "pytorch", "dump_data_dir": None}
    content = json.dumps({**head, "data": data}).encode()
    (folder / "dump.json").write_bytes(content)
    stack = {
        str(number): [[name], ["File model.py, line 1, in forward, \n call()"]] for number, name in enumerate(data)
    }
    (folder / "stack.json").write_text(json.dumps(stack), encoding="utf-8")
    return content
