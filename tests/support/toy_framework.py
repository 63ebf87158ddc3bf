"""A framework for tests of the model run: layers of numpy, computed one by one, each result written as an array.

It needs no framework that somebody would have to install, and is run by the same child process as the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probe_flow.dumpers.base.node_filter import NodeFilter
from probe_flow.dumpers.base.runner import NotHeldError, Runner, RunnerSpec
from probe_flow.dumpers.dump_files import make_folder, write_array
from probe_flow.errors import Diagnostic, IncompleteError, Severity

Array = NDArray[Any]

random = np.random.default_rng(0)
"""The generator of the framework: its own, that only its runner seeds."""


class Layer(NamedTuple):
    name: str
    op_type: str
    compute: Callable[..., Any]


class Net:
    """A model: each layer computes from what the one before it gave, the first from the arguments."""

    def __init__(self, *layers: Layer) -> None:
        self.layers = layers

    def __call__(self, *args: Array, **kwargs: Array) -> Iterator[tuple[Layer, Array]]:
        values: tuple[Any, ...] = (*args, *kwargs.values())
        for layer in self.layers:
            values = (np.asarray(layer.compute(*values)),)
            yield layer, values[0]


def scaled(name: str, factor: float) -> Layer:
    return Layer(name, "Mul", lambda x: x * factor)


class ToyRunner(Runner):
    framework = "toy"
    libraries = ("numpy", "toy-framework")
    model_word = "a `Net`"
    model_files = (".toy", "/")
    input_help = "give `.npy` arrays of numbers, or lists of numbers as `.json`"

    def seed(self) -> None:
        global random
        random = np.random.default_rng(self.job.seed)

    def is_model(self, found: object) -> bool:
        return isinstance(found, Net)

    def read_model(self, path: Path) -> Net:
        files = sorted(path.glob("*.toy")) if path.is_dir() else [path]
        return Net(*(scaled(name, factor) for file in files for name, factor in json.loads(file.read_text("utf-8"))))

    def open(self, model: Any) -> None:
        self._model, self._steps, self._written = model, 0, 0
        chosen = {name: tuple(self.job.dump.get(name) or ()) for name in ("include", "exclude", "types")}
        self._filter = NodeFilter(**chosen)
        make_folder(self.folder)

    def drawn(self, dtype: str) -> Literal["bool", "float", "integer"] | None:
        try:
            kind = np.dtype(dtype).kind
        except TypeError:
            return None
        kinds: Mapping[str, Literal["bool", "float", "integer"]] = {"b": "bool", "f": "float", "i": "integer"}
        return kinds.get(kind)

    def tensor(self, array: Array, dtype: str | None) -> Array:
        if array.dtype.kind not in "bfiu":
            raise TypeError(f"no toy has elements of type {array.dtype}")
        return array if dtype is None else array.astype(dtype)

    def read_inputs(self, path: Path) -> Array:
        return np.array(json.loads(path.read_text("utf-8")), np.float64)

    def described(self, value: object) -> tuple[str, Sequence[int]] | None:
        return (str(value.dtype), value.shape) if isinstance(value, np.ndarray) else None

    def stored(self, tensor: Array) -> tuple[Array, bytes]:
        if tensor.dtype.hasobject:
            raise NotHeldError("its elements are objects")
        return tensor, tensor.tobytes()

    def step(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        folder = self.folder / str(self._steps)
        make_folder(folder)
        for layer, value in self._model(*args, **kwargs):
            if self._filter.takes(layer.name, layer.op_type):
                write_array(folder, f"{layer.name}.npy", value)
                self._written += 1
        self._steps += 1

    def finish(self) -> Mapping[str, Any]:
        if not self._written:
            raise IncompleteError(Diagnostic("PF6327", "nothing was dumped of a toy", help="widen `filter`"))
        return {"steps": self._steps}


def _notes(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    if record["slow"]:
        yield Diagnostic("PF6333", f"slow: {', '.join(record['slow'])}", Severity.NOTE)


TOY = RunnerSpec(
    "toy",
    "toy_framework:ToyRunner",
    framework="toy",
    modules=("toy_framework",),
    extra="toy",
    folder="toy_dump",
    leaves=frozenset({"toy_cache"}),
    said={"slow": r"toy: (\w+) is slow"},
    notes=_notes,
)
