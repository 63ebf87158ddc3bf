"""A framework's runner: Acme models are layers of numpy, and each layer's result goes into the dump."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from acme_tools.reader import INDEX
from probe_flow.dumpers.base.runner import Runner

Layers = Mapping[str, Callable[[NDArray[Any]], NDArray[Any]]]


class AcmeRunner(Runner):
    """Runs a model, which is a mapping of layers: name -> function of what the layer before it gave."""

    framework = "acme"
    libraries = ("numpy",)
    model_word = "a mapping of layers"

    def seed(self) -> None:
        """Seed what layers may draw from."""
        random.seed(self.job.seed)

    def is_model(self, found: object) -> bool:
        """Return True for a mapping of functions."""
        return isinstance(found, Mapping) and all(map(callable, found.values()))

    def open(self, model: Layers) -> None:
        """Make the folder of the dump."""
        self.model, self.call = model, 0
        self.shapes: dict[str, list[int]] = {}
        self.folder.mkdir(parents=True)

    def drawn(self, dtype: str) -> Literal["bool", "float", "integer"] | None:
        """Return ``float`` for the only dtype there is."""
        return "float" if dtype == "float32" else None

    def tensor(self, array: NDArray[Any], dtype: str | None) -> NDArray[Any]:  # noqa: ARG002
        """Return an array as float32."""
        return array.astype(np.float32)

    def described(self, value: object) -> tuple[str, Sequence[int]] | None:
        """Return dtype and shape of an array."""
        return (str(value.dtype), value.shape) if isinstance(value, np.ndarray) else None

    def stored(self, tensor: NDArray[Any]) -> tuple[NDArray[Any], bytes]:
        """Return an array and its bytes."""
        return tensor, tensor.tobytes()

    def step(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Compute layer by layer; what later calls give has the number of the call behind its name."""
        (value,) = args
        for layer, compute in self.model.items():
            value = np.asarray(compute(value))
            name = f"{layer}@{self.call}" if self.call else layer
            (self.folder / f"{name}.raw").write_bytes(value.astype("<f4").tobytes())
            self.shapes[name] = list(value.shape)
        self.call += 1

    def finish(self) -> Mapping[str, Any]:
        """Write the index last: a folder without one is no dump."""
        (self.folder / INDEX).write_text(json.dumps(self.shapes))
        return {"calls": self.call}
