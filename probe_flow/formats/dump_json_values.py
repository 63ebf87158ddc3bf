"""Values of dump.json entries, flattened: one TensorRef per leaf, with the item name that result files show.

Flattening follows the collectors' rules: None is one item; an empty list or object is none; lists recurse by index,
objects by key; an object with a textual ``type`` (or a point-to-point operation) is a leaf. Keyword arguments share
the ``input`` name space with positional ones. Gradients of parameters drop their list index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from probe_flow.formats.dump_json_names import EntryKind
from probe_flow.formats.dump_json_numbers import MAX_BITS, BadNumberError, dimension, statistic
from probe_flow.records import NodeKey, Slot, SlotRole, Statistics, TensorKind, TensorRef

MAX_DEPTH = 400
"""Nesting limit of the collectors; deeper values are not theirs."""

_SECTIONS = (
    ("input_args", SlotRole.INPUT, "input"),
    ("input_kwargs", SlotRole.INPUT, "input"),
    ("input", SlotRole.INPUT, "input"),
    ("parameters", SlotRole.PARAMETER, "parameters"),
    ("output", SlotRole.OUTPUT, "output"),
)
"""Key of an entry, role of its slots and word in item names, in the order of reports."""

_SCALAR_TYPES = re.compile(r"bool_?|int|float|complex|str_?|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)")
_TENSOR_ATTRS = ("requires_grad", "data_name", "layout", "hsdp_shard_size", "device_mesh", "placements")
_P2P_ATTRS = ("op", "peer", "tag", "group_id")
_DTYPE_ALIASES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
}


_NOTHING = Statistics()

Scalar: TypeAlias = bool | int | float | str
_Troubles: TypeAlias = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Flattened:
    """The tensors of one entry, and what of it could not be understood (item name and reason)."""

    tensors: list[TensorRef]
    problems: list[tuple[str, str]] = field(default_factory=list)


def has_known_shape(entry: object, kind: EntryKind) -> bool:
    """Say whether an entry's value is an object with at least one of the keys of its kind (or empty)."""
    if not isinstance(entry, dict):
        return False
    return kind is EntryKind.PARAMETERS_GRAD or not entry or any(key in entry for key, _, _ in _SECTIONS)


def flatten_entry(entry: Mapping[str, object], *, name: str, kind: EntryKind, node: NodeKey, source: str) -> Flattened:
    """Return the tensors of one entry in report order: inputs, parameters, outputs, parameter gradients.

    Args:
        entry: its value, of known shape.
        name: its full name, the start of item names.
        kind: API, module or parameter gradients.
        node: owner of the tensors.
        source: file, for people.
    """
    result = Flattened([])
    seen: set[Slot] = set()
    for role, path, prefix, value in _items(entry, kind):
        slot = Slot(role, path)
        item = ".".join([name, *prefix, *map(str, path)])
        if slot in seen:
            result.problems.append((item, "occurs twice in its entry; the second one is left out"))
            continue
        seen.add(slot)
        result.tensors.append(_tensor(value, item, node, slot, source, result.problems))
    return result


def _items(
    entry: Mapping[str, object], kind: EntryKind
) -> Iterator[tuple[SlotRole, tuple[int | str, ...], tuple[str, ...], object]]:
    if kind is EntryKind.PARAMETERS_GRAD:
        for parameter, value in entry.items():
            only = value[0] if isinstance(value, list) and len(value) == 1 else value
            for path, leaf in _leaves(only, (parameter,)):
                yield SlotRole.PARAMETER_GRAD, path, (), leaf
        return
    for key, role, word in _SECTIONS:
        value = entry.get(key)
        if value is None:
            continue
        start = () if isinstance(value, (list, dict)) and not _is_leaf(value) else (0,)
        for path, leaf in _leaves(value, start):
            yield role, path, (word,), leaf


def _leaves(value: object, path: tuple[int | str, ...]) -> Iterator[tuple[tuple[int | str, ...], object]]:
    """Yield the leaves below a value, in order. Values nested deeper than the limit come as they are (no leaf form)."""
    pending: list[tuple[tuple[int | str, ...], object]] = [(path, value)]
    while pending:
        path, value = pending.pop()
        if len(path) > MAX_DEPTH or not isinstance(value, (list, dict)) or _is_leaf(value):
            yield path, value
            continue
        children: list[tuple[int | str, object]] = (
            list(enumerate(value)) if isinstance(value, list) else list(value.items())
        )
        pending.extend(((*path, key), child) for key, child in reversed(children))


