"""Read an ONNX model and say in words why one cannot be run; the weights of other files are not read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto
from onnx.external_data_helper import uses_external_data

from probe_flow.errors import Diagnostic, UsageError
from probe_flow.files.existing import is_file
from probe_flow.files.opening import open_bytes

_FIRST_LINE = 300
_IR = re.compile(r"Unsupported model IR version: (\d+), max supported IR version: (\d+)")
_OPSET = re.compile(
    r"Opset (\d+) is under development.*?official support for domain (\S+) is till opset (\d+)", re.DOTALL
)
_NO_OP = re.compile(r"No Op registered for (\S+) with domain_version of (\d+)")
_NO_DOMAIN = re.compile(r"No opset import for domain '([^']*)'")
_NO_FUNCTION = re.compile(r"(\S+?):(\S+?)\(-?\d+\) is not a registered function/op")
_NODE = re.compile(r'In Node, \("([^"]*)", ([^,]+), "([^"]*)"')
_NO_KERNEL = re.compile(r"Could not find an implementation for (\S+?)\((\d+)\) node with name '([^']*)'")


def read_model(path: Path) -> onnx.ModelProto:
    """Return the model of a file without the weights that lie in other files.

    Raises:
        UsageError: PF6322 when it is no model, was cut off, or a file of its weights is missing or too short.
    """
    try:
        with open_bytes(path) as file:
            model = onnx.load_model_from_string(file.read())
    except DecodeError as error:
        raise _unreadable(
            path, "is no ONNX model: it is cut off, encrypted, or of another kind", "export or copy it again"
        ) from error
    except OSError as error:
        raise _unreadable(
            path, f"cannot be read: {error.strerror or error}", "check the path and your rights"
        ) from error
    if not model.HasField("graph") or not model.graph.node:
        what = "holds no graph" if not model.HasField("graph") else "has no operators, and so nothing to dump"
        raise _unreadable(path, what, "export the model again")
    _check_weights(path, model)
    return model


def weight_files(model: onnx.ModelProto, folder: Path) -> list[Path]:
    """Return the other files that hold weights of a model, each once."""
    return list(dict.fromkeys(folder / place for place, _, _ in _external(model)))


def _check_weights(path: Path, model: onnx.ModelProto) -> None:
    sizes: dict[str, int] = {}
    for place, end, name in _external(model):
        file = path.parent / place
        if Path(place).is_absolute() or ".." in Path(place).parts:
            raise _unreadable(
                path, f"keeps `{name}` in `{place}`, outside its own folder", "save it again beside its weights"
            )
        if not is_file(file):
            cure = f"copy `{place}` beside `{path.name}`"
            raise _unreadable(path, f"keeps the weight `{name}` in `{place}`, which is not there", cure)
        size = sizes.setdefault(place, file.stat().st_size)
        if end > size:
            what = f"keeps the weight `{name}` in `{place}` up to byte {end:,}, and the file has {size:,}"
            raise _unreadable(path, what, f"`{place}` was cut off or is another model's: copy it again")


def _external(model: onnx.ModelProto) -> Iterator[tuple[str, int, str]]:
    """Yield the file, the end in it and the name of each weight that lies in another file."""
    for tensor in tensors_of(model.graph):
        if uses_external_data(tensor):
            facts = {entry.key: entry.value for entry in tensor.external_data}
            offset, length = (int(facts.get(key) or 0) for key in ("offset", "length"))
            yield facts.get("location", ""), offset + length, tensor.name


def tensors_of(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    """Yield the constant tensors of a graph and of the bodies in it."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from tensors_of(body)


def not_loaded(name: str, error: Exception) -> UsageError:
    """Return PF6322 for a model that ONNX Runtime refuses, in words for what it says.

    Args:
        name: of the model, as it was given.
        error: what ONNX Runtime raised.
    """
    text = str(error)
    if found := _IR.search(text):
        what = f"is of IR version {found[1]}, and the installed onnxruntime reads up to {found[2]}"
        return _no_model(name, what, "install a newer onnxruntime, or export the model with an older `ir_version`")
    if found := _OPSET.search(text):
        what = f"uses opset {found[1]} of {found[2]}, and the installed onnxruntime knows up to {found[3]}"
        return _no_model(name, what, "install a newer onnxruntime, or export the model with an older opset")
    if found := _NO_KERNEL.search(text):
        what = f"has the operator `{found[1]}` (node `{found[3]}`, version {found[2]})"
        return _no_model(name, f"{what}, and onnxruntime has no CPU kernel of it for this version and type", _OPERATORS)
    if found := _NO_OP.search(text):
        node = _NODE.search(text)
        where = node[1] if node is not None else ""
        domain = f" of domain `{node[3]}`" if node is not None and node[3] else ""
        at = f" (node `{where}`)" if where else ""
        what = f"has the operator `{found[1]}`{domain}{at}, which onnxruntime does not have for opset {found[2]}"
        return _no_model(name, what, _OPERATORS)
    if (found := _NO_DOMAIN.search(text)) or (found := _NO_FUNCTION.search(text)):
        node = _NODE.search(text)
        at = f" (operator `{node[2]}`, node `{node[1]}`)" if node is not None else ""
        operator = f", operator `{found[2]}`" if found.re is _NO_FUNCTION else ""
        return _no_model(
            name, f"uses the domain `{found[1]}`{operator}, which onnxruntime does not know{at}", _OPERATORS
        )
    lines = [line for line in text.splitlines() if line.strip()] or [""]
    return _no_model(
        name, f"cannot be loaded by onnxruntime: {lines[0][:_FIRST_LINE]}", "the traceback stands in the log"
    )


_OPERATORS = "operators of your own: name their library with `custom_ops_library`"


def _unreadable(path: Path, what: str, cure: str) -> UsageError:
    return _no_model(str(path), what, cure)


def _no_model(name: str, what: str, cure: str) -> UsageError:
    return UsageError(Diagnostic("PF6322", f"`model: {name}` {what}", help=cure))
