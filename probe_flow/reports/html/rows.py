"""The rows of the HTML report, a column at a time."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from probe_flow.record.json_values import json_text, json_value
from probe_flow.record.rows import RowReader, checksum_of, file_of, shape_of, statistics_of
from probe_flow.records import Catalog, Comparison, Role, SideSummary, Status, TensorRef
from probe_flow.reports.html.columns import Strings, mapped, packed, packed_columns, packed_places
from probe_flow.reports.html.nodes import NodeTable
from probe_flow.reports.html.numbers import short_numbers
from probe_flow.reports.marks import Mark, RowMarks

MAX_VALUE_CHARACTERS = 2000
"""Characters kept of a scalar's or an opaque thing's text."""

EXCESS_DECIMALS = 2
"""A share of what is explained is for the eye."""

_STATISTICS = ("min", "max", "mean", "l2norm", "nan", "inf")
# By their values: an Enum hashes in Python, a text in C, and there is one for every row.
_STATUS_PLACES = {status.value: place for place, status in enumerate(Status)}
_ROLE_PLACES = {role.value: place for place, role in enumerate(Role)}
_status_of, _role_of = attrgetter("status._value_"), attrgetter("role._value_")
_SLOT = ("direction", "index")
_DESCRIPTION = ("kind", "dtype", "stored_dtype", "shape", "stored_shape", "layout", "folder", "file")
_described = attrgetter("kind._value_", "dtype", "stored_dtype", "shape", "logical_shape", "layout")
_slot_of = attrgetter("slot.role._value_", "slot.path")
_NO_METRICS: Mapping[str, Any] = {}


def metric_ids(comparison: Comparison) -> list[str]:
    """Return the ids of all metrics that any row has, sorted."""
    measured = [row.measurement.metrics for row in comparison.rows if row.measurement is not None]
    return sorted({name for names in dict.fromkeys(map(tuple, measured)) for name in names})


def row_columns(comparison: Comparison, strings: Strings, nodes: NodeTable, marks: Sequence[Mark]) -> dict[str, Any]:
    """Return the columns of all rows, those of their metrics as ``metrics``, those of their tensors as ``sides``.

    ``marks`` are those of the rows, in order.
    """
    rows, pairs = comparison.rows, comparison.pairs
    measured = [row.measurement for row in rows]
    metrics = [each.metrics if each is not None else _NO_METRICS for each in measured]
    reader = RowReader(comparison)
    sides = _Sides(reader, strings, nodes)
    found = {
        "target": sides.columns(
            [row.pair.target for row in rows],
            [each.target if each is not None else None for each in measured],
            [pairs.target] * len(rows),
        ),
        "golden": sides.columns(
            [row.pair.golden for row in rows],
            [each.golden if each is not None else None for each in measured],
            [reader.golden_catalog(row) for row in rows],
        ),
    }
    if pairs.reference is not None:
        found["reference"] = sides.columns(
            [row.pair.reference for row in rows],
            [each.reference if each is not None else None for each in measured],
            [pairs.reference] * len(rows),
        )
    columns = {name: packed(short_numbers([each.get(name) for each in metrics])) for name in metric_ids(comparison)}
    return {
        **packed_columns(_decisions(comparison, strings, marks)),
        "metrics": packed_columns(columns),
        "sides": {side: each for side, each in found.items() if each},
    }


def _decisions(comparison: Comparison, strings: Strings, marks: Sequence[Mark]) -> dict[str, Any]:
    """Return what was decided on the rows: how they were matched, measured and judged."""
    rows = comparison.rows
    pairs, verdicts = [row.pair for row in rows], [row.verdict for row in rows]
    measured = [row.measurement for row in rows]
    reasons = [pair.reason for pair in pairs]
    relations = {group.id: group.relation.value for group in comparison.pairs.groups}
    expectation = [reason.expectation.value if reason is not None else None for reason in reasons]
    groups = [pair.group for pair in pairs]
    named = RowMarks.of(comparison)
    texts, lists = strings.places, strings.lists
    return {
        "status": packed([_STATUS_PLACES[_status_of(verdict)] for verdict in verdicts]),
        "role": packed([_ROLE_PLACES[_role_of(verdict)] for verdict in verdicts]),
        "confidence": packed(short_numbers([pair.confidence for pair in pairs])),
        "expectation": packed(expectation),
        "mark": packed(mapped(marks, attrgetter("rank"))),
        "excess": packed(short_numbers([_rounded(named.excess(row.order, row.verdict.excess)) for row in rows])),
        "count": packed([each.count if each is not None else None for each in measured]),
        "mismatch": packed([each.nonfinite_mismatch if each is not None else None for each in measured]),
        "worst": packed([each.worst_index if each is not None else None for each in measured]),
        "rule_ids": packed_places(lists([verdict.rule_ids for verdict in verdicts])),
        "reasons": packed_places(lists([verdict.reasons for verdict in verdicts])),
        "rule": packed_places(texts([pair.rule for pair in pairs])),
        "rule_span": packed_places(texts([str(pair.rule_span) if pair.rule_span else None for pair in pairs])),
        "reason": packed_places(texts([reason.text if reason is not None else None for reason in reasons])),
        "transform": packed_places(lists([pair.transform for pair in pairs])),
        "group": packed_places(texts(groups)),
        "relation": packed_places(texts(mapped(groups, relations.get))),
        "mode": packed_places(texts([each.mode.value if each is not None else None for each in measured])),
        "notes": packed_places(lists([each.notes if each is not None else () for each in measured])),
    }


class _Sides:
    """Columns of the tensors of one side."""

    def __init__(self, reader: RowReader, strings: Strings, nodes: NodeTable) -> None:
        self._reader = reader
        self._strings = strings
        self._nodes = nodes

    def columns(
        self,
        tensors: Sequence[TensorRef | None],
        summaries: Sequence[SideSummary | None],
        catalogs: Sequence[Catalog],
    ) -> dict[str, Any]:
        texts = self._strings.places
        statistics = list(map(statistics_of, tensors, summaries))
        checksums = [
            checksum_of(tensor, summary) if tensor is not None else None
            for tensor, summary in zip(tensors, summaries, strict=True)
        ]
        slots, described = self._slots(tensors), self._descriptions(tensors)
        numbers = [
            self._nodes.number(catalog, tensor.node) if tensor is not None else None
            for tensor, catalog in zip(tensors, catalogs, strict=True)
        ]
        return packed_columns(
            {
                **{name: packed(short_numbers(list(map(attrgetter(name), statistics)))) for name in _STATISTICS},
                "node": packed_places(numbers),
                **{name: packed_places([each[at] for each in slots]) for at, name in enumerate(_SLOT)},
                **{name: packed_places([each[at] for each in described]) for at, name in enumerate(_DESCRIPTION)},
                "checksum": packed_places(texts(checksums)),
                "value": packed_places(texts(self._each(tensors, _value))),
                "why": packed_places(texts(self._each(tensors, lambda tensor: tensor.reason))),
            }
        )

    def _each(self, tensors: Sequence[TensorRef | None], function: Callable[[TensorRef], Any]) -> list[Any]:
        return [function(tensor) if tensor is not None else None for tensor in tensors]

    def _slots(self, tensors: Sequence[TensorRef | None]) -> list[tuple[int | None, ...]]:
        """Return direction and index of every tensor, as places."""
        known: dict[tuple[object, ...], tuple[int | None, ...]] = {}
        found: list[tuple[int | None, ...]] = []
        for tensor in tensors:
            if tensor is None:
                found.append((None, None))
                continue
            key = _slot_of(tensor)
            places = known.get(key)
            if places is None:
                texts = (tensor.slot.role.value, tensor.slot.index)
                places = known[key] = tuple(map(self._strings.place, texts))
            found.append(places)
        return found

    def _descriptions(self, tensors: Sequence[TensorRef | None]) -> list[tuple[int | None, ...]]:
        """Return what most tensors share with many others, as places in the order of the names above."""
        nothing: tuple[int | None, ...] = (None,) * len(_DESCRIPTION)
        known: dict[tuple[object, ...], tuple[int | None, ...]] = {}
        found: list[tuple[int | None, ...]] = []
        for tensor in tensors:
            if tensor is None:
                found.append(nothing)
                continue
            key = (*_described(tensor), file_of(tensor))
            places = known.get(key)
            if places is None:
                places = known[key] = self._description(tensor)
            found.append(places)
        return found

    def _description(self, tensor: TensorRef) -> tuple[int | None, ...]:
        folder, name = posixpath.split(self._reader.file(tensor) or "")
        shape = shape_of(tensor)
        texts = (
            tensor.kind.value,
            tensor.dtype,
            tensor.stored_dtype,
            _shape(shape),
            _shape(tensor.shape) if tensor.shape != shape else None,
            tensor.layout,
            folder,
            name,
        )
        return tuple(map(self._strings.place, texts))


def _rounded(excess: float | None) -> float | None:
    return None if excess is None else round(excess, EXCESS_DECIMALS)


def _shape(shape: tuple[int, ...] | None) -> str | None:
    return None if shape is None else "[" + ", ".join(str(dim) for dim in shape) + "]"


def _value(tensor: TensorRef) -> str | None:
    if tensor.value is None:
        return None
    value = json_value(tensor.value)
    shown = value if isinstance(value, str) else json_text(value)
    return shown if len(shown) <= MAX_VALUE_CHARACTERS else shown[:MAX_VALUE_CHARACTERS] + " ..."
