"""What the dump.json layouts show of one side of a row: its name, dtype, shape, statistics, checksum and file."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from probe_flow.record.cells import text_cell
from probe_flow.records import SideSummary, SlotRole, TensorKind, TensorRef, TensorType
from probe_flow.records.figure_columns import FIGURES, RecordedColumns
from probe_flow.records.tensor import item_names
from probe_flow.reports.dump_json_columns import ABSENT, NOT_A_NUMBER
from probe_flow.reports.table import Cell

NO_FILE = "-1"

_OWN_TYPES = frozenset({"torch.Size", "slice", "ellipsis", "torch.ProcessGroup", "mindspore.ProcessGroup"})
"""Opaque types that are shown as such; the others hold text and are shown as Python's."""

_GROUPS = frozenset({"torch.ProcessGroup", "mindspore.ProcessGroup"})
_SHAPELESS = frozenset({"torch.Size", "slice"})
_SPELLED_OUT = frozenset({*_SHAPELESS, "ellipsis"})
_WITHOUT_VALUE = frozenset({*_SPELLED_OUT, "torch.ProcessGroup"})
"""Types of which something else than a value is shown."""

_SHAPE_TEXTS: Mapping[str, str] = MappingProxyType({"slice": "(3,)"})
_PERCENT_STARTS = ("%", "\uff05")
_PEERS = frozenset({"src", "dst", "group_src", "group_dst"})
"""Keyword arguments that name a rank; their checksum is the value itself."""

Value: TypeAlias = object
"""A statistic as it was recorded: a number, a truth value, text, or None."""

Values: TypeAlias = tuple[Value, Value, Value, Value]


class Look(NamedTuple):
    """What tensors with the same traits show but for their names; the values are not yet cells.

    Args:
        dtype, shape, grad: cells.
        values: maximum, minimum, mean and L2 norm; None where they are those that were recorded of each tensor.
    """

    dtype: str
    shape: str
    grad: str
    values: Values | None


_NO_LOOK = Look(ABSENT, ABSENT, ABSENT, (ABSENT, ABSENT, ABSENT, ABSENT))


def look_of(tensor: TensorRef | None) -> Look:
    """Return what is shown of a side."""
    if tensor is None:
        return _NO_LOOK
    shared, grad = tensor.type, tensor.requires_grad
    kind = shared.kind
    if kind is TensorKind.STATISTICS or kind is TensorKind.TENSOR:
        dtype_cell, shape_cell = _of_type(shared)
    elif tensor.slot.role is SlotRole.CALL:
        return _NO_LOOK._replace(values=(None, None, None, None))
    else:
        dtype_cell, shape_cell = _dtype_text(tensor), _shape_text(tensor)
    return Look(
        dtype_cell,
        shape_cell,
        "True" if grad is True else "False" if grad is False else ABSENT if grad is None else guarded(str(grad)),
        _values(tensor),
    )


def published_look(tensor: TensorRef | None) -> Look:
    """Return what msprobe shows of a side: no value of what the dump has none of, ranks as text, text `nan` as NaN."""
    look = look_of(tensor)
    if tensor is None or tensor.kind not in {TensorKind.SCALAR, TensorKind.OPAQUE}:
        return look
    if tensor.slot.path[-1:] and tensor.slot.path[-1] in _PEERS and tensor.stored_dtype not in _SPELLED_OUT:
        text = str(tensor.value)
        return look._replace(dtype=guarded(tensor.stored_dtype), shape="[]", values=(text, text, text, text))
    if tensor.facts.no_value is not None and tensor.stored_dtype not in _WITHOUT_VALUE:
        return look._replace(dtype="<class 'NoneType'>", shape="[]", values=(None, None, None, None))
    if look.values is not None and str(look.values[0]).lower() == "nan":
        return look._replace(values=(math.nan, math.nan, math.nan, math.nan))
    return look


class Sides(NamedTuple):
    """One side of some rows, column by column; the values are not yet cells."""

    names: Sequence[str]
    dtypes: Sequence[str]
    shapes: Sequence[str]
    grads: Sequence[str]
    values: Sequence[Sequence[Value]]


def sides_of(
    tensors: Sequence[TensorRef | None],
    measured: Callable[[int], SideSummary | None],
    look: Callable[[TensorRef | None], Look],
) -> Sides:
    """Return what is shown of a side of some rows.

    Args:
        tensors: of the side.
        measured: gives what was measured of the one at a place; that stands in where the dump recorded nothing.
        look: gives what tensors with the same traits show.
    """
    keys = [None if tensor is None else id(tensor.traits) for tensor in tensors]
    kinds = {key: look(tensor) for key, tensor in dict(zip(keys, tensors, strict=True)).items()}
    looks = list(map(kinds.__getitem__, keys))
    dtypes, shapes, grads, given = zip(*looks, strict=True)

    def value(column: int, place: int) -> Any:
        values = given[place]
        return _recorded(tensors[place], measured(place))[column] if values is None else values[column]

    cells = RecordedColumns().of(tensors)
    cells.ask(np.array([values is not None for values in given], dtype=bool))
    values = [
        cells.column(FIGURES.index(name)).listed(partial(value, column))
        for column, name in enumerate(("max", "min", "mean", "l2norm"))
    ]
    return Sides(_names(tensors), dtypes, shapes, grads, values)