def _is_leaf(value: object) -> bool:
    return isinstance(value, dict) and (
        isinstance(value.get("type"), str) or (isinstance(value.get("class_type"), str) and "tensor" in value)
    )


def _tensor(value: object, item: str, node: NodeKey, slot: Slot, source: str, problems: _Troubles) -> TensorRef:
    attrs: dict[str, object] = {"item": item}
    make = partial(TensorRef, node, slot, attrs=attrs, source=source)
    if value is None:
        return make(kind=TensorKind.NULL)
    if isinstance(value, dict) and _is_leaf(value):
        if "type" not in value:
            attrs["p2p"] = {key: value[key] for key in _P2P_ATTRS if key in value}
            value = value["tensor"]
        if isinstance(value, dict) and isinstance(value.get("type"), str):
            try:
                return _leaf(value, attrs, make)
            except BadNumberError as error:
                reason = str(error)
        else:
            reason = "the tensor of a point-to-point operation is no tensor object"
    elif len(slot.path) > MAX_DEPTH:
        reason = f"the value is nested deeper than {MAX_DEPTH} levels"
    else:
        reason = f"a bare {type(value).__name__} stands where an object with a `type` is expected"
    problems.append((item, reason))
    return make(kind=TensorKind.UNREADABLE, reason=reason)


def _leaf(value: dict[str, object], attrs: dict[str, object], make: Callable[..., TensorRef]) -> TensorRef:
    word = str(value["type"])
    if "shape" in value or "dtype" in value:
        return _with_statistics(value, attrs, make)
    held = value.get("value")
    if _SCALAR_TYPES.fullmatch(word) and isinstance(held, (bool, int, float, str)):
        held = _typed_scalar(held, word)
        return make(kind=TensorKind.SCALAR, dtype=word, stored_dtype=word, shape=(), logical_shape=(), value=held)
    return make(kind=TensorKind.OPAQUE, dtype=word, stored_dtype=word, value=_opaque_text(value))


def _with_statistics(value: dict[str, object], attrs: dict[str, object], make: Callable[..., TensorRef]) -> TensorRef:
    stored, shape = value.get("dtype"), value.get("shape")
    if not isinstance(stored, str) or not isinstance(shape, list):
        raise BadNumberError(f"a `{value['type']}` has no dtype or no shape")
    dims = tuple(dimension(dim) for dim in shape)
    recorded = Statistics(
        min=statistic(value, "Min"),
        max=statistic(value, "Max"),
        mean=statistic(value, "Mean"),
        l2norm=statistic(value, "Norm"),
    )
    attrs.update((key, value[key]) for key in _TENSOR_ATTRS if key in value)
    attrs["type"] = value["type"]
    data_name = value.get("data_name")
    if isinstance(data_name, str) and "." in data_name:
        attrs["item"] = data_name.rpartition(".")[0]
    checksum = value.get("md5")
    return make(
        kind=TensorKind.STATISTICS,
        dtype=canonical_dtype(stored),
        stored_dtype=stored,
        shape=dims,
        logical_shape=dims,
        recorded=recorded,
        checksum=checksum if isinstance(checksum, str) else None,
        reason="the dump recorded no statistics of this tensor" if recorded == _NOTHING else None,
    )


def canonical_dtype(stored: str) -> str:
    """Return the canonical name of a torch, MindSpore or numpy dtype: ``float16`` for ``torch.half`` or ``Float16``."""
    if stored.startswith("torch."):
        word = stored.removeprefix("torch.")
        return _DTYPE_ALIASES.get(word, word)
    return stored.lower()


def _typed_scalar(held: Scalar, word: str) -> Scalar:
    """Return a scalar as the Python value that its type says, for dumps that hold numbers as strings."""
    if isinstance(held, str) and not word.startswith("str"):
        try:
            held = float(held) if "float" in word else int(held)
        except ValueError:
            return held
    if isinstance(held, int) and held.bit_length() > MAX_BITS:
        raise BadNumberError(f"the value is an integer of {held.bit_length()} bits")
    return held


def _opaque_text(value: Mapping[str, object]) -> str:
    for key in ("value", "group_ranks", "format"):
        if key in value:
            return str(value[key])
    return ", ".join(f"{key}: {part}" for key, part in value.items() if key != "type")
