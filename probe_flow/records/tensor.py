"""Tensors of a dump, described without loading them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, astuple, replace

from probe_flow.records.figures import shared_numbers
from probe_flow.records.node import Execution, NodeKey, NodeKind, entry_name
from probe_flow.records.tensor_data import Extent, Statistics, TensorData, TensorTable, TensorTables
from probe_flow.records.tensor_traits import (
    NO_FACTS,
    Slot,
    SlotRole,
    TensorFacts,
    TensorKind,
    TensorTraits,
    TensorType,
    tensor_type,
)

_SECTIONS = {SlotRole.INPUT: "input.", SlotRole.PARAMETER: "parameters.", SlotRole.OUTPUT: "output."}
"""Words of item names; gradients of parameters and values saved one by one have none."""

_WITH_NUMBERS = TensorKind.TENSOR, TensorKind.STATISTICS


def item_name(node: NodeKey, kind: NodeKind, slot: Slot) -> str:
    """Return the name that the collectors' grammar gives a tensor of an entry.

    >>> from probe_flow.records import Execution
    >>> item_name(NodeKey(Execution(), "Functional.linear", 5), NodeKind.API, Slot(SlotRole.INPUT, (1, "eps")))
    'Functional.linear.5.forward.input.1.eps'
    """
    if slot.role is SlotRole.CALL:
        return entry_name(node, kind)
    return f"{entry_name(node, kind)}.{_of_slot(slot)}"


@lru_cache(maxsize=1 << 14)
def _of_slot(slot: Slot) -> str:
    return f"{_SECTIONS.get(slot.role, '')}{slot.index}"


def item_names(tensors: Iterable[TensorRef]) -> Iterator[str | None]:
    """Yield `TensorRef.item` of tensors; the name of an entry is made once for neighbours that it owns."""
    node: NodeKey | None = None
    kind: NodeKind | None = None
    entry = ""
    for tensor in tensors:
        slot, facts = tensor.traits.slot, tensor.traits.facts
        if facts.item is not None or facts.named_by is None or slot.role is SlotRole.CALL:
            yield tensor.item
            continue
        if tensor.node is not node or facts.named_by is not kind:
            node, kind = tensor.node, facts.named_by
            entry = entry_name(node, kind)
        yield f"{entry}.{_of_slot(slot)}"


_OF_TYPE = frozenset(TensorType.__struct_fields__)


class TensorRef(Struct, frozen=True, gc=False, eq=False):
    """One tensor of a dump: what it is and where its bytes lie.

    Args:
        node: the owner.
        traits: what it has in common with others.
        data: its file and what is recorded of it, or a table of these.
        number: row of the table.
    """

    node: NodeKey
    traits: TensorTraits
    data: TensorData | TensorTable = TensorData()
    number: int = 0

    @classmethod
    def of(
        cls,
        node: NodeKey,
        slot: Slot,
        kind: TensorKind,
        dtype: str = "",
        stored_dtype: str = "",
        shape: tuple[int, ...] | None = None,
        logical_shape: tuple[int, ...] | None = None,
        layout: str = "ND",
        sub_format: int = 0,
        *,
        requires_grad: bool | None = None,
        extents: tuple[Extent, ...] = (),
        recorded: Statistics | None = None,
        checksum: str | None = None,
        source: str | None = None,
        **facts: Any,
    ) -> TensorRef:
        """Make a tensor of all its properties, those of `TensorType` and `TensorFacts` by their names."""
        shared = tensor_type(kind, dtype, stored_dtype, shape, logical_shape, layout, sub_format, requires_grad)
        own = replace(NO_FACTS, **facts) if facts else NO_FACTS
        return cls._made(node, slot, shared, own, extents, recorded, checksum, source)

    @classmethod
    def _made(
        cls,
        node: NodeKey,
        slot: Slot,
        shared: TensorType,
        facts: TensorFacts,
        extents: tuple[Extent, ...],
        recorded: Statistics | None,
        checksum: str | None,
        source: str | None,
    ) -> TensorRef:
        file = extents[0].file if extents else source
        if source is not None and source != (facts.source or file):
            facts = replace(facts, source=source)
        offset, nbytes, encoding = 0, 0, None
        if len(extents) == 1 and extents[0].part is None:
            _, offset, nbytes, encoding, _ = astuple(extents[0])
            extents = ()
        traits = TensorTraits.shared(slot, shared, facts, offset, nbytes, encoding)
        return cls(node, traits, TensorData(file, recorded, checksum, extents))

    def changed(self, **changes: Any) -> TensorRef:
        """Return the tensor with other values of some properties, which have the names that `of` has."""
        of_type = {name: changes.pop(name) for name in _OF_TYPE & changes.keys()}
        source = changes.pop("source", self.source)
        if "extents" in changes and self.file is not None:  # that of the dump, wherever the bytes are now
            changes.setdefault("file", self.file)
        node, slot, extents, recorded, checksum = (changes.pop(name, getattr(self, name)) for name in _PROPERTIES)
        shared = tensor_type(**{**asdict(self.type), **of_type}) if of_type else self.type
        facts = replace(self.facts, **changes) if changes else self.facts
        return self._made(node, slot, shared, facts, extents, recorded, checksum, source)

    def stored_in(self, tables: TensorTables) -> TensorRef:
        """Return the tensor with its data in one of some tables, if they take it."""
        found = tables.add(self.data) if isinstance(self.data, TensorData) else None
        return self if found is None else TensorRef(self.node, self.traits, *found)

    @property
    def slot(self) -> Slot:
        """Which tensor of its node."""
        return self.traits.slot

    @property
    def type(self) -> TensorType:
        """What it shares with tensors of its kind."""
        return self.traits.type

    @property
    def facts(self) -> TensorFacts:
        """What few tensors have."""
        return self.traits.facts

    @property
    def recorded(self) -> Statistics | None:
        """Statistics found in the dump."""
        data = self.data
        return data.recorded(self.number) if isinstance(data, TensorTable) else data.recorded

    @property
    def checksum(self) -> str | None:
        """Checksum found in the dump, as text."""
        data = self.data
        return data.checksum(self.number) if isinstance(data, TensorTable) else data.checksum

    @property
    def _path(self) -> str | None:
        """Absolute path of its file; of its first part, where it has several."""
        data = self.data
        return data.file(self.number) if isinstance(data, TensorTable) else data.file

    @property
    def kind(self) -> TensorKind:
        """What the slot holds."""
        return self.traits.type.kind

    @property
    def dtype(self) -> str:
        """Canonical numeric dtype."""
        return self.traits.type.dtype

    @property
    def stored_dtype(self) -> str:
        """The format's own name of the dtype."""
        return self.traits.type.stored_dtype

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Stored shape."""
        return self.traits.type.shape

    @property
    def logical_shape(self) -> tuple[int, ...] | None:
        """Shape that the framework means."""
        return self.traits.type.logical_shape

    def has_axes_joined(self, other: TensorRef) -> bool:
        """Say whether leading axes of one of two tensors are one axis of the other: the same elements in their order.

        MindSpore joins them around kernels that take two axes (`Dense`, `Embedding`), PyTorch within its own call.
        """
        shapes = self.logical_shape, other.logical_shape
        if shapes[0] is None or shapes[1] is None or len(shapes[0]) == len(shapes[1]):
            return False
        flat, whole = sorted((shapes[0], shapes[1]), key=len)
        joined = len(whole) - len(flat) + 1
        return bool(flat) and flat == (math.prod(whole[:joined]), *whole[joined:])

    @property
    def layout(self) -> str:
        """Storage layout."""
        return self.traits.type.layout

    @property
    def sub_format(self) -> int:
        """Group count of FRACTAL_Z."""
        return self.traits.type.sub_format

    @property
    def requires_grad(self) -> object:
        """What the dump says of it: a truth value mostly; None where it says nothing."""
        found = self.traits.type.requires_grad
        return self.facts.gradient if found is None else found

    @property
    def value(self) -> object:
        """A scalar's value or an opaque thing's text."""
        return self.traits.facts.value

    @property
    def reason(self) -> str | None:
        """Why the tensor is unreadable or opaque, for people."""
        return self.traits.facts.reason

    @property
    def item(self) -> str | None:
        """The dump's own name of the tensor, e.g. ``Functional.linear.5.forward.input.0``; None for other formats."""
        facts = self.facts
        if facts.item is not None or facts.named_by is None:
            return facts.item
        return item_name(self.node, facts.named_by, self.slot)

    @property
    def file(self) -> str | None:
        """Name of its file as the dump gives it; None where it gives none, and for other formats."""
        facts = self.traits.facts
        is_derived = facts.file is None and facts.named_by is not None and self.traits.encoding is not None
        return (self._path or "").rpartition("/")[2] if is_derived else facts.file

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Where the bytes lie; empty for statistics and scalars."""
        traits = self.traits
        if traits.encoding is not None:  # nearly always
            return (Extent(self._path or "", traits.offset, traits.nbytes, traits.encoding),)
        return () if isinstance(self.data, TensorTable) else self.data.extents

    @property
    def holder(self) -> str | None:
        """File that has its bytes, the first of several; the one that it came from, where no bytes are known."""
        traits, data = self.traits, self.data
        if traits.encoding is not None:
            return self._path or ""
        if isinstance(data, TensorTable):  # it has no extents
            return traits.facts.source or data.file(self.number)
        return data.extents[0].file if data.extents else self.source

    @property
    def source(self) -> str | None:
        """File that the slot came from, for people."""
        return self.traits.facts.source or self._path

    @property
    def numel(self) -> int | None:
        """Number of logical elements, None when the shape is unknown."""
        shape = self.traits.type.logical_shape if self.traits.type.logical_shape is not None else self.traits.type.shape
        return None if shape is None else math.prod(shape)

    @property
    def is_index(self) -> bool:
        """Whether it holds several whole numbers or truths, which may pick elements of others."""
        return (self.numel or 0) > 1 and self.dtype.lstrip("u").startswith(("int", "bool"))

    @property
    def has_numbers(self) -> bool:
        """Whether elements or statistics of it are known."""
        return self.traits.type.kind in _WITH_NUMBERS

    @property
    def nbytes(self) -> int:
        """Bytes to read for the whole tensor."""
        traits, data = self.traits, self.data
        parts = () if isinstance(data, TensorTable) else data.extents
        return sum(part.nbytes for part in parts) if parts else traits.nbytes

    @property
    def id(self) -> str:
        """Readable id within an execution: ``{node}.{role}.{index}``, with call and phase where they matter."""
        key = self.node
        call = f"#{key.call}" if key.call else ""
        phase = ".backward" if key.phase.value == "backward" else ""
        return f"{key.name}{call}{phase}.{self.slot}"

    def _fields(self) -> tuple[Any, ...]:
        return *(getattr(self, name) for name in _PROPERTIES), self.type, self.facts, self.source

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorRef):
            return False
        is_same_row = isinstance(self.data, TensorTable) and self.data is other.data and self.number == other.number
        if is_same_row and self.traits is other.traits and self.node == other.node:
            return True
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((self.node, self.slot))

    def __repr__(self) -> str:
        return f"TensorRef{self._fields()}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the table behind: other processes get the data of the tensor alone."""
        data = self.data
        if isinstance(data, TensorTable):
            data = TensorData(self._path, self.recorded, self.checksum)
        return TensorRef, (self.node, self.traits, data)


