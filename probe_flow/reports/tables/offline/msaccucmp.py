"""The result table of offline models as msprobe 26.2 writes it: its rows, its shapes, its way with odd numbers.

For scripts that read those files. What these tables leave out (operators inside a fused group, tensors that only the
golden side has) stands in every other result of the run. Its figures are taken from ours, which are sums in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from probe_flow.record.cells import number_cell, text_cell
from probe_flow.record.rows import shape_of
from probe_flow.records import Comparison, NodeKey, Row, TensorRef
from probe_flow.reports.row_colors import Color, colored
from probe_flow.reports.table import Cell, Table
from probe_flow.reports.tables.offline.flags import ModelOutputs, flags, overflow
from probe_flow.reports.tables.offline.groups import (
    DEVICE_ONLY,
    NOT_COMPUTED,
    OfflineGroup,
    Operators,
    golden_names,
    offline_groups,
    target_names,
    target_rows,
    tensor_name,
    with_ground_truth,
)
from probe_flow.reports.tables.offline.layout import Columns, shape_text
from probe_flow.reports.tables.offline.metrics import METRIC_COLUMNS, number_text
from probe_flow.reports.tables.offline.published import published_metrics
from probe_flow.reports.tables.offline.reasons import (
    has_row,
    inner_nodes,
    operator_reason,
    published_reason,
    without_rules,
)

_DECODED = {"bfloat16": "float32"}
_SMALL_FLOATS = ("float8", "hifloat8", "float6", "float4")
_NOT_FLAT = frozenset({"FRACTAL_NZ", "NDC1HWC0"})


def msaccucmp_table(comparison: Comparison, *, columns: Sequence[str] = ()) -> Table:
    """Return the table; arguments as in `probe_flow.reports.tables.offline.layout.offline_table`."""
    operators = Operators(comparison.pairs, cleans_names=True)
    chosen = Columns.of(comparison, columns, operators)
    return Table(chosen.header, chosen.numbers, _rows(comparison, chosen, operators))


def _rows(comparison: Comparison, columns: Columns, operators: Operators) -> Iterator[tuple[Color, list[Cell]]]:
    colors = {row.order: color for row, color in colored(comparison.rows)}
    outputs = ModelOutputs(comparison.pairs, operators)
    for group in offline_groups(comparison.pairs, with_ground_truth(comparison.rows), operators):
        shown = _shown(group, operators)
        for row in shown:
            cells = _cells(group, row, columns, operators)
            if columns.flags:
                cells += flags(group, row, operators.op_type(row.pair.shown.node), operators, outputs)
            yield colors[row.order], cells
        if not shown and _has_operator_row(group, operators):
            cells = _operator_cells(group, columns, operators)
            if columns.flags:
                cells += flags(group, None, "", operators, outputs)
            yield Color.NONE, cells


def _shown(group: OfflineGroup, operators: Operators) -> list[Row]:
    """Return the rows of tensors that the table has."""
    rows = target_rows(group)
    if operators.is_ruled:
        inner = inner_nodes(group)
        rows = [row for row in rows if row.pair.shown.node not in inner]
        return [row for row in rows if row.pair.golden is not None or has_row(row)]
    # Without rules all tensors of a kind are compared, or none.
    kinds = {row.pair.shown.slot.role for row in group.rows if row.pair.golden is None or row.pair.target is None}
    kinds |= {
        row.pair.shown.slot.role for row in rows if row.pair.reason is not None and row.pair.reason.kind.lacks_rule
    }
    return [row for row in rows if row.pair.shown.slot.role not in kinds]


def _has_operator_row(group: OfflineGroup, operators: Operators) -> bool:
    if not operators.is_ruled:
        return True
    if inner_nodes(group):
        return True
    left = [key for key in group.ops if key in group.chosen and not operators.is_filtered(key)]
    return any(operators.is_inner(key) or not operators.is_dumped(key) for key in left)


def _operator_cells(group: OfflineGroup, columns: Columns, operators: Operators) -> list[Cell]:
    first = next((key for key in group.ops if key in group.chosen), None)
    is_ruled = operators.is_ruled
    golden = DEVICE_ONLY if not is_ruled and not _golden_rows(group) else golden_names(group, operators)
    reason = operator_reason(group, operators) if is_ruled else without_rules(group, operators)
    return [
        group.index,
        *([_sequence(first, operators)] if columns.sequence else ()),
        text_cell(operators.op_type(first)) if first is not None and is_ruled else NOT_COMPUTED,
        text_cell(target_names(group, operators)),
        NOT_COMPUTED,
        *([NOT_COMPUTED] if columns.addresses[0] else ()),
        text_cell(golden),
        NOT_COMPUTED,
        *([NOT_COMPUTED] if columns.addresses[1] else ()),
        NOT_COMPUTED,
        NOT_COMPUTED,
        *([NOT_COMPUTED] if columns.overflow else ()),
        *[NOT_COMPUTED] * (len(METRIC_COLUMNS) + len(columns.custom)),
        text_cell(reason),
    ]


def _cells(group: OfflineGroup, row: Row, columns: Columns, operators: Operators) -> list[Cell]:
    target, golden, measured = row.pair.target, row.pair.golden, row.measurement
    assert target is not None
    metrics, remarks = published_metrics(row)
    is_ruled, is_measured = operators.is_ruled, measured is not None
    return [
        group.index,
        *([_sequence(target.node, operators)] if columns.sequence else ()),
        text_cell(operators.op_type(target.node)) or NOT_COMPUTED,
        text_cell(target_names(group, operators)),
        _dtype(target, is_ruled=is_ruled) if is_measured else NOT_COMPUTED,
        *([_address(target)] if columns.addresses[0] else ()),
        text_cell(golden_names(group, operators)),
        _dtype(golden, is_ruled=is_ruled) if is_measured and golden is not None else NOT_COMPUTED,
        *([NOT_COMPUTED if is_ruled or golden is None else _address(golden)] if columns.addresses[1] else ()),
        text_cell(tensor_name(row.pair, operators)),
        shape_text(_shape(row) if is_ruled and is_measured else target.shape),
        *([overflow(row)] if columns.overflow else ()),
        *metrics.values(),
        *(number_text(measured.metrics.get(name) if measured is not None else None) for name in columns.custom),
        text_cell(",".join(text for text in (remarks, published_reason(row, operators)) if text)),
    ]


def _golden_rows(group: OfflineGroup) -> list[Row]:
    return [row for row in group.rows if row.pair.golden is not None]


def _sequence(key: NodeKey | None, operators: Operators) -> str:
    return number_cell(operators.op_id(key) if key is not None else None, blank=NOT_COMPUTED)


def _dtype(tensor: TensorRef, *, is_ruled: bool) -> str:
    """Return the dtype; with rules that of the array which the table's writer decodes to."""
    if is_ruled and tensor.dtype.startswith(_SMALL_FLOATS):
        return "float64"
    return text_cell(_DECODED.get(tensor.dtype, tensor.dtype) if is_ruled else tensor.dtype) or NOT_COMPUTED


def _address(tensor: TensorRef) -> str:
    return str(tensor.facts.address)


def _shape(row: Row) -> tuple[int, ...] | None:
    """Return the shape in which the table's writer compares: flat where the rules know no layout, else the golden's."""
    target, golden = row.pair.target, row.pair.golden
    assert target is not None
    if golden is None or not target.numel:
        return target.shape
    layout = target.facts.rule_layout or target.layout
    dims = target.shape or ()
    if (layout == "ND" and target.layout not in _NOT_FLAT) or sum(dims) == len(dims):
        return (target.numel,)
    if target.layout == golden.layout and golden.shape != shape_of(golden):
        return target.shape
    return shape_of(golden)
