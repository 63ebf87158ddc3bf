"""The data of the HTML report: all rows as columns, what the run concluded, and where it came from."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from probe_flow.errors import Diagnostic, Severity
from probe_flow.metrics.registry import metrics as known_metrics
from probe_flow.records import (
    Catalog,
    ComparedPair,
    Comparison,
    Expectation,
    Role,
    SideSummary,
    Status,
    TensorDetail,
    TensorRef,
)
from probe_flow.reports.html_columns import Columns, Strings, short_number
from probe_flow.reports.html_nodes import NodeTable
from probe_flow.reports.html_summary import summary
from probe_flow.reports.json_values import json_line, json_value
from probe_flow.reports.rows import RowReader, checksum_of, shape_of, statistics_of

FORMAT = 1
"""Version of the payload, for whoever reads it out of a report."""

MAX_PROBLEMS = 500
"""Problems listed; the number of all of them is stated, and events.jsonl has every one."""

MAX_VALUE_CHARACTERS = 2000
"""Characters kept of a scalar's or an opaque thing's text."""

_RUN_FACTS = ("run_id", "workflow", "params", "versions", "timings", "executor", "stages")
_STATISTICS = ("min", "max", "mean", "l2norm", "nan", "inf")
_STATUS_PLACES = {status: place for place, status in enumerate(Status)}
_ROLE_PLACES = {role: place for place, role in enumerate(Role)}
_REFERENCE_PREFIX = "reference."


def payload(comparison: Comparison, *, run: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that the report shows, as JSON values.

    Texts stand once in ``strings``; columns of texts hold places in it. A column is a list with one cell a row, or one
    value that all rows share, or absent when no row has any. Numbers have 6 significant digits. The same comparison
    and facts give the same payload.

    Args:
        comparison: what is reported.
        run: facts of run.json so far; what is not there is not shown.
    """
    strings = Strings()
    nodes = NodeTable(strings)
    catalogs = _catalogs(comparison)
    rows = _Rows(comparison, strings, nodes)
    for row in comparison.rows:
        rows.add(row)
    places = {row.order: place for place, row in enumerate(comparison.rows)}
    problems = _all_problems(comparison, catalogs.values())
    errors = [problem for _, problem in problems if problem.severity is Severity.ERROR]
    found = {
        "format": FORMAT,
        "summary": summary(comparison, places, errors),
        "run": {name: json_value(run[name]) for name in _RUN_FACTS if name in run},
        "dumps": [_dump(side, catalog) for side, catalog in catalogs.items()],
        "statuses": [status.value for status in Status],
        "roles": [role.value for role in Role],
        "count": len(comparison.rows),
        "order": _order(comparison),
        "rows": rows.packed(),
        "definitions": _definitions(rows.metric_ids()),
        "details": {str(places[order]): _detail(detail) for order, detail in _sorted_details(comparison, places)},
        "problems": {"count": len(problems), "shown": [_problem(*each) for each in problems[:MAX_PROBLEMS]]},
    }
    flow = nodes.edges(catalogs)
    return {**found, "edges": flow, "nodes": nodes.nodes(), "executions": nodes.executions(), "strings": strings.texts}


def _order(comparison: Comparison) -> list[int] | None:
    """Return the numbers of the rows in comparison.jsonl, None when they are their places."""
    orders = [row.order for row in comparison.rows]
    return None if orders == list(range(len(orders))) else orders


def _catalogs(comparison: Comparison) -> dict[str, Catalog]:
    pairs = comparison.pairs
    sides = {"target": pairs.target, "golden": pairs.golden, "reference": pairs.reference}
    return {side: catalog for side, catalog in sides.items() if catalog is not None}


