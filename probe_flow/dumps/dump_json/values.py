"""Values of dump.json entries, flattened: one TensorRef per leaf, with the item name that result files show.

Flattening follows the collectors' rules: None is one item; an empty list or object is none; lists recurse by index,
objects by key; an object with a textual ``type`` (or a point-to-point operation) is a leaf. Keyword arguments share
the ``input`` name space with positional ones. Gradients of parameters drop their list index.

A dump may have millions of leaves, so what they share (slots, shapes, dtypes) is made once and each costs few steps.
"""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.dumps.dump_json.leaves import canonical_dtype, is_scalar_type, opaque_text, typed_scalar
from probe_flow.dumps.dump_json.numbers import BadNumberError, dimension, statistic
from probe_flow.dumps.dump_json.tensor_files import TensorFiles
from probe_flow.records import (
    Extent,
    FigureTable,
    NodeKey,
    NodeKind,
    Slot,
    SlotRole,
    Statistics,
    TensorFacts,
    TensorKind,
    TensorRef,
    TensorTable,
    TensorTables,
    entry_name,
    item_name,
    shared_numbers,
    shared_slot,
)
from probe_flow.records.figures import AT_ONCE, FEW

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

_SECTION_KEYS = frozenset(key for key, _, _ in _SECTIONS)
_USUAL = ("type", "dtype", "shape", "Max", "Min", "Mean", "Norm", "requires_grad")
_USUAL_COUNT = len(_USUAL)
_usual_values = itemgetter(*_USUAL)
_COLUMNS = Statistics.__struct_fields__[:4]
"""Minimum, maximum, mean, norm."""

_MOST_UNWRITTEN = AT_ONCE * len(_COLUMNS)
_EMPTY: tuple[object, ...] = (None, [], {})
_STATISTICS = TensorKind.STATISTICS
"""Looked up for each tensor: a member of an enumeration takes longer to find than most else."""

_NAMES = ("item", "named_by")
_P2P_ATTRS = ("op", "peer", "tag", "group_id")
_NOTHING = Statistics()
_NO_STATISTICS = "the dump recorded no statistics of this tensor"

_Path: TypeAlias = tuple[int | str, ...]
_Leaf: TypeAlias = dict[str, object]


class Flattened(Struct):
    """Tensors of entries, and what of them could not be understood (item name and reason)."""

    tensors: list[TensorRef] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)


def has_known_shape(entry: object, kind: NodeKind) -> bool:
    """Say whether an entry's value is an object with at least one of the keys of its kind (or empty)."""
    if kind is NodeKind.DEBUG:
        return True
    if not isinstance(entry, dict):
        return False
    return kind is NodeKind.PARAMETERS_GRAD or not entry or not _SECTION_KEYS.isdisjoint(entry)


