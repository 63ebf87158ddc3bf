"""The TorchAir result table as CSV: the published columns, with rank, graph, token, match and colour added."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from types import MappingProxyType

from probe_flow.record.cells import number_cell, text_cell
from probe_flow.record.rows import RowReader, checksum_of, reason_of, shape_of
from probe_flow.records import Comparison, Mode, NodeKey, Row, SlotRole, Status, TensorRef
from probe_flow.records.figure_columns import FIGURES, MeasuredColumns, MetricGroup, SideColumns, SideFigures
from probe_flow.records.figures import Value
from probe_flow.reports.row_colors import Color, accuracy_of, colored
from probe_flow.reports.table import Cell, Table

NOT_AVAILABLE = "N/A"
UNSUPPORTED = "unsupported"
UNMATCHED = "unmatched"

RESULTS: Mapping[Status, str] = MappingProxyType(
    {
        Status.PASS: "PASS",
        Status.WARNING: "PASS",
        Status.FAIL: "FAIL",
        Status.NOT_COMPARABLE: "FAIL",
        Status.ERROR: "FAIL",
        Status.UNMATCHED_TARGET: NOT_AVAILABLE,
        Status.UNMATCHED_GOLDEN: NOT_AVAILABLE,
        Status.SKIPPED: NOT_AVAILABLE,
    }
)
"""This layout knows PASS and FAIL only; where nothing was compared there is no result."""

_TENSOR_COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Cosine": ("cosine",),
        "EucDist": ("euclidean_distance",),
        "MaxAbsErr": ("max_abs_err",),
        "MaxRelativeErr": ("max_rel_err_eps", "max_rel_err"),
        "One Thousandth Err Ratio": ("err_ratio_1e3_eps", "err_ratio_1e3"),
        "Five Thousandth Err Ratio": ("err_ratio_5e3_eps", "err_ratio_5e3"),
    }
)
"""The metrics of each column; the first that was asked for is shown. The published formulas are the first ones."""

_STATISTICS_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "Max diff": "max_diff",
        "Min diff": "min_diff",
        "Mean diff": "mean_diff",
        "L2norm diff": "l2norm_diff",
        "MaxRelativeErr": "max_diff_rel",
        "MinRelativeErr": "min_diff_rel",
        "MeanRelativeErr": "mean_diff_rel",
        "NormRelativeErr": "l2norm_diff_rel",
    }
)
_CHECKSUM_COLUMNS = ("NPU MD5", "BENCH MD5")

_RELATIVE = frozenset(column for column, name in _STATISTICS_COLUMNS.items() if name.endswith("_rel"))

_COSINE_SHOWN_ROUNDED = 0.9999
_DECIMALS = 12
_OF_SCALARS = frozenset({"MaxAbsErr", "MaxRelativeErr"})
"""Columns shown with 12 decimals; also the only ones that mean something for a scalar."""

_NOT_OF_SCALARS = frozenset(_TENSOR_COLUMNS) - _OF_SCALARS
_NOT_OF_ONE = frozenset({"Cosine"})
_NO_COLUMNS: frozenset[str] = frozenset()

_COLUMNS_OF: Mapping[Mode, Sequence[str]] = MappingProxyType(
    {
        Mode.TENSOR: tuple(_TENSOR_COLUMNS),
        Mode.STATISTICS: tuple(_STATISTICS_COLUMNS),
        Mode.CHECKSUM: _CHECKSUM_COLUMNS,
    }
)

_HEAD = (
    "Rank",
    "Graph",
    "Token",
    "API Name",
    "Stack Info",
    "Data Name",
    "NPU Dtype",
    "Bench Dtype",
    "NPU Tensor Shape",
    "Bench Tensor Shape",
)
_TAIL = (
    "NPU max",
    "NPU min",
    "NPU mean",
    "NPU l2norm",
    "Bench max",
    "Bench min",
    "Bench mean",
    "Bench l2norm",
    "Requires_grad Consistent",
    "Result",
    "Accuracy Reached or Not",
    "Err_message",
    "Match",
    "Color",
)

_REFERENCE_DTYPE = "Reference Dtype"
_REFERENCE_METRICS: Mapping[str, str] = MappingProxyType(
    {
        "Reference Cosine": "reference.cosine",
        "Reference EucDist": "reference.euclidean_distance",
        "Reference MaxAbsErr": "reference.max_abs_err",
        "Golden Error": "golden_error",
        "Excess Error": "excess_error",
    }
)
"""Columns of the third side, behind the published ones; a comparison without a reference has none."""

_NUMBERS = frozenset(
    (
        "Rank",
        "Graph",
        "Token",
        *_TENSOR_COLUMNS,
        *_STATISTICS_COLUMNS,
        *_REFERENCE_METRICS,
        *(f"{side} {name}" for side in ("NPU", "Bench") for name in ("max", "min", "mean", "l2norm")),
    )
)

_BATCH = 1024
"""Rows whose cells are made together."""

_ONE_TENSOR_SUFFIXES = (".npy", ".pt")
_SLOT_WORDS: Mapping[SlotRole, str] = MappingProxyType({SlotRole.INPUT: "inputs", SlotRole.OUTPUT: "outputs"})


def torchair_table(comparison: Comparison) -> Table:
    """Return every row of a comparison, those without a partner too, in execution order.

    The metric columns are those of the mode that was compared; a comparison that mixes modes has the columns of each,
    and ``MaxRelativeErr`` (a name of two modes) then belongs to the row's own mode. ``N/A`` = not computable,
    ``unsupported`` = has no meaning for a scalar, ``NaN`` = not a number, ``inf`` = division by zero. Relative figures
    are plain ratios: 0.05 is 5 %.
    """
    return _table(comparison, in_percent=False)


def percent_table(comparison: Comparison) -> Table:
    """Return the same with relative errors of statistics as text in per cent."""
    return _table(comparison, in_percent=True)


def _table(comparison: Comparison, *, in_percent: bool) -> Table:
    modes = _modes(comparison)
    header = (*torchair_header(modes), *_reference_columns(comparison))
    return Table(header, _NUMBERS, _rows(comparison, modes, in_percent=in_percent))


def torchair_header(modes: Sequence[Mode]) -> tuple[str, ...]:
    """Return the columns for the modes that occur."""
    return (*_HEAD, *_columns_of(modes), *_TAIL)


def _reference_columns(comparison: Comparison) -> tuple[str, ...]:
    return () if comparison.pairs.reference is None else (_REFERENCE_DTYPE, *_REFERENCE_METRICS)


def _modes(comparison: Comparison) -> tuple[Mode, ...]:
    """Return the modes that occur; a scalar's value is shown in the columns of real data."""
    found = {row.measurement.mode for row in comparison.rows if row.measurement is not None}
    modes = {Mode.TENSOR if mode is Mode.VALUE else mode for mode in found}
    return tuple(mode for mode in Mode if mode in modes) or (_planned_mode(comparison),)


