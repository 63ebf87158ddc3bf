"""What `show` says of a stored run: rows that are asked for as an aligned table or as JSON, and the largest errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

from msgspec import Struct

from probe_flow.record.conclusion import last_line
from probe_flow.record.json_values import any_json_text, unsplit
from probe_flow.record.row_index import RowState
from probe_flow.record.run_folder import StoredRun
from probe_flow.record.run_json import plain
from probe_flow.record.stored_rows import StoredRows
from probe_flow.record.types.reading import Reader
from probe_flow.record.types.rows import RowRecord
from probe_flow.reports.terminal.console import render_summary
from probe_flow.reports.terminal.short import render_short
from probe_flow.runs.heat_map import HeatText
from probe_flow.runs.queries.base import EVERYWHERE, Scope
from probe_flow.runs.row_table import row_table, worst_rows

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

MAX_WORST = 5


class _Named(Struct, frozen=True, gc=False):
    node: str


_NAMED = Reader(_Named)
"""The field of a row that patterns are held against."""


class Filter(Struct, frozen=True):
    """Which rows to show; None = all. ``node`` is a name, or a pattern with ``*``, ``?`` and ``[...]``."""

    verdict: str | None = None
    role: str | None = None
    node: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it lets every row pass."""
        return self.verdict is None and self.role is None and self.node is None

    def numbers(self, rows: StoredRows, scope: Scope = EVERYWHERE) -> Iterator[int]:
        """Yield the numbers of the rows that pass."""
        index = rows.index
        if self.node is None:
            return index.numbers(self._has_state, scope.keeps)
        return self._named(rows, index.by_state(self._has_state), [*map(scope.keeps, index.executions)])

    def has_name(self, name: str) -> bool:
        """Return True if a node of this name passes."""
        # Names of operators may hold brackets: a name that is spelled out always matches itself.
        return self.node is None or name == self.node or fnmatchcase(name, self.node)

    def _has_state(self, state: RowState) -> bool:
        return self.verdict in (None, state.status.value) and self.role in (None, state.role.value)

    def _named(self, rows: StoredRows, flags: bytes, kept: Sequence[bool]) -> Iterator[int]:
        """Yield the numbers of rows that have a flag, an execution to look at, and a name that passes."""
        found = [each for each in rows.index.stretches() if kept[each.execution] and 1 in flags[each.begin : each.end]]
        parts = rows.parts((each.begin for each in found), _NAMED)
        for (begin, end, _, _), part in zip(found, parts, strict=True):
            if self.has_name(part.node):
                yield from (number for number in range(begin, end) if flags[number])


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

    def rows(self) -> Iterator[RowRecord]:
        """Yield the first rows that pass; the counts are right when it has ended."""
        for rows in self._run.stored_rows(comparison=self._scope.comparison):
            self.total += len(rows.index)
            numbers = self._wanted.numbers(rows, self._scope)
            for row in rows.rows(islice(numbers, None if self.limit is None else self.limit - self.matching)):
                self.matching += 1
                yield row
            self.matching += sum(1 for _ in numbers)


def render_run(
    run: StoredRun, *, color: bool, width: int, folder: str, is_verbose: bool, to_terminal: bool = False
) -> str:
    """Return the summary of a stored run, which ends with the same line as that of the run itself.

    Args:
        run: the run.
        color: whether to use terminal colours.
        width: columns of the terminal.
        folder: the run's folder as the user typed it.
        is_verbose: all that there is to say in place of 24 lines.
        to_terminal: whether a terminal shows it.
    """
    if not is_verbose:
        more = "`-v` shows executions, coverage, the largest errors and the files"
        return render_short(run.record, color=color, width=width, folder=folder, more=more, to_terminal=to_terminal)
    heat = HeatText(run.record)
    comparisons = [*run.stored_rows()]
    for rows in comparisons:
        heat.add(rows.comparison, rows.index)
    table = row_table(worst_rows(comparisons, limit=MAX_WORST), has_reasons=False)
    found = {
        "Executions, operators in order": heat.lines(width=width),
        "Largest errors, relative to the golden tensor": table,
    }
    tables = {title: lines for title, lines in found.items() if lines}
    return render_summary(
        run.record, (), color=color, width=width, folder=folder, tables=tables, to_terminal=to_terminal
    )


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
    record = plain(run.record)
    listed: Any = record["findings"]
    found = {
        **{key: record[key] for key in _FROM_RECORD},
        "first_divergence": _at(listed, run.record.first_divergence),
        "nonfinite_origin": _at(listed, run.record.nonfinite_origin),
        "suspects": [listed[position] for position in run.record.suspects if position < len(listed)],
    }
    return {"folder": str(run.folder), **found}


def _at(listed: Sequence[Any], position: int | None) -> Any:
    return listed[position] if position is not None and position < len(listed) else None


def run_json(run: StoredRun, selection: Selection | None) -> Iterator[str]:
    """Yield parts of one JSON object: the conclusions of the run, and ``worst`` or the ``rows`` that are asked for.

    Rows stand there as in ``comparison.jsonl`` and are passed on one by one; ``matching`` counts all that pass the
    filter.
    """
    head = conclusions(run)
    if selection is None:
        head["worst"] = [plain(row) for row in worst_rows([*run.stored_rows()], limit=MAX_WORST)]
        yield json.dumps(head, indent=2, ensure_ascii=False) + "\n"
        return
    yield json.dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}") + ',\n  "rows": ['
    separator = "\n    "
    for row in selection.rows():
        yield separator + unsplit(any_json_text(plain(row)))
        separator = ",\n    "
    yield f'\n  ],\n  "matching": {selection.matching},\n  "total": {selection.total}\n}}\n'
