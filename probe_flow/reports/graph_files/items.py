"""What graph files show of a tensor: its type, shape and statistics, all of it as text.

msprobe 1.2.1 (``.vis``) rounds to six places and adds a checksum; 26.2.0 (``.vis.db``) keeps every place and says
whether the framework computes a gradient.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from string import Formatter
from typing import cast

import numpy as np
from msgspec import Struct

from probe_flow.record.json_values import number_texts
from probe_flow.records import Catalog, SlotRole, TensorKind, TensorRef, TensorType
from probe_flow.records.figure_columns import RecordedColumns
from probe_flow.records.frameworks import PYTORCH
from probe_flow.records.model_graph import GraphLayout, ModelGraph
from probe_flow.records.node import entry_name
from probe_flow.reports.graph_files.json_texts import inside_strings, json_name, json_string
from probe_flow.reports.table import Cell
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
_NOTHING = json_string({"value": NULL})

_CELLS = 6
"""What is put into the text of a node for each tensor: the name of the entry, four figures, and the end of the item."""

ABSENT = object()
"""Stands for the figures of what has none."""

_ABSENT_FOUR = ABSENT, ABSENT, ABSENT, ABSENT

_BETWEEN = "\0"
"""Between inputs and outputs: it is in no JSON."""

_WITH, _HIDDEN, _OUTPUT = 1, 2, 4
"""What is true of a tensor beyond what its traits say: it has figures, msprobe shows nothing of it, it is an output."""

_STATES = 8


class ItemStyle(enum.Enum):
    """Whose texts: those of ``.vis`` or of ``.vis.db``."""

    VIS = "vis"
    VIS_DB = "vis_db"


def type_name(catalog: Catalog) -> str:
    """Return what a dump calls its tensors."""
    return "torch.Tensor" if catalog.framework == PYTORCH else "mindspore.Tensor"


class ItemTexts:
    """Writes what nodes read and give as JSON. Nodes that are alike share one text, into which their figures are put.

    Args:
        graph: what the nodes belong to.
        style: whose texts.
        has_checksums: whether to show one, that of no data where the dump has none; one of ``.vis`` is shown anyway.
        needs_maximum: whether nothing is shown of what has no maximum, as msprobe does.
    """

    def __init__(self, graph: ModelGraph, style: ItemStyle, *, has_checksums: bool, needs_maximum: bool) -> None:
        self._graph = graph
        self._word = type_name(graph.catalog)
        self._style = style
        self._has_checksums, self._needs_maximum = has_checksums, needs_maximum
        self._columns = RecordedColumns()

    def of(self, nodes: Sequence[Sequence[TensorRef]], metrics: Iterable[str]) -> Iterator[Sequence[str]]:
        """Yield the inputs and the outputs of each of some nodes.

        Args:
            nodes: the tensors of each.
            metrics: of each tensor what it is compared by (`metrics.metrics_of`), nothing where it is not compared.
        """
        marks, cells = self._cells([*chain.from_iterable(nodes)], metrics)
        templates: dict[tuple[int, ...], _Template] = {}
        end = 0
        for tensors in nodes:
            begin, end = end, end + len(tensors)
            alike = tuple(marks[begin:end])
            template = templates.get(alike)
            if template is None:
                template = templates[alike] = self._template(tensors, alike)
            pieces = template.pieces.copy()
            mine = cells[_CELLS * begin : _CELLS * end]
            pieces[1::2] = [mine[place] for place in template.places]
            yield "".join(pieces).split(_BETWEEN)

    def _cells(self, tensors: Sequence[TensorRef], metrics: Iterable[str]) -> tuple[list[int], list[str]]:
        """Return for each tensor a number, equal for those whose texts have the same places, and what is put there."""
        recorded = figures_of(tensors, self._columns, lambda place: _four(tensors[place]))
        figures = zip(*map(self._texts, recorded), strict=True)
        has_checksums, is_old = self._has_checksums, self._style is ItemStyle.VIS
        is_by_name = self._graph.layout is not GraphLayout.OWN
        marks: list[int] = []
        cells: list[str] = []
        node = kind = None
        entry = ""
        for tensor, value, four, compared in zip(tensors, recorded[0], figures, metrics, strict=True):
            traits = tensor.traits
            if tensor.node is not node or traits.facts.named_by is not kind:
                node, kind = tensor.node, traits.facts.named_by
                entry = "" if kind is None else json_name(entry_name(node, kind))[1:-1]
            mark = id(traits) * _STATES + (value is not ABSENT)
            if is_by_name:
                is_hidden = self._needs_maximum and (value is ABSENT or four[0] == NULL)
                mark += _OUTPUT * self._graph.is_output(tensor) + _HIDDEN * is_hidden
            marks.append(mark)
            end = _data_name(tensor) if traits.encoding is not None and tensor.has_numbers else ""
            if has_checksums or (is_old and tensor.checksum is not None):
                end += f',"md5":{json_name(published_checksum(tensor))}'
            cells += (entry, *four, f"{end}{compared}}}")
        return marks, cells

    def _texts(self, column: Sequence[object]) -> Sequence[str]:
        known = [value for value in column if value is not ABSENT]
        plain = [] if self._style is ItemStyle.VIS else texts_of_numbers(known)
        texts = inside_strings(plain or [*map(_short if self._style is ItemStyle.VIS else _number, known)])
        rest = iter(texts)
        return texts if len(texts) == len(column) else ["" if value is ABSENT else next(rest) for value in column]

    def _template(self, tensors: Sequence[TensorRef], marks: Sequence[int]) -> _Template:
        sides: tuple[dict[str, str], dict[str, str]] = {}, {}
        for place in self._shown(tensors):
            tensor, mark = tensors[place], marks[place]
            name, facts = tensor.item, tensor.facts
            if name is None or not tensor.slot.path:  # the call itself, where a dump holds no values
                continue
            shown = _literal(json_name(name)[1:-1])
            if facts.item is None and facts.named_by is not None:
                entry = entry_name(tensor.node, facts.named_by)
                shown = f"{{{_CELLS * place}}}{_literal(json_name(name[len(entry) :])[1:-1])}"
            item = self._item(tensor, mark % _STATES, _CELLS * place + 1)
            sides[self._graph.is_output(tensor)][name] = f'"{shown}":{item}'
        pieces, places = [""], []
        for literal, field, *_ in Formatter().parse(
            _BETWEEN.join("{{" + ",".join(each.values()) + "}}" for each in sides)
        ):
            pieces[-1] += literal
            if field is not None:
                places.append(int(field))
                pieces += "", ""
        return _Template(pieces, places)

    def _shown(self, tensors: Sequence[TensorRef]) -> Sequence[int]:
        """Return the places of the tensors of a node in their order; msprobe has its parameters last."""
        places = range(len(tensors))
        is_ours = self._graph.layout is GraphLayout.OWN
        return places if is_ours else sorted(places, key=lambda place: tensors[place].slot.role is SlotRole.PARAMETER)

    def _item(self, tensor: TensorRef, state: int, first: int) -> str:
        """Return what is shown of a tensor; ``first`` is the place of the first of its figures."""
        is_old, end = self._style is ItemStyle.VIS, f"{{{first + len(_FOUR)}}}"
        if not tensor.has_numbers:
            item = _value_item(tensor, is_old=is_old)
            if "group_ranks" in item:
                return _literal(json_string(item))
            if len(item) == 1 or (self._needs_maximum and item.get("Max", NULL) == NULL):
                return _literal(_NOTHING)
            return _literal(json_string(item)[:-1]) + end
        if state & _HIDDEN:
            return _literal(_NOTHING)
        text = _literal(_head(tensor.type, self._word))
        if state & _WITH:
            text += "".join(f',"{name}":"{{{place}}}"' for place, name in enumerate(_FOUR, first))
        if not is_old:
            text += f',"requires_grad":{_literal(json_string(_truth(tensor.requires_grad)))}'
        if tensor.traits.encoding is None:  # else each has a file of its own
            text += _literal(_data_name(tensor))
        return text + end


class _Template(Struct, frozen=True):
    """The text of nodes that are alike: every second piece is filled, with the cells at these places."""

    pieces: list[str]
    places: list[int]


def _data_name(tensor: TensorRef) -> str:
    return f',"data_name":{json_name(tensor.file or NO_FILE)}'


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def figures_of(
    tensors: Sequence[TensorRef | None], columns: RecordedColumns, other: Callable[[int], _Four]
) -> list[list[object]]:
    """Return maximum, minimum, mean and norm that are recorded of tensors, a column each.

    Args:
        tensors: the tensors.
        columns: reads those of many at once.
        other: gives them, by the place of the tensor, where they are not four floats.
    """
    found = columns.of([tensor if tensor is not None and tensor.has_numbers else None for tensor in tensors])
    low, high, mean, norm = found.values[:, : len(_FOUR)].T.tolist()
    figures: list[list[object]] = [high, low, mean, norm]
    for place in np.flatnonzero(~found.are_floats[:, : len(_FOUR)].all(axis=1)).tolist():
        for column, value in zip(figures, other(place), strict=True):
            column[place] = value
    return figures


def _four(tensor: TensorRef) -> _Four:
    """Return maximum, minimum, mean and norm that are recorded of a tensor."""
    found = tensor.recorded if tensor.has_numbers else None
    return _ABSENT_FOUR if found is None else (found.max, found.min, found.mean, found.l2norm)


def texts_of_numbers(values: Sequence[object]) -> list[str]:
    """Return numbers as `str` writes them, many at a time; nothing where not all are floats and integers."""
    if not {*map(type, values)} <= _NUMBERS:
        return []
    texts = number_texts(cast("Sequence[float]", values))
    return [text.strip('"') for text in texts] if '"' in "".join(texts) else texts


def _value_item(tensor: TensorRef, *, is_old: bool) -> Item:
    """Return what is shown of what is no tensor."""
    kind = tensor.kind
    if kind is TensorKind.SCALAR or (kind is TensorKind.OPAQUE and tensor.stored_dtype not in _WITHOUT_VALUE):
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
    return item


def metric_texts(column: Sequence[Cell], style: ItemStyle) -> Sequence[str]:
    """Return the cells of a table as graph files have them."""
    write = _short if style is ItemStyle.VIS else str
    texts = texts_of_numbers(column) if style is ItemStyle.VIS_DB else []
    if not texts:
        texts = [cell.strip() or cell if cell.__class__ is str else write(cell) for cell in column]
        texts = [_short_percent(text) if text[-1:] == "%" and "e" not in text else text for text in texts]
    return texts


def _short_percent(text: str) -> str:
    return f"{float(text[:-1]):.{_PLACES}f}%" if _LONG_PERCENT.fullmatch(text) else text


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


def _truth(grad: object) -> str:
    return "True" if grad is True else "False" if grad is False else _full(grad)


def _head(of: TensorType, word: str) -> str:
    """Return the begin of what is shown of a tensor."""
    shape = of.logical_shape if of.logical_shape is not None else of.shape
    shown = {"type": word, "dtype": of.stored_dtype or of.dtype, "shape": NULL if shape is None else str([*shape])}
    return json_string(shown)[:-1]
