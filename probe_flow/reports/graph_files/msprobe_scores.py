"""Scores as msprobe gives them, from what its tables show of the rows of each node.

Version 1.2.1: as ours (`graphs.scores`), but what is no number never counts, so that NaN is the best of all, and
collections of tensor dumps have 0. Version 26.2.0: 0, 0.5 or 1 for the worst result of its rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from probe_flow.records import Row
from probe_flow.records.model_graph import GraphKind, GraphLayout, GraphMode, GraphPair, ModelGraph
from probe_flow.reports.dump_json_columns import ABSENT
from probe_flow.reports.graph_files.metrics import api_of, cells_of, is_lost
from probe_flow.reports.table import Cell
from probe_flow.reports.tables.dump_json.rules import judge_entry

_BATCH = 512
_LEVELS = (0, 0.5, 1)
_IGNORED = frozenset(("empty", "empty_like", "empty_with_format", "new_empty_strided", "new_empty", "empty_strided"))
"""APIs whose score does not count; among checksums 26.2.0 calls them the worst, as 1 was the best once."""

_ERRORS = ("MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr")
_SHARE = "One Thousandth Err Ratio"

_Cells = Sequence[Mapping[str, Cell]]


def msprobe_scored(pair: GraphPair) -> GraphPair:
    """Return compared graphs in a layout of msprobe with its scores."""
    mode, graph, is_first = pair.mode, pair.target, pair.layout is GraphLayout.MSPROBE_VIS
    assert mode is not None, "graphs of one dump have no scores"
    found: dict[int, float] = {}
    for begin in range(0, len(graph.nodes), _BATCH):
        numbers = range(begin, min(begin + _BATCH, len(graph.nodes)))
        rows = {number: [row for row in pair.rows(number) if row is not None] for number in numbers}
        cells = cells_of([row for some in rows.values() for row in some], mode, pair.layout)
        first = 0
        for number, some in rows.items():
            mine = cells[first : first + len(some)]
            first += len(some)
            if some and mode is not GraphMode.STRUCTURE:
                name = graph.nodes[number].name
                found[number] = _first(graph, some, mine, mode) if is_first else _second(name, mine, mode)
    same = {number: not score for number, score in found.items()} if is_first and mode is GraphMode.MD5 else {}
    for number in graph.children[0]:
        if graph.nodes[number].kind is GraphKind.COLLECTION:
            inside = (found.get(child, 0) for child in graph.children[number])
            found[number] = 0 if mode is GraphMode.TENSOR else max(inside, default=0)
    return replace(pair, scores=found, same=same)


def _second(name: str, cells: _Cells, mode: GraphMode) -> float:
    api = api_of(name)
    if api in _IGNORED:
        return 1 if mode is GraphMode.MD5 else 0
    return _LEVELS[max(mark.level for mark in judge_entry(cells, api=api))]


def _first(graph: ModelGraph, rows: Sequence[Row], cells: _Cells, mode: GraphMode) -> float:
    if mode is GraphMode.MD5:
        return float(any(each["NPU MD5"] != each["BENCH MD5"] for each in cells if not is_lost(each)))
    sides: tuple[list[Mapping[str, Cell]], list[Mapping[str, Cell]]] = [], []
    for row, each in zip(rows, cells, strict=True):
        assert row.pair.target is not None
        if mode is not GraphMode.TENSOR or row.pair.target.shape or not row.pair.target.has_numbers:
            sides[graph.is_output(row.pair.target)].append(each)
    if mode is GraphMode.STATISTICS:
        return min(max((_error(each[name], each) for each in sides[1] for name in _ERRORS), default=0), 1)
    inputs, outputs = (_least(side) for side in sides)
    return 0 if inputs is None or outputs is None else min(max(inputs - outputs, 0), 1)


def _error(cell: Cell, cells: Mapping[str, Cell]) -> float:
    """Return a relative error as a fraction; 0 for what is no number."""
    error = None if cells["Bench Name"] == ABSENT else _number(str(cell).rstrip("%"))
    return error / 100 if error is not None and error > 0 else 0


def _least(side: _Cells) -> float | None:
    shares = [share for each in side if (share := _number(str(each[_SHARE]))) is not None]
    return min((*shares, 1.0)) if shares else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
