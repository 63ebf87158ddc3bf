"""The runner of ONNX models: sessions of ONNX Runtime, inputs as the model declares them, and what the dump holds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray

from probe_flow.apis.onnx.double import is_float
from probe_flow.dumpers.arrays.array_folder import ArrayFolder, ArrayOptions
from probe_flow.dumpers.base.runner import DeclaredInput, NotHeldError, Runner
from probe_flow.dumpers.onnx.codes import OP_TYPE, SUFFIX, quantisations, with_values
from probe_flow.dumpers.onnx.graph import Operator, inside, operators
from probe_flow.dumpers.onnx.model_file import not_loaded, read_model, weight_files
from probe_flow.dumpers.onnx.precise import run_in_double
from probe_flow.dumpers.onnx.segments import Plan, run_segments
from probe_flow.dumpers.onnx.sessions import cuts_sums_off, exact_sums, session_options
from probe_flow.dumpers.onnx.sizes import runs_of, tensor_sizes
from probe_flow.dumpers.onnx.values import TYPES, ElementType, array_of, items_of, type_name, value_of
from probe_flow.dumps.manifest import ManifestNode
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.files.opening import open_bytes

SEGMENT_BYTES = 16 << 20
"""Bytes of tensors that a segment gives at most, if its operators are more than one."""

SEGMENT_OPERATORS = 256
_SHARE = 8
"""Part of `memory_limit` that the tensors of a segment may take, beside weights, inputs and the library."""

_RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
INPUT_TYPE = "Input"
"""Type of the nodes that stand for the inputs of the model."""


class OnnxRunner(Runner):
    """Each node runs in a segment of the graph, and what it gives is written at once."""

    framework = "onnxruntime"
    libraries = ("onnxruntime", "onnx", "numpy", "ml_dtypes")
    model_word = "an `onnx.ModelProto`"
    model_files = (".onnx",)
    input_files = (".pb",)
    input_help = "give `.npy` arrays of numbers, raw bytes as `.bin`, or tensors of ONNX as `.pb`"

    def seed(self) -> None:
        ort.set_seed(self.job.seed)
        ort.set_default_logger_severity(3)

    def is_model(self, found: object) -> bool:
        return isinstance(found, onnx.ModelProto)

    def read_model(self, path: Path) -> Any:
        self._file = path
        return read_model(path)

    def open(self, model: Any) -> None:
        if not isinstance(model, onnx.ModelProto):
            what = f"`model: {self.job.model}` gives no `onnx.ModelProto`"
            raise UsageError(Diagnostic("PF6322", what, help="return a model of the package `onnx`, or name a file"))
        self._model = model
        self._place = getattr(self, "_file", Path.cwd() / "model").parent
        weights = {tensor.name for tensor in model.graph.initializer}
        given = [_declared(each, has_default=each.name in weights) for each in model.graph.input]
        # Before IR version 4 every weight had to be an input too.
        taken = [each for each in given if model.ir_version >= 4 or not each.has_default]
        self._declared = taken
        self._numbers = {each.name: each.type.tensor_type.elem_type for each in model.graph.input}
        self._exact = [] if self.job.dump.get("precision") == "float64" else exact_sums(model, self._place)
        try:
            self._order = operators(model.graph)
        except ValueError as error:
            what = f"`model: {self.job.model}` cannot run: {error}"
            raise UsageError(Diagnostic("PF6322", what, help="export the model again")) from error
        self._is_double = self.job.dump.get("precision") == "float64"
        self._codes = {} if self._is_double else quantisations(model, self._order)
        self._options = session_options(
            self.job.dump, self.threads, self._place, is_deterministic=self.job.is_deterministic
        )
        self._folder = ArrayFolder(self.folder, ArrayOptions.of(self.job.dump))

    @property
    def threads(self) -> int:
        """How many threads an operator takes; all that the process may have where none are asked for."""
        return self.job.threads or len(os.sched_getaffinity(0))

    def model_parts(self) -> Sequence[Path]:
        return weight_files(self._model, self._place)

    # -- inputs

    def declared(self) -> Sequence[DeclaredInput]:
        return self._declared

    def drawn(self, dtype: str) -> Literal["bool", "float", "integer"] | None:
        kind = _type_of(dtype)
        if kind is None or kind.bits < 8:
            return None
        if kind.name == "bool":
            return "bool"
        return "integer" if "int" in kind.name else "float"

    def tensor(self, array: NDArray[Any], dtype: str | None) -> Any:
        return array if dtype is None else array.astype(dtype)

    def read_inputs(self, path: Path) -> Any:
        tensor = onnx.TensorProto()
        with open_bytes(path) as file:
            tensor.ParseFromString(file.read())
        return onnx.numpy_helper.to_array(tensor)

    def described(self, value: object) -> tuple[str, Sequence[int]] | None:
        return (str(value.dtype), value.shape) if isinstance(value, np.ndarray) else None

    def stored(self, tensor: Any) -> tuple[NDArray[Any], bytes]:
        kind = _type_of(str(tensor.dtype))
        if kind is None:
            raise NotHeldError(f"its elements are of type {tensor.dtype}")
        return tensor.astype(kind.wide or kind.stored, copy=False), np.ascontiguousarray(tensor).tobytes()

    # -- running

    def step(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:  # noqa: ARG002 (they come by name)
        if self._is_double:
            self._step_in_double(kwargs)
            return
        shapes = {name: value.shape for name, value in kwargs.items()}
        inputs = {name: value_of(value, self._numbers[name]) for name, value in kwargs.items()}
        for name, value in inputs.items():
            if self._folder.takes(self._input_name(name), INPUT_TYPE):
                self._write(self._input_name(name), INPUT_TYPE, 0, name, value)
        self._segments = run_segments(
            Plan(self._model, self._order, self._cuts(shapes)), inputs, self._session, self._given
        )

    def _step_in_double(self, inputs: Mapping[str, Any]) -> None:
        for name, value in inputs.items():
            if self._folder.takes(self._input_name(name), INPUT_TYPE):
                wide = value.astype(np.float64) if is_float(value) else value
                self._write_array(self._input_name(name), INPUT_TYPE, 0, name, wide)
        self._segments = len(self._order)
        run_in_double(self._model, self._order, inputs, self._given_arrays, name=self.job.model, place=self._place)

    def _given_arrays(self, operator: Operator, values: Mapping[str, Any]) -> None:
        op_type = str(operator.proto.op_type)
        if not self._folder.takes(operator.name, op_type):
            return
        for index, name in enumerate(operator.proto.output):
            if not name:
                continue
            value = values[name]
            for item, each in enumerate(value) if isinstance(value, list) else [(None, value)]:
                self._write_array(operator.name, op_type, index, name, each, item)
        for name in inside(operator.proto):
            self._folder.skip(name, f"inside the body of `{operator.name}`, which gives out only its results")

    def _write_array(
        self, node: str, op_type: str, index: int, name: str, array: NDArray[Any], item: int | None = None
    ) -> None:
        if array.dtype.kind not in "fiubc":
            self._folder.skip(name, f"its elements are of type {array.dtype}, which are no numbers")
            return
        self._folder.write(node, op_type, index, array, value=name, item=item)

    def _cuts(self, shapes: Mapping[str, Sequence[int]]) -> list[tuple[int, int]]:
        """Return where the run is cut; nowhere where operators shall be optimised together."""
        if self.job.dump.get("optimizations", "none") != "none":
            return [(0, len(self._order))]
        limit = SEGMENT_BYTES
        if self.job.memory_bytes is not None:
            limit = min(limit, self.job.memory_bytes // _SHARE)
        known = tensor_sizes(self._model, shapes)
        sizes = [
            sum(known[name] for name in each.gives) if all(name in known for name in each.gives) else None
            for each in self._order
        ]
        return list(runs_of(sizes, limit, SEGMENT_OPERATORS))

    def _session(self, model: onnx.ModelProto) -> ort.InferenceSession:
        try:
            return ort.InferenceSession(model.SerializeToString(), self._options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise not_loaded(self.job.model, error) from error

    def _given(self, operator: Operator, values: Mapping[str, ort.OrtValue]) -> None:
        op_type = str(operator.proto.op_type)
        if not self._folder.takes(operator.name, op_type):
            return
        for index, name in enumerate(operator.proto.output):
            if name:
                self._write(operator.name, op_type, index, name, values[name])
        for name in inside(operator.proto):
            self._folder.skip(name, f"inside the body of `{operator.name}`, which gives out only its results")

    def _write(self, node: str, op_type: str, index: int, name: str, value: ort.OrtValue) -> None:
        if value.has_value() and value.is_tensor_sequence():
            for item, each in enumerate(items_of(value)):
                self._write_tensor(node, op_type, index, name, each, item)
            return
        self._write_tensor(node, op_type, index, name, value, None)

    def _write_tensor(
        self, node: str, op_type: str, index: int, name: str, value: ort.OrtValue, item: int | None
    ) -> None:
        try:
            array, dtype = array_of(value)
        except NotHeldError as error:
            self._folder.skip(name if item is None else f"{name}[{item}]", str(error))
            return
        self._folder.write(node, op_type, index, array, dtype=dtype, value=name, item=item)
        if name in self._codes:
            values = self._codes[name].values(array)
            self._folder.write(f"{node}{SUFFIX}", OP_TYPE, index, values, value=f"{name}{SUFFIX}")

    def _input_name(self, name: str) -> str:
        """Return the name of the node that stands for an input: its own, unless an operator is called so."""
        taken = {operator.name for operator in self._order}
        while name in taken:
            name += "__input"
        return name

    def finish(self) -> Mapping[str, Any]:
        if not self._folder.written:
            raise self._folder.nothing_dumped()
        unseeded = [
            each.name
            for each in self._order
            if each.proto.op_type in _RANDOM and not any(attribute.name == "seed" for attribute in each.proto.attribute)
        ]
        return {
            "tensors": self._folder.written,
            "segments": self._segments,
            "threads": self.threads,
            "unseeded": unseeded,
            "exact_sums": [each.name for each in self._exact],
            "cuts_sums": cuts_sums_off(),
            "ir_version": self._model.ir_version,
            "opsets": {each.domain or "ai.onnx": each.version for each in self._model.opset_import},
        }

    def conclude(self, record: Mapping[str, Any]) -> None:
        inputs = [ManifestNode(self._input_name(each.name), INPUT_TYPE, (), (each.name,)) for each in self._declared]
        nodes = [*inputs, *(operator.described() for operator in self._order)]
        self._folder.finish(self.job.facts(record, self.framework), with_values(nodes, self._codes))


def _type_of(dtype: str) -> ElementType | None:
    return next((each for each in TYPES.values() if each.name == dtype), None)


def _declared(info: onnx.ValueInfoProto, *, has_default: bool) -> DeclaredInput:
    """Return what a model says of an input; other types than tensors are named as they are."""
    if not info.type.HasField("tensor_type"):
        return DeclaredInput(info.name, str(info.type.WhichOneof("value")).removesuffix("_type"), None, has_default)
    kind = info.type.tensor_type
    shape = None
    if kind.HasField("shape"):
        shape = tuple(_dim(dim) for dim in kind.shape.dim)
    return DeclaredInput(info.name, type_name(kind.elem_type), shape, has_default)


def _dim(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    # Exporters write sizes that are open as 0 or below, too.
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return str(dim.dim_param) or None
