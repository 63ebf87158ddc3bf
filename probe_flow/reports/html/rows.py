"""The rows of the HTML report, a column at a time."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from probe_flow.record.json_values import json_text, json_value
from probe_flow.record.rows import RowReader, shape_of
from probe_flow.records import (
    Catalog,
    Comparison,
    Measurement,
    Mode,
    Pair,
    Reason,
    Relation,
    Role,
    Row,
    Status,
    TensorRef,
    TensorType,
)
from probe_flow.records.columns.figure_columns import FIGURES, MetricColumns, SideColumns
from probe_flow.reports.html.columns import (
    TEXTS_AT_ONCE,
    Cell,
    Member,
    Pieces,
    PlaceColumn,
    Strings,
    list_pieces,
    mapped,
    object_or_nothing,
    object_pieces,
    packed,
    packed_places,
    several,
    short_cells,
    short_numbers,
    stretches,
)
from probe_flow.reports.html.nodes import NodeTable
from probe_flow.reports.marks import RowMarks

MAX_VALUE_CHARACTERS = 2000
"""Characters kept of a scalar's or an opaque thing's text."""

EXCESS_DECIMALS = 2
"""A share of what is explained is for the eye."""

_SLOT = ("direction", "index")
_DESCRIPTION = ("kind", "dtype", "stored_dtype", "shape", "stored_shape", "layout", "folder")
# By their values: an Enum hashes in Python, a text in C, and there is one for every row.
_STATUS_PLACES = {status.value: place for place, status in enumerate(Status)}
_ROLE_PLACES = {role.value: place for place, role in enumerate(Role)}
_status_of, _role_of = attrgetter("verdict.status._value_"), attrgetter("verdict.role._value_")

_Rows = Sequence[Row]
_Tensors = Sequence[TensorRef | None]
_Places = tuple[int | None, ...]
_R = TypeVar("_R")


def metric_ids(comparison: Comparison) -> list[str]:
    """Return the ids of all metrics that any row has a value of, sorted."""
    tables = {
        id(row.measurement.table): row.measurement.table for row in comparison.rows if row.measurement is not None
    }
    names = sorted({name for table in tables.values() for name in table.names[: table.metrics]})
    return [name for name in names if any(_metric(row, name) is not None for row in comparison.rows)]


def row_members(
    comparison: Comparison, metrics: Sequence[str], strings: Strings, nodes: NodeTable, marks: RowMarks, ranks: bytes
) -> Iterator[Member]:
    """Yield the columns of all rows, those of their metrics as ``metrics``, those of their tensors as ``sides``.

    Args:
        comparison: what is reported.
        metrics: their ids.
        strings: where texts go, those of the tensors first.
        nodes: numbers the nodes of the tensors.
        marks: what marks the rows.
        ranks: the rank of the mark of each row.
    """
    pairs, reader = comparison.pairs, RowReader(comparison)
    catalogs: dict[str, Callable[[Row], Catalog]] = {
        "target": lambda _: pairs.target,
        "golden": reader.golden_catalog,
    }
    if (reference := pairs.reference) is not None:
        catalogs["reference"] = lambda _: reference
    sides = {name: _Side(name, comparison.rows, reader, strings) for name in catalogs}
    placed = {name: side.places(nodes, catalogs[name]) for name, side in sides.items()}
    yield from _decisions(comparison, strings, marks, ranks)
    yield "metrics", object_pieces(_metric_columns(comparison, metrics))
    yield (
        "sides",
        object_pieces((name, object_or_nothing((*side.figures(), *placed[name]))) for name, side in sides.items()),
    )


def _decisions(comparison: Comparison, strings: Strings, marks: RowMarks, ranks: bytes) -> Iterator[Member]:
    """Yield what was decided on the rows: how they were matched, measured and judged."""
    rows = comparison.rows

    def values(of: Callable[[_Rows], Sequence[Any]]) -> Pieces | None:
        return packed(map(of, stretches(rows)))

    def measured(of: Callable[[Measurement], Any]) -> Iterator[list[Any]]:
        for some in stretches(rows):
            yield [None if row.measurement is None else of(row.measurement) for row in some]

    def texts(of: Callable[[_Rows], list[str | None]]) -> Pieces | None:
        return packed_places(strings.places(of(some)) for some in stretches(rows))

    def lists(of: Callable[[_Rows], list[tuple[str, ...]]]) -> Pieces | None:
        return packed_places(strings.lists(of(some)) for some in stretches(rows))

    def numbers(of: Callable[[_Rows], list[float | None]]) -> Pieces | None:
        return packed(short_numbers(of(some)) for some in stretches(rows))

    yield "status", values(lambda some: list(map(_STATUS_PLACES.__getitem__, map(_status_of, some))))
    yield "role", values(lambda some: list(map(_ROLE_PLACES.__getitem__, map(_role_of, some))))
    yield "confidence", numbers(lambda some: [row.pair.confidence for row in some])
    yield "expectation", values(lambda some: [_expectation(row.pair.reason) for row in some])
    yield "mark", packed(map(list, stretches(ranks)))
    yield (
        "excess",
        numbers(lambda some: [_rounded(marks.excess(row.order, row.verdict.excess)) for row in some]),
    )
    yield "count", packed(measured(attrgetter("count")))
    yield "mismatch", packed(measured(attrgetter("nonfinite_mismatch")))
    yield "worst", packed(measured(attrgetter("worst_index")))
    yield "rule_ids", lists(lambda some: [row.verdict.rule_ids for row in some])
    yield "reasons", lists(lambda some: [row.reasons for row in some])
    yield "rule", texts(lambda some: [row.pair.rule.name for row in some])
    yield "rule_span", texts(lambda some: [str(row.pair.rule_span) if row.pair.rule_span else None for row in some])
    yield "reason", texts(lambda some: [None if row.pair.reason is None else row.pair.reason.text for row in some])
    yield "transform", lists(lambda some: [row.pair.transform for row in some])
    yield "group", texts(lambda some: [*Pair.groups_of(row.pair for row in some)])
    yield "relation", texts(_relation_of(comparison))
    yield "mode", packed_places(strings.places(mapped(some, _mode)) for some in measured(attrgetter("mode")))
    yield "notes", packed_places(strings.lists(each or () for each in some) for some in measured(attrgetter("notes")))


def _relation_of(comparison: Comparison) -> Callable[[_Rows], list[str | None]]:
    pairs, usual = comparison.pairs, Relation.ONE_TO_ONE
    others = {group.id: group.relation.value for group in pairs.groups if group.relation is not usual}
    known = None if pairs.is_examination else usual.value  # of nearly all groups, which are as many as nodes
    if not others:
        return lambda some: [known] * len(some)
    return lambda some: [others.get(name, known) for name in Pair.groups_of(row.pair for row in some)]


def _metric_columns(comparison: Comparison, names: Sequence[str]) -> Iterator[Member]:
    columns = MetricColumns([row.measurement for row in comparison.rows])
    for name in names:
        yield name, packed(_short_metrics(columns, name, some) for some in stretches(range(len(comparison.rows))))


def _short_metrics(columns: MetricColumns, name: str, numbers: Sequence[int]) -> list[Cell]:
    cells = columns.of(name, numbers[0], numbers[-1] + 1)
    return short_cells(cells, lambda place: columns.metric(name, numbers[place]))


def _metric(row: Row, name: str) -> Any:
    return row.measurement.metric(name) if row.measurement is not None else None


class _Side:
    """Columns of the tensors of one side.

    Args:
        name: the side.
        rows: all rows.
        reader: looks up files.
        strings: where texts go.
    """

    def __init__(self, name: str, rows: _Rows, reader: RowReader, strings: Strings) -> None:
        self._rows = rows
        self._tensor_of: Callable[[Row], TensorRef | None] = attrgetter(f"pair.{name}")
        self._reader = reader
        self._strings = strings
        self._side = SideColumns(name)

    def figures(self) -> Iterator[Member]:
        """Yield the columns of what is known of the values, then the names of the files: hardly two are alike.

        Among the texts of the report each would be held until its end.
        """
        yield from several(FIGURES, map(self._statistics, stretches(self._rows)))
        tensors = map(self._tensor_of, self._rows)
        if any(tensor is not None and tensor.holder is not None for tensor in tensors):
            yield "file", list_pieces(map(self._file_names, stretches(self._rows, TEXTS_AT_ONCE)))

    def places(self, nodes: NodeTable, catalog: Callable[[Row], Catalog]) -> list[Member]:
        """Return the columns of nodes and texts, which go into the lists of these now, in order."""
        return [
            ("node", packed_places(self._numbers(some, nodes, catalog) for some in stretches(self._rows))),
            *self._several(_SLOT, self._slots),
            *self._several(_DESCRIPTION, self._descriptions),
            ("checksum", packed_places(self._strings.places(self._checksums(some)) for some in stretches(self._rows))),
            ("value", self._texts(_value)),
            ("why", self._texts(lambda tensor: None if tensor is None else tensor.reason)),
        ]

    def _tensors(self, rows: _Rows) -> _Tensors:
        return list(map(self._tensor_of, rows))

    def _checksums(self, rows: _Rows) -> list[str | None]:
        return [
            None if tensor is None else checksum
            for tensor, checksum in zip(self._tensors(rows), self._side.checksums(rows), strict=True)
        ]

    def _statistics(self, rows: _Rows) -> Iterator[Sequence[Any]]:
        found = self._side.figures(rows)
        for column in range(len(FIGURES)):
            yield short_cells(found.cells.column(column), partial(found.other, column))

    def _texts(self, of: Callable[[TensorRef | None], str | None]) -> Pieces | None:
        """Return a column of texts that the traits of a tensor decide."""

        def place(tensor: TensorRef | None) -> int | None:
            return self._strings.place(of(tensor))

        return packed_places(_by_traits(self._tensors(some), place) for some in stretches(self._rows))

    def _several(self, names: Sequence[str], places: Callable[[_Tensors], Iterable[_Places]]) -> Iterator[Member]:
        """Yield columns whose texts are placed together, tensor by tensor."""
        found = (zip(*places(self._tensors(some)), strict=True) for some in stretches(self._rows))
        return several(names, found, PlaceColumn)

    def _numbers(self, rows: _Rows, nodes: NodeTable, catalog: Callable[[Row], Catalog]) -> list[int | None]:
        return [
            None if tensor is None else nodes.number(catalog(row), tensor.node)
            for row, tensor in zip(rows, self._tensors(rows), strict=True)
        ]

    def _slots(self, tensors: _Tensors) -> list[_Places]:
        return _by_traits(tensors, self._slot)

    def _slot(self, tensor: TensorRef | None) -> _Places:
        if tensor is None:
            return (None,) * len(_SLOT)
        return self._strings.place(tensor.slot.role.value), self._strings.place(tensor.slot.index)

    def _descriptions(self, tensors: _Tensors) -> Iterator[_Places]:
        """Yield what most tensors share with many others."""
        nothing: _Places = (None,) * len(_DESCRIPTION)
        kinds: dict[TensorType, _Places] = {}
        folders: dict[str, int | None] = {}
        last: str | None = ""
        folder = ""
        for tensor in tensors:
            if tensor is None:
                yield nothing
                continue
            key, path = tensor.traits.type, tensor.holder
            kind = kinds.get(key)
            if kind is None:
                kind = kinds[key] = self._kind(tensor)
            if path is not last:  # tensors of one file follow each other
                last, folder = path, posixpath.dirname(path or "")
            if folder not in folders:
                folders[folder] = self._strings.place(self._folder(path))
            yield (*kind, folders[folder])

    def _kind(self, tensor: TensorRef) -> _Places:
        shape = shape_of(tensor)
        stored = tensor.shape if tensor.shape != shape else None
        texts = (tensor.kind.value, tensor.dtype, tensor.stored_dtype, _shape(shape), _shape(stored), tensor.layout)
        return tuple(map(self._strings.place, texts))

    def _folder(self, path: str | None) -> str | None:
        return None if path is None else posixpath.dirname(self._reader.relative(path))

    def _file_names(self, rows: _Rows) -> list[str | None]:
        return mapped((None if tensor is None else tensor.holder for tensor in self._tensors(rows)), _file_name)


def _by_traits(tensors: _Tensors, of: Callable[[TensorRef | None], _R]) -> list[_R]:
    """Return what the traits of each tensor decide, asked for once of those that share them."""
    keys = [None if tensor is None else id(tensor.traits) for tensor in tensors]
    made = {key: of(tensor) for key, tensor in dict(zip(keys, tensors, strict=True)).items()}
    return list(map(made.__getitem__, keys))


def _file_name(path: str | None) -> str | None:
    return None if path is None else posixpath.basename(path)


def _expectation(reason: Reason | None) -> str | None:
    return None if reason is None else reason.expectation.value


def _mode(mode: Mode | None) -> str | None:
    return None if mode is None else mode.value


def _rounded(excess: float | None) -> float | None:
    return None if excess is None else round(excess, EXCESS_DECIMALS)


def _shape(shape: tuple[int, ...] | None) -> str | None:
    return None if shape is None else "[" + ", ".join(str(dim) for dim in shape) + "]"


def _value(tensor: TensorRef | None) -> str | None:
    if tensor is None or tensor.value is None:
        return None
    value = json_value(tensor.value)
    shown = value if isinstance(value, str) else json_text(value)
    return shown if len(shown) <= MAX_VALUE_CHARACTERS else shown[:MAX_VALUE_CHARACTERS] + " ..."
