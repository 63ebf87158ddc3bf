"""A small program of calls as a dump of arrays, and what a comparison of two such dumps says of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from probe_flow.comparing.asked import Asked, Recompute
from probe_flow.comparing.steps import compare_pairs
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.matching.name.match_name import match_name
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

SUM, COPY, BEHIND_GATE = "Functional.relu.0.backward", "Tensor.mul.1.backward", "Functional.linear.0.backward"
CHANCE = np.random.default_rng(7)
X, W, A, B, G = (CHANCE.standard_normal(shape) for shape in ((64, 24), (48, 24), (64, 48), (64, 48), (64, 48)))
Spoil = Callable[[np.ndarray], np.ndarray]


class Program:
    """``s = y * a + y * b`` with ``y = relu(linear(x))``, forward and backward, as a dump of torch's calls.

    Args:
        folder: of the dump.
        dtype: in which everything is stored.
        spoiled: entry -> what happens to the first thing that it gets (a gradient) or gives (a result).
        in_place: whether the gate overwrites what it reads: its gradient is recorded as it came, at both ends.
        reads_late: whether the input of the gate is recorded as it became.
    """

    def __init__(self, folder, dtype, spoiled=None, *, in_place=False, reads_late=False, task="tensor") -> None:
        self.folder, self.dtype, self.spoiled, self.task = folder, dtype, spoiled or {}, task
        self.data: dict[str, object] = {}
        (folder / "dump_tensor_data").mkdir(parents=True)
        x, w, a, b = (each.astype(dtype) for each in (X, W, A, B))
        h = self.forward("Functional.linear.0.forward", [x, w], self.wide(x) @ self.wide(w).T)
        right = np.maximum(h, 0)
        y = self.forward("Functional.relu.0.forward", [right if reads_late else h], right, inplace=in_place)
        u = self.forward("Tensor.mul.0.forward", [y, a], self.wide(y) * self.wide(a))
        v = self.forward("Tensor.mul.1.forward", [y, b], self.wide(y) * self.wide(b))
        self.forward("Tensor.add.0.forward", [u, v], self.wide(u) + self.wide(v))
        g = self.backward("Tensor.add.0.backward", G, lambda g: [g, g])
        one = self.backward("Tensor.mul.1.backward", g[1], lambda g: [g * self.wide(b), g * self.wide(y)])
        two = self.backward("Tensor.mul.0.backward", g[0], lambda g: [g * self.wide(a), g * self.wide(y)])
        both = self.wide(one[0]) + self.wide(two[0])
        (left,) = self.backward(SUM, both, lambda g: [g if in_place else g * (y > 0)])
        gated = self.wide(left) * (y > 0)
        self.backward(BEHIND_GATE, gated, lambda g: [g @ self.wide(w), g.T @ self.wide(x)])
        top = {"task": task, "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": self.data}
        self.path = folder / "dump.json"
        self.path.write_text(json.dumps(top))

    @staticmethod
    def wide(values: np.ndarray) -> np.ndarray:
        return values.astype("f8")

    def stored(self, entry: str, values: np.ndarray) -> np.ndarray:
        right = values.astype(self.dtype)
        return self.spoiled[entry](self.wide(right)).astype(self.dtype) if entry in self.spoiled else right

    def forward(self, entry: str, inputs: list, result: np.ndarray, **kwargs: object) -> np.ndarray:
        given = self.stored(entry, result)
        self.data[entry] = {
            "input_args": [self.argument(f"{entry}.input.{n}", each) for n, each in enumerate(inputs)],
            "input_kwargs": {name: {"type": type(each).__name__, "value": each} for name, each in kwargs.items()},
            "output": [self.leaf(f"{entry}.output.0", given)],
        }
        return given

    def backward(self, entry: str, incoming: np.ndarray, rule: Callable[[np.ndarray], list]) -> list[np.ndarray]:
        got = self.stored(entry, incoming)
        given = [each.astype(self.dtype) for each in rule(self.wide(got))]
        self.data[entry] = {
            "input": [self.leaf(f"{entry}.input.0", got)],
            "output": [self.leaf(f"{entry}.output.{n}", each) for n, each in enumerate(given)],
        }
        return given

    def argument(self, name: str, given: object) -> object:
        if isinstance(given, list):
            return [self.leaf(f"{name}.{n}", each) for n, each in enumerate(given)]
        return self.leaf(name, given) if isinstance(given, np.ndarray) else {"type": "int", "value": given}

    def leaf(self, name: str, values: np.ndarray) -> object:
        wide = self.wide(values)
        figures = {"Max": wide.max(), "Min": wide.min(), "Mean": wide.mean(), "Norm": np.linalg.norm(wide)}
        found = {"type": "torch.Tensor", "dtype": f"torch.{values.dtype}", "shape": list(values.shape)}
        if self.task == "tensor":
            np.save(self.folder / "dump_tensor_data" / f"{name}.npy", values)
            found["data_name"] = f"{name}.npy"
        return found | {key: float(figure) for key, figure in figures.items()}


def in_order(function, batches, **_):
    return iter([(number, function(batch)) for number, batch in enumerate(batches)])


def told(folder: Path, task: str, spoiled: dict[str, Spoil], target=None, golden=None, how="auto", of=Program) -> list:
    """Compare a float16 target with a float32 golden; return the findings that fail."""
    sides = (
        of(folder / "target", "float16", spoiled, task=task, **(target or {})),
        of(folder / "golden", "float32", task=task, **(golden or {})),
    )
    context = Context(
        "compare", folder, in_order, lambda *_, **__: None, lambda _: None, Settings(), run_record(),
        isolate=lambda *_: in_order,
    )  # fmt: skip
    catalogs = [read_dump_json(side.path, side=name) for side, name in zip(sides, ("target", "golden"), strict=True)]
    found = compare_pairs(match_name(*catalogs), Asked(recompute=Recompute(how)), context, None)
    nodes = found.pairs.target.nodes
    return [(nodes[each.node].entry, each.evidence) for each in found.findings if each.fails]
