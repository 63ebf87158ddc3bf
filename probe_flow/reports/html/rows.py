"""The rows of the HTML report as columns, made a stretch of rows at a time."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from probe_flow.record.json_values import json_text, json_value
from probe_flow.record.rows import RowReader
from probe_flow.records import (
    Catalog,
    Comparison,
    Measurement,
    Pair,
    Reason,
    Relation,
    Role,
    Row,
    Status,
    TensorRef,
    TensorType,
)
from probe_flow.records.figure_columns import FIGURES, MetricColumns, SideColumns
from probe_flow.reports.html.columns import (
    NO_PLACE,
    Alike,
    Columns,
    Member,
    Strings,
    object_or_nothing,
    object_pieces,
    packed,
    stretches,
)
from probe_flow.reports.html.nodes import NodeTable
from probe_flow.reports.html.numbers import Cell, short_cells, short_numbers
from probe_flow.reports.marks import RowMarks

if TYPE_CHECKING:
    from probe_flow.reports.html.columns import Places

MAX_VALUE_CHARACTERS = 2000
"""Characters kept of a scalar's or an opaque thing's text."""

EXCESS_DECIMALS = 2
"""A share of what is explained is for the eye."""

# By their values: an Enum hashes in Python, a text in C, and there is one for every row.
_STATUS_PLACES = {status.value: place for place, status in enumerate(Status)}
_ROLE_PLACES = {role.value: place for place, role in enumerate(Role)}
_pair_of, _measured_of, _verdict_of = attrgetter("pair"), attrgetter("measurement"), attrgetter("verdict")
_status_of, _role_of = attrgetter("status._value_"), attrgetter("role._value_")

_Rows = Sequence[Row]
_Tensors = Sequence[TensorRef | None]


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
        strings: where texts go.
        nodes: numbers the nodes of the tensors.
        marks: what marks the rows.
        ranks: the rank of the mark of each row.
    """
    pairs, reader = comparison.pairs, RowReader(comparison)
    catalogs: dict[str, Callable[[_Rows], Iterable[Catalog]]] = {
        "target": lambda _: repeat(pairs.target),
        "golden": partial(map, reader.golden_catalog),
    }
    if (reference := pairs.reference) is not None:
        catalogs["reference"] = lambda _: repeat(reference)
    decisions = _Decisions(comparison, strings)
    sides = {name: _Side(name, comparison.rows, of_rows, reader, strings, nodes) for name, of_rows in catalogs.items()}
    for rows in stretches(comparison.rows):
        for side in sides.values():
            side.add(rows)
        decisions.add(rows)
    yield from decisions.columns.members()
    # What names nothing waits for its turn: compressed numbers take three bytes each.
    yield "mark", packed(map(list, stretches(ranks)))
    yield "excess", packed(short_numbers(_excesses(rows, marks)) for rows in stretches(comparison.rows))
    yield "metrics", object_pieces(_metric_columns(comparison, metrics))
    yield "sides", object_pieces((name, object_or_nothing(side.members())) for name, side in sides.items())


def _excesses(rows: _Rows, marks: RowMarks) -> list[float | None]:
    found = [row.verdict.excess for row in rows]
    for place in marks.places_named(rows):
        found[place] = marks.excess(rows[place].order, found[place])
    return [None if excess is None else round(excess, EXCESS_DECIMALS) for excess in found]


