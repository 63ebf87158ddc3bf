"""Make the sample of a comparison with a pre-check behind it: ``python tools/samples/make_precheck.py OUTPUT``.

A step of a small MindSpore network, ``sum(relu(x @ w + b) * s)``, as two dumps of statistics, computed in numpy. In
``target`` the product with ``s`` is 2 % too large, as a faulty kernel of a device would have it, and what follows is
computed from it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

SEED = 19
FAULT = np.float32(1.02)


def element(values: Any) -> dict[str, Any]:
    """Return a tensor as a dump of statistics has it."""
    wide = values.astype(np.float64)
    return {
        "type": "mindspore.Tensor",
        "dtype": "Float32",
        "shape": list(values.shape),
        "Max": float(wide.max()),
        "Min": float(wide.min()),
        "Mean": float(wide.mean()),
        "Norm": float(np.linalg.norm(wide)),
    }


def entries(fault: np.float32) -> dict[str, Any]:
    """Return the calls of the network."""
    draw = np.random.default_rng(SEED)
    x, w, s = (draw.standard_normal(shape).astype(np.float32) for shape in ((4, 16), (16, 8), (4, 8)))
    b = draw.standard_normal(8).astype(np.float32)
    product = x @ w
    shifted = product + b
    cut = np.maximum(shifted, np.float32(0))
    scaled = cut * s * fault
    calls = (
        ("Mint.matmul.0", (x, w), product),
        ("Mint.add.0", (product, b), shifted),
        ("MintFunctional.relu.0", (shifted,), cut),
        ("Mint.mul.0", (cut, s), scaled),
        ("Mint.sum.0", (scaled,), np.asarray(scaled.sum())),
    )
    return {
        f"{name}.forward": {
            "input_args": [element(each) for each in given],
            "input_kwargs": {},
            "output": [element(result)],
        }
        for name, given, result in calls
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    output = parser.parse_args().output
    for side, fault in (("target", FAULT), ("golden", np.float32(1))):
        dump = {"task": "statistics", "level": "L1", "framework": "mindspore", "dump_data_dir": None}
        (output / side).mkdir(parents=True, exist_ok=True)
        (output / side / "dump.json").write_text(json.dumps({**dump, "data": entries(fault)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
