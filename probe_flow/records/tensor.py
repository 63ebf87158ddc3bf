"""Tensors of a dump, described without loading them."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.records.figures import FigureTable
from probe_flow.records.node import NodeKey, NodeKind, entry_name


class SlotRole(enum.Enum):
    INPUT = "input"
    OUTPUT = "output"
    PARAMETER = "parameter"
    PARAMETER_GRAD = "parameter_grad"
    BUFFER = "buffer"
    DEBUG = "debug"

    __hash__ = object.__hash__  # Enum's own is a call of Python, made for every look-up of a node or slot


class TensorKind(enum.Enum):
    """What a slot holds: data, only statistics, a Python scalar, a thing without numeric meaning, None, or wreckage."""

    TENSOR = "tensor"
    STATISTICS = "statistics"
    SCALAR = "scalar"
    OPAQUE = "opaque"
    NULL = "null"
    UNREADABLE = "unreadable"

    __hash__ = object.__hash__  # Enum's own is a call of Python, made for every look-up of a node or slot


class Slot(Struct, frozen=True, gc=False, cache_hash=True):
    """Which tensor of a node: ``Slot(INPUT, (0,))``, ``Slot(INPUT, (1, 0))``, ``Slot(PARAMETER, ("weight",))``."""

    role: SlotRole
    path: tuple[int | str, ...] = (0,)

    @property
    def index(self) -> str:
        """The path as text: ``"0"``, ``"1.0"``, ``"weight"``."""
        return ".".join(str(part) for part in self.path)

    def __str__(self) -> str:
        return f"{self.role.value}.{self.index}"


shared_slot = lru_cache(maxsize=1 << 14)(Slot)
"""Return a slot, the same object for equal arguments: matching compares those of all dumps by the hundred thousand."""


class Extent(Struct, frozen=True, gc=False):
    """Bytes of a tensor in a file.

    Args:
        file: absolute path as text.
        offset: first byte.
        nbytes: bytes that the tensor itself needs (surplus of the slot is not counted).
        encoding: ``raw`` (little endian, C order), ``raw-fortran`` (little endian, Fortran order), ``raw-big``
            (big endian, C order), ``raw-big-fortran``; ``-strided:3,1`` in place of ``-fortran`` for other distances
            between elements; ``@float32`` behind it when the file holds another dtype than the tensor has; ``torch``
            when torch has to load the file.
        part: (axis, index) when the tensor is the concatenation of several extents along ``axis``.
    """

    file: str
    offset: int
    nbytes: int
    encoding: str = "raw"
    part: tuple[int, int] | None = None


class Statistics(Struct, frozen=True, gc=False):
    """Statistics of one tensor. None = not recorded or not computable; NaN and infinities are values.

    ``l2norm`` is the Euclidean norm; ``nan`` and ``inf`` count elements.
    """

    min: float | int | bool | None = None
    max: float | int | bool | None = None
    mean: float | None = None
    l2norm: float | None = None
    nan: int | None = None
    inf: int | None = None


class TensorType(Struct, frozen=True, gc=False, cache_hash=True):
    """What tensors of one kind have in common; the same object for all of them (`tensor_type`).

    Args:
        kind: what the slot holds.
        dtype: canonical numeric dtype (`probe_flow.tensors.dtypes`), e.g. ``float16``, ``bfloat16``, ``int4``;
            for opaque things the format's own word.
        stored_dtype: the format's own name, e.g. ``DT_FLOAT16``, ``torch.float16``.
        shape: stored shape.
        logical_shape: shape that the framework means (padding and private layout undone); equals ``shape`` for
            plain layouts.
        layout: storage layout, e.g. ``ND``, ``NCHW``, ``FRACTAL_NZ``.
        sub_format: group count of FRACTAL_Z (0 and 1 mean ungrouped).
        requires_grad: whether the framework computes its gradient; None where the dump does not say.
    """

    kind: TensorKind
    dtype: str = ""
    stored_dtype: str = ""
    shape: tuple[int, ...] | None = None
    logical_shape: tuple[int, ...] | None = None
    layout: str = "ND"
    sub_format: int = 0
    requires_grad: bool | None = None


tensor_type = lru_cache(maxsize=1 << 14)(TensorType)
"""Return a type, the same object for equal arguments."""


class TensorFacts(Struct, frozen=True, gc=False, omit_defaults=True):
    """What few tensors have.

    Args:
        item: the dump's own name of the tensor, where it has one that `item_name` does not give.
        value: a scalar's value or an opaque thing's text.
        reason: why the tensor is unreadable or opaque, for people.
        file: name of its file as the dump gives it, where its bytes are not in a file of that name.
        no_value: what stands where the dump should have a value.
        gradient: what the dump says of ``requires_grad`` where that is no truth value.
        peers: partners of a point-to-point operation.
        address: device address.
        rule_layout: layout that the rules of the model give it.
        count: number of elements, where a dump records it and no shape.
        hashed_as: dtype of the elements that were hashed, where it is another one.
        digits: significant digits of the recorded statistics, where they were printed.
        source: file that the slot came from, where its bytes lie in another one.
        named_by: kind of the entry by which `item_name` names the tensor.
    """

    item: str | None = None
    value: object = None
    reason: str | None = None
    file: str | None = None
    no_value: str | None = None
    gradient: object = None
    peers: Mapping[str, object] | None = None
    address: int = 0
    rule_layout: str | None = None
    count: int | None = None
    hashed_as: str | None = None
    digits: int | None = None
    source: str | None = None
    named_by: NodeKind | None = None


_NO_FACTS = TensorFacts()
NAMED_BY = {kind: TensorFacts(named_by=kind) for kind in NodeKind}
"""Facts of tensors of which no more is known than the kind of their entry, the same objects for nearly all tensors."""

_SECTIONS = {SlotRole.INPUT: "input.", SlotRole.PARAMETER: "parameters.", SlotRole.OUTPUT: "output."}
"""Words of item names; gradients of parameters and values saved one by one have none."""


def item_name(node: NodeKey, kind: NodeKind, slot: Slot) -> str:
    """Return the name that the collectors' grammar gives a tensor of an entry.

    >>> from probe_flow.records import Execution
    >>> item_name(NodeKey(Execution(), "Functional.linear", 5), NodeKind.API, Slot(SlotRole.INPUT, (1, "eps")))
    'Functional.linear.5.forward.input.1.eps'
    """
    return f"{entry_name(node, kind)}.{_SECTIONS.get(slot.role, '')}{slot.index}"


_OF_TYPE = frozenset(TensorType.__struct_fields__)


class TensorRef(Struct, frozen=True, gc=False, eq=False):
    """One tensor of a dump: what it is and where its bytes lie.

    Args:
        node: the owner.
        slot: which of its tensors.
        type: what it shares with tensors of its kind.
        figures: statistics found in the dump, or a table of them; its columns are the first fields of `Statistics`.
        where: its bytes; the file alone for what has none (statistics, scalars).
        checksum: checksum found in the dump, as text.
        facts: what few tensors have.
        number: row of the table.
    """

    node: NodeKey
    slot: Slot
    type: TensorType
    figures: Statistics | FigureTable | None = None
    where: Extent | tuple[Extent, ...] | str | None = None
    checksum: str | None = None
    facts: TensorFacts = _NO_FACTS
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
        return cls(node, slot, shared, recorded, _place(extents) or source, checksum)._with(source, facts)

    def changed(self, **changes: Any) -> TensorRef:
        """Return the tensor with other values of some properties, which have the names that `of` has."""
        of_type = {name: changes.pop(name) for name in _OF_TYPE & changes.keys()}
        if of_type:
            now = {name: getattr(self.type, name) for name in TensorType.__struct_fields__}
            changes["type"] = tensor_type(*{**now, **of_type}.values())
        source = changes.pop("source", self.source)
        if "extents" in changes:
            if self.file is not None:  # that of the dump, wherever the bytes are now
                changes.setdefault("file", self.file)
            changes["where"] = _place(changes.pop("extents")) or source
        if "recorded" in changes:
            changes |= {"figures": changes.pop("recorded"), "number": 0}
        own = {name: changes.pop(name) for name in changes.keys() & set(TensorRef.__struct_fields__)}
        return replace(self, **own)._with(source, changes)

    def _with(self, source: str | None, facts: Mapping[str, Any]) -> TensorRef:
        if source is not None and source != self.source:
            facts = {**facts, "source": source}
        if not facts:
            return self
        found = replace(self.facts, **facts)
        shared = _NO_FACTS if found.named_by is None else NAMED_BY[found.named_by]
        return replace(self, facts=shared if found == shared else found)

    @property
    def recorded(self) -> Statistics | None:
        """Statistics found in the dump."""
        figures = self.figures
        if isinstance(figures, FigureTable):
            values: Sequence[Any] = figures.part(self.number, 0, figures.width)
            return Statistics(*values)
        return figures

    @property
    def kind(self) -> TensorKind:
        """What the slot holds."""
        return self.type.kind

    @property
    def dtype(self) -> str:
        """Canonical numeric dtype."""
        return self.type.dtype

    @property
    def stored_dtype(self) -> str:
        """The format's own name of the dtype."""
        return self.type.stored_dtype

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Stored shape."""
        return self.type.shape

    @property
    def logical_shape(self) -> tuple[int, ...] | None:
        """Shape that the framework means."""
        return self.type.logical_shape

    @property
    def layout(self) -> str:
        """Storage layout."""
        return self.type.layout

    @property
    def sub_format(self) -> int:
        """Group count of FRACTAL_Z."""
        return self.type.sub_format

    @property
    def requires_grad(self) -> object:
        """What the dump says of it: a truth value mostly; None where it says nothing."""
        found = self.type.requires_grad
        return self.facts.gradient if found is None else found

    @property
    def value(self) -> object:
        """A scalar's value or an opaque thing's text."""
        return self.facts.value

    @property
    def reason(self) -> str | None:
        """Why the tensor is unreadable or opaque, for people."""
        return self.facts.reason

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
        facts, where = self.facts, self.where
        is_derived = facts.file is None and facts.named_by is not None
        return where.file.rpartition("/")[2] if is_derived and isinstance(where, Extent) else facts.file

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Where the bytes lie; empty for statistics and scalars."""
        where = self.where
        if where.__class__ is Extent:  # nearly always
            return (where,)
        return where if isinstance(where, tuple) else ()

    @property
    def source(self) -> str | None:
        """File that the slot came from, for people."""
        if self.facts.source is not None:
            return self.facts.source
        where = self.where
        if isinstance(where, Extent):
            return where.file
        return where[0].file if isinstance(where, tuple) else where

    @property
    def numel(self) -> int | None:
        """Number of logical elements, None when the shape is unknown."""
        shape = self.type.logical_shape if self.type.logical_shape is not None else self.type.shape
        return None if shape is None else math.prod(shape)

    @property
    def has_numbers(self) -> bool:
        """Whether elements or statistics of it are known."""
        kind = self.type.kind
        return kind is TensorKind.TENSOR or kind is TensorKind.STATISTICS

    @property
    def nbytes(self) -> int:
        """Bytes to read for the whole tensor."""
        where = self.where
        if isinstance(where, Extent):  # nearly always, and asked five times a pair
            return where.nbytes
        return sum(extent.nbytes for extent in where) if isinstance(where, tuple) else 0

    @property
    def id(self) -> str:
        """Readable id within an execution: ``{node}.{role}.{index}``, with call and phase where they matter."""
        key = self.node
        call = f"#{key.call}" if key.call else ""
        phase = ".backward" if key.phase.value == "backward" else ""
        return f"{key.name}{call}{phase}.{self.slot}"

    def _fields(self) -> tuple[Any, ...]:
        return self.node, self.slot, self.type, self.recorded, self.where, self.checksum, self.facts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorRef) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((self.node, self.slot))

    def __repr__(self) -> str:
        return f"TensorRef{self._fields()}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the table behind: other processes get the statistics of the tensor alone."""
        return TensorRef, self._fields()


def _place(extents: tuple[Extent, ...]) -> Extent | tuple[Extent, ...] | None:
    return extents[0] if len(extents) == 1 else extents or None
