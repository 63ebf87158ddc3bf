"""Write the sample of two folders of arrays: ``python tools/samples/make_arrays.py FOLDER``.

``golden`` holds what a small model has after one training step, in float32; ``target`` the same in float16, where one
weight got twice its update and one table of indices another entry.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

SEED = 20260101
SHAPES = {
    "embedding": (32, 8),
    "block/attention/weight": (8, 8),
    "block/attention/bias": (8,),
    "block/mlp/weight": (16, 8),
    "block/mlp/bias": (16,),
    "head": (8, 4),
}


def main() -> None:
    folder = Path(sys.argv[1])
    random = np.random.Generator(np.random.PCG64(SEED))
    golden = {name: random.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    target = {name: values.astype(np.float16) for name, values in golden.items()}
    update = random.normal(size=SHAPES["block/mlp/weight"])
    target["block/mlp/weight"] = (golden["block/mlp/weight"] + 0.25 * update).astype(np.float16)
    golden["token_ids"] = np.arange(8)
    target["token_ids"] = np.array([0, 1, 2, 3, 4, 5, 7, 7])
    for side, arrays in (("golden", golden), ("target", target)):
        for name, values in arrays.items():
            path = folder / side / f"{name}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, values)


if __name__ == "__main__":
    main()
