"""What `show` says of a stored run: rows that are asked for as an aligned table or as JSON, and the largest errors."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from probe_flow.record.conclusion import last_line
from probe_flow.record.facts import DISTANCE, figure, operator, printable, slot, where
from probe_flow.record.json_values import any_json_text, unsplit
from probe_flow.record.json_values import number as _number
from probe_flow.record.run_folder import StoredRun
from probe_flow.record.text_table import text_table
from probe_flow.reports.terminal.console import render_summary
from probe_flow.runs.queries.base import EVERYWHERE, Scope, reasons_of
from probe_flow.runs.queries.heat_map import HeatText

_FROM_RECORD = (
    "schema",
    "run_id",
    "workflow",
    "verdict",
    "exit_code",
    "incomplete",
    "counts",
    "coverage",
    "first_divergence",
    "nonfinite_origin",
    "suspects",
    "findings",
)
_HEADER = ("verdict", "role", "error", "cosine", "max abs", "dtype", "shape", "where", "tensor")
_WHERE = _HEADER.index("where")
_RIGHT = frozenset({"error", "cosine", "max abs"})
_STATISTICS_HEADER = {"error": "l2norm_diff_rel", "max abs": "max_diff"}
_MAX_REASON = 300

MAX_WORST = 5


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows to show; None = all. ``node`` is a name, or a pattern with ``*``, ``?`` and ``[...]``."""

    verdict: str | None = None
    role: str | None = None
    node: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it lets every row pass."""
        return self.verdict is None and self.role is None and self.node is None

    def keeps(self, row: Mapping[str, Any]) -> bool:
        """Say whether a row of ``comparison.jsonl`` passes."""
        if self.verdict is not None and row.get("verdict") != self.verdict:
            return False
        if self.role is not None and row.get("role") != self.role:
            return False
        # Names of operators may hold brackets: a name that is spelled out always matches itself.
        name = row["node"]
        return self.node is None or name == self.node or fnmatchcase(name, self.node)


def worst_rows(rows: Iterable[Mapping[str, Any]], *, limit: int) -> list[Mapping[str, Any]]:
    """Return the rows with the largest relative distance above zero, the largest first, earlier rows first."""
    ranked = ((_distance(row), -number, row) for number, row in enumerate(rows))
    found = heapq.nlargest(limit, (item for item in ranked if item[0] > 0), key=lambda item: item[:2])
    return [row for _, _, row in found]


def _distance(row: Mapping[str, Any]) -> float:
    metrics = row.get("metrics") or {}
    value = _number(metrics.get(DISTANCE, metrics.get(_STATISTICS_HEADER["error"])))
    return 0.0 if value is None or math.isnan(value) else value


def row_table(rows: Iterable[Mapping[str, Any]], *, has_reasons: bool) -> list[str]:
    """Return rows as lines of aligned columns, the tensor last, so that no long name moves the others.

    A place that all rows share stands in the header.

    Args:
        rows: records of ``comparison.jsonl``.
        has_reasons: put the reason below each row.
    """
    cells: list[tuple[str, ...]] = [_HEADER]
    reasons = [""]
    for row in rows:
        cells.append(_cells(row))
        reasons.append(_reason(row) if has_reasons else "")
    if len(cells) == 1:
        return []
    places = {line[_WHERE] for line in cells[1:]}
    if len(places) == 1 and "" not in places:
        cells[0] = (*_HEADER[:-1], f"{_HEADER[-1]}, at {places.pop()}")
        cells[1:] = [(*line[:_WHERE], "", line[-1]) for line in cells[1:]]
    table = text_table(cells[0], cells[1:], right=_RIGHT)
    lines = []
    for line, reason in zip(table, reasons, strict=True):
        lines.append(line)
        if reason:
            lines.append(f"      {reason}")
    return lines


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    metrics = row.get("metrics") or {}
    role = row.get("role")
    distance = _number(metrics.get(DISTANCE, metrics.get(_STATISTICS_HEADER["error"])))
    largest = _number(metrics.get("max_abs_err", metrics.get(_STATISTICS_HEADER["max abs"])))
    cosine = _number(metrics.get("cosine"))
    return (
        printable(row["verdict"]).replace("_", " "),
        "" if role in (None, "unknown") else printable(role),
        "" if distance is None else f"{distance:.3g}",
        "" if cosine is None else figure(cosine),
        "" if largest is None else f"{largest:.3g}",
        _both(row, "dtype"),
        _both(row, "shape"),
        where(row),
        _tensor(row),
    )


def _both(row: Mapping[str, Any], key: str) -> str:
    """Return what both sides say of a tensor, once where they agree."""
    texts = [
        printable(side[key]).replace(" ", "")
        for side in (row.get("target"), row.get("golden"))
        if isinstance(side, Mapping) and side.get(key) not in (None, "")
    ]
    return "/".join(dict.fromkeys(texts))


def _tensor(row: Mapping[str, Any]) -> str:
    golden = row.get("golden")
    partner = ""
    if isinstance(golden, Mapping) and row.get("target") is not None:
        partner = f"  <- {printable(golden.get('name') or '')}"
    alone = "  (golden only)" if row.get("target") is None else ""
    stage = f"{printable(row['comparison'])}: " if row.get("comparison") else ""
    return f"{stage}{operator(row)} {slot(row)}{partner}{alone}"


def _reason(row: Mapping[str, Any]) -> str:
    text = printable("; ".join(reasons_of(row)))
    return text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 3] + "..."


class Selection:
    """The rows that a filter lets pass: the first ones, and how many there are.

    Args:
        run: the run.
        wanted: which rows.
        limit: how many are given; None = all.
        scope: where to look.
    """

    def __init__(self, run: StoredRun, wanted: Filter, *, limit: int | None, scope: Scope = EVERYWHERE) -> None:
        self.limit = limit
        self.matching = 0
        self.total = 0
        self._run = run
        self._wanted = wanted
        self._scope = scope

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the first rows that pass; the counts are right when it has ended."""
        for row in self._run.rows(comparison=self._scope.comparison):
            self.total += 1
            if self._scope.keeps(row) and self._wanted.keeps(row):
                self.matching += 1
                if self.limit is None or self.matching <= self.limit:
                    yield row