class Flattener:
    """Makes tensors of the values of one file.

    Args:
        source: the file, for people.
        files: its tensor files.
    """

    def __init__(self, source: str, files: TensorFiles) -> None:
        self._source = source
        self._files = files
        self._shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._known_shapes: dict[bytes, tuple[int, ...]] = {}  # marshalled, True and 2.0 are not 1 and 2
        self._words: dict[str, tuple[str, str]] = {}
        self._examples: dict[tuple[object, ...], TensorRef] = {}  # by what the traits of tensors depend on
        self._statistics = FigureTable(_COLUMNS)
        self._unwritten = array("d")  # rows that will be next in that table
        self._rows = 0  # of that table, these included
        self._recorded = TensorTable(source, self._statistics)
        self._tables = TensorTables()
        self._named: NodeKind | None = None  # what names the tensors of the entry at hand; None: each its own item

    def flatten(self, entry: object, *, name: str, kind: NodeKind, node: NodeKey, result: Flattened) -> None:
        """Add the tensors of one entry in report order: inputs, parameters, outputs, parameter gradients.

        Args:
            entry: its value, of known shape.
            name: its full name, the start of item names.
            kind: what the entry is.
            node: owner of the tensors.
            result: what to add to.
        """
        if len(self._unwritten) >= _MOST_UNWRITTEN:
            self.finish()
        self._named = kind if name == entry_name(node, kind) else None
        if kind is NodeKind.DEBUG:
            self._add(entry, SlotRole.DEBUG, name, node, result)
        elif not isinstance(entry, dict):
            raise TypeError(f"`{name}` is a {type(entry).__name__}")
        elif kind is NodeKind.PARAMETERS_GRAD:
            for parameter, value in entry.items():
                only = value[0] if isinstance(value, list) and len(value) == 1 else value
                for path, leaf in _leaves(only, (parameter,)):
                    self._add_leaf(leaf, SlotRole.PARAMETER_GRAD, path, name, node, result)
        else:
            self._add_sections(entry, name, node, result)

    def finish(self) -> None:
        """Write the statistics of the tensors so far into their table; before that nobody may ask for them."""
        rows, width = self._unwritten, len(_COLUMNS)
        self._unwritten = array("d")
        if len(rows) < FEW * width:
            for begin in range(0, len(rows), width):
                self._statistics.add(tuple(rows[begin : begin + width]))
        else:
            import numpy as np

            self._statistics.extend(np.frombuffer(rows).reshape(-1, width))

    def _add_sections(self, entry: _Leaf, name: str, node: NodeKey, result: Flattened) -> None:
        first, inputs = len(result.tensors), 0
        for key, role, word in _SECTIONS:
            value = entry.get(key)
            if value or value not in _EMPTY:
                self._add(value, role, f"{name}.{word}", node, result)
                inputs += word == "input"
        if inputs > 1:  # slots of one section differ
            _drop_repeated(result, first)

    def _add(self, value: object, role: SlotRole, prefix: str, node: NodeKey, result: Flattened) -> None:
        """Add the leaves of one section, or of a value that stands where a section should."""
        if isinstance(value, list):
            for index, child in enumerate(value):
                if type(child) is dict and len(child) == _USUAL_COUNT:
                    usual = self._usual(child, f"{prefix}.{index}", node, shared_slot(role, (index,)))
                    if usual is not None:
                        result.tensors.append(usual)
                        continue
                if child is None or (type(child) is dict and type(child.get("type")) is str):
                    self._add_leaf(child, role, (index,), prefix, node, result)
                else:
                    for path, leaf in _leaves(child, (index,)):
                        self._add_leaf(leaf, role, path, prefix, node, result)
        elif isinstance(value, dict) and not _is_leaf(value):
            for key, child in value.items():
                if type(child) is dict and len(child) == _USUAL_COUNT:
                    usual = self._usual(child, f"{prefix}.{key}", node, shared_slot(role, (key,)))
                    if usual is not None:
                        result.tensors.append(usual)
                        continue
                for path, leaf in _leaves(child, (key,)):
                    self._add_leaf(leaf, role, path, prefix, node, result)
        else:
            item = prefix if role is SlotRole.DEBUG else f"{prefix}.0"
            self._add_tensor(value, item, node, shared_slot(role, (0,)), result)

    def _add_leaf(
        self, leaf: object, role: SlotRole, path: _Path, prefix: str, node: NodeKey, result: Flattened
    ) -> None:
        item = f"{prefix}.{path[0] if len(path) == 1 else '.'.join(map(str, path))}"
        self._add_tensor(leaf, item, node, shared_slot(role, path), result)

    def _add_tensor(self, value: object, item: str, node: NodeKey, slot: Slot, result: Flattened) -> None:
        result.tensors.append(self._tensor(value, item, node, slot, result.problems).stored_in(self._tables))

    def _usual(self, value: _Leaf, item: str, node: NodeKey, slot: Slot) -> TensorRef | None:
        """Return a tensor with four statistics, as most are; None for others, and for shapes not yet seen."""
        try:
            word, stored, raw_shape, high, low, mean, norm, grad = _usual_values(value)
            if not (type(high) is type(low) is type(mean) is type(norm) is float and type(word) is str):
                return None
            shape = marshal.dumps(raw_shape, 0)
            key = stored, shape, grad, slot, self._named
            traits = (self._examples.get(key) or self._example(*key, node)).traits
        except (KeyError, TypeError, ValueError):
            return None
        if self._named is None:
            traits = replace(traits, facts=TensorFacts(item))
        number = self._rows
        self._rows += 1
        self._unwritten.extend((low, high, mean, norm))
        # By position: a keyword costs as much as storing its value.
        return TensorRef(node, traits, self._recorded, shared_numbers(number + 1)[number])

    def _example(
        self, raw_dtype: str, raw_shape: bytes, grad: object, slot: Slot, named_by: NodeKind | None, node: NodeKey
    ) -> TensorRef:
        """Return a tensor with the traits of some with statistics; a KeyError for what has not been checked yet."""
        dtype, stored = self._words[raw_dtype]
        shape = self._known_shapes[raw_shape]
        if grad is not None and not isinstance(grad, bool):
            raise KeyError(grad)
        found = TensorRef.of(
            node, slot, _STATISTICS, dtype, stored, shape, shape, requires_grad=grad, named_by=named_by
        )
        return self._examples.setdefault((raw_dtype, raw_shape, grad, slot, named_by), found)

    def _tensor(
        self, value: object, item: str, node: NodeKey, slot: Slot, problems: list[tuple[str, str]]
    ) -> TensorRef:
        facts = self._name(item, node, slot)
        if value is None:
            return TensorRef.of(node, slot, TensorKind.NULL, source=self._source, **facts)
        if isinstance(value, dict) and _is_leaf(value):
            if "type" not in value:
                facts["peers"] = {key: value[key] for key in _P2P_ATTRS if key in value}
                value = value["tensor"]
            if isinstance(value, dict) and isinstance(value.get("type"), str):
                try:
                    return self._leaf(value, facts, node, slot)
                except BadNumberError as error:
                    reason = str(error)
            else:
                reason = "the tensor of a point-to-point operation is no tensor object"
        elif len(slot.path) > MAX_DEPTH:
            reason = f"the value is nested deeper than {MAX_DEPTH} levels"
        else:
            reason = f"a bare {type(value).__name__} stands where an object with a `type` is expected"
        problems.append((item, reason))
        return TensorRef.of(node, slot, TensorKind.UNREADABLE, source=self._source, reason=reason, **facts)

    def _name(self, item: str, node: NodeKey, slot: Slot) -> dict[str, Any]:
        """Return the facts that give a tensor its name."""
        kind = self._named
        return {"named_by": kind} if kind is not None and item == item_name(node, kind, slot) else {"item": item}

    def _leaf(self, value: _Leaf, facts: dict[str, Any], node: NodeKey, slot: Slot) -> TensorRef:
        if "shape" in value or "dtype" in value:
            return self._with_statistics(value, facts, node, slot)
        word, held, source = str(value["type"]), value.get("value"), self._source
        if is_scalar_type(word) and isinstance(held, (bool, int, float, str)):
            held = typed_scalar(held, word)
            return TensorRef.of(node, slot, TensorKind.SCALAR, word, word, (), (), source=source, value=held, **facts)
        if held is None:
            facts["no_value"] = str(held) if "value" in value else ""
        text = opaque_text(value)
        return TensorRef.of(node, slot, TensorKind.OPAQUE, word, word, source=source, value=text, **facts)

    def _with_statistics(self, value: _Leaf, facts: dict[str, Any], node: NodeKey, slot: Slot) -> TensorRef:
        raw_dtype, raw_shape = value.get("dtype"), value.get("shape")
        if not isinstance(raw_dtype, str) or not isinstance(raw_shape, list):
            raise BadNumberError(f"a `{value['type']}` has no dtype or no shape")
        shape = self._shape(raw_shape)
        dtype, stored = self._dtype(raw_dtype)
        recorded = Statistics(
            statistic(value, "Min"), statistic(value, "Max"), statistic(value, "Mean"), statistic(value, "Norm")
        )
        grad = value.get("requires_grad")
        if not isinstance(grad, bool | None):
            facts["gradient"], grad = grad, None
        checksum = value.get("md5")
        if not isinstance(checksum, str | None):
            raise BadNumberError(f"`md5` is a {type(checksum).__name__} instead of text")
        kind, source = TensorKind.STATISTICS, self._source
        extents: tuple[Extent, ...] = ()
        data_name = value.get("data_name")
        if data_name:
            facts["file"] = str(data_name)
        if isinstance(data_name, str) and data_name:
            item = facts.get("item") or item_name(node, facts["named_by"], slot)
            if "/" not in data_name:
                item = data_name.rpartition(".")[0]
                facts = {name: fact for name, fact in facts.items() if name not in _NAMES}
                facts |= self._name(item, node, slot)
            held = self._files.look_up(data_name, item, dtype, shape)
            kind, dtype, shape, facts["reason"] = held.kind, held.dtype, held.shape, held.reason
            extents, source = held.extents, held.source or source
            if extents and "named_by" in facts:
                del facts["file"]
        elif recorded == _NOTHING:
            facts["reason"] = _NO_STATISTICS
        return TensorRef.of(
            node,
            slot,
            kind,
            dtype,
            stored,
            shape,
            shape,
            requires_grad=grad,
            extents=extents,
            recorded=recorded,
            checksum=checksum,
            source=source,
            **facts,
        )

    def _shape(self, raw: list[object]) -> tuple[int, ...]:
        dims = tuple([dimension(dim) for dim in raw])
        shape = self._shapes.setdefault(dims, dims)
        self._known_shapes[marshal.dumps([*dims], 0)] = shape
        return shape

    def _dtype(self, raw: str) -> tuple[str, str]:
        """Return canonical and own name of a dtype, the same objects for every tensor."""
        words = self._words.get(raw)
        if words is None:
            words = self._words[raw] = (canonical_dtype(raw), raw)
        return words


def _drop_repeated(result: Flattened, first: int) -> None:
    """Leave out a slot that occurs twice in an entry (its tensors begin at `first`): arguments under two keys."""
    tensors = result.tensors[first:]
    if len({tensor.slot for tensor in tensors}) == len(tensors):
        return
    seen: set[Slot] = set()
    kept = []
    for tensor in tensors:
        if tensor.slot in seen:
            what = "occurs twice in its entry; the second one is left out"
            result.problems.append((str(tensor.item), what))
        else:
            seen.add(tensor.slot)
            kept.append(tensor)
    result.tensors[first:] = kept


def _leaves(value: object, path: _Path) -> Iterator[tuple[_Path, object]]:
    """Yield the leaves below a value, in order. Values nested deeper than the limit come as they are (no leaf form)."""
    pending: list[tuple[_Path, object]] = [(path, value)]
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