class ManyTensors(Sequence[TensorRef]):
    """Tensors of a catalog that are made when they are asked for: what tells them apart is where they stand in it."""

    @abstractmethod
    def places(self, tensors: Iterable[TensorRef]) -> Iterator[int | None]:
        """Yield where tensors stand here; None of others."""

    @abstractmethod
    def by_run(self) -> Mapping[Execution, Sequence[TensorRef]]:
        """Return the tensors of each execution."""


def marks(tensors: Iterable[TensorRef], catalog: Sequence[TensorRef]) -> Iterator[int]:
    """Yield what tells tensors apart, most of which are those of a catalog.

    That is the object, and of tensors that are made when they are asked for their place, which is no object's.
    """
    if not isinstance(catalog, ManyTensors):
        return map(id, tensors)
    known = [*tensors]
    places = zip(catalog.places(known), known, strict=True)
    return iter([id(tensor) if place is None else place for place, tensor in places])


def places_in(
    catalog: Sequence[TensorRef], *, among: Container[int] | None = None
) -> Callable[[Iterable[TensorRef]], Iterator[int | None]]:
    """Return what says where tensors stand in a catalog; None of others.

    Args:
        catalog: its tensors.
        among: ids of those that are asked for, to hold no more; None = any.
    """
    if isinstance(catalog, ManyTensors):
        return catalog.places
    numbered = zip(map(id, catalog), shared_numbers(len(catalog)), strict=False)
    known = dict(numbered if among is None else (each for each in numbered if each[0] in among))
    return lambda tensors: map(known.get, map(id, tensors))


_PROPERTIES = "node", "slot", "extents", "recorded", "checksum"