def _planned_mode(comparison: Comparison) -> Mode:
    """Return what would have been compared, where nothing could be."""
    tasks = {comparison.pairs.target.task, comparison.pairs.golden.task}
    return next((mode for task, mode in _MODES_OF_TASKS.items() if task in tasks), Mode.TENSOR)


_MODES_OF_TASKS: Mapping[str, Mode] = MappingProxyType({"statistics": Mode.STATISTICS, "md5": Mode.CHECKSUM})


def _rows(comparison: Comparison, modes: Sequence[Mode], *, in_percent: bool) -> Iterator[tuple[Color, list[Cell]]]:
    cells = _Cells(comparison, modes, in_percent=in_percent)
    marked = colored(comparison.rows)
    while batch := [*islice(marked, _BATCH)]:
        yield from cells.of(batch)


class _Cells:
    """Makes the cells of rows, their figures many at a time."""

    def __init__(self, comparison: Comparison, modes: Sequence[Mode], *, in_percent: bool) -> None:
        self._reader = RowReader(comparison)
        self._metrics = _MetricCells(modes, in_percent=in_percent)
        self._sides = [SideColumns(side) for side in ("target", "golden")]
        self._has_reference = bool(_reference_columns(comparison))
        self._node: NodeKey | None = None
        self._of_node: tuple[str, ...] = ()

    def of(self, marked: Sequence[tuple[Row, Color]]) -> Iterator[tuple[Color, list[Cell]]]:
        """Yield the cells of rows with their marks."""
        rows = [row for row, _ in marked]
        figures = [_side_cells(side.figures(rows)) for side in self._sides]
        for (row, color), metrics, target, golden in zip(marked, self._metrics.of(rows), *figures, strict=True):
            yield color, [*self._named(row), *metrics, *target, *golden, *self._judged(row, color)]

    def _named(self, row: Row) -> tuple[str, ...]:
        pair = row.pair
        if self._node is not pair.shown.node:  # rows of a node stand together
            self._node = pair.shown.node
            self._of_node = _node_cells(self._node, self._reader.op_type(row))
        return (
            *self._of_node,
            text_cell("; ".join(self._reader.stack(row))) or NOT_AVAILABLE,
            *_tensor_cells(pair.target, pair.golden, self._reader),
        )

    def _judged(self, row: Row, color: Color) -> tuple[Cell, ...]:
        return (
            _requires_grad(row),
            RESULTS[row.verdict.status],
            accuracy_of(row).value,
            text_cell(reason_of(row) or ""),
            _word_cell(row.pair.rule.name) if _is_two_sided(row) else UNMATCHED,
            color.value,
            *(_reference_cells(row) if self._has_reference else ()),
        )


