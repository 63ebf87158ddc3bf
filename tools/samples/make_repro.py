"""Make the sample of a suspect that is computed again: ``python tools/samples/make_repro.py OUTPUT``.

A step of a small PyTorch network, ``gelu(layer_norm(x) @ w.T + b) * s``, as two dumps of tensors (level L1), computed
in numpy. In ``target`` the matrix product is wrong in its last rows, as the tail of a block in a faulty kernel would
be, and what follows is computed from it.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEED = 21
FAULT = np.float32(1.01)
TAIL = 2
"""Rows at the end that are wrong."""

Array = NDArray[np.float32]


def element(values: Array, file: str) -> dict[str, Any]:
    """Return a tensor as a dump of tensors has it."""
    wide = values.astype(np.float64)
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": list(values.shape),
        "Max": float(wide.max()),
        "Min": float(wide.min()),
        "Mean": float(wide.mean()),
        "Norm": float(np.linalg.norm(wide)),
        "requires_grad": False,
        "data_name": file,
    }


def network(fault: np.float32) -> list[tuple[str, list[Any], dict[str, Any], Array]]:
    """Return the calls: name, arguments, keyword arguments and result."""
    draw = np.random.default_rng(SEED)
    x, w, s = (draw.standard_normal(shape).astype(np.float32) for shape in ((8, 16), (12, 16), (12,)))
    b = draw.standard_normal(12).astype(np.float32)
    wide = x.astype(np.float64)
    normal = wide - wide.mean(axis=1, keepdims=True)
    normal = (normal / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)).astype(np.float32)
    product = (normal.astype(np.float64) @ w.astype(np.float64).T + b).astype(np.float32)
    product[-TAIL:] *= fault
    erf = np.vectorize(math.erf)(product.astype(np.float64) / math.sqrt(2))
    active = (product * 0.5 * (1 + erf)).astype(np.float32)
    return [
        ("Functional.layer_norm.0", [x, [16]], {"eps": 1e-5}, normal),
        ("Functional.linear.0", [normal, w, b], {}, product),
        ("Functional.gelu.0", [product], {}, active),
        ("Torch.mul.0", [active, s], {}, active * s),
    ]


def write(folder: Path, fault: np.float32) -> None:
    """Write the dump of one side."""
    tensors = folder / "dump_tensor_data"
    tensors.mkdir(parents=True, exist_ok=True)
    entries: dict[str, Any] = {}

    def told(value: Any, name: str) -> Any:
        if isinstance(value, np.ndarray):
            np.save(tensors / f"{name}.npy", value)
            return element(value, f"{name}.npy")
        if isinstance(value, list):
            return [told(each, f"{name}.{number}") for number, each in enumerate(value)]
        return {"type": type(value).__name__, "value": value}

    for name, arguments, named, result in network(fault):
        start = f"{name}.forward"
        entries[start] = {
            "input_args": [told(each, f"{start}.input.{number}") for number, each in enumerate(arguments)],
            "input_kwargs": {key: told(each, f"{start}.input.{key}") for key, each in named.items()},
            "output": [told(result, f"{start}.output.0")],
        }
    head: Mapping[str, Any] = {
        "task": "tensor",
        "level": "L1",
        "framework": "pytorch",
        "dump_data_dir": "dump_tensor_data",
        "data": entries,
    }
    (folder / "dump.json").write_text(json.dumps(head, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    output = parser.parse_args().output
    for side, fault in (("target", FAULT), ("golden", np.float32(1))):
        write(output / side, fault)


if __name__ == "__main__":
    main()
