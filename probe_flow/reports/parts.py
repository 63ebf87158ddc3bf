"""The files that one table becomes: dump.json tables are one per rank, step and mode, and no longer than readers take.

The names are those that users of the published tool know: ``compare_result_rank0_TIME.csv``, ``_proc1000`` for a
program without ranks, ``_part_1`` where a table is cut; several steps go to folders of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs
from msgspec.structs import replace

from probe_flow.errors import Diagnostic, UsageError
from probe_flow.records import Catalog, Comparison, Execution, Row
from probe_flow.records.pairs import grouped

if TYPE_CHECKING:
    from probe_flow.records.differences import Differences

MAX_CSV_ROWS = 1_000_000
"""Rows of one CSV file; longer tables are cut."""

_PROCESS = re.compile(r"(?:^|/)(proc\d+)/[^/]*$", re.ASCII)
_DEBUG_FILE = "debug.json"


class Part(Struct, frozen=True):
    """One file of a table.

    Args:
        comparison: the rows that it shows.
        folder: folder below that of the results, with a slash at its end; empty = none.
        suffix: follows the name of the table, before the time.
        ending: follows the time.
        prefix: precedes the name of the table.
        is_debug: whether the rows are of single values that the program saved (debug.json).
    """

    comparison: Comparison
    folder: str = ""
    suffix: str = ""
    ending: str = ""
    is_debug: bool = False
    prefix: str = ""


def whole(comparison: Comparison, max_rows: int | None = None) -> Iterator[Part]:  # noqa: ARG001
    """Yield the table as one file, however long."""
    yield Part(comparison)


def written_before(comparison: Comparison, max_rows: int | None = None) -> Iterator[Part]:  # noqa: ARG001
    """Yield no part: the stage that made the pairs wrote the tables, row by row.

    Raises:
        UsageError: PF6611 if it wrote none.
    """
    if not comparison.pairs.files:
        raise UsageError(
            Diagnostic(
                "PF6611",
                "`csv: precheck` names the tables of the stage `precheck`, and the rows are of another one",
                help="name the layout of these rows, e.g. `csv: dump_json`",
            )
        )
    yield from ()


def by_execution(comparison: Comparison, max_rows: int | None = None) -> Iterator[Part]:
    """Yield one part per rank, step and graph, cut where it is longer than ``max_rows`` rows (None = any number)."""
    for part in _executions(comparison):
        rows = part.comparison.rows
        if max_rows is None or len(rows) <= max_rows:
            yield part
            continue
        for number, start in enumerate(range(0, len(rows), max_rows), start=1):
            cut = structs.replace(part.comparison, rows=rows[start : start + max_rows])
            yield replace(part, comparison=cut, ending=f"_part_{number}")


def by_model(comparison: Comparison, max_rows: int | None = None) -> Iterator[Part]:  # noqa: ARG001
    """Yield one part per model, device and step; one without a prefix where the dump is a single folder.

    The prefix is ``{device}_{model}_{step}_``, with the model's id before the step where two would be the same.
    """
    groups = rows_by_execution(comparison.rows)
    if all(execution.model is None for execution in groups):
        yield Part(comparison)
        return
    prefixes = [_prefix(execution) for execution in groups]
    for (execution, rows), prefix in zip(groups.items(), prefixes, strict=True):
        shown = _prefix(execution, has_id=True) if prefixes.count(prefix) > 1 else prefix
        yield Part(structs.replace(comparison, rows=rows), prefix=shown)


def rows_by_execution(rows: Sequence[Row]) -> dict[Execution, Sequence[Row]]:
    """Group rows by the target's execution; those of the golden alone go where their execution was compared."""
    partners: dict[Execution, Execution] = {}
    for row in rows:
        if row.pair.target is not None and row.pair.golden is not None:
            partners.setdefault(row.pair.golden.node.execution, row.pair.target.node.execution)
    runs = ((row.pair, row.pair.shown.node.execution) for row in rows)
    return grouped(rows, (partners.get(run, run) if pair.target is None else run for pair, run in runs))


def ranks_of(differences: Differences) -> list[int]:
    """Return the rank of each execution; one without a rank gets the lowest number that is free at its step."""
    taken: dict[object, set[int]] = {}
    for found in differences:
        if found.execution.rank is not None:
            taken.setdefault(found.execution.step, set()).add(found.execution.rank)
    ranks = []
    for found in differences:
        rank, used = found.execution.rank, taken.setdefault(found.execution.step, set())
        if rank is None:
            rank = next(number for number in range(len(used) + 1) if number not in used)
            used.add(rank)
        ranks.append(rank)
    return ranks


def folder_of(execution: Execution, *, has_steps: bool) -> str:
    """Return the folder for the files of an execution, with a slash at its end; empty when there is one step only."""
    parts = [_safe(execution.graph)] if isinstance(execution.graph, str) else []
    if (has_steps or parts) and execution.step is not None:
        parts.append(f"step{execution.step}")
    return "".join(f"{part}/" for part in parts)


def _executions(comparison: Comparison) -> Iterator[Part]:
    target, golden = comparison.pairs.target, comparison.pairs.golden
    groups = _groups(comparison)
    is_debug = any(file.endswith(_DEBUG_FILE) for file in _files(target))
    has_steps = len({execution.step for execution in groups}) > 1
    for execution, rows in groups.items() or [(Execution(), [])]:
        side = golden if execution in golden.executions and execution not in target.executions else target
        part = comparison if len(groups) <= 1 else structs.replace(comparison, rows=rows)
        yield Part(part, folder_of(execution, has_steps=has_steps), _suffix(execution, side), is_debug=is_debug)


def _groups(comparison: Comparison) -> Mapping[Execution, Sequence[Row]]:
    """Group rows by execution; when each side has only one, the rows need not be looked at."""
    executions = comparison.pairs.target.executions
    if len(executions) == 1 and len(comparison.pairs.golden.executions) <= 1:
        return {executions[0]: comparison.rows}
    return rows_by_execution(comparison.rows)


def _prefix(execution: Execution, *, has_id: bool = False) -> str:
    device = execution.device if execution.device is not None else execution.rank
    facts = (device, execution.model, execution.graph if has_id else None, execution.step)
    return "".join(f"{_safe(str(fact))}_" for fact in facts if fact is not None)


def _suffix(execution: Execution, side: Catalog) -> str:
    """Return the name of the execution's own folder in the dump, none where the dump is a single file."""
    files = [file for file in _files(side) if "/" in file]
    if not files:
        return ""
    if execution.rank is not None:
        return f"_rank{execution.rank}"
    step = f"step{execution.step}/"
    for file in [file for file in files if step in file] or files:
        if match := _PROCESS.search(file):
            return f"_{match.group(1)}"
    return ""


def _safe(graph: str) -> str:
    """Return the name of a graph as one that a folder can have."""
    return re.sub(r"[^\w-]+", "_", graph, flags=re.ASCII) or "_"


def _files(side: Catalog) -> tuple[str, ...]:
    files = side.attrs.get("files")
    return tuple(map(str, files)) if isinstance(files, tuple) else ()
