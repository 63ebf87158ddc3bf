"""The dump.json table as msprobe 26.2 writes it: its columns alone, and its own rules in `Result` and `Err_message`.

For scripts that read those files. What these tables leave out or call a pass (rows that only the golden side has, rows
without partner) stands in every other result of the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby

from probe_flow.records import Comparison, NodeKey, Row, SlotRole
from probe_flow.reports.dump_json_columns import PREFIX, Layout
from probe_flow.reports.row_colors import Color
from probe_flow.reports.table import Cell, Table
from probe_flow.reports.tables.dump_json.layout import (
    PUBLISHED,
    StackColumn,
    batches,
    facts,
    header_of,
    layout_of,
    numbers_of,
)
from probe_flow.reports.tables.dump_json.rules import Marks, judge_entry
from probe_flow.reports.tables.dump_json.sides import file_names, guarded

_COLORS = {"pass": Color.GREEN, "warning": Color.YELLOW, "error": Color.RED}


def msprobe_table(comparison: Comparison) -> Table:
    """Return the rows that have a target, with the marks that the published tool gives.

    Calls without values, of dumps of task ``structure``, are not among them: the tool writes no table of such dumps.
    """
    layout = layout_of(comparison)
    stacks = StackColumn.of(comparison)
    rows = _rows(comparison, layout, stacks)
    return Table(header_of(layout, stacks), numbers_of(layout), rows)


def _rows(comparison: Comparison, layout: Layout, stacks: StackColumn | None) -> Iterator[tuple[Color, Sequence[Cell]]]:
    columns = (*PREFIX, *layout.columns)
    targets = [
        row for row in comparison.rows if (ref := row.pair.target) is not None and ref.slot.role is not SlotRole.CALL
    ]
    for node, group in groupby(_facts(targets, layout), key=_node):
        rows, shown = zip(*group, strict=True)
        judged = judge_entry([dict(zip(columns, cells, strict=True)) for cells in shown], api=_api(comparison, node))
        for row, cells, marks in zip(rows, shown, judged, strict=True):
            last = [stacks.cell(row)] if stacks is not None else []
            if layout is Layout.TENSOR:
                last.append(file_names(row.pair.target, row.pair.golden))
            yield _COLORS[marks.result], [*cells, *_judgement(cells, marks), *last]


def _node(row: tuple[Row, Sequence[Cell]]) -> NodeKey:
    return row[0].pair.shown.node


def _api(comparison: Comparison, node: NodeKey) -> str:
    found = comparison.pairs.target.nodes.get(node)
    entry = (found.entry if found is not None else None) or node.name
    return (*entry.split("."), "")[1]


def _facts(targets: Sequence[Row], layout: Layout) -> Iterator[tuple[Row, Sequence[Cell]]]:
    """Yield the rows with their cells before the judgement."""
    for rows in batches(targets):
        yield from zip(rows, zip(*facts(rows, layout, PUBLISHED), strict=True), strict=True)


def _judgement(cells: Sequence[Cell], marks: Marks) -> tuple[str, str, str]:
    grads = cells[PREFIX.index("NPU Requires_grad")], cells[PREFIX.index("Bench Requires_grad")]
    return str(grads[0] == grads[1]), marks.result, guarded(json.dumps(marks.messages))