def _node_cells(node: NodeKey, op_type: str) -> tuple[str, ...]:
    execution, name = node.execution, node.name
    return (
        number_cell(execution.rank, blank=NOT_AVAILABLE),
        NOT_AVAILABLE if execution.graph is None else text_cell(str(execution.graph)),
        number_cell(execution.step, blank=NOT_AVAILABLE),
        text_cell(f"{op_type}.{name}" if op_type else name),
    )


def _tensor_cells(target: TensorRef | None, golden: TensorRef | None, reader: RowReader) -> tuple[str, ...]:
    return (
        text_cell(f"[{_data_name(target, reader)}, {_data_name(golden, reader)}]"),
        _word_cell(target.dtype) or NOT_AVAILABLE if target is not None else NOT_AVAILABLE,
        _word_cell(golden.dtype) or NOT_AVAILABLE if golden is not None else NOT_AVAILABLE,
        shape_cell(target, blank=NOT_AVAILABLE),
        shape_cell(golden, blank=NOT_AVAILABLE),
    )


def _data_name(tensor: TensorRef | None, reader: RowReader) -> str:
    if tensor is None:
        return NOT_AVAILABLE
    file = reader.file(tensor)
    return tensor.id if file is None else slot_path(tensor, file)


def slot_path(tensor: TensorRef, file: str) -> str:
    """Return the name of a tensor's data: the file, with ``,inputs,N`` where one file holds several tensors."""
    if file.endswith(_ONE_TENSOR_SUFFIXES):
        return file
    word = _SLOT_WORDS.get(tensor.slot.role, tensor.slot.role.value)
    return f"{file},{word},{tensor.slot.index}"


def shape_cell(tensor: TensorRef | None, *, blank: str) -> str:
    """Return a shape as ``[2, 3]``, a scalar's as ``[]``."""
    shape = shape_of(tensor) if tensor is not None else None
    return blank if shape is None else _shape_text(shape)


@lru_cache(maxsize=4096)
def _shape_text(shape: tuple[int, ...]) -> str:
    return str(list(shape))


_word_cell = lru_cache(maxsize=4096)(text_cell)
"""`text_cell` of words that many rows share."""


def _is_two_sided(row: Row) -> bool:
    return row.pair.target is not None and row.pair.golden is not None


def _side_cells(figures: SideFigures) -> Iterator[tuple[Cell, ...]]:
    columns = (figures.values(FIGURES.index(name)) for name in ("max", "min", "mean", "l2norm"))
    return zip(*([_number(as_number(value)) for value in column] for column in columns), strict=True)


def as_number(value: float | None) -> float | None:
    """Return the extremes of truth values as the numbers 0 and 1, anything else as it is."""
    return int(value) if isinstance(value, bool) else value


def _reference_cells(row: Row) -> list[Cell]:
    """Return the cells of the third side; ``N/A`` where the reference has no such tensor."""
    reference = row.pair.reference
    metrics = row.measurement.metrics if row.measurement is not None else {}
    dtype = text_cell(reference.dtype) if reference is not None else ""
    return [dtype or NOT_AVAILABLE, *(_number(metrics.get(name)) for name in _REFERENCE_METRICS.values())]


