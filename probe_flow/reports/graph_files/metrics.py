"""Metrics of rows as graph files show them: the columns of the tables of dump.json comparison, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from probe_flow.records import GraphLayout, GraphMode, GraphPair, Row
from probe_flow.reports.graph_files.items import Item, metric_text
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


def cells_of(rows: Sequence[Row], mode: GraphMode, layout: GraphLayout) -> list[Mapping[str, Cell]]:
    """Return the cells of rows by column, as our tables have them or, outside our layout, msprobe's."""
    if not rows:
        return []
    table = LAYOUTS[mode]
    columns = facts(rows, table, OURS if layout is GraphLayout.OWN else PUBLISHED)
    names = (*PREFIX, *table.columns)
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def marks_of(cells: Sequence[Mapping[str, Cell]], name: str) -> list[Marks]:
    """Return what the rules of msprobe 26.2.0 say of the rows of one node."""
    return judge_entry(cells, api=(*name.split("."), "")[1])


def metrics_of(pair: GraphPair, numbers: Sequence[int]) -> Iterator[Sequence[Item | None]]:
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
            words = [(RESULTS[row.verdict.status], "; ".join(row.reasons)) for row in some]
        elif layout is GraphLayout.MSPROBE_VIS_DB:
            name = pair.target.nodes[number].name
            words = [(mark.result, str(mark.messages)) for mark in marks_of(mine, name)]
        items = iter([_item(each, shown, layout) for each in mine])
        said = iter(words)
        yield [None if row is None else _with_words(next(items), next(said, None)) for row in of_node]


def _item(cells: Mapping[str, Cell], shown: Sequence[str], layout: GraphLayout) -> Item:
    item = {name: metric_text(cells[name]) for name in shown}
    if layout is GraphLayout.MSPROBE_VIS:
        if "NPU MD5" in cells:
            item["Result"] = "pass" if cells["NPU MD5"] == cells["BENCH MD5"] else "Different"
        return item
    item[CONSISTENT] = str(cells["NPU Requires_grad"] == cells["Bench Requires_grad"])
    return item


def _with_words(item: Item, words: tuple[str, str] | None) -> Item:
    return item if words is None else {**item, "Result": words[0], "Err_message": words[1]}
