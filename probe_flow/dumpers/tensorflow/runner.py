"""The runner of TensorFlow graphs: a session without rewrites, from which all tensors are fetched, in parts by size."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from probe_flow.dumpers.arrays.array_folder import ArrayFolder, ArrayOptions
from probe_flow.dumpers.base.runner import DeclaredInput, NotHeldError
from probe_flow.dumpers.tensorflow.graphs import GraphError, Loaded, inputs_of, load, needed_operations, tensors_of
from probe_flow.dumpers.tensorflow.library import tf
from probe_flow.dumpers.tensorflow.session_runner import SessionRunner, held
from probe_flow.dumps.manifest import ManifestNode
from probe_flow.errors import Diagnostic, UsageError

CHUNK_BYTES = 64 << 20
"""Bytes of tensors that are fetched at once."""

HELD_BYTES = 64 << 20
"""Bytes of tensors that are held for later runs, which read them; what they need else is computed again."""

UNKNOWN_BYTES = 1 << 20
"""Taken for a tensor whose shape the graph leaves open."""

_OLD_CONTROL_FLOW = frozenset({"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"})
"""Tensors between these belong to a branch or a loop, into which nothing can be fed. Source: TensorFlow's
`control_flow_ops`; graphs of TensorFlow 2 have `If` and `While` operators instead."""

INPUT_TYPE = "Input"
_SHARE = 8
_UNHELD = "does not have value"
"""What a session says of a tensor in a branch that was not taken."""


class TensorFlowRunner(SessionRunner):
    """All tensors of a graph are fetched, in as few runs as the memory allows."""

    model_word = "a TensorFlow model"
    model_files = (".pb", ".meta", "/")
    takes_code = False

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

    def declared(self) -> Sequence[DeclaredInput]:
        return self._inputs

    # -- running

    def step(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:  # noqa: ARG002 (they come by name)
        for name, value in kwargs.items():
            if self._folder.takes(name, INPUT_TYPE):
                array, dtype = held(value)
                self._folder.write(name, INPUT_TYPE, 0, array, dtype=dtype, value=f"{name}:0")
        feeds = {f"{name}:0": value for name, value in kwargs.items()}
        parts = [*self._chunks()]
        passed = PassedOn(self._graph, self._operations, parts, self._limit(HELD_BYTES))
        with tf.compat.v1.Session(graph=self._graph, config=self.config()) as session:
            self._restore(session)
            for part in parts:
                passed.begin(part)
                self._fetch(session, part, feeds, passed)

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

    def _limit(self, usual: int) -> int:
        return usual if self.job.memory_bytes is None else min(usual, self.job.memory_bytes // _SHARE)

    def _chunks(self) -> Iterator[list[Any]]:
        """Yield the tensors in parts that fit the memory together, and name those that cannot be fetched."""
        limit = self._limit(CHUNK_BYTES)
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

    def _fetch(self, session: Any, tensors: Sequence[Any], feeds: Mapping[str, Any], passed: PassedOn) -> None:
        """Write some tensors; those of a branch that was not taken are found by halves, and named."""
        self._runs += 1
        try:
            values = session.run(list(tensors), {**feeds, **passed.values})
        except tf.errors.InvalidArgumentError as error:
            if _UNHELD not in str(error):
                raise
            if len(tensors) == 1:
                self._folder.skip(tensors[0].name, "in a branch that was not taken")
                return
            half = len(tensors) // 2
            self._fetch(session, tensors[:half], feeds, passed)
            self._fetch(session, tensors[half:], feeds, passed)
            return
        for tensor, value in zip(tensors, values, strict=True):
            passed.add(tensor, value)
            try:
                array, dtype = held(np.asarray(value))
            except NotHeldError as error:
                self._folder.skip(tensor.name, str(error))
                continue
            op = tensor.op
            self._folder.write(op.name, op.type, tensor.value_index, array, dtype=dtype, value=tensor.name)

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


def _bytes(tensor: Any) -> int:
    if tensor.shape.rank is None or None in tensor.shape.as_list():
        return UNKNOWN_BYTES
    sizes: list[int] = tensor.shape.as_list()
    return math.prod(sizes) * max(1, int(tensor.dtype.size))


class PassedOn:
    """The values that later parts of a run read: they are fed to them, in place of being computed again.

    So each part costs what its own operators cost, and reads the values that the dump has: an operator that draws
    random numbers would draw others when it runs again.

    Args:
        graph: whose parts run one after another, each in the order of the operators.
        operations: of the graph, in an order in which each stands behind those that it reads.
        parts: the tensors that each run fetches.
        limit: bytes that are held at most; what is beyond is computed again.
    """

    def __init__(self, graph: Any, operations: Sequence[Any], parts: Sequence[Sequence[Any]], limit: int) -> None:
        self.values: dict[Any, Any] = {}
        self._graph = graph
        self._limit = limit
        self._bytes = 0
        self._place = {op.name: number for number, op in enumerate(operations)}
        self._last_use: dict[str, int] = {}
        self._end = -1
        if len(parts) > 1 and not any(op.type in _OLD_CONTROL_FLOW for op in operations):
            self._follow(operations, {tensor.name for part in parts for tensor in part})

    def _follow(self, operations: Sequence[Any], fetched: Collection[str]) -> None:
        """Note the last operator that reads each tensor; one that is not fetched runs whenever its results are read."""
        for number, op in reversed([*enumerate(operations)]):
            again = [self._last_use.get(each.name, 0) for each in op.outputs if each.name not in fetched]
            last = max([number, *again])
            for tensor in op.inputs:
                self._last_use[tensor.name] = max(last, self._last_use.get(tensor.name, 0))

    def begin(self, part: Sequence[Any]) -> None:
        """Forget what neither this part nor any later one reads.

        Args:
            part: the tensors that are fetched next.
        """
        for tensor in [each for each in self.values if self._last_use[each.name] <= self._end]:
            self._bytes -= self.values.pop(tensor).nbytes
        self._end = max(self._place[tensor.op.name] for tensor in part)

    def add(self, tensor: Any, value: Any) -> None:
        """Hold a tensor that was computed, if an operator of a later part reads it."""
        array = np.asarray(value)
        is_read_later = self._last_use.get(tensor.name, -1) > self._end
        if is_read_later and self._bytes + array.nbytes <= self._limit and self._can_be_fed(tensor):
            self.values[tensor] = array
            self._bytes += array.nbytes

    def _can_be_fed(self, tensor: Any) -> bool:
        dtype = tensor.dtype
        is_number = dtype.is_floating or dtype.is_integer or dtype.is_complex or dtype.is_bool
        # What is assigned to has to be the variable itself; quantised values come out as records.
        is_plain = is_number and not dtype.is_quantized and dtype.base_dtype == dtype
        return is_plain and bool(self._graph.is_feedable(tensor))
