"""The entries of an operator of a GE graph as a dump.json would have them: the FX operator of its pair as an API.

A processor cannot run the device's operator, but the FX operator that it was compared with, which is given the device's
inputs. FX dumps have every argument that is given by its place, numbers too; those given by name the script tries, and
takes what gives the golden's own result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from probe_flow.errors import NotComparableError
from probe_flow.records import Catalog, SlotRole, TensorRef

_MOST_AXES = 16
"""Numbers in a list that is an argument: of axes, sizes, strides."""

_OVERLOAD = re.compile(r"aten\.(?P<api>\w+\.\w+)")


class ComparedTensor(Struct, frozen=True):
    """A tensor of the suspect and what it was compared with.

    Args:
        role: of it.
        index: path of its slot, as text.
        target, golden: the tensors; None where the dumps do not give them.
    """

    role: SlotRole
    index: str
    target: TensorRef | None
    golden: TensorRef | None


class FxCall(Struct, frozen=True):
    """An operator as an API.

    Args:
        api: within `torch.ops.aten`, e.g. ``gelu.default``.
        sides: side -> ``forward`` -> its entry.
        guesses: further arguments to try: place among the positional ones -> element of an entry.
        tensors: side -> file name -> the tensor to write there.
    """

    api: str
    sides: Mapping[str, Mapping[str, Any]]
    guesses: Sequence[Mapping[str, Any]]
    tensors: Mapping[str, Mapping[str, TensorRef]]


def fx_call(tensors: Sequence[ComparedTensor], golden: Catalog) -> FxCall | str:
    """Return the FX operator that a suspect was compared with, on the inputs of either side; or why there is none."""
    outputs = [each for each in tensors if each.role is SlotRole.OUTPUT and each.target and each.golden]
    keys = dict.fromkeys(each.golden.node for each in outputs if each.golden is not None)
    if len(keys) != 1:
        return "its results were not compared with those of one operator of an FX dump"
    (key,) = keys
    node = golden.nodes.get(key)
    found = _OVERLOAD.fullmatch(node.op_type) if node is not None else None
    if found is None:
        return f"`{key.name}` of the golden is no operator `aten.*` of an FX graph"
    own = [ref for ref in golden.tensors if ref.node == key and ref.slot.role is SlotRole.INPUT]
    if not own:
        return f"the FX dump has no input of `{key.name}`"
    given = [each for each in tensors if each.role is SlotRole.INPUT]
    arguments: dict[str, dict[tuple[int, ...], Any]] = {"target": {}, "golden": {}}
    files: dict[str, dict[str, TensorRef]] = {"target": {}, "golden": {}}
    for ref in own:
        place, name = tuple(map(int, ref.slot.index.split("."))), f"input.{ref.slot.index}.npy"
        mine = _of_device(ref, given)
        plain = _plain(ref) if mine is None else None
        if mine is None and plain is None:
            return f"no input of the device's operator is `{ref.id}`: the device may run several operators for it"
        for side, tensor in (("target", mine), ("golden", ref)):
            arguments[side][place] = plain
            if plain is None and tensor is not None:
                arguments[side][place] = _element(tensor, name)
                files[side][name] = tensor
    sides: dict[str, Any] = {}
    for side in ("target", "golden"):
        results = {f"output.{each.index}.npy": each.target if side == "target" else each.golden for each in outputs}
        files[side] |= {name: ref for name, ref in results.items() if ref is not None}
        entry = {"input_args": _listed(arguments[side]), "input_kwargs": {}, "output": _at_places(results)}
        sides[side] = {"forward": entry}
    return FxCall(found["api"], sides, list(_GUESSES.get(found["api"], ())), files)


def _plain(ref: TensorRef) -> Any:
    """Return an argument that is a number, or a list of integers, as an element of an entry; None for tensors."""
    shape = ref.shape if ref.logical_shape is None else ref.logical_shape
    if shape is None or len(shape) > 1 or (len(shape) == 1 and ref.dtype != "int64") or (ref.numel or 0) > _MOST_AXES:
        return None
    from probe_flow.elements.blocks import array_of

    try:
        value = array_of(ref).tolist()
    except NotComparableError:
        return None
    if isinstance(value, list):
        return [{"type": "int", "value": each} for each in value]
    return {"type": type(value).__name__, "value": value}


def _listed(found: Mapping[tuple[int, ...], Any]) -> list[Any]:
    """Return arguments by their places, lists of them as lists; null where none was dumped, as for None."""
    listed: list[Any] = []
    for place in sorted(found):
        inner = listed
        for step in place[:-1]:
            inner.extend([None] * (step + 1 - len(inner)))
            if not isinstance(inner[step], list):
                inner[step] = []
            inner = inner[step]
        inner.extend([None] * (place[-1] + 1 - len(inner)))
        inner[place[-1]] = found[place]
    return listed


def _of_device(ref: TensorRef, given: Sequence[ComparedTensor]) -> TensorRef | None:
    """Return the device's tensor for an input of the FX operator: what was compared with it, or with its values."""
    for each in given:
        if each.golden is not None and each.golden.id == ref.id:
            return each.target
    for each in given:
        if each.golden is not None and each.target is not None and _is_equal(each.golden, ref):
            return each.target
    return None


def _is_equal(one: TensorRef, other: TensorRef) -> bool:
    import numpy as np

    from probe_flow.elements.blocks import array_of

    if one.numel != other.numel:
        return False
    try:
        a, b = array_of(one), array_of(other)
    except NotComparableError:
        return False
    return bool(np.array_equal(a.reshape(-1), b.reshape(-1), equal_nan=a.dtype.kind == "f"))


def _element(ref: TensorRef, name: str) -> dict[str, Any]:
    shape = ref.shape if ref.logical_shape is None else ref.logical_shape
    return {"type": "torch.Tensor", "dtype": f"torch.{ref.dtype}", "shape": list(shape or ()), "data_name": name}


def _at_places(results: Mapping[str, TensorRef | None]) -> list[Any]:
    """Return the results by their places, null for those between that were not compared."""
    found: list[Any] = []
    for name, ref in results.items():
        place = name.removeprefix("output.").removesuffix(".npy")
        if ref is not None and place.isdecimal():
            found.extend([None] * (int(place) + 1 - len(found)))
            found[int(place)] = _element(ref, name)
    return found


def write_tensors(
    call: FxCall, folder: Path, announce: Callable[[Path], object] = lambda _path: None
) -> Iterator[Path]:
    """Write the tensors of a call as `.npy` files in their logical order, and yield the paths.

    Raises:
        NotComparableError, FormatError: one cannot be read.
        OSError: one cannot be written.
    """
    import numpy as np

    from probe_flow.elements.blocks import array_of

    for side, named in call.tensors.items():
        place = folder / side
        place.mkdir(parents=True, exist_ok=True)
        for name, ref in named.items():
            announce(place / name)
            np.save(place / name, array_of(ref), allow_pickle=False)
            yield place / name


_GUESSES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "gelu.default": ({}, {"approximate": {"type": "str", "value": "tanh"}}),
}
"""What an operator may be given by name, the most usual first; by place everything is in the dump."""

KIND = "Aten"
"""Kind of such APIs."""
