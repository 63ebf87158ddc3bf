"""Cut a part out of the graph of an ONNX model: the operators between some tensors and others, as plain data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.apis.onnx.part import frozen_attributes, packed
from probe_flow.dumpers.onnx.graph import Operator, operators
from probe_flow.dumpers.onnx.model_file import read_model
from probe_flow.dumps.file_names import safe_name
from probe_flow.errors import Diagnostic, UsageError

MOST_OPERATORS = 64
"""Operators of a part: a device fuses fewer."""

_PLAIN = "fiub"
"""Kinds of numpy's own element types."""


class ModelPart(Struct, frozen=True):
    """A part of a graph.

    Args:
        graph: as `apis.onnx.part.OnnxPart` takes it, without the types of inputs and results.
        inputs: names of the tensors that it is given, in the order in which its operators read them.
        constants: name of each file beside the script -> its elements.
    """

    graph: Mapping[str, Any]
    inputs: tuple[str, ...]
    constants: Mapping[str, NDArray[Any]]


class ModelParts:
    """The graph of a model file, to cut parts out of.

    Args:
        path: of the model.

    Raises:
        UsageError: PF6322 it is no model that can be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._model = read_model(path)
        try:
            self._order = operators(self._model.graph)
        except ValueError as error:
            what = f"`model: {path}` cannot be read: {error}"
            raise UsageError(Diagnostic("PF6322", what, help="export the model again")) from error
        self._weights = {tensor.name: tensor for tensor in self._model.graph.initializer}
        self._place = {operator.name: place for place, operator in enumerate(self._order)}
        self._clean = {safe_name(operator.name): operator.name for operator in self._order}
        self._producer = {name: operator for operator in self._order for name in operator.gives}
        self._inputs = {each.name: each.name for each in self._model.graph.input}
        self._inputs |= {safe_name(name): name for name in self._inputs}

    def tensor(self, node: str, output: int) -> str:
        """Return the name of the tensor that an operator gives, or of an input that a dump has as a node; else empty.

        Args:
            node: its name, true or as file names have it.
            output: number of it.
        """
        place = self._where(node)
        if place is None:
            return self._inputs.get(node, "") if output == 0 else ""
        outputs = self._order[place].proto.output
        return str(outputs[output]) if output < len(outputs) else ""

    def reads(self, node: str) -> tuple[str, ...]:
        """Return the names of the tensors that an operator reads, by their places; empty for none."""
        place = self._where(node)
        return () if place is None else tuple(map(str, self._order[place].proto.input))

    def weight(self, name: str) -> NDArray[Any] | None:
        """Return the elements of a constant; None where there is none of that name, or it cannot be read."""
        if name not in self._weights:
            return None
        try:
            return np.asarray(onnx.numpy_helper.to_array(self._weights[name], str(self.path.parent)))
        except (OSError, ValueError, TypeError):
            return None

    def _where(self, node: str) -> int | None:
        return self._place.get(node, self._place.get(self._clean.get(node, "")))

    def part(self, outputs: Sequence[str], given: Collection[str]) -> ModelPart | str:
        """Return the operators that make some tensors of others and of constants; or why there is no such part.

        Args:
            outputs: names of the tensors; one that is given too is passed on.
            given: names of the tensors that may be read.
        """
        taken: dict[str, Operator] = {}
        ahead = [(name, "") for name in outputs]
        while ahead:
            name, reader = ahead.pop()
            if name in given or name in self._weights:  # what is given counts more than a constant
                continue
            operator = self._producer.get(name)
            if operator is None:
                return (
                    f"some of its inputs were not dumped, or are no tensors of the model: it needs `{name}`, "
                    f"which `{reader}` of the model reads"
                )
            if operator.name not in taken:
                taken[operator.name] = operator
                if len(taken) > MOST_OPERATORS:
                    return (
                        f"more than {MOST_OPERATORS} operators of the model lie between the inputs that were dumped "
                        "and its results: some of its inputs were not"
                    )
                ahead += [(each, operator.name) for each in operator.reads]
        order = sorted(taken.values(), key=lambda each: self._place[each.name])
        read = dict.fromkeys(each for operator in order for each in operator.reads)
        read |= dict.fromkeys(name for name in outputs if name in given)
        inputs = tuple(name for name in read if name in given)
        return self._frozen(order, inputs, [name for name in read if name in self._weights and name not in given])

    def _frozen(self, order: Sequence[Operator], inputs: tuple[str, ...], weights: Sequence[str]) -> ModelPart | str:
        files: dict[str, NDArray[Any]] = {}
        constants: dict[str, dict[str, Any]] = {}

        def keep(tensor: onnx.TensorProto, key: str = "") -> str:
            key = key or _free(f"attribute {len(constants)}", self._weights)
            file = f"constants/{len(constants)}.npy"
            values = files[file] = self._elements(tensor)
            facts = {"type": tensor.data_type, "dims": list(tensor.dims), "file": file, "shape": list(values.shape)}
            constants[key] = facts
            return key

        try:
            for name in weights:
                keep(self._weights[name], name)
            nodes = [
                {
                    "op_type": operator.proto.op_type,
                    "domain": operator.proto.domain,
                    "name": operator.name,
                    "inputs": list(operator.proto.input),
                    "outputs": list(operator.proto.output),
                    "attributes": frozen_attributes(operator.proto, keep),
                }
                for operator in order
            ]
        except (OSError, ValueError, TypeError) as error:
            return f"a constant of the model cannot be read: {error}"
        graph = {
            "ir_version": self._model.ir_version,
            "opsets": [(each.domain, each.version) for each in self._model.opset_import],
            "functions": [packed(each) for each in self._model.functions],
            "nodes": nodes,
            "constants": constants,
        }
        return ModelPart(graph, inputs, files)

    def _elements(self, tensor: onnx.TensorProto) -> NDArray[Any]:
        """Return the elements of a constant, those of types that numpy lacks as their bytes."""
        values = onnx.numpy_helper.to_array(tensor, str(self.path.parent))
        if values.dtype.kind in _PLAIN and values.dtype.isbuiltin:
            return np.asarray(values)
        if tensor.data_type == onnx.TensorProto.STRING:
            raise TypeError(f"`{tensor.name}` holds texts")
        return np.frombuffer(onnx.numpy_helper.from_array(values).raw_data, np.uint8)


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "'"
    return name
