"""Which file of an offline dump is compared with which golden file: a table without figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from probe_flow.record.cells import text_cell
from probe_flow.records import NodeKey, Pairs, Row, Status, TensorRef, Verdict
from probe_flow.reports.row_colors import Color
from probe_flow.reports.table import Cell, Table, write_csv
from probe_flow.reports.tables.offline.groups import (
    NOT_COMPUTED,
    OfflineGroup,
    Operators,
    golden_names,
    offline_groups,
    target_names,
    tensor_name,
    with_ground_truth,
)
from probe_flow.reports.tables.offline.layout import LINE_END, entries

MAPPING_HEADER = ("Index", "OpType", "NPUDump", "GroundTruth", "TensorIndex", "NPUDumpPath", "GroundTruthPath")


def write_mapping(pairs: Pairs, path: Path, *, rows: Sequence[Row] | None = None) -> None:
    """Write the table; paths are absolute, ``NaN`` stands for what there is not.

    Args:
        pairs: what the matcher decided.
        path: the file; it appears whole or not at all.
        rows: the part of the pairs to show, None for all.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    shown = rows_of(pairs) if rows is None else rows
    write_csv(Table(MAPPING_HEADER, frozenset(("Index",)), _rows(pairs, shown)), path, line_end=LINE_END)


def rows_of(pairs: Pairs) -> tuple[Row, ...]:
    """Return the pairs as rows that nobody measured."""
    skipped = Verdict(Status.SKIPPED)
    return tuple(Row(pair, None, skipped, order) for order, pair in enumerate(pairs.pairs))


def _rows(pairs: Pairs, rows: Sequence[Row]) -> Iterator[tuple[Color, list[Cell]]]:
    operators = Operators(pairs)
    for group in offline_groups(pairs, with_ground_truth(rows), operators):
        for key, row in entries(group, operators):
            if key is not None:
                yield Color.NONE, _cells(group, key, row, operators)


def _cells(group: OfflineGroup, key: NodeKey, row: Row | None, operators: Operators) -> list[Cell]:
    pair = row.pair if row is not None else None
    return [
        group.index,
        text_cell(operators.op_type(key)) or NOT_COMPUTED,
        text_cell(target_names(group, operators)),
        text_cell(golden_names(group, operators)),
        text_cell(tensor_name(pair, operators)) if pair is not None else NOT_COMPUTED,
        _path(pair.target if pair is not None else None),
        _path(pair.golden if pair is not None else None),
    ]


def _path(tensor: TensorRef | None) -> str:
    file = tensor.holder if tensor is not None else None
    return text_cell(file) if file is not None else NOT_COMPUTED