def render_run(run: StoredRun, *, color: bool, width: int, folder: str) -> str:
    """Return the summary of a stored run, which ends with the same line as that of the run itself.

    Args:
        run: the run.
        color: whether to use terminal colours.
        width: columns of the terminal.
        folder: the run's folder as the user typed it.
    """
    heat = HeatText(run.record)
    table = row_table(worst_rows(heat.watching(run.rows()), limit=MAX_WORST), has_reasons=False)
    found = {
        "Executions, operators in order": heat.lines(width=width),
        "Largest errors, relative to the golden tensor": table,
    }
    tables = {title: lines for title, lines in found.items() if lines}
    return render_summary(run.record, (), color=color, width=width, folder=folder, tables=tables)


def render_rows(selection: Selection, run: StoredRun, *, folder: str) -> Iterator[str]:
    """Yield the rows that a filter lets pass as lines, how many there are, and the last line of the run's summary."""
    table = row_table(selection.rows(), has_reasons=True)
    yield from table
    if table:
        yield ""
    shown = min(selection.matching, selection.limit or selection.matching)
    more = f"; the first {shown} are shown, `--limit 0` shows all" if shown < selection.matching else ""
    yield f"{selection.matching} of {selection.total} rows match{more}"
    yield last_line(run.record, folder=folder)


def conclusions(run: StoredRun) -> dict[str, Any]:
    """Return where a run lies and what it concluded, as JSON."""
    head: dict[str, Any] = {"folder": str(run.folder)}
    return head | {key: run.record[key] for key in _FROM_RECORD if key in run.record}


def run_json(run: StoredRun, selection: Selection | None) -> Iterator[str]:
    """Yield parts of one JSON object: the conclusions of the run, and ``worst`` or the ``rows`` that are asked for.

    Rows stand there as in ``comparison.jsonl`` and are passed on one by one; ``matching`` counts all that pass the
    filter.
    """
    head = conclusions(run)
    if selection is None:
        head["worst"] = worst_rows(run.rows(), limit=MAX_WORST)
        yield json.dumps(head, indent=2, ensure_ascii=False) + "\n"
        return
    yield json.dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}") + ',\n  "rows": ['
    separator = "\n    "
    for row in selection.rows():
        yield separator + unsplit(any_json_text(row))
        separator = ",\n    "
    yield f'\n  ],\n  "matching": {selection.matching},\n  "total": {selection.total}\n}}\n'
