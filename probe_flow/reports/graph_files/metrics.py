"""Metrics of rows as graph files show them: the columns of the tables of dump.json comparison, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat

from probe_flow.records import Row, Statistics
from probe_flow.records.columns.figure_columns import RecordedColumns
from probe_flow.records.model_graph import GraphLayout, GraphMode, GraphPair
from probe_flow.reports.dump_json_columns import (
    ABSENT,
    CONSISTENT,
    DIFFERENCES,
    METRICS,
    NOT_A_NUMBER,
    PREFIX,
    RESULTS,
    Layout,
)
from probe_flow.reports.graph_files.items import Item, ItemStyle, fours_of, metric_text, texts_of_numbers
from probe_flow.reports.graph_files.json_texts import json_string
from probe_flow.reports.table import Cell
from probe_flow.reports.tables.dump_json.layout import PUBLISHED, difference_columns, facts
from probe_flow.reports.tables.dump_json.metrics import metric_cells
from probe_flow.reports.tables.dump_json.rules import judge_entry

LAYOUTS: Mapping[GraphMode, Layout] = {
    GraphMode.STATISTICS: Layout.STATISTICS,
    GraphMode.TENSOR: Layout.TENSOR,
    GraphMode.MD5: Layout.CHECKSUM,
    GraphMode.STRUCTURE: Layout.STRUCTURE,
}
_GRADS = (PREFIX.index("NPU Requires_grad"), PREFIX.index("Bench Requires_grad"))
_SHOWN: Mapping[Layout, tuple[str, ...]] = {
    Layout.STATISTICS: DIFFERENCES,
    Layout.TENSOR: METRICS,
    Layout.CHECKSUM: (),
    Layout.STRUCTURE: (),
}


def position_difference_columns(
    targets: Sequence[Sequence[object]], goldens: Sequence[Sequence[object]]
) -> list[Sequence[Cell]]:
    """Return the differences that msprobe shows in graphs, which are not those of its tables.

    Two equal values differ by 0.0; relative to a golden of 0 there is no difference, nor of truth values and text.

    >>> position_difference_columns([[2.0, 1, None]], [[1.0, 0, 1.0]])
    [[1.0, 1, 'N/A'], ['100.0%', 'N/A', 'N/A']]
    """
    columns = [
        [_difference(*both) for both in zip(target, golden, strict=True)]
        for target, golden in zip(targets, goldens, strict=True)
    ]
    return [[cells[place] for cells in column] for place in (0, 1) for column in columns]


def _difference(target: object, golden: object) -> tuple[Cell, Cell]:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (target, golden))
    if not numbers or not isinstance(target, int | float) or not isinstance(golden, int | float):
        return ABSENT, ABSENT
    difference = target - golden
    if difference != difference:
        return NOT_A_NUMBER, NOT_A_NUMBER
    return difference, f"{abs(difference / golden * 100)}%" if golden else ABSENT


IN_GRAPHS = PUBLISHED._replace(differences=position_difference_columns)
"""As msprobe has them in graphs."""


def cells_of(rows: Sequence[Row], mode: GraphMode) -> list[Mapping[str, Cell]]:
    """Return the cells of rows by column, as msprobe has them."""
    if not rows:
        return []
    table = LAYOUTS[mode]
    columns = facts(rows, table, IN_GRAPHS)
    for place in _GRADS:  # in graphs what the dump does not say is no word that could differ
        columns[place] = ["" if cell == ABSENT else cell for cell in columns[place]]
    names = (*PREFIX, *table.columns)
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def api_of(name: str) -> str:
    """Return what the rules of msprobe go by: the second part of a name."""
    return (*name.split("."), "")[1]


def metrics_of(
    pair: GraphPair, numbers: Sequence[int], columns: RecordedColumns, style: ItemStyle
) -> Iterator[Sequence[Item | None]]:
    """Yield for each of some nodes of the target the metrics of its tensors; None for those that are not compared.

    Of one dump alone nothing is, and so of none of its nodes.
    """
    if pair.mode is None:
        yield from repeat((), len(numbers))
        return
    rows = [pair.rows(number) for number in numbers]
    held = [[row for row in of_node if row is not None] for of_node in rows]
    if pair.layout is GraphLayout.OWN:
        items = iter(_own_items([row for some in held for row in some], pair.mode, columns, style))
    else:
        names = [pair.target.nodes[number].name for number in numbers]
        items = _msprobe_items(names, held, pair.mode, pair.layout)
    for of_node in rows:
        yield [None if row is None else next(items) for row in of_node]


def _own_items(rows: Sequence[Row], mode: GraphMode, recorded: RecordedColumns, style: ItemStyle) -> list[Item]:
    """Return the metrics of rows in our layout, with their verdicts and reasons."""
    if not rows:
        return []
    names, columns = _SHOWN[LAYOUTS[mode]], []
    if mode is GraphMode.STATISTICS:
        sides = (
            fours_of([row.pair.target for row in rows], recorded, lambda place: _four(rows[place], is_target=True)),
            fours_of([row.pair.golden for row in rows], recorded, lambda place: _four(rows[place], is_target=False)),
        )
        targets, goldens = (list(zip(*(four for four in side if four is not None), strict=True)) for side in sides)
        columns = [_texts(column, style) for column in difference_columns(targets, goldens)]
    elif mode is GraphMode.TENSOR:
        columns = [_texts(column, style) for column in zip(*map(metric_cells, rows), strict=True)]
    verdicts = [RESULTS[row.verdict.status] for row in rows]
    messages = [_messages(row.reasons) for row in rows]
    consistent = [str(_grads(row)) for row in rows]
    names = (*names, CONSISTENT, "Result", "Err_message")
    found = zip(*columns, consistent, verdicts, messages, strict=True)
    return [dict(zip(names, texts, strict=True)) for texts in found]


def _texts(column: Sequence[Cell], style: ItemStyle) -> list[str]:
    texts = texts_of_numbers(column) if style is ItemStyle.VIS_DB else []
    return texts or [metric_text(cell, style) for cell in column]


def _grads(row: Row) -> bool:
    target, golden = row.pair.target, row.pair.golden
    return target is not None and golden is not None and target.requires_grad == golden.requires_grad


def _four(row: Row, *, is_target: bool) -> tuple[object, object, object, object]:
    """Return maximum, minimum, mean and norm of one side of a row."""
    tensor = row.pair.target if is_target else row.pair.golden
    found = tensor.recorded if tensor is not None and tensor.has_numbers else None
    if found is None:
        if tensor is None or not tensor.has_numbers:
            value = None if tensor is None else tensor.value
            return value, value, value, value
        measured = row.measurement
        if measured is not None:
            found = measured.target_statistics if is_target else measured.golden_statistics
        found = found or Statistics()
    return found.max, found.min, found.mean, found.l2norm


@lru_cache(maxsize=1024)
def _messages(reasons: tuple[str, ...]) -> str:
    return json_string(reasons)


def _msprobe_items(
    names: Sequence[str], held: Sequence[Sequence[Row]], mode: GraphMode, layout: GraphLayout
) -> Iterator[Item]:
    """Yield the metrics of rows as msprobe has them, and what its rules say.

    Args:
        names: of the nodes.
        held: rows of each.
        mode: what was compared.
        layout: of which version.
    """
    cells = iter(cells_of([row for some in held for row in some], mode))
    shown, is_first = _SHOWN[LAYOUTS[mode]], layout is GraphLayout.MSPROBE_VIS
    style = ItemStyle.VIS if is_first else ItemStyle.VIS_DB
    for name, some in zip(names, held, strict=True):
        mine = [next(cells) for _ in some]
        marks = judge_entry(mine, api=api_of(name)) if not is_first else ()
        for number, each in enumerate(mine):
            item = {column: metric_text(each[column], style) for column in shown if column != "EucDist" or not is_first}
            if not is_first:
                grads = each["NPU Requires_grad"] == each["Bench Requires_grad"]
                mark = marks[number]
                item |= {CONSISTENT: str(grads), "Result": mark.result, "Err_message": json_string(mark.messages)}
            elif mode is GraphMode.MD5:
                item["Result"] = "pass" if each["NPU MD5"] == each["BENCH MD5"] else "Different"
            yield item
