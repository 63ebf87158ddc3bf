"""Metrics of rows as graph files show them: the columns of the tables of dump.json comparison, as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, repeat
from operator import add

from probe_flow.records import Row, Statistics, Status
from probe_flow.records.figure_columns import RecordedColumns
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
from probe_flow.reports.graph_files.items import ItemStyle, figures_of, metric_texts
from probe_flow.reports.graph_files.json_texts import inside_strings, json_string, members
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
_MAYBE_UNSAID = tuple(
    PREFIX.index(f"{side} {name}") for name in ("Dtype", "Tensor Shape", "Requires_grad") for side in ("NPU", "Bench")
)
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


_CHECKSUMS = ("NPU MD5", "BENCH MD5")


def cells_of(rows: Sequence[Row], mode: GraphMode, layout: GraphLayout) -> list[Mapping[str, Cell]]:
    """Return the cells of rows by column, as a version of msprobe has them."""
    if not rows:
        return []
    table = LAYOUTS[mode]
    columns = facts(rows, table, IN_GRAPHS)
    for place in _MAYBE_UNSAID:  # in graphs what the dump does not say is no word that could differ
        columns[place] = ["" if cell == ABSENT else cell for cell in columns[place]]
    names = (*PREFIX, *table.columns)
    found: list[Mapping[str, Cell]] = [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]
    if layout is GraphLayout.MSPROBE_VIS:
        return found
    alone = {name: NOT_A_NUMBER for name in names if name.lower().startswith("bench ")}
    alone |= dict.fromkeys(DIFFERENCES, " ") if mode is GraphMode.STATISTICS else {}
    return [
        _judged_by_second(each, alone if row.pair.golden is None else {}) for row, each in zip(rows, found, strict=True)
    ]


def _judged_by_second(cells: Mapping[str, Cell], alone: Mapping[str, Cell]) -> Mapping[str, Cell]:
    """Return the cells that the rules of 26.2.0 see: without a golden, words that differ; of null, such a checksum."""
    nulls = {name: "None" for name in _CHECKSUMS if cells.get(name) == ABSENT}
    return {**cells, **nulls, **alone} if nulls or alone else cells


def api_of(name: str) -> str:
    """Return what the rules of msprobe go by: the second part of a name."""
    return (*name.split("."), "")[1]


def is_lost(cells: Mapping[str, Cell]) -> bool:
    """Return True if 1.2.1 shows a tensor as an input and looks for its figures among those of outputs.

    >>> is_lost({"NPU Name": "Module.output.Linear.forward.0.input.0"})
    True
    """
    return all(word in str(cells["NPU Name"]) for word in (".input.", ".output."))


def metrics_of(pair: GraphPair, numbers: Sequence[int], columns: RecordedColumns, style: ItemStyle) -> Iterator[str]:
    """Yield the metrics of each tensor of some nodes of the target, as members of JSON that follow others.

    They are nothing of tensors that are not compared.
    """
    assert pair.mode is not None, "of one dump alone nothing is compared"
    rows = [pair.rows(number) or [None] * len(pair.target.tensors_of(number)) for number in numbers]
    held = [[row for row in of_node if row is not None] for of_node in rows]
    if pair.layout is GraphLayout.OWN:
        found = iter(_own_metrics([row for some in held for row in some], pair.mode, columns, style))
    else:
        names = [pair.target.nodes[number].name for number in numbers]
        found = _msprobe_metrics(names, held, pair.mode, pair.layout)
    return ("" if row is None else next(found) for of_node in rows for row in of_node)


def _own_metrics(rows: Sequence[Row], mode: GraphMode, recorded: RecordedColumns, style: ItemStyle) -> list[str]:
    """Return the metrics of rows in our layout, with their verdicts and reasons."""
    if not rows:
        return []
    columns: list[Sequence[str]] = []
    if mode is GraphMode.STATISTICS:
        targets, goldens = (
            figures_of([row.pair.target for row in rows], recorded, lambda place: _four(rows[place], is_target=True)),
            figures_of([row.pair.golden for row in rows], recorded, lambda place: _four(rows[place], is_target=False)),
        )
        columns = [metric_texts(column, style) for column in difference_columns(targets, goldens)]
    elif mode is GraphMode.TENSOR:
        columns = [metric_texts(column, style) for column in zip(*map(metric_cells, rows), strict=True)]
    judged = [_judged(row.verdict.status, row.reasons, _grads(row)) for row in rows]
    if not columns:
        return judged
    template = "".join(f',"{name}":"%s"' for name in _SHOWN[LAYOUTS[mode]])
    metrics = map(template.__mod__, zip(*map(inside_strings, columns), strict=True))
    return list(map(add, metrics, judged))


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
def _judged(status: Status, reasons: tuple[str, ...], has_same_grads: bool) -> str:  # noqa: FBT001 - called by place
    found = {CONSISTENT: str(has_same_grads), "Result": RESULTS[status], "Err_message": json_string(reasons)}
    return members(found)


def _msprobe_metrics(
    names: Sequence[str], held: Sequence[Sequence[Row]], mode: GraphMode, layout: GraphLayout
) -> Iterator[str]:
    """Yield the metrics of rows as msprobe has them, and what its rules say.

    Args:
        names: of the nodes.
        held: rows of each.
        mode: what was compared.
        layout: of which version.
    """
    is_first = layout is GraphLayout.MSPROBE_VIS
    style = ItemStyle.VIS if is_first else ItemStyle.VIS_DB
    cells = cells_of([row for some in held for row in some], mode, layout)
    shown = [column for column in _SHOWN[LAYOUTS[mode]] if column != "EucDist" or not is_first]
    columns = [metric_texts([each[column] for each in cells], style) for column in shown]
    texts = zip(*columns, strict=True) if columns else repeat(())
    rest = zip(cells, texts, strict=False)
    for name, some in zip(names, held, strict=True):
        mine = [*islice(rest, len(some))]
        marks = judge_entry([each for each, _ in mine], api=api_of(name)) if not is_first else ()
        for number, (each, metrics) in enumerate(mine):
            item = dict(zip(shown, metrics, strict=True))
            if is_first and mode is not GraphMode.TENSOR and is_lost(each):
                item = {}
            elif not is_first:
                grads = each["NPU Requires_grad"] == each["Bench Requires_grad"]
                mark = marks[number]
                item |= {CONSISTENT: str(grads), "Result": mark.result, "Err_message": json.dumps(mark.messages)}
            elif mode is GraphMode.MD5:
                item["Result"] = "pass" if each["NPU MD5"] == each["BENCH MD5"] else "Different"
            yield members(item)
