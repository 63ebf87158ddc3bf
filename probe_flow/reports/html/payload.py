"""The data of the HTML report: all rows as columns, what the run concluded, and where it came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from msgspec import to_builtins

from probe_flow.errors import Diagnostic, Severity, UsageError
from probe_flow.metrics.catalogue.registry import find_metric
from probe_flow.record.json_values import json_value
from probe_flow.record.types.run import RunRecord
from probe_flow.records import (
    Catalog,
    Comparison,
    ErrorMap,
    Role,
    Status,
    TensorDetail,
)
from probe_flow.records.row import ManyRows
from probe_flow.reports.html.columns import (
    TEXTS_AT_ONCE,
    Member,
    Pieces,
    Strings,
    json_bytes,
    list_pieces,
    object_pieces,
    stretches,
)
from probe_flow.reports.html.nodes import AskFigures, CallFigures, NodeTable
from probe_flow.reports.html.numbers import Cell, short_numbers
from probe_flow.reports.html.packing import Piece
from probe_flow.reports.html.rows import metric_ids, row_members
from probe_flow.reports.html.summary import summary
from probe_flow.reports.marks import RowMarks, marks_data

FORMAT = 3
"""Version of the payload, for whoever reads it out of a report."""

MAX_PROBLEMS = 500
"""Problems listed; the number of all of them is stated, and events.jsonl has every one."""

_RUN_FACTS = ("run_id", "workflow", "params", "versions", "timings", "executor", "stages")
_REFERENCE_PREFIX = "reference."


class Payload:
    """Everything that the report shows: what stands above the rows at once, the rest as JSON in pieces.

    Texts stand once in ``strings``; columns of texts hold places in it. A column is a list with one cell a row, or one
    value that all rows share, or absent when no row has any; names of files stand as they are. Numbers have 6
    significant digits. The same comparison and facts give the same payload.

    Args:
        comparison: what is reported.
        run: the record of the run so far.
        figures: gives what graphs say of calls.

    Attributes:
        ranks: the rank of the mark of each row.
        summary: what stands above the rows.
    """

    def __init__(self, comparison: Comparison, *, run: RunRecord, figures: AskFigures = CallFigures) -> None:
        self._comparison = comparison
        self._figures = figures
        self._run = run
        self._marks = RowMarks.of(comparison)
        self._catalogs = _catalogs(comparison)
        self._problems = _all_problems(comparison, self._catalogs.values())
        self._places = _places(comparison)
        self.ranks = self._marks.ranks(comparison.rows)
        errors = [problem for _, problem in self._problems if problem.severity is Severity.ERROR]
        self.summary = summary(comparison, self.ranks, self._places, errors, run)

    def pieces(self) -> Iterator[Piece]:
        """Yield the JSON; each column is made when it is its turn."""
        return object_pieces(self._members())

    def _members(self) -> Iterator[Member]:
        comparison, run, problems = self._comparison, self._run, self._problems
        strings = Strings()
        nodes = NodeTable(strings, self._catalogs, self._figures)
        yield from _values(
            format=FORMAT,
            summary=self.summary,
            run=json_value(to_builtins({name: getattr(run, name) for name in _RUN_FACTS}, enc_hook=json_value)),
            dumps=[_dump(side, catalog) for side, catalog in self._catalogs.items()],
            statuses=[status.value for status in Status],
            roles=[role.value for role in Role],
            marks=marks_data(),
            count=len(comparison.rows),
        )
        yield "order", _order(comparison)
        metrics = metric_ids(comparison)
        yield "rows", object_pieces(row_members(comparison, metrics, strings, nodes, self._marks, self.ranks))
        yield from _values(definitions=_definitions(metrics))
        yield "details", object_pieces(_details(comparison, self._places))
        shown = [_problem(*each) for each in problems[:MAX_PROBLEMS]]
        yield from _values(problems={"count": len(problems), "shown": shown})
        yield "edges", nodes.edges(list(self._catalogs.values()))
        yield "links", nodes.links(self._catalogs)
        yield "nodes", nodes.nodes()
        yield "stacks", nodes.stacks()
        yield from _values(executions=nodes.executions())
        yield "strings", list_pieces(stretches(strings.texts, TEXTS_AT_ONCE))


def _values(**values: object) -> Iterator[Member]:
    for name, value in values.items():
        yield name, (json_bytes(value),)


def _order(comparison: Comparison) -> Pieces:
    """Return the numbers of the rows in comparison.jsonl, null when they are their places."""
    if isinstance(comparison.rows, ManyRows) or all(row.order == place for place, row in enumerate(comparison.rows)):
        return (b"null",)
    return list_pieces([row.order for row in some] for some in stretches(comparison.rows))


def _places(comparison: Comparison) -> dict[int, int]:
    """Return `Row.order` -> place of the row in the report, for the rows that anything names."""
    named = {finding.row for finding in comparison.findings}.union(comparison.details)
    if isinstance(comparison.rows, ManyRows):  # they are in this order
        return {number: number for number in named if number is not None}
    return {row.order: place for place, row in enumerate(comparison.rows) if row.order in named}


def _catalogs(comparison: Comparison) -> dict[str, Catalog]:
    pairs = comparison.pairs
    golden = None if pairs.is_examination else pairs.golden
    sides = {"target": pairs.target, "golden": golden, "reference": pairs.reference}
    return {side: catalog for side, catalog in sides.items() if catalog is not None}


def _definitions(ids: Iterable[str]) -> dict[str, Any]:
    """Return what the metrics mean; one that the registry does not know has no entry."""
    found = {}
    for metric_id in ids:
        try:
            metric = find_metric(metric_id)
        except UsageError:
            continue
        against = " Against the reference." if metric_id.startswith(_REFERENCE_PREFIX) else ""
        found[metric_id] = {
            "text": metric.definition + against,
            "range": metric.range,
            "unit": metric.unit,
            "better": metric.better.value,
        }
    return found


def _details(comparison: Comparison, places: Mapping[int, int]) -> Iterator[Member]:
    shown = [(order, detail) for order, detail in sorted(comparison.details.items()) if order in places]
    numbers = iter(short_numbers([*chain.from_iterable(_numbers(detail) for _, detail in shown)]))
    for order, detail in shown:
        yield str(places[order]), (json_bytes(_detail(detail, numbers)),)


def _numbers(detail: TensorDetail) -> Iterator[float | None]:
    """Yield what is shortened, of all details together: numpy takes its time for the hundred of each."""
    return chain(detail.target, detail.golden, detail.edges, *(each.errors for each in detail.maps))


def _detail(detail: TensorDetail, numbers: Iterator[Cell]) -> dict[str, Any]:
    """Return a detail; ``numbers``: those of `_numbers`, shortened, which are taken."""
    target, golden, edges = (list(islice(numbers, len(each))) for each in (detail.target, detail.golden, detail.edges))
    found = {
        "start": detail.start,
        "target": target,
        "golden": golden,
        "edges": edges,
        "counts": list(detail.counts),
        "equal": detail.equal,
    }
    return {**found, "maps": [_map(each, numbers) for each in detail.maps]} if detail.maps else found


def _map(found: ErrorMap, numbers: Iterator[Cell]) -> dict[str, Any]:
    rows, columns = found.cells
    return {
        "shape": found.shape,
        "down": found.down,
        "across": found.across,
        "cell": found.cell,
        "rows": rows,
        "columns": columns,
        "errors": list(islice(numbers, len(found.errors))),
        "alike": found.alike,
        "mismatch": found.mismatch,
    }


def _dump(side: str, catalog: Catalog) -> dict[str, Any]:
    return {
        "side": side,
        "root": catalog.root,
        "framework": catalog.framework.name,
        "task": catalog.task,
        "nodes": len(catalog.nodes),
        "tensors": len(catalog.tensors),
        "fingerprint": catalog.fingerprint,
    }


def _all_problems(comparison: Comparison, catalogs: Iterable[Catalog]) -> list[tuple[str, Diagnostic]]:
    """Return the problems of both dumps, of matching and of comparing, each once, with where it was met."""
    found = {_identity(problem): (catalog.side, problem) for catalog in catalogs for problem in catalog.problems}
    for origin, problems in (
        ("match", (*comparison.pairs.problems, *comparison.pairs.unused)),
        ("compare", comparison.problems),
    ):
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
