"""What every run of TensorFlow has: how a session runs a graph as it is, and how values come in and go out."""

from __future__ import annotations

import os
from abc import ABC
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from probe_flow.dumpers.base.runner import WORDS, NotHeldError, Runner
from probe_flow.dumpers.tensorflow.library import tf


class SessionRunner(Runner, ABC):
    """A runner whose values are arrays of numpy."""

    framework = "TensorFlow"
    libraries = ("tensorflow-cpu", "tensorflow", "keras", "numpy", "ml_dtypes")
    input_help = "give `.npy` arrays of numbers, or raw bytes"

    @property
    def threads(self) -> int:
        """How many threads an operator takes; all that the process may have where none are asked for."""
        return self.job.threads or len(os.sched_getaffinity(0))

    def drawn(self, dtype: str) -> Literal["bool", "float", "integer"] | None:
        if dtype == "bool":
            return "bool"
        if dtype.startswith(("float", "bfloat")):
            return "float"
        return "integer" if dtype.startswith(("int", "uint")) else None

    def tensor(self, array: NDArray[Any], dtype: str | None) -> Any:
        return array if dtype is None else array.astype(dtype)

    def described(self, value: object) -> tuple[str, Sequence[int]] | None:
        return (str(value.dtype), value.shape) if isinstance(value, np.ndarray) else None

    def stored(self, tensor: Any) -> tuple[NDArray[Any], bytes]:
        return held(tensor)[0], np.ascontiguousarray(tensor).tobytes()

    def config(self) -> Any:
        """Return the settings of a session that runs the graph as it is."""
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=self.threads, inter_op_parallelism_threads=1, device_count={"GPU": 0}
        )
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
        config.graph_options.place_pruned_graph = True
        return config

    def words(self, error: BaseException) -> str:
        """Return the error without the graph's stack, in which TensorFlow wraps it."""
        message = getattr(error, "message", None) or str(error)
        lines = [line for line in str(message).splitlines() if line.strip()] or [""]
        # Where a node fails, its stack stands before what it says.
        place = next((n for n, line in enumerate(lines[:-1]) if line.startswith("Node: ")), None)
        first = lines[0] if place is None else f"{lines[place]}: {lines[place + 1]}"
        return f"{type(error).__name__}: {first[:WORDS]}"


def held(array: NDArray[Any]) -> tuple[NDArray[Any], str]:
    """Return an array in a dtype of numpy, widened where it lacks the type, and the name of the true one.

    Raises:
        NotHeldError: its elements are no numbers.
    """
    if array.dtype.names is not None:  # quantised types are records of one integer
        name = array.dtype.names[0]
        return array[name], str(name)
    name = str(array.dtype)
    if array.dtype.kind in "biufc":
        return array, name
    if name.startswith(("bfloat", "float")):
        return array.astype(np.float32), name
    if name.startswith(("int", "uint")):
        return array.astype(np.int8 if name.startswith("int") else np.uint8), name
    raise NotHeldError(f"its elements are of type {name}, which are no numbers")
