"""Tensors of a dump, described without loading them."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping

from msgspec import Struct, field

from probe_flow.records.node import NodeKey


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


class TensorRef(Struct, frozen=True, gc=False):
    """One tensor of a dump: what it is and where its bytes lie.

    Args:
        node: the owner.
        slot: which of its tensors.
        kind: what the slot holds.
        dtype: canonical numeric dtype (`probe_flow.tensors.dtypes`), e.g. ``float16``, ``bfloat16``, ``int4``;
            for opaque things the format's own word.
        stored_dtype: the format's own name, e.g. ``DT_FLOAT16``, ``torch.float16``.
        shape: stored shape.
        logical_shape: shape that the framework means (padding and private layout undone); equals ``shape`` for
            plain layouts.
        layout: storage layout, e.g. ``ND``, ``NCHW``, ``FRACTAL_NZ``.
        sub_format: group count of FRACTAL_Z (0 and 1 mean ungrouped).
        extents: where the bytes lie; empty for statistics and scalars.
        recorded: statistics found in the dump.
        checksum: checksum found in the dump, as text.
        value: a scalar's value or an opaque thing's text.
        attrs: further facts, e.g. ``requires_grad``.
        reason: why the tensor is unreadable or opaque, for people.
        source: file that the slot came from, for people (also set when there are no extents).
    """

    node: NodeKey
    slot: Slot
    kind: TensorKind
    dtype: str = ""
    stored_dtype: str = ""
    shape: tuple[int, ...] | None = None
    logical_shape: tuple[int, ...] | None = None
    layout: str = "ND"
    sub_format: int = 0
    extents: tuple[Extent, ...] = ()
    recorded: Statistics | None = None
    checksum: str | None = None
    value: object = None
    attrs: Mapping[str, object] = field(default_factory=dict)
    reason: str | None = None
    source: str | None = None

    @property
    def numel(self) -> int | None:
        """Number of logical elements, None when the shape is unknown."""
        shape = self.logical_shape if self.logical_shape is not None else self.shape
        return None if shape is None else math.prod(shape)

    @property
    def has_numbers(self) -> bool:
        """Whether elements or statistics of it are known."""
        return self.kind is TensorKind.TENSOR or self.kind is TensorKind.STATISTICS

    @property
    def nbytes(self) -> int:
        """Bytes to read for the whole tensor."""
        if len(self.extents) == 1:  # nearly always, and asked five times a pair
            return self.extents[0].nbytes
        return sum(extent.nbytes for extent in self.extents)

    @property
    def id(self) -> str:
        """Readable id within an execution: ``{node}.{role}.{index}``, with call and phase where they matter."""
        key = self.node
        call = f"#{key.call}" if key.call else ""
        phase = ".backward" if key.phase.value == "backward" else ""
        return f"{key.name}{call}{phase}.{self.slot}"
