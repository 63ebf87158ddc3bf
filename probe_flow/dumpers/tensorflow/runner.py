"""The runner of TensorFlow graphs: a session without rewrites, from which all tensors are fetched, in parts by size."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

# Both are read when TensorFlow is imported. oneDNN chooses kernels by the processor, and so the last bits.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from probe_flow.dumpers.arrays.array_folder import ArrayFolder, ArrayOptions
from probe_flow.dumpers.base.runner import DeclaredInput, NotHeldError, Runner
from probe_flow.dumpers.tensorflow.graphs import GraphError, Loaded, inputs_of, load, needed_operations, tensors_of
from probe_flow.dumps.manifest import ManifestNode
from probe_flow.errors import Diagnostic, UsageError

CHUNK_BYTES = 64 << 20
"""Bytes of tensors that are fetched at once; what they need is computed again for the next ones."""

UNKNOWN_BYTES = 1 << 20
"""Taken for a tensor whose shape the graph leaves open."""

INPUT_TYPE = "Input"
_SHARE = 8
_UNHELD = "does not have value"
"""What a session says of a tensor in a branch that was not taken."""


class TensorFlowRunner(Runner):
    """All tensors of a graph are fetched, in as few runs as the memory allows."""

    framework = "TensorFlow"
    libraries = ("tensorflow-cpu", "tensorflow", "numpy", "ml_dtypes")
    model_word = "a TensorFlow model"
    model_files = (".pb", ".meta", "/")
    takes_code = False
    input_help = "give `.npy` arrays of numbers, or raw bytes"

    def seed(self) -> None:
        tf.compat.v1.set_random_seed(self.job.seed)

    def is_model(self, found: object) -> bool:
        return isinstance(found, Loaded)

    def read_model(self, path: Path) -> Any:
        self._path = path
        try:
            return load(path, self.job.dump)
        except GraphError as error:
            raise UsageError(Diagnostic("PF6322", f"`model: {self.job.model}` {error}", help=error.cure)) from error

    def open(self, model: Any) -> None:
        self._graph, self._checkpoint = model.graph, model.checkpoint
        self._operations = needed_operations(model)
        self._inputs = inputs_of(self._operations)
        self._folder = ArrayFolder(self.folder, ArrayOptions.of(self.job.dump))
        self._runs = 0

    def model_parts(self) -> Sequence[Path]:
        if self._checkpoint is None:
            return ()
        prefix = Path(self._checkpoint)
        return sorted(prefix.parent.glob(f"{prefix.name}.*"))

    @property
    def threads(self) -> int:
        """How many threads an operator takes; all that the process may have where none are asked for."""
        return self.job.threads or len(os.sched_getaffinity(0))

    # -- inputs

    def declared(self) -> Sequence[DeclaredInput]:
        return self._inputs

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

    # -- running

    def step(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:  # noqa: ARG002 (they come by name)
        for name, value in kwargs.items():
            if self._folder.takes(name, INPUT_TYPE):
                array, dtype = held(value)
                self._folder.write(name, INPUT_TYPE, 0, array, dtype=dtype, value=f"{name}:0")
        feeds = {f"{name}:0": value for name, value in kwargs.items()}
        with tf.compat.v1.Session(graph=self._graph, config=self._config()) as session:
            self._restore(session)
            for part in self._chunks():
                self._fetch(session, part, feeds)

    def _config(self) -> Any:
        """Return the settings of a session that runs the graph as it is."""
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=self.threads, inter_op_parallelism_threads=1, device_count={"GPU": 0}
        )
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
        config.graph_options.place_pruned_graph = True
        return config

    def _restore(self, session: Any) -> None:
        if self._checkpoint is None:
            return
        try:
            with self._graph.as_default():
                tf.compat.v1.train.Saver(reshape=False).restore(session, self._checkpoint)
        except (tf.errors.OpError, ValueError) as error:
            what = f"the weights in `{Path(self._checkpoint).name}` cannot be restored: {self.words(error)}"
            cure = "copy the checkpoint (`.index`, `.data-*`) beside its `.meta` again"
            raise UsageError(Diagnostic("PF6322", what, help=cure, path=self._checkpoint)) from error

    def _chunks(self) -> Iterator[list[Any]]:
        """Yield the tensors in parts that fit the memory together, and name those that cannot be fetched."""
        limit = CHUNK_BYTES
        if self.job.memory_bytes is not None:
            limit = min(limit, self.job.memory_bytes // _SHARE)
        part: list[Any] = []
        size = 0
        for tensor, reason in tensors_of(self._graph, self._operations):
            if not self._folder.takes(tensor.op.name, tensor.op.type):
                continue
            if reason:
                self._folder.skip(tensor.name, reason)
                continue
            own = _bytes(tensor)
            if part and size + own > limit:
                yield part
                part, size = [], 0
            part.append(tensor)
            size += own
        if part:
            yield part

    def _fetch(self, session: Any, tensors: Sequence[Any], feeds: Mapping[str, Any]) -> None:
        """Write some tensors; those of a branch that was not taken are found by halves, and named."""
        self._runs += 1
        try:
            values = session.run(list(tensors), feeds)
        except tf.errors.InvalidArgumentError as error:
            if _UNHELD not in str(error):
                raise
            if len(tensors) == 1:
                self._folder.skip(tensors[0].name, "in a branch that was not taken")
                return
            half = len(tensors) // 2
            self._fetch(session, tensors[:half], feeds)
            self._fetch(session, tensors[half:], feeds)
            return
        for tensor, value in zip(tensors, values, strict=True):
            try:
                array, dtype = held(np.asarray(value))
            except NotHeldError as error:
                self._folder.skip(tensor.name, str(error))
                continue
            op = tensor.op
            self._folder.write(op.name, op.type, tensor.value_index, array, dtype=dtype, value=tensor.name)

    def words(self, error: BaseException) -> str:
        """Return the error without the graph's stack, in which TensorFlow wraps it."""
        message = getattr(error, "message", None) or str(error)
        lines = [line for line in str(message).splitlines() if line.strip()] or [""]
        return f"{type(error).__name__}: {lines[0][:300]}"

    def finish(self) -> Mapping[str, Any]:
        if not self._folder.written:
            raise self._folder.nothing_dumped()
        return {"tensors": self._folder.written, "runs": self._runs, "threads": self.threads}

    def conclude(self, record: Mapping[str, Any]) -> None:
        placeholders = {each.name for each in self._inputs}
        nodes = [
            ManifestNode(
                op.name,
                INPUT_TYPE if op.name in placeholders else op.type,
                tuple(tensor.name for tensor in op.inputs),
                tuple(tensor.name for tensor in op.outputs),
            )
            for op in self._operations
            if op.type != "Const"
        ]
        self._folder.finish(self.job.facts(record, f"{self.framework} {tf.__version__}"), nodes)


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


def _bytes(tensor: Any) -> int:
    if tensor.shape.rank is None or None in tensor.shape.as_list():
        return UNKNOWN_BYTES
    sizes: list[int] = tensor.shape.as_list()
    return math.prod(sizes) * max(1, int(tensor.dtype.size))
