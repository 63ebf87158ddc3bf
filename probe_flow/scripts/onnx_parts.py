"""Cut a part out of the graph of an ONNX model: the operators between some tensors and others, as plain data.

The model is read without the library, which only the script needs.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.dumps.file_names import safe_name
from probe_flow.dumps.onnx.constants import WireTensor, elements
from probe_flow.dumps.onnx.order import in_running_order, unique_names
from probe_flow.dumps.onnx.wire import WireAttribute, WireModel, WireNode, read_wire_model
from probe_flow.errors import Diagnostic, FormatError, UsageError
from probe_flow.files.binary_file import BinaryFile

MOST_OPERATORS = 64
"""Operators of a part: a device fuses fewer."""


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


class Operator(Struct, frozen=True):
    """One node of the graph under its unique name."""

    name: str
    node: WireNode

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of all tensors that it needs."""
        return self.node.reads

    @property
    def gives(self) -> tuple[str, ...]:
        """Names of its outputs."""
        return tuple(name for name in self.node.outputs if name)


class ModelParts:
    """The graph of a model file, to cut parts out of.

    Args:
        path: of the model.

    Raises:
        UsageError: PF6322 it is no model that can be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._model = _read(path)
        nodes = self._model.nodes or ()
        names = unique_names((node.name, node.op_type) for node in nodes)
        try:
            self._order = in_running_order([*map(Operator, names, nodes)])
        except ValueError as error:
            raise _no_model(path, f"cannot be read: {error}", "export the model again") from error
        self._weights = {tensor.name: tensor for tensor in self._model.weights}
        self._place = {operator.name: place for place, operator in enumerate(self._order)}
        self._clean = {safe_name(operator.name): operator.name for operator in self._order}
        self._producer = {name: operator for operator in self._order for name in operator.gives}
        self._inputs = {name: name for name in self._model.inputs}
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
        outputs = self._order[place].node.outputs
        return outputs[output] if output < len(outputs) else ""

    def reads(self, node: str) -> tuple[str, ...]:
        """Return the names of the tensors that an operator reads, by their places; empty for none."""
        place = self._where(node)
        return () if place is None else self._order[place].node.inputs

    def weight(self, name: str) -> NDArray[Any] | None:
        """Return the elements of a constant; None where there is none of that name, or it cannot be read.

        Those of types that numpy lacks are bytes, in one row.
        """
        if name not in self._weights:
            return None
        try:
            return elements(self._model.path, self._weights[name])
        except (ValueError, FormatError):
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

        def keep(tensor: WireTensor, key: str = "") -> str:
            key = key or _free(f"attribute {len(constants)}", self._weights)
            file = f"constants/{len(constants)}.npy"
            values = files[file] = elements(self._model.path, tensor)
            facts = {"type": tensor.kind, "dims": list(tensor.shape), "file": file, "shape": list(values.shape)}
            constants[key] = facts
            return key

        try:
            for name in weights:
                keep(self._weights[name], name)
            nodes = [
                {
                    "op_type": operator.node.op_type,
                    "domain": operator.node.domain,
                    "name": operator.name,
                    "inputs": list(operator.node.inputs),
                    "outputs": list(operator.node.outputs),
                    "attributes": {each.name: self._attribute(each, keep) for each in operator.node.attributes},
                }
                for operator in order
            ]
            functions = [self._packed(start, stop) for start, stop in self._model.functions]
        except ValueError as error:
            return f"a constant of the model cannot be read: {error}"
        except FormatError as error:
            return f"a constant of the model cannot be read: {error.diagnostic.message}"
        graph = {
            "ir_version": self._model.ir_version,
            "opsets": list(self._model.opsets),
            "functions": functions,
            "nodes": nodes,
            "constants": constants,
        }
        return ModelPart(graph, inputs, files)

    def _attribute(self, attribute: WireAttribute, keep: Callable[[WireTensor], str]) -> dict[str, Any]:
        """Return an attribute as JSON holds it; what else there is (bodies, types) as its message in the file."""
        if attribute.kind == "TENSOR" and attribute.tensor is not None:
            return {"type": "TENSOR", "constant": keep(attribute.tensor)}
        try:
            value = _plain(attribute.value)
        except UnicodeDecodeError:
            value = None
        if not attribute.kind or value is None:
            return {"type": "PROTO", "value": self._packed(attribute.start, attribute.stop)}
        return {"type": attribute.kind, "value": value}

    def _packed(self, start: int, stop: int) -> str:
        with BinaryFile(self._model.path) as file:
            return base64.b64encode(file.read_at(start, stop - start)).decode()


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [*map(_plain, value)]
    return value.decode() if isinstance(value, bytes) else value


def _read(path: Path) -> WireModel:
    try:
        with BinaryFile(path) as file:
            model = read_wire_model(file)
    except FormatError as error:
        if error.diagnostic.code in ("PF3001", "PF3002"):
            what = error.diagnostic.message.removeprefix(f"`{path.name}` ")
            raise _no_model(path, what, "check the path and your rights") from error
        what = "is no ONNX model: it is cut off, encrypted, or of another kind"
        raise _no_model(path, what, "export or copy it again") from error
    if not model.nodes:
        what = "holds no graph" if model.nodes is None else "has no operators"
        raise _no_model(path, what, "export the model again")
    return model


def _no_model(path: Path, what: str, cure: str) -> UsageError:
    return UsageError(Diagnostic("PF6322", f"`model: {path}` {what}", help=cure))


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "'"
    return name