def _requires_grad(row: Row) -> str:
    target, golden = row.pair.target, row.pair.golden
    if target is None or golden is None:
        return NOT_AVAILABLE
    flags = target.requires_grad, golden.requires_grad
    return NOT_AVAILABLE if None in flags else str(str(flags[0]) == str(flags[1]))


def _columns_of(modes: Sequence[Mode]) -> tuple[str, ...]:
    """Return the metric columns for the modes that occur, each once."""
    return tuple(dict.fromkeys(column for mode in modes for column in _COLUMNS_OF[mode]))


class _MetricCells:
    """Makes the metric cells of rows, in the columns of these modes."""

    def __init__(self, modes: Sequence[Mode], *, in_percent: bool) -> None:
        self._columns = _columns_of(modes)
        self._in_percent = in_percent
        self._measured = MeasuredColumns()

    def of(self, rows: Sequence[Row]) -> Iterator[tuple[Cell, ...]]:
        """Yield the cells of each row; a name that two modes have is the row's own mode's."""
        table: dict[str, list[Cell]] = {column: [NOT_AVAILABLE] * len(rows) for column in self._columns}
        for group in self._measured.metrics([row.measurement for row in rows]):
            for column, cells in self._cells(group, [rows[place] for place in group.places]).items():
                for place, cell in zip(group.places, cells, strict=True):
                    table[column][place] = cell
        return zip(*table.values(), strict=True)

    def _cells(self, group: MetricGroup, rows: Sequence[Row]) -> Mapping[str, Sequence[Cell]]:
        """Return the columns of rows of one mode."""
        mode = rows[0].measurement.mode if rows[0].measurement is not None else None
        if mode is Mode.CHECKSUM:
            return dict(zip(_CHECKSUM_COLUMNS, zip(*map(_checksums, rows), strict=True), strict=True))
        known: Mapping[str, Sequence[Value]] = dict(zip(group.names, group.columns, strict=True))
        nothing: Sequence[Value] = [None] * len(rows)
        if mode is Mode.STATISTICS:
            relative = _percent if self._in_percent else _number
            return {
                column: [*map(relative if column in _RELATIVE else _number, known.get(name, nothing))]
                for column, name in _STATISTICS_COLUMNS.items()
            }
        unsupported = [_unsupported(row) for row in rows]
        return {
            column: [
                UNSUPPORTED if column in without else _metric(column, value)
                for without, value in zip(
                    unsupported, next((known[name] for name in names if name in known), nothing), strict=True
                )
            ]
            for column, names in _TENSOR_COLUMNS.items()
        }


def _checksums(row: Row) -> tuple[str, ...]:
    pair, measured = row.pair, row.measurement
    assert measured is not None
    sums = checksum_of(pair.target, measured.target), checksum_of(pair.golden, measured.golden)
    return tuple(text_cell(text) if text else NOT_AVAILABLE for text in sums)


def _unsupported(row: Row) -> frozenset[str]:
    """Return the columns that mean nothing here: most of a scalar's, and the direction of a single number."""
    sides = [side for side in (row.pair.target, row.pair.golden) if side is not None]
    is_value = row.measurement is not None and row.measurement.mode is Mode.VALUE
    if is_value or any(shape_of(side) == () for side in sides):
        return _NOT_OF_SCALARS
    return _NOT_OF_ONE if any(side.numel == 1 for side in sides) else _NO_COLUMNS


def _metric(column: str, value: float | None) -> Cell:
    if value is None or isinstance(value, int):
        return _number(value)
    if column == "Cosine" and value > _COSINE_SHOWN_ROUNDED:
        return _number(round(value, 6))
    return _number(round(value, _DECIMALS) if column in _OF_SCALARS else value)


def _number(value: float | None) -> Cell:
    """Return a number as it is, what no spreadsheet takes for one as text."""
    if value is None:
        return NOT_AVAILABLE
    if value.__class__ is float and math.isfinite(value):
        return value
    return number_cell(value, blank=NOT_AVAILABLE, nan="NaN")


def _percent(value: float | None) -> Cell:
    return _number(value) if value is None or not math.isfinite(value) else f"{value * 100}%"