class _Decisions:
    """Columns of what was decided on rows: how they were matched, measured and judged.

    Args:
        comparison: what is reported.
        strings: where texts go.
    """

    def __init__(self, comparison: Comparison, strings: Strings) -> None:
        self.columns = Columns()
        self._strings = strings
        self._relations = _relations(comparison, strings)

    def add(self, rows: _Rows) -> None:
        """Add the next rows."""
        pairs = list(map(_pair_of, rows))
        verdicts = list(map(_verdict_of, rows))
        self._add_terms(pairs)
        self._add_measured(list(map(_measured_of, rows)))
        groups = [pair.grouping for pair in pairs]
        self.columns.add(
            status=list(map(_STATUS_PLACES.__getitem__, map(_status_of, verdicts))),
            role=list(map(_ROLE_PLACES.__getitem__, map(_role_of, verdicts))),
        )
        self.columns.add_places(
            rule_ids=self._strings.lists([verdict.rule_ids for verdict in verdicts]),
            reasons=self._strings.lists([row.reasons for row in rows]),
            group=self._strings.places([group if isinstance(group, str) else None for group in groups]),
            group_by_entry=self._strings.places([None if isinstance(group, str) else group.label for group in groups]),
            relation=self._relations(pairs),
        )

    def _add_terms(self, pairs: Sequence[Pair]) -> None:
        """Add how they were matched, which is alike for nearly all."""
        place = self._strings.place
        alike = Alike([(id(pair.rule), id(pair.reason), id(pair.terms)) for pair in pairs], pairs)
        self.columns.add(
            confidence=short_numbers(alike.cells(lambda pair: pair.confidence)),
            expectation=alike.cells(lambda pair: _expectation(pair.reason)),
        )
        self.columns.add_places(
            rule=alike.places(lambda pair: place(pair.rule.name)),
            rule_span=alike.places(lambda pair: place(str(pair.rule_span) if pair.rule_span else None)),
            reason=alike.places(lambda pair: place(pair.reason.text if pair.reason else None)),
            transform=alike.places(lambda pair: place("\n".join(pair.transform))),
        )

    def _add_measured(self, measured: Sequence[Measurement | None]) -> None:
        kinds = Alike([None if each is None else (id(each.table), each.notes) for each in measured], measured)
        self.columns.add(
            count=[None if each is None else each.count for each in measured],
            mismatch=[None if each is None else each.nonfinite_mismatch for each in measured],
            worst=[None if each is None else each.worst_index for each in measured],
        )
        place = self._strings.place
        self.columns.add_places(
            mode=kinds.places(lambda each: place(None if each is None else each.mode.value)),
            notes=kinds.places(lambda each: place(None if each is None else "\n".join(each.notes))),
        )


def _relations(comparison: Comparison, strings: Strings) -> Callable[[Sequence[Pair]], Places]:
    """Return what gives the relation of the group of each pair."""
    pairs, usual = comparison.pairs, Relation.ONE_TO_ONE
    others = {group.id: strings.place(group.relation.value) for group in pairs.groups if group.relation is not usual}
    known = strings.place(None if pairs.is_examination else usual.value)  # of nearly all, which are as many as nodes
    if not others:
        return lambda some: np.full(len(some), known)
    return lambda some: np.array([others.get(name, known) for name in Pair.groups_of(some)])


def _metric_columns(comparison: Comparison, names: Sequence[str]) -> Iterator[Member]:
    columns = MetricColumns(comparison.rows)

    def cells(name: str) -> Iterator[list[Cell]]:
        for some in stretches(range(len(comparison.rows))):
            found = columns.of(name, some[0], some[-1] + 1)
            yield short_cells(found, partial(_metric_at, columns, name, some[0]))

    return ((name, packed(cells(name))) for name in names)


def _metric_at(columns: MetricColumns, name: str, begin: int, place: int) -> Any:
    return columns.metric(name, begin + place)


def _metric(row: Row, name: str) -> Any:
    return row.measurement.metric(name) if row.measurement is not None else None


