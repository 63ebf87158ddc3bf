"""Metrics of rows as graph files show them: the columns of the tables of dump.json comparison, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from probe_flow.records import GraphLayout, GraphMode, GraphPair, Row
from probe_flow.reports.graph_files.items import Item, ItemStyle, metric_text
from probe_flow.reports.graph_files.json_texts import json_string
from probe_flow.reports.table import Cell
from probe_flow.reports.tables.dump_json.layout import (
    CONSISTENT,
    DIFFERENCES,
    METRICS,
    OURS,
    PREFIX,
    PUBLISHED,
    RESULTS,
    Layout,
    facts,
)
from probe_flow.reports.tables.dump_json.rules import Marks, judge_entry
from probe_flow.reports.tables.dump_json.sides import ABSENT, NOT_A_NUMBER, Value

LAYOUTS: Mapping[GraphMode, Layout] = {
    GraphMode.STATISTICS: Layout.STATISTICS,
    GraphMode.TENSOR: Layout.TENSOR,
    GraphMode.MD5: Layout.CHECKSUM,
    GraphMode.STRUCTURE: Layout.STRUCTURE,
}
_SHOWN: Mapping[Layout, tuple[str, ...]] = {
    Layout.STATISTICS: DIFFERENCES,
    Layout.TENSOR: METRICS,
    Layout.CHECKSUM: (),
    Layout.STRUCTURE: (),
}


def position_difference_columns(
    targets: Sequence[Sequence[Value]], goldens: Sequence[Sequence[Value]]
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


def _difference(target: Value, golden: Value) -> tuple[Cell, Cell]:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (target, golden))
    if not numbers or not isinstance(target, int | float) or not isinstance(golden, int | float):
        return ABSENT, ABSENT
    difference = target - golden
    if difference != difference:
        return NOT_A_NUMBER, NOT_A_NUMBER
    return difference, f"{abs(difference / golden * 100)}%" if golden else ABSENT


IN_GRAPHS = PUBLISHED._replace(differences=position_difference_columns)
"""As msprobe has them in graphs."""


def cells_of(rows: Sequence[Row], mode: GraphMode, layout: GraphLayout) -> list[Mapping[str, Cell]]:
    """Return the cells of rows by column, as our tables have them or, outside our layout, msprobe's."""
    if not rows:
        return []
    table = LAYOUTS[mode]
    columns = facts(rows, table, OURS if layout is GraphLayout.OWN else IN_GRAPHS)
    names = (*PREFIX, *table.columns)
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def marks_of(cells: Sequence[Mapping[str, Cell]], name: str) -> list[Marks]:
    """Return what the rules of msprobe 26.2.0 say of the rows of one node."""
    return judge_entry(cells, api=(*name.split("."), "")[1])


def metrics_of(pair: GraphPair, numbers: Sequence[int], style: ItemStyle) -> Iterator[Sequence[Item | None]]:
    """Yield for each of some nodes of the target the metrics of its tensors; None for those that are not compared."""
    mode, layout = pair.mode, pair.layout
    if mode is None:
        yield from ((None,) * len(pair.target.tensors_of(number)) for number in numbers)
        return
    rows = [pair.rows(number) for number in numbers]
    held = [[row for row in of_node if row is not None] for of_node in rows]
    cells = cells_of([row for some in held for row in some], mode, layout)
    shown = _SHOWN[LAYOUTS[mode]]
    if layout is GraphLayout.MSPROBE_VIS:
        shown = tuple(name for name in shown if name != "EucDist")
    begin = 0
    for number, of_node, some in zip(numbers, rows, held, strict=True):
        mine = cells[begin : begin + len(some)]
        begin += len(some)
        words: Sequence[tuple[str, str]] = ()
        if layout is GraphLayout.OWN:
            words = [(RESULTS[row.verdict.status], json_string(row.reasons)) for row in some]
        elif layout is GraphLayout.MSPROBE_VIS_DB:
            name = pair.target.nodes[number].name
            words = [(mark.result, json_string(mark.messages)) for mark in marks_of(mine, name)]
        items = iter([_item(each, shown, layout, style) for each in mine])
        said = iter(words)
        yield [None if row is None else _with_words(next(items), next(said, None)) for row in of_node]


def _item(cells: Mapping[str, Cell], shown: Sequence[str], layout: GraphLayout, style: ItemStyle) -> Item:
    item = {name: metric_text(cells[name], style) for name in shown}
    if layout is GraphLayout.MSPROBE_VIS:
        if "NPU MD5" in cells:
            item["Result"] = "pass" if cells["NPU MD5"] == cells["BENCH MD5"] else "Different"
        return item
    item[CONSISTENT] = str(cells["NPU Requires_grad"] == cells["Bench Requires_grad"])
    return item


def _with_words(item: Item, words: tuple[str, str] | None) -> Item:
    return item if words is None else {**item, "Result": words[0], "Err_message": words[1]}
