"""The operators of an ONNX model behind a suspect, as a dump.json would have them: entries of both sides, a graph.

An operator of a device (OM) is the part of the model's graph between the tensors that its inputs and its outputs were
compared with: one operator, or those that the device fused. In a dump of an ONNX model itself it is the node. Either is
given the inputs that the target dumped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from probe_flow.records import Catalog, NodeKey, SlotRole, TensorKind, TensorRef
from probe_flow.scripts.fx_operator import ComparedTensor

KIND = "Onnx"
"""Kind of such calls."""

SAME_WEIGHT = 0.5
"""Relative difference up to which a tensor that a device read is the weight of the model at that place, rounded or
wrong: what a compiler transposed or folded others into is further off."""

_TYPES = frozenset(
    {"bool", "float16", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}
)
"""Element types that scripts give to ONNX Runtime: those of numpy."""


class Part(Protocol):
    """Some operators of a graph, as `apis.onnx.part.OnnxPart` takes them, without types of inputs and results."""

    @property
    def graph(self) -> Mapping[str, Any]: ...
    @property
    def inputs(self) -> Sequence[str]: ...
    @property
    def constants(self) -> Mapping[str, Any]: ...


class Model(Protocol):
    """The graph of a model file."""

    def tensor(self, node: str, output: int) -> str:
        """Return the name of the tensor that an operator gives; empty where there is none."""

    def reads(self, node: str) -> Sequence[str]:
        """Return the names of the tensors that an operator reads, by their places."""

    def weight(self, name: str) -> Any:
        """Return the elements of a constant; None where there is none of that name."""

    def part(self, outputs: Sequence[str], given: Collection[str]) -> Part | str:
        """Return the operators that make some tensors of others; or why there is no such part."""


class _Given(Struct, frozen=True):
    """A tensor of a side, in the shape that the model has.

    Args:
        ref: where its elements are; None = they are ``values``.
        shape: in the model.
        dtype: of the dump.
        model_dtype: in the model.
        values: of a constant.
    """

    shape: tuple[int, ...]
    dtype: str
    model_dtype: str
    ref: TensorRef | None = None
    values: Any = None

    def array(self) -> Any:
        from probe_flow.elements.blocks import array_of

        return self.values if self.ref is None else array_of(self.ref).reshape(self.shape)


class OnnxCall(Struct, frozen=True):
    """Operators as a call.

    Args:
        api: their types.
        sides: side -> ``forward`` -> its entry.
        graphs: side -> what computes it.
        note: what has to be known of a result that is wrong.
        files: path below the folder of the script -> returns the elements of a tensor or constant.
    """

    api: str
    sides: Mapping[str, Mapping[str, Any]]
    graphs: Mapping[str, Mapping[str, Any]]
    note: str
    files: Mapping[str, Callable[[], Any]]


class _Unusable(Exception):  # noqa: N818 - the text is the reason
    """Why there is no call."""


def device_call(tensors: Sequence[ComparedTensor], model: Model) -> OnnxCall | str:
    """Return the operators that a device's operator stands for, on the inputs of either side; or why there are none.

    Args:
        tensors: of the device's operator, with the arrays of the model that they were compared with.
        model: the model that the device's was made of.
    """
    try:
        return _device_call(tensors, model)
    except _Unusable as error:
        return str(error)


def _device_call(tensors: Sequence[ComparedTensor], model: Model) -> OnnxCall:
    outputs = _compared(tensors, SlotRole.OUTPUT, model)
    if not outputs:
        raise _Unusable("none of its results was compared with a tensor that the model has")
    given = _compared(tensors, SlotRole.INPUT, model)
    part = _part(model, list(outputs), given)
    weights = _device_weights(tensors, part, model)
    if weights:
        part = _part(model, list(outputs), {**given, **weights})
    sides: dict[str, Any] = {}
    graphs: dict[str, Any] = {}
    files: dict[str, Callable[[], Any]] = {name: _just(values) for name, values in part.constants.items()}
    known = {**given, **weights}
    for number, side in enumerate(("target", "golden")):
        inputs = {name: known[name][number] for name in part.inputs}
        results = {name: pair[number] for name, pair in outputs.items()}
        sides[side], graphs[side] = _entry(side, inputs, results, part.graph, files)
    note = "the weights are those of the model" if part.constants else ""
    return OnnxCall(_types(part), sides, graphs, note, files)


def own_call(
    sides: Mapping[str, tuple[Catalog, NodeKey, Model]],
) -> OnnxCall | str:
    """Return the node of a dump of an ONNX model on the inputs of that dump; or why there is none.

    Args:
        sides: target, and golden where it is known: dump, node and model of each.
    """
    entries: dict[str, Any] = {}
    graphs: dict[str, Any] = {}
    files: dict[str, Callable[[], Any]] = {}
    api = ""
    for side, (catalog, key, model) in sides.items():
        try:
            part, inputs, results = _of_dump(catalog, key, model)
        except _Unusable as error:
            if side == "target":
                return str(error)
            continue
        if side == "golden" and _types(part) != api:
            continue  # what it reads and computes is something else
        graph = part.graph
        if side == "golden":
            constants = {
                name: {**each, "file": f"golden_{each['file']}"} for name, each in part.graph["constants"].items()
            }
            graph = {**part.graph, "constants": constants}
        prefix = "golden_" if side == "golden" else ""
        files |= {f"{prefix}{name}": _just(values) for name, values in part.constants.items()}
        entries[side], graphs[side] = _entry(side, inputs, results, graph, files)
        api = api or _types(part)
    return OnnxCall(api, entries, graphs, "", files)


def _of_dump(catalog: Catalog, key: NodeKey, model: Model) -> tuple[Part, Mapping[str, _Given], Mapping[str, _Given]]:
    """Return the part of a node of a dump, its inputs and its results.

    Raises:
        _Unusable: the model or the dump lacks what is needed.
    """
    dumped: dict[str, _Given] = {}
    results: dict[str, _Given] = {}
    for ref in catalog.tensors:
        place = ref.slot.path[0] if len(ref.slot.path) == 1 else None
        if ref.node.execution != key.execution or not isinstance(place, int) or ref.kind is not TensorKind.TENSOR:
            continue
        if ref.slot.role is SlotRole.OUTPUT:
            name = model.tensor(ref.node.name, place)
        else:
            read = model.reads(ref.node.name)
            name = read[place] if ref.node == key and place < len(read) else ""
        if name and ref.node == key and ref.slot.role is SlotRole.OUTPUT:
            results[name] = _given(ref, ref)
        elif name:
            dumped.setdefault(name, _given(ref, ref, check=False))
    if not results:
        raise _Unusable(f"the model has no node `{key.name}` whose results the dump has")
    dumped = {name: each for name, each in dumped.items() if name not in results}
    part = _part(model, list(results), dumped)
    if len(part.graph["nodes"]) == 1:  # its constants are arguments, which differ between models
        dumped |= {name: each for name in part.graph["constants"] if (each := _weight(model, name)) is not None}
        part = _part(model, list(results), dumped)
    for name in part.inputs:
        _check_type(name, dumped[name].dtype)
    return part, {name: dumped[name] for name in part.inputs}, results


def _weight(model: Model, name: str) -> _Given | None:
    """Return a constant of the model as something that is given; None where scripts cannot."""
    values = model.weight(name)
    if values is None or str(values.dtype) not in _TYPES:
        return None
    return _Given(values.shape, str(values.dtype), str(values.dtype), values=values)


def _compared(tensors: Sequence[ComparedTensor], role: SlotRole, model: Model) -> dict[str, tuple[_Given, _Given]]:
    """Return the tensors of the model that those of a device were compared with, by name: of target and golden."""
    found: dict[str, tuple[_Given, _Given]] = {}
    for each in tensors:
        target, golden = each.target, each.golden
        if each.role is not role or target is None or golden is None:
            continue
        place = golden.slot.path[0] if len(golden.slot.path) == 1 else None
        name = model.tensor(golden.node.name, place) if isinstance(place, int) else ""
        if name:
            found.setdefault(name, (_given(target, golden), _given(golden, golden)))
    return found


def _given(ref: TensorRef, other: TensorRef, *, check: bool = True) -> _Given:
    """Return a tensor in the shape and the type that another one has.

    Raises:
        _Unusable: it has no elements, or another shape.
    """
    shape, wanted = _shape(ref), _shape(other)
    if ref.kind is not TensorKind.TENSOR or shape is None or wanted is None:
        raise _Unusable(f"the dump has no elements of `{ref.id}`")
    if [each for each in shape if each != 1] != [each for each in wanted if each != 1]:
        raise _Unusable(
            f"`{ref.id}` has shape {list(shape)} on the device and {list(wanted)} in the model: another order of axes"
        )
    if check:
        _check_type(other.id, other.dtype)
    return _Given(wanted, ref.dtype, other.dtype, ref)


def _check_type(name: str, dtype: str) -> None:
    if dtype not in _TYPES:
        raise _Unusable(f"`{name}` of the model is of type {dtype}, which scripts cannot give to onnxruntime")


def _shape(ref: TensorRef) -> tuple[int, ...] | None:
    found = ref.shape if ref.logical_shape is None else ref.logical_shape
    return None if found is None else tuple(found)


def _part(model: Model, outputs: Sequence[str], given: Collection[str]) -> Part:
    part = model.part(outputs, given)
    if isinstance(part, str):
        raise _Unusable(part)
    return part


def _device_weights(tensors: Sequence[ComparedTensor], part: Part, model: Model) -> dict[str, tuple[_Given, _Given]]:
    """Return the weights that a device read in the place of those of the model, by name; of a lone operator only."""
    import numpy as np

    if len(part.graph["nodes"]) != 1:
        return {}
    names: Sequence[str] = part.graph["nodes"][0]["inputs"]
    found: dict[str, tuple[_Given, _Given]] = {}
    for each in tensors:
        place = int(each.index) if each.index.isdecimal() else len(names)
        if each.role is not SlotRole.INPUT or each.golden is not None or each.target is None or place >= len(names):
            continue
        theirs = _weight(model, names[place]) if names[place] else None
        if theirs is None or not theirs.dtype.startswith("float"):
            continue
        if _shape(each.target) != theirs.shape or each.target.kind is not TensorKind.TENSOR:
            continue
        mine = _Given(theirs.shape, each.target.dtype, theirs.dtype, each.target)
        values = theirs.values.astype(np.float64).reshape(-1)
        gap = float(np.linalg.norm(mine.array().astype(np.float64).reshape(-1) - values))
        if math.isfinite(gap) and gap <= SAME_WEIGHT * float(np.linalg.norm(values)):
            found[names[place]] = (mine, theirs)
    return found


def _entry(
    side: str,
    inputs: Mapping[str, _Given],
    results: Mapping[str, _Given],
    graph: Mapping[str, Any],
    files: dict[str, Callable[[], Any]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the entry of a side and its graph with types; add its tensors to ``files``."""

    def element(each: _Given, name: str) -> dict[str, Any]:
        files[f"{side}/{name}"] = each.array
        return {
            "type": "torch.Tensor",
            "dtype": f"torch.{each.dtype}",
            "shape": list(each.shape),
            "data_name": name,
        }

    entry = {
        "input_args": [element(each, f"input.{number}.npy") for number, each in enumerate(inputs.values())],
        "input_kwargs": {},
        "output": [element(each, f"output.{number}.npy") for number, each in enumerate(results.values())],
    }
    typed = {
        **graph,
        "inputs": [(name, each.model_dtype) for name, each in inputs.items()],
        "outputs": [(name, each.dtype) for name, each in results.items()],
    }
    return {"forward": entry}, typed


def _types(part: Part) -> str:
    return " + ".join(node["op_type"] for node in part.graph["nodes"]) or "Identity"


def _just(values: Any) -> Callable[[], Any]:
    return lambda: values


def write_files(
    call: OnnxCall, folder: Path, announce: Callable[[Path], object] = lambda _path: None
) -> Iterator[Path]:
    """Write tensors and constants as `.npy` files, and yield the paths.

    Raises:
        NotComparableError, FormatError: one cannot be read.
        OSError: one cannot be written.
    """
    import numpy as np

    for name, values in call.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        announce(path)
        np.save(path, values(), allow_pickle=False)
        yield path