class _Rows:
    """Collects the columns of all rows."""

    def __init__(self, comparison: Comparison, strings: Strings, nodes: NodeTable) -> None:
        self._reader = RowReader(comparison)
        self._pairs = comparison.pairs
        self._relations = {group.id: group.relation.value for group in comparison.pairs.groups}
        self._strings = strings
        self._nodes = nodes
        self._columns = Columns()
        self._sides = {"target": Columns(), "golden": Columns(), "reference": Columns()}
        self._metrics = Columns()
        self._ids = sorted({name for row in comparison.rows if row.measurement for name in row.measurement.metrics})

    def metric_ids(self) -> list[str]:
        return self._ids

    def packed(self) -> dict[str, Any]:
        sides = {side: columns.packed() for side, columns in self._sides.items()}
        return {
            **self._columns.packed(),
            "metrics": self._metrics.packed(),
            "sides": {side: columns for side, columns in sides.items() if columns},
        }

    def add(self, row: ComparedPair) -> None:
        pair, measured = row.pair, row.measurement
        self._decision(row)
        metrics = measured.metrics if measured is not None else {}
        self._metrics.add(**{name: short_number(metrics.get(name)) for name in self._ids})
        self._side("target", self._pairs.target, pair.target, measured.target if measured else None)
        golden_catalog = self._reader.golden_catalog(row)
        self._side("golden", golden_catalog, pair.golden, measured.golden if measured else None)
        if self._pairs.reference is not None:
            self._side("reference", self._pairs.reference, pair.reference, None)

    def _decision(self, row: ComparedPair) -> None:
        """Add what was decided on the row: how it was matched, measured and judged."""
        pair, verdict, measured, text = row.pair, row.verdict, row.measurement, self._strings.place
        reason = pair.reason
        self._columns.add(
            status=_STATUS_PLACES[verdict.status],
            role=_ROLE_PLACES[verdict.role],
            confidence=short_number(pair.confidence),
            expected=reason.expectation is Expectation.EXPECTED if reason else None,
            count=measured.count if measured else None,
            mismatch=measured.nonfinite_mismatch if measured else None,
            worst=measured.worst_index if measured else None,
        )
        self._columns.add_places(
            rule_ids=text("\n".join(verdict.rule_ids)),
            reasons=text("\n".join(verdict.reasons)),
            rule=text(pair.rule),
            rule_span=text(str(pair.rule_span) if pair.rule_span else None),
            reason=text(reason.text if reason else None),
            transform=text("\n".join(pair.transform)),
            group=text(pair.group),
            relation=text(self._relations.get(pair.group)),
            mode=text(measured.mode.value if measured else None),
            notes=text("\n".join(measured.notes) if measured else None),
        )

    def _side(self, side: str, catalog: Catalog, tensor: TensorRef | None, summarised: SideSummary | None) -> None:
        columns = self._sides[side]
        statistics = statistics_of(tensor, summarised)
        columns.add(**{each: short_number(getattr(statistics, each)) for each in _STATISTICS})
        columns.add_places(**(self._described(catalog, tensor, summarised) if tensor is not None else _NO_TENSOR))

    def _described(self, catalog: Catalog, tensor: TensorRef, summarised: SideSummary | None) -> dict[str, int | None]:
        text = self._strings.place
        folder, name = posixpath.split(self._reader.file(tensor) or "")
        shape = shape_of(tensor)
        return {
            "node": self._nodes.number(catalog, tensor.node),
            "direction": text(tensor.slot.role.value),
            "index": text(tensor.slot.index),
            "kind": text(tensor.kind.value),
            "dtype": text(tensor.dtype),
            "stored_dtype": text(tensor.stored_dtype),
            "shape": text(_shape(shape)),
            "stored_shape": text(_shape(tensor.shape)) if tensor.shape != shape else None,
            "layout": text(tensor.layout),
            "folder": text(folder),
            "file": text(name),
            "checksum": text(checksum_of(tensor, summarised)),
            "value": text(_value(tensor)),
            "why": text(tensor.reason),
        }


_PLACES_OF_SIDE = (
    *("node", "direction", "index", "kind", "dtype", "stored_dtype", "shape", "stored_shape", "layout"),
    *("folder", "file", "checksum", "value", "why"),
)
_NO_TENSOR: Mapping[str, None] = dict.fromkeys(_PLACES_OF_SIDE)


def _shape(shape: tuple[int, ...] | None) -> str | None:
    return None if shape is None else "[" + ", ".join(str(dim) for dim in shape) + "]"


def _value(tensor: TensorRef) -> str | None:
    if tensor.value is None:
        return None
    value = json_value(tensor.value)
    shown = value if isinstance(value, str) else json_line({"value": value})[len('{"value": ') : -len("}\n")]
    return shown if len(shown) <= MAX_VALUE_CHARACTERS else shown[:MAX_VALUE_CHARACTERS] + " ..."


def _definitions(ids: Iterable[str]) -> dict[str, Any]:
    """Return what the metrics mean; one that the registry does not know has no entry."""
    known = known_metrics()
    found = {}
    for metric_id in ids:
        metric = known.get(metric_id.removeprefix(_REFERENCE_PREFIX))
        if metric is not None:
            against = " Against the reference." if metric_id.startswith(_REFERENCE_PREFIX) else ""
            found[metric_id] = {
                "text": metric.definition + against,
                "range": metric.range,
                "unit": metric.unit,
                "better": metric.better.value,
            }
    return found


def _sorted_details(comparison: Comparison, places: Mapping[int, int]) -> list[tuple[int, TensorDetail]]:
    return sorted((order, detail) for order, detail in comparison.details.items() if order in places)


def _detail(detail: TensorDetail) -> dict[str, Any]:
    return {
        "start": detail.start,
        "target": [short_number(value) for value in detail.target],
        "golden": [short_number(value) for value in detail.golden],
        "edges": [short_number(value) for value in detail.edges],
        "counts": list(detail.counts),
        "equal": detail.equal,
    }


def _dump(side: str, catalog: Catalog) -> dict[str, Any]:
    return {
        "side": side,
        "root": catalog.root,
        "framework": catalog.framework,
        "task": catalog.task,
        "nodes": len(catalog.nodes),
        "tensors": len(catalog.tensors),
        "fingerprint": catalog.fingerprint,
    }


def _all_problems(comparison: Comparison, catalogs: Iterable[Catalog]) -> list[tuple[str, Diagnostic]]:
    """Return the problems of both dumps, of matching and of comparing, each once, with where it was met."""
    found = {_identity(problem): (catalog.side, problem) for catalog in catalogs for problem in catalog.problems}
    for origin, problems in (("match", comparison.pairs.problems), ("compare", comparison.problems)):
        for problem in problems:  # a later stage repeats what it was given
            found.setdefault(_identity(problem), (origin, problem))
    return list(found.values())


def _identity(problem: Diagnostic) -> tuple[object, ...]:
    return problem.code, problem.message, problem.path, problem.tensor, problem.span


def _problem(origin: str, problem: Diagnostic) -> dict[str, Any]:
    return {
        "origin": origin,
        "code": problem.code,
        "severity": problem.severity.value,
        "message": problem.message,
        "place": str(problem.span) if problem.span else problem.path,
        "help": problem.help,
    }
