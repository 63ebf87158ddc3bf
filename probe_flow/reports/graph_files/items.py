"""What graph files show of a tensor: its type, shape and statistics, all of it as text.

msprobe 1.2.1 (``.vis``) rounds to six places and adds a checksum; 26.2.0 (``.vis.db``) keeps every place and says
whether the framework computes a gradient.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import cast

import numpy as np

from probe_flow.record.json_values import number_texts
from probe_flow.records import Catalog, TensorKind, TensorRef, TensorType
from probe_flow.records.columns.figure_columns import RecordedColumns
from probe_flow.records.frameworks import PYTORCH
from probe_flow.reports.tables.dump_json.sides import NO_FILE, published_checksum

Item = dict[str, str]
_Four = tuple[object, object, object, object]

NULL = "null"
_FOUR = ("Max", "Min", "Mean", "Norm")
_PLACES = 6
_WITHOUT_VALUE = frozenset(("torch.Size", "slice", "ellipsis", "torch.ProcessGroup", "mindspore.ProcessGroup"))
"""Types of what is no tensor and no value either."""

_LONG_PERCENT = re.compile(r"\d{1,20}\.\d{7,20}%")
_STATISTICS, _TENSOR = TensorKind.STATISTICS, TensorKind.TENSOR
"""Asked for each tensor: a member of an enumeration takes longer to find than most else."""

_NUMBERS = frozenset((float, int))


class ItemStyle(enum.Enum):
    """Whose texts: those of ``.vis`` or of ``.vis.db``."""

    VIS = "vis"
    VIS_DB = "vis_db"


def type_name(catalog: Catalog) -> str:
    """Return what a dump calls its tensors."""
    return "torch.Tensor" if catalog.framework == PYTORCH else "mindspore.Tensor"


def items_of(
    tensors: Sequence[TensorRef], columns: RecordedColumns, word: str, style: ItemStyle, *, has_checksums: bool
) -> Iterator[Item]:
    """Yield what is shown of tensors, before their metrics.

    Args:
        tensors: the tensors.
        columns: reads what is recorded of them.
        word: what their dump calls tensors (`type_name`).
        style: whose texts.
        has_checksums: whether to show one, that of no data where the dump has none; one of ``.vis`` is shown anyway.
    """
    recorded = fours_of(tensors, columns, lambda place: _four(tensors[place]))
    numbers = [number for four in recorded if four is not None for number in four]
    texts = iter(map(_short, numbers) if style is ItemStyle.VIS else texts_of_numbers(numbers) or map(_number, numbers))
    for tensor, four in zip(tensors, recorded, strict=True):
        figures = None if four is None else (next(texts), next(texts), next(texts), next(texts))
        yield _item(tensor, figures, word, style, has_checksums=has_checksums)


def fours_of(
    tensors: Sequence[TensorRef | None], columns: RecordedColumns, other: Callable[[int], _Four | None]
) -> list[_Four | None]:
    """Return maximum, minimum, mean and norm that are recorded of tensors.

    Args:
        tensors: the tensors.
        columns: reads those of many at once.
        other: gives them, by the place of the tensor, where they are not four floats.
    """
    found = columns.of([tensor if tensor is not None and tensor.has_numbers else None for tensor in tensors])
    low, high, mean, norm = found.values[:, : len(_FOUR)].T.tolist()
    fours: list[_Four | None] = list(zip(high, low, mean, norm, strict=True))
    for place in np.flatnonzero(~found.are_floats[:, : len(_FOUR)].all(axis=1)).tolist():
        fours[place] = other(place)
    return fours


def _four(tensor: TensorRef) -> _Four | None:
    """Return maximum, minimum, mean and norm that are recorded of a tensor; None where nothing is."""
    found = tensor.recorded if tensor.has_numbers else None
    return None if found is None else (found.max, found.min, found.mean, found.l2norm)


def texts_of_numbers(values: Sequence[object]) -> list[str]:
    """Return numbers as `str` writes them, many at a time; nothing where not all are floats and integers."""
    if not {*map(type, values)} <= _NUMBERS:
        return []
    return [text.strip('"') for text in number_texts(cast("Sequence[float]", values))]


def _item(
    tensor: TensorRef, figures: tuple[str, str, str, str] | None, word: str, style: ItemStyle, *, has_checksums: bool
) -> Item:
    kind, is_old = tensor.kind, style is ItemStyle.VIS
    if kind is _STATISTICS or kind is _TENSOR:
        item = _head(tensor.traits.type, word, has_figures=figures is not None).copy()
        if figures is not None:
            item["Max"], item["Min"], item["Mean"], item["Norm"] = figures
        if not is_old:
            grad = tensor.requires_grad
            item["requires_grad"] = "True" if grad is True else "False" if grad is False else _full(grad)
        item["data_name"] = tensor.file or NO_FILE
    elif kind is TensorKind.SCALAR or (kind is TensorKind.OPAQUE and tensor.stored_dtype not in _WITHOUT_VALUE):
        value = (_short if is_old else _full)(tensor.value)
        item = {"type": tensor.stored_dtype, "value": value, "data_name": NO_FILE}
        if not is_old:
            item["requires_grad"] = NULL
        item |= dict.fromkeys(_FOUR, value)
        item |= {"dtype": f"<class {type(tensor.value).__name__}>", "shape": "[]"}
    elif kind is TensorKind.OPAQUE and tensor.stored_dtype.endswith("ProcessGroup"):
        return {"type": tensor.stored_dtype, "group_ranks": _full(tensor.value), "data_name": NO_FILE}
    elif kind is TensorKind.OPAQUE:
        item = {"type": tensor.stored_dtype, "value": _full(tensor.value), "data_name": NO_FILE}
    elif kind is TensorKind.UNREADABLE:
        item = {"type": tensor.stored_dtype or NULL, "value": f"unreadable: {tensor.reason}"}
    else:
        return {"value": NULL}
    if has_checksums or (is_old and tensor.checksum is not None):
        item["md5"] = published_checksum(tensor)
    return item


def metric_text(cell: object, style: ItemStyle) -> str:
    """Return a cell of a table as graph files have it."""
    if cell.__class__ is str:
        text = str(cell)
        is_long = len(text) > _PLACES and _LONG_PERCENT.fullmatch(text)
        return f"{float(text[:-1]):.{_PLACES}f}%" if is_long else text.strip()
    return _short(cell) if style is ItemStyle.VIS else str(cell)


def _full(value: object) -> str:
    if value is None:
        return NULL
    if value.__class__ is str:
        return value.replace("'", "").replace("None", NULL) if value.strip() else NULL
    return str(value)


def _number(value: object) -> str:
    return NULL if value is None else str(value)


def _short(value: object) -> str:
    if value.__class__ is float:
        text = str(value)
        if "e" in text:
            return f"{value:.6e}"
        return text if len(text) < 8 else str(round(value, _PLACES))
    return _full(value)


@lru_cache(maxsize=1 << 13)
def _head(of: TensorType, word: str, *, has_figures: bool) -> Item:
    """Return what tensors of one type have in common, and the places of their figures; to be copied."""
    shape = of.logical_shape if of.logical_shape is not None else of.shape
    return {
        "type": word,
        "dtype": of.stored_dtype or of.dtype,
        "shape": NULL if shape is None else str([*shape]),
        **dict.fromkeys(_FOUR if has_figures else (), NULL),
    }
