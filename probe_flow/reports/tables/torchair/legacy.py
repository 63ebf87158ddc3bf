"""The 24-column CSV of earlier TorchAir comparison tools, for scripts that read that table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from probe_flow.record.cells import number_cell, text_cell
from probe_flow.record.rows import reason_of
from probe_flow.records import Comparison, Row, SideSummary, Status, TensorRef
from probe_flow.records.figure_columns import statistics_of
from probe_flow.reports.row_colors import Color, colored
from probe_flow.reports.table import Table
from probe_flow.reports.tables.torchair.layout import as_number, shape_cell, slot_path

_SIDE_COLUMNS = ("data_path", "op_type", "dtype", "shape", "max_value", "min_value", "mean_value")

_METRIC_COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "cosine_similarity": ("cosine_or_zero", "cosine"),
        "max_relative_error": ("max_rel_err_masked_eps32",),
        "mean_relative_error": ("mean_rel_err_masked_eps32",),
        "max_absolute_error": ("max_abs_err_masked_eps32",),
        "mean_absolute_error": ("mean_abs_err_masked_eps32",),
        "kl_divergence": ("kl_softmax",),
        "relative_euclidean_distance": ("relative_euclidean_distance_or_zero", "relative_euclidean_distance"),
    }
)
"""The metrics of each column; the first that was asked for is shown. The published formulas are the first ones."""

_COSINE_DECIMALS = 10
_JUDGED = frozenset((Status.PASS, Status.WARNING, Status.FAIL))

LEGACY_HEADER = (
    "token_id",
    "data_id",
    *(f"golden_{column}" for column in _SIDE_COLUMNS),
    *(f"my_{column}" for column in _SIDE_COLUMNS),
    *_METRIC_COLUMNS,
    "cmp_fail_reason",
)
_NUMBERS = frozenset(
    (
        "token_id",
        "data_id",
        *_METRIC_COLUMNS,
        *(f"{side}_{name}_value" for side in ("golden", "my") for name in ("max", "min", "mean")),
    )
)


def legacy_table(comparison: Comparison) -> Table:
    """Return every row of a comparison in execution order; blank where nothing was computed or a side is missing.

    ``data_id`` counts the rows from 0. The columns ``*_op_type`` are always blank, as they were, and paths are
    absolute. ``cmp_fail_reason`` says why a row was not compared whole: it is blank where every element was, however
    large the errors. The metrics are those of the set ``torchair_legacy``.
    """
    return Table(LEGACY_HEADER, _NUMBERS, _rows(comparison))


def _rows(comparison: Comparison) -> Iterator[tuple[Color, list[str]]]:
    for number, (row, color) in enumerate(colored(comparison.rows)):
        measured = row.measurement
        yield (
            color,
            [
                number_cell(row.pair.shown.node.execution.step),
                str(number),
                *_side_cells(row.pair.golden, measured.golden if measured else None),
                *_side_cells(row.pair.target, measured.target if measured else None),
                *(
                    _metric(column, measured.first_metric(names) if measured is not None else None)
                    for column, names in _METRIC_COLUMNS.items()
                ),
                _reason(row),
            ],
        )


def _metric(column: str, value: float | None) -> str:
    if column == "cosine_similarity" and value is not None:
        value = round(value, _COSINE_DECIMALS)
    return number_cell(value)


def _side_cells(tensor: TensorRef | None, summary: SideSummary | None) -> list[str]:
    if tensor is None:
        return [""] * len(_SIDE_COLUMNS)
    file = tensor.holder
    statistics = statistics_of(tensor, summary)
    return [
        text_cell(tensor.id if file is None else slot_path(tensor, file)),
        "",
        text_cell(f"torch.{tensor.dtype}") if tensor.dtype else "",
        shape_cell(tensor, blank=""),
        number_cell(as_number(statistics.max)),
        number_cell(as_number(statistics.min)),
        number_cell(as_number(statistics.mean)),
    ]


def _reason(row: Row) -> str:
    measured = row.measurement
    is_whole = measured is not None and row.verdict.status in _JUDGED and not measured.nonfinite_mismatch
    return "" if is_whole else text_cell(reason_of(row) or "")