class _Side:
    """Columns of the tensors of one side.

    Args:
        name: the side.
        rows: all rows.
        catalogs: gives the catalogs that the side of rows is of.
        reader: looks up files.
        strings: where texts go.
        nodes: numbers nodes.
    """

    def __init__(
        self,
        name: str,
        rows: _Rows,
        catalogs: Callable[[_Rows], Iterable[Catalog]],
        reader: RowReader,
        strings: Strings,
        nodes: NodeTable,
    ) -> None:
        self._rows, self._columns = rows, Columns()
        self._catalogs, self._reader, self._strings, self._nodes = catalogs, reader, strings, nodes
        self._tensor_of: Callable[[Row], TensorRef | None] = attrgetter(f"pair.{name}")
        self._side = SideColumns(name)

    def add(self, rows: _Rows) -> None:
        """Add the tensors of the next rows."""
        tensors = self._tensors(rows)
        self._add_traits(tensors)
        files = _files(tensors)
        keys = [None if tensor is None else tensor.node for tensor in tensors]
        self._columns.add_places(
            node=self._nodes.numbers(self._catalogs(rows), keys),
            folder=files.places(lambda path: self._strings.place(self._folder(path))),
            checksum=self._strings.places(self._side.checksums(rows)),
        )

    def members(self) -> Iterator[Member]:
        """Yield what was added, then the columns of what is known of the values, and the names of the files."""
        yield from self._columns.members()
        figures = Columns()
        for rows in stretches(self._rows):
            found = self._side.figures(rows)
            for column, name in enumerate(FIGURES):
                figures.add(**{name: short_cells(found.cells.column(column), partial(found.other, column))})
        yield from figures.members()
        yield "file", packed(map(_file_names, map(self._tensors, stretches(self._rows))))

    def _tensors(self, rows: _Rows) -> _Tensors:
        return list(map(self._tensor_of, rows))

    def _add_traits(self, tensors: _Tensors) -> None:
        """Add what most tensors share with many others."""
        place = self._strings.place
        types = [None if tensor is None else tensor.traits.type for tensor in tensors]
        alike = Alike(list(map(id, types)), types)
        shared = Alike([None if tensor is None else id(tensor.traits) for tensor in tensors], tensors)
        self._columns.add_places(
            **{name: alike.places(partial(_place_of, place, of)) for name, of in _OF_TYPE.items()},
            **{name: shared.places(partial(_place_of, place, of)) for name, of in _OF_TRAITS.items()},
        )

    def _folder(self, path: str | None) -> str | None:
        return None if path is None else posixpath.dirname(self._reader.relative(path))


def _place_of(place: Callable[[str | None], int], of: Callable[[Any], str | None], thing: object) -> int:
    return NO_PLACE if thing is None else place(of(thing))


def _files(tensors: _Tensors) -> Alike[str | None]:
    """Return the paths of the files that have the bytes."""
    found = [None if tensor is None else tensor.holder for tensor in tensors]
    return Alike(found, found)


def _file_names(tensors: _Tensors) -> list[str | None]:
    return _files(tensors).cells(_file_name)


def _file_name(path: str | None) -> str | None:
    return None if path is None else posixpath.basename(path)


def _expectation(reason: Reason | None) -> str | None:
    return None if reason is None else reason.expectation.value


def _shape(kind: TensorType) -> str | None:
    """Return the shape that the framework means, or the stored one where nothing else is known."""
    return _dims(kind.shape if kind.logical_shape is None else kind.logical_shape)


def _stored_shape(kind: TensorType) -> str | None:
    return _dims(None if kind.logical_shape in (None, kind.shape) else kind.shape)


def _dims(shape: tuple[int, ...] | None) -> str | None:
    return None if shape is None else "[" + ", ".join(str(dim) for dim in shape) + "]"


def _value(tensor: TensorRef) -> str | None:
    if tensor.value is None:
        return None
    value = json_value(tensor.value)
    shown = value if isinstance(value, str) else json_text(value)
    return shown if len(shown) <= MAX_VALUE_CHARACTERS else shown[:MAX_VALUE_CHARACTERS] + " ..."


_OF_TYPE: Mapping[str, Callable[[TensorType], str | None]] = {
    "kind": attrgetter("kind.value"),
    "dtype": attrgetter("dtype"),
    "stored_dtype": attrgetter("stored_dtype"),
    "shape": _shape,
    "stored_shape": _stored_shape,
    "layout": attrgetter("layout"),
}
_OF_TRAITS: Mapping[str, Callable[[TensorRef], str | None]] = {
    "direction": attrgetter("slot.role.value"),
    "index": attrgetter("slot.index"),
    "value": _value,
    "why": attrgetter("reason"),
}
