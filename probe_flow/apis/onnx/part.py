"""A part of an ONNX graph as a script has it: operators and constants as plain data, run on the tensors of a dump."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Any

import numpy as np

from probe_flow.apis.calls import Path, TensorSpec, UnusableError
from probe_flow.apis.onnx.double import RANDOM_TYPES, in_double, model_of, widened_tensor
from probe_flow.apis.onnx.exact import exact_products
from probe_flow.apis.side import Held
from probe_flow.apis.values import numpy_dtype, of_files

_FIELDS: Mapping[str, str] = MappingProxyType(
    {"INT": "i", "FLOAT": "f", "STRING": "s", "INTS": "ints", "FLOATS": "floats", "STRINGS": "strings"}
)


class OnnxPart:
    """Runs a part of a graph; a side of a script.

    Args:
        graph: ``ir_version``, ``opsets`` (pairs of domain and version), ``functions`` (packed), ``nodes`` (``op_type``,
            ``domain``, ``name``, ``inputs``, ``outputs``, ``attributes``), ``inputs`` (pairs of name and element type),
            ``outputs`` (pairs of the name of a tensor and the element type that was dumped) and ``constants`` (name ->
            ``type`` in ONNX's numbers, ``dims``, ``file`` and the ``shape`` of what that holds).
        folder: of the files.
        is_double: whether it computes in float64.
    """

    name = "onnxruntime"
    device = "cpu"

    def __init__(self, graph: Mapping[str, Any], folder: FilePath, *, is_double: bool) -> None:
        self._onnx: Any = import_module("onnx")
        self._graph = graph
        self._is_double = is_double
        self._constants = {name: self._constant(name, each, folder) for name, each in graph["constants"].items()}
        self._nodes = [self._node(each) for each in graph["nodes"]]
        home = self._onnx.ModelProto(ir_version=graph["ir_version"])
        home.opset_import.extend(self._onnx.helper.make_opsetid(*each) for each in graph["opsets"])
        for text in graph["functions"]:
            home.functions.add().ParseFromString(base64.b64decode(text))
        self._home = home
        if not is_double:
            self._compute_exactly()

    def _compute_exactly(self) -> None:
        """Have products of 8 bits added up as the dump of the model has them, whatever the processor."""
        types = dict(self._graph["inputs"])
        _, made = exact_products(self._nodes, self._constants, lambda name: types.get(name) == "uint8")
        self._constants |= {tensor.name: tensor for tensor in made}

    def _constant(self, name: str, facts: Mapping[str, Any], folder: FilePath) -> Any:
        values = of_files(str(folder))(TensorSpec("", tuple(facts["shape"]), file=facts["file"]), name)
        return self._onnx.TensorProto(
            name=name, data_type=facts["type"], dims=facts["dims"], raw_data=np.ascontiguousarray(values).tobytes()
        )

    def _node(self, facts: Mapping[str, Any]) -> Any:
        node = self._onnx.NodeProto(
            op_type=facts["op_type"],
            domain=facts["domain"],
            name=facts["name"],
            input=facts["inputs"],
            output=facts["outputs"],
        )
        kinds = self._onnx.AttributeProto
        for name, each in facts["attributes"].items():
            attribute = node.attribute.add()
            if each["type"] == "PROTO":
                attribute.ParseFromString(base64.b64decode(each["value"]))
                continue
            attribute.name, attribute.type = name, kinds.AttributeType.Value(each["type"])
            if each["type"] == "TENSOR":
                attribute.t.CopyFrom(self._constants[each["constant"]])
                continue
            field, value = _FIELDS[each["type"]], each["value"]
            if each["type"] in ("STRING", "STRINGS"):
                value = value.encode() if isinstance(value, str) else [text.encode() for text in value]
            if isinstance(value, list):
                getattr(attribute, field).extend(value)
            else:
                setattr(attribute, field, value)
        return node

    def find(self, kind: str, api: str) -> tuple[Callable[..., Any], str]:
        """Return what computes the part; a script has one."""
        del kind
        for node in self._nodes:
            if node.op_type in RANDOM_TYPES:
                raise UnusableError(f"its result is random (`{node.op_type}`)")
        return self._in_double if self._is_double else self._as_it_is, api

    def tensor(self, held: Held) -> Any:
        """Return an array of an element type."""
        return held.values.astype(numpy_dtype(held.dtype), copy=False)

    def dtype(self, name: str) -> Any:
        """Return an element type."""
        return np.dtype(numpy_dtype(name))

    def hold(self, tensor: Any) -> Held | None:
        """Return the elements of a result."""
        return Held(tensor, str(tensor.dtype)) if isinstance(tensor, np.ndarray) else None

    def call(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run it."""
        return function(*args, **kwargs)

    def autocast(self, function: Callable[..., Any], dtype: str) -> Callable[..., Any]:
        """Refuse: graphs say themselves where they cast."""
        del function
        raise UnusableError(f"graphs have no automatic casts to {dtype}")

    def gradients(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        incoming: Sequence[Any],
        *,
        copies: bool,
    ) -> list[tuple[Path, Any]]:
        """Refuse: graphs have no gradients."""
        del function, args, kwargs, incoming, copies
        raise UnusableError("operators of ONNX have no gradients")

    def _as_it_is(self, *arrays: Any) -> list[Any]:
        runtime: Any = import_module("onnxruntime")
        pairs = zip(self._graph["inputs"], arrays, strict=True)
        given = {name: array.astype(dtype, copy=False) for (name, dtype), array in pairs}
        names = [name for name, _ in self._graph["outputs"]]
        made = dict(given)
        wanted = [name for name in dict.fromkeys(names) if name not in given]
        if wanted:
            used = {name for node in self._nodes for name in node.input} | set(self._captured())
            model = model_of(self._nodes, {name: given[name] for name in given if name in used}, wanted, self._home)
            model.graph.initializer.extend(each for name, each in self._constants.items() if name in used)
            options = runtime.SessionOptions()
            options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.intra_op_num_threads = 1
            options.log_severity_level = 4
            session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            feeds = {each.name: given[each.name] for each in model.graph.input}
            made |= dict(zip(wanted, session.run(wanted, feeds), strict=True))
        with np.errstate(all="ignore"):  # what the target's type cannot hold became infinite there too
            return [np.asarray(made[name]).astype(numpy_dtype(dtype)) for name, dtype in self._graph["outputs"]]

    def _captured(self) -> list[str]:
        """Return the names that bodies of operators may take from outside."""
        found: list[str] = []
        ahead = [body for node in self._nodes for body in _bodies(node)]
        while ahead:
            body = ahead.pop()
            for node in body.node:
                found += node.input
                ahead += _bodies(node)
            found += [each.name for each in body.output]
        return found

    def _in_double(self, *arrays: Any) -> list[Any]:
        values: dict[str, Any] = {name: array for (name, _), array in zip(self._graph["inputs"], arrays, strict=True)}
        for name, tensor in self._constants.items():
            values[name] = self._onnx.numpy_helper.to_array(widened_tensor(tensor))
        captured = set(self._captured())
        for node in self._nodes:
            reads = {name for name in node.input if name} | (captured if _bodies(node) else set())
            values |= in_double(node, {name: values[name] for name in reads if name in values}, self._home)
        return [values[name] for name, _ in self._graph["outputs"]]


def _bodies(node: Any) -> list[Any]:
    return [
        body
        for attribute in node.attribute
        for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs)
    ]
