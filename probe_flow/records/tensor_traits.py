"""What tensors of a dump have in common: slot, type, facts, and where in its file the bytes of each lie."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from probe_flow.records.node import NodeKind


class SlotRole(enum.Enum):
    """What a tensor is to its node. ``call``: no tensor but the call itself, where a dump holds no values."""

    INPUT = "input"
    OUTPUT = "output"
    PARAMETER = "parameter"
    PARAMETER_GRAD = "parameter_grad"
    BUFFER = "buffer"
    DEBUG = "debug"
    CALL = "call"

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

    @classmethod
    def shared(cls, role: SlotRole, path: tuple[int | str, ...]) -> Slot:
        """Return a slot, the same object for equal arguments."""
        return shared_slot(role, path)

    @property
    def index(self) -> str:
        """The path as text: ``"0"``, ``"1.0"``, ``"weight"``."""
        path = self.path
        return str(path[0]) if len(path) == 1 else ".".join(map(str, path))

    def __str__(self) -> str:
        return f"{self.role.value}.{self.index}" if self.path else self.role.value


shared_slot = lru_cache(maxsize=1 << 14)(Slot)
"""Return a slot, the same object for equal arguments: matching compares those of all dumps by the hundred thousand."""


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

    @classmethod
    def shared(cls, *fields: Any) -> TensorType:
        """Return a type, the same object for equal fields."""
        return tensor_type(*fields)


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


NO_FACTS = TensorFacts()
NAMED_BY = {kind: TensorFacts(named_by=kind) for kind in NodeKind}
"""Facts of tensors of which no more is known than the kind of their entry, the same objects for nearly all tensors."""


class TensorTraits(Struct, frozen=True, gc=False):
    """What tensors of many nodes have in common; the same object for all of them that have no facts of their own.

    Args:
        slot: which tensor of its node.
        type: dtype, shape, layout.
        facts: what few tensors have.
        offset: first byte in the file.
        nbytes: bytes that the tensor itself needs.
        encoding: as in `Extent`; None where no bytes of it lie in the file, or in several parts.
    """

    slot: Slot
    type: TensorType
    facts: TensorFacts = NO_FACTS
    offset: int = 0
    nbytes: int = 0
    encoding: str | None = None

    @classmethod
    def shared(
        cls, slot: Slot, type_: TensorType, facts: TensorFacts, offset: int, nbytes: int, encoding: str | None
    ) -> TensorTraits:
        """Return traits, the same object for equal arguments where the facts are usual."""
        if facts == usual_facts(facts.named_by):
            return _usual_traits(slot, type_, facts.named_by, offset, nbytes, encoding)
        return cls(slot, type_, facts, offset, nbytes, encoding)


@lru_cache(maxsize=1 << 13)
def _usual_traits(
    slot: Slot, shared: TensorType, named_by: NodeKind | None, offset: int, nbytes: int, encoding: str | None
) -> TensorTraits:
    return TensorTraits(slot, shared, usual_facts(named_by), offset, nbytes, encoding)


def usual_facts(named_by: NodeKind | None) -> TensorFacts:
    """Return the facts of tensors of which no more is known than the kind of their entry."""
    return NO_FACTS if named_by is None else NAMED_BY[named_by]