def _names(tensors: Sequence[TensorRef | None]) -> list[str]:
    items = item_names(tensor for tensor in tensors if tensor is not None)
    return [
        ABSENT if tensor is None else guarded(item if (item := next(items)) is not None else tensor.id)
        for tensor in tensors
    ]


@lru_cache(maxsize=4096)
def _of_type(shared: TensorType) -> tuple[str, str]:
    shape = shared.logical_shape if shared.logical_shape is not None else shared.shape
    return guarded(shared.stored_dtype or shared.dtype), ABSENT if shape is None else str(list(shape))


def guarded(text: str) -> str:
    """Return text that no spreadsheet program evaluates; readers of this layout also refuse a leading percent sign."""
    if text[:1].isalnum() and text.isprintable():  # nearly every name
        return text
    text = text.replace("\r", "\\r")
    return "'" + text if text.lstrip().startswith(_PERCENT_STARTS) else text_cell(text)


_memoised_guard: Callable[[str], str] = lru_cache(maxsize=1024)(guarded)


def value_cells(values: Sequence[Value]) -> Sequence[Cell]:
    """Return a column of statistics as cells: infinities with a leading blank, NaN, None and truth values as words."""
    if set(map(type, values)) == {float}:
        floats = cast("Sequence[float]", values)
        if sum(floats) * 0 == 0:  # all finite, as nearly always
            return floats
    return [_value_cell(value) for value in values]


def _value_cell(value: Value) -> Cell:
    if value.__class__ is float or value.__class__ is int:
        assert isinstance(value, (int, float))
        return f" {value}" if math.isinf(value) else NOT_A_NUMBER if math.isnan(value) else value
    return _memoised_guard(str(value))


def _dtype_text(tensor: TensorRef) -> str:
    """Return the type of what is no tensor; that of a plain value as Python shows it."""
    kind, stored = tensor.kind, tensor.stored_dtype
    if kind is TensorKind.NULL or (kind is TensorKind.UNREADABLE and not stored):
        return ABSENT
    if kind is TensorKind.SCALAR or (kind is TensorKind.OPAQUE and stored not in _OWN_TYPES):
        return f"<class '{type(tensor.value).__name__}'>"
    return _memoised_guard(stored or tensor.dtype)


def _shape_text(tensor: TensorRef) -> str:
    if tensor.kind is TensorKind.OPAQUE:
        if tensor.stored_dtype == "torch.Size":
            return guarded(str(tensor.value))
        return _SHAPE_TEXTS.get(tensor.stored_dtype, "[]")
    shape = tensor.logical_shape if tensor.logical_shape is not None else tensor.shape
    return ABSENT if shape is None or tensor.kind is TensorKind.NULL else str(list(shape))


def _values(tensor: TensorRef) -> Values | None:
    """Return the values of what is no tensor, None for a tensor."""
    value: Value
    if tensor.kind is TensorKind.SCALAR:
        value = tensor.value
    elif tensor.kind is TensorKind.OPAQUE:
        value = None if tensor.stored_dtype in _SHAPELESS else tensor.value
    else:
        return None
    return value, value, value, value


def _recorded(tensor: TensorRef | None, measured: SideSummary | None) -> Values:
    """Return the statistics of a tensor: recorded, else measured, else what says that there are none."""
    found = None if tensor is None else tensor.recorded
    if found is None and measured is not None:
        found = measured.statistics
    if found is not None:
        return found.max, found.min, found.mean, found.l2norm
    value = ABSENT if tensor is None or tensor.kind is TensorKind.UNREADABLE else None
    return value, value, value, value


def checksum_text(tensor: TensorRef | None) -> str:
    """Return the checksum that was recorded, or that of a plain value: CRC-32 of its text."""
    if tensor is None or tensor.kind is TensorKind.NULL:
        return ABSENT
    if tensor.checksum is not None:
        return guarded(tensor.checksum)
    if tensor.kind not in {TensorKind.SCALAR, TensorKind.OPAQUE}:
        return ABSENT
    if tensor.stored_dtype in _GROUPS or (tensor.slot.path[-1:] and tensor.slot.path[-1] in _PEERS):
        return guarded(str(tensor.value))
    return f"{zlib.crc32(str(tensor.value).encode('utf-8', 'surrogatepass')):08x}"


def published_checksum(tensor: TensorRef | None) -> str:
    """Return the checksum that msprobe shows: that of an empty text where no checksum and no value is recorded."""
    if tensor is None or tensor.kind in {TensorKind.NULL, TensorKind.UNREADABLE}:
        return checksum_text(tensor)
    text = tensor.facts.no_value
    if tensor.checksum is None and tensor.stored_dtype not in _GROUPS and (text is not None or tensor.has_numbers):
        return f"{zlib.crc32(str(text or '').encode()):08x}"
    return checksum_text(tensor)


def file_names(target: TensorRef | None, golden: TensorRef | None) -> str:
    """Return the names of both tensor files as a list in brackets."""
    return guarded(str([_file_name(target), _file_name(golden)]))


def _file_name(tensor: TensorRef | None) -> str:
    return ABSENT if tensor is None else tensor.file or NO_FILE
