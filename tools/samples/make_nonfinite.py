"""Write the sample of a dump with infinities and NaN: ``python tools/samples/make_nonfinite.py FOLDER``.

Two attention layers in float16, computed by numpy and written as the statistics of a dump.json. The second one lacks
the scale of its scores, which overflow: infinity there becomes NaN in its softmax, and goes on to the end. Both layers
mask with negative infinity, which is meant.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

SEED = 20261126
TOKENS, HIDDEN = 6, 16
LAYER = "Module.layers.{}.Attention.forward.0"
GAIN = 24.0

Array = np.ndarray[Any, np.dtype[Any]]


class Recorder:
    """Collects the entries of a dump and who called whom."""

    def __init__(self) -> None:
        self.data: dict[str, object] = {}
        self.callers: dict[str, str | None] = {}
        self.calls: dict[str, int] = {}

    def call(self, api: str, inputs: list[Any], output: Array, *, layer: int) -> Array:
        number = self.calls[api] = self.calls.get(api, -1) + 1
        self.enter(f"{api}.{number}.forward", inputs, output, caller=LAYER.format(layer))
        return output

    def enter(self, name: str, inputs: list[Any], output: Array, *, caller: str | None) -> None:
        args = [leaf(each) for each in inputs]
        self.data[name] = {"input_args": args, "input_kwargs": {}, "output": [leaf(output)]}
        self.callers[name] = caller


def leaf(value: Any) -> dict[str, object]:
    """Return a value as the collector writes it."""
    if isinstance(value, float):
        return {"type": "float", "value": value}
    numbers = value.astype(np.float64)
    with np.errstate(all="ignore"):
        figures = [numbers.max(), numbers.min(), numbers.mean(), np.linalg.norm(numbers)]
    return {
        "type": "torch.Tensor",
        "dtype": {"bool": "torch.bool", "float16": "torch.float16"}[value.dtype.name],
        "shape": list(value.shape),
        **dict(zip(("Max", "Min", "Mean", "Norm"), map(float, figures), strict=True)),
        "requires_grad": False,
    }


def attention(recorder: Recorder, layer: int, x: Array, weights: list[Array], *, scale: float) -> Array:
    query, key = (recorder.call("Torch.matmul", [x, weight], x @ weight, layer=layer) for weight in weights)
    query = recorder.call("Tensor.__mul__", [query, scale], query * np.float16(scale), layer=layer)
    scores = recorder.call("Torch.matmul", [query, key.T], query @ key.T, layer=layer)
    mask = np.triu(np.ones((TOKENS, TOKENS), dtype=bool), 1)
    masked = np.where(mask, np.float16(-np.inf), scores)
    masked = recorder.call("Tensor.masked_fill", [scores, mask, -np.inf], masked, layer=layer)
    powers = np.exp(masked - masked.max(axis=-1, keepdims=True))
    shares = recorder.call("Functional.softmax", [masked, -1.0], powers / powers.sum(-1, keepdims=True), layer=layer)
    return recorder.call("Torch.matmul", [shares, x], shares @ x, layer=layer)


def main() -> None:
    folder = Path(sys.argv[1]) / "nonfinite"
    random = np.random.Generator(np.random.PCG64(SEED))
    recorder = Recorder()
    x = random.normal(size=(TOKENS, HIDDEN)).astype(np.float16)
    with np.errstate(all="ignore"):
        for layer, scale in enumerate((1 / GAIN**2, 1.0)):
            weights = [(GAIN * random.normal(size=(HIDDEN, HIDDEN))).astype(np.float16) for _ in range(2)]
            y = attention(recorder, layer, x, weights, scale=scale)
            recorder.enter(LAYER.format(layer), [x], y, caller=None)
            x = y
    folder.mkdir(parents=True, exist_ok=True)
    head = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": ""}
    (folder / "dump.json").write_text(json.dumps({**head, "data": recorder.data}, indent=1))
    (folder / "construct.json").write_text(json.dumps(recorder.callers, indent=1))


if __name__ == "__main__":
    main()
