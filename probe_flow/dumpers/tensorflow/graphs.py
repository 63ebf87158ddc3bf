"""Graphs of TensorFlow from files: a frozen graph, a SavedModel, a checkpoint with its meta graph; and what is in them.

Imports TensorFlow, as the runner does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from msgspec import Struct

from probe_flow.dumpers.base.runner import DeclaredInput
from probe_flow.dumpers.tensorflow.library import tf
from probe_flow.errors import did_you_mean
from probe_flow.files.opening import open_bytes

PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2"})
_DEFAULTED = "PlaceholderWithDefault"
_HELD = frozenset({"Const", "NoOp", "Placeholder", "PlaceholderV2", "Assert"})
"""Operators that compute nothing that could be compared."""

_OPAQUE = frozenset({"resource", "variant", "string"})


class GraphError(ValueError):
    """The text says why a model cannot be run; `help` what to do."""

    def __init__(self, text: str, cure: str) -> None:
        super().__init__(text)
        self.cure = cure


class Loaded(Struct):
    """A graph that is ready to run.

    Args:
        graph: the graph.
        checkpoint: prefix of the checkpoint that its variables come from; None for one without variables.
        outputs: operators that are what the model is for; empty = all of the graph.
    """

    graph: Any
    checkpoint: str | None = None
    outputs: Sequence[str] = ()


def load(path: Path, options: Mapping[str, Any]) -> Loaded:
    """Return the graph of a model.

    Args:
        path: a frozen graph (`.pb`), a folder with a SavedModel, or the `.meta` file of a checkpoint.
        options: ``signature``, ``tags`` and ``outputs``, as the stage has them.

    Raises:
        GraphError: it is no model, or lacks what is asked for.
    """
    if path.is_dir():
        loaded = _saved_model(path, options.get("signature") or "serving_default", options.get("tags") or ["serve"])
    elif path.suffix == ".meta":
        loaded = _meta_graph(path)
    else:
        loaded = Loaded(_imported(_frozen(path)))
    outputs = options.get("outputs") or ()
    known = {op.name for op in loaded.graph.get_operations()}
    for name in outputs:
        if name not in known:
            raise GraphError(f"has no operator `{name}`", did_you_mean(name, sorted(known)) or "correct `outputs`")
    if loaded.checkpoint is not None and not outputs:
        raise GraphError(
            "holds the graph of a training",
            "name what the model is for with `outputs`: the operators that it needs are run",
        )
    loaded.outputs = outputs
    return loaded


def _frozen(path: Path) -> Any:
    graph = tf.compat.v1.GraphDef()
    try:
        with open_bytes(path) as file:
            graph.ParseFromString(file.read())
    except DecodeError as error:
        raise GraphError(
            "is no frozen graph: it is cut off, encrypted, or of another kind", "export it again"
        ) from error
    if not graph.node:
        raise GraphError("has no operators", "export the model again")
    return graph


def _imported(definition: Any) -> Any:
    graph = tf.Graph()
    try:
        with graph.as_default():
            tf.graph_util.import_graph_def(definition, name="")
    except (ValueError, tf.errors.OpError) as error:
        raise GraphError(f"cannot be loaded: {_first_line(error)}", _CURE) from error
    return graph


_CURE = "operators of your own, or of a newer TensorFlow, are not in the installed one; the traceback stands in the log"


def _saved_model(path: Path, signature: str, tags: Sequence[str]) -> Loaded:
    """Return the graph of a signature, its variables as constants and its functions in line."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    if not (path / "saved_model.pb").is_file():
        raise GraphError("is a folder without `saved_model.pb`", "name the folder of a SavedModel, or a frozen graph")
    try:
        model = tf.saved_model.load(str(path), tags=list(tags))
    except Exception as error:  # TensorFlow raises errors of many kinds for a damaged model
        raise GraphError(
            f"cannot be loaded: {_first_line(error)}", "check `tags`, and that its files are whole"
        ) from error
    found = model.signatures
    if signature not in found:
        near = did_you_mean(signature, list(found))
        raise GraphError(
            f"has no signature `{signature}`", near or f"it has {', '.join(f'`{name}`' for name in found)}"
        )
    frozen = convert_variables_to_constants_v2(found[signature], lower_control_flow=False)
    return Loaded(frozen.graph)


def _meta_graph(path: Path) -> Loaded:
    graph = tf.Graph()
    try:
        with graph.as_default():
            tf.compat.v1.train.import_meta_graph(str(path), clear_devices=True)
    except Exception as error:  # as above
        raise GraphError(f"cannot be loaded: {_first_line(error)}", _CURE) from error
    return Loaded(graph, str(path.with_suffix("")))


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return lines[0][:300]


def needed_operations(loaded: Loaded) -> list[Any]:
    """Return the operators that run: all, or those that the outputs need, in the order of the graph."""
    every = list(loaded.graph.get_operations())
    if not loaded.outputs:
        return every
    ahead = [loaded.graph.get_operation_by_name(name) for name in loaded.outputs]
    found: set[str] = set()
    while ahead:
        op = ahead.pop()
        if op.name not in found:
            found.add(op.name)
            ahead += [tensor.op for tensor in op.inputs]
    return [op for op in every if op.name in found]


def inputs_of(operations: Sequence[Any]) -> list[DeclaredInput]:
    """Return the placeholders of a graph."""
    return [
        declared_input(op.name, op.outputs[0], has_default=op.type == _DEFAULTED)
        for op in operations
        if op.type in PLACEHOLDERS or op.type == _DEFAULTED
    ]


def declared_input(name: str, tensor: Any, *, has_default: bool) -> DeclaredInput:
    """Return a tensor of a graph as an input of that name."""
    shape = tuple(tensor.shape.as_list()) if tensor.shape.rank is not None else None
    return DeclaredInput(name, tensor.dtype.base_dtype.name, shape, has_default)


def tensors_of(graph: Any, operations: Sequence[Any]) -> Iterator[tuple[Any, str]]:
    """Yield each tensor that an operator computes, with the reason why it cannot be fetched; empty where it can."""
    for op in operations:
        if op.type in _HELD:
            continue
        for tensor in op.outputs:
            dtype = tensor.dtype.base_dtype.name
            if dtype in _OPAQUE:
                yield tensor, f"its elements are of type {dtype}, which are no numbers"
            elif not graph.is_fetchable(tensor) or not graph.is_fetchable(op):
                yield tensor, "inside of a loop or branch, which gives out only its results"
            else:
                yield tensor, ""
