"""The result table of offline models: the published columns, with better figures, and what decided beside them.

The columns `DataType` and `Address` stand twice, for the target and for the golden: read them by position.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from msgspec import Struct

from probe_flow.record.cells import number_cell, text_cell
from probe_flow.record.rows import shape_of
from probe_flow.records import Comparison, NodeKey, Row, TensorRef
from probe_flow.reports.row_colors import Color, colored
from probe_flow.reports.table import Cell, Table
from probe_flow.reports.tables.offline.flags import FLAG_COLUMNS, ModelOutputs, flags, overflow
from probe_flow.reports.tables.offline.groups import (
    DEVICE_ONLY,
    NOT_COMPUTED,
    OfflineGroup,
    Operators,
    golden_names,
    offline_groups,
    target_names,
    tensor_name,
)
from probe_flow.reports.tables.offline.metrics import (
    DEVIATION,
    METRIC_COLUMNS,
    custom_metrics,
    metric_texts,
    number_text,
)
from probe_flow.reports.tables.offline.reasons import full_reason, no_target_dump, remarks
from probe_flow.reports.tables.torchair.layout import RESULTS

OVERFLOW, MODEL_FLAGS = "overflow", "model_flags"
"""Columns that an offline table has when they are asked for."""

LINE_END = "\r\n"
SEQUENCE = "OpSequence"
REASON = "CompareFailReason"
JUDGEMENT = ("Result", "Match", "Remarks")
NOT_AVAILABLE = "N/A"


class Columns(Struct, frozen=True):
    """Which of the columns that come and go a table has.

    Args:
        sequence: OpSequence, where operators were chosen by id.
        addresses: Address of the target and of the golden, for device dumps.
        overflow: OverFlow.
        flags: those of a whole model.
        custom: metrics of installed packages.
    """

    sequence: bool
    addresses: tuple[bool, bool]
    overflow: bool
    flags: bool
    custom: tuple[str, ...] = ()

    @classmethod
    def of(cls, comparison: Comparison, asked: Sequence[str], operators: Operators) -> Columns:
        """Return the columns of a comparison; ``asked``: `OVERFLOW`, `MODEL_FLAGS`, both or none."""
        pairs = comparison.pairs
        return cls(
            operators.is_selection,
            (not pairs.target.framework.is_arrays, not pairs.golden.framework.is_arrays),
            OVERFLOW in asked,
            MODEL_FLAGS in asked,
            custom_metrics(comparison.rows),
        )

    @property
    def header(self) -> tuple[str, ...]:
        """The published columns in their order."""
        return (
            "Index",
            *([SEQUENCE] if self.sequence else ()),
            "OpType",
            "NPUDump",
            "DataType",
            *(["Address"] if self.addresses[0] else ()),
            "GroundTruth",
            "DataType",
            *(["Address"] if self.addresses[1] else ()),
            "TensorIndex",
            "Shape",
            *(["OverFlow"] if self.overflow else ()),
            *METRIC_COLUMNS,
            *self.custom,
            REASON,
            *(FLAG_COLUMNS if self.flags else ()),
        )

    @property
    def numbers(self) -> frozenset[str]:
        """Columns that hold numbers."""
        metrics = (name for name in (*METRIC_COLUMNS, *self.custom) if name != DEVIATION)
        return frozenset(("Index", SEQUENCE, "Address", *metrics))


def offline_table(comparison: Comparison, *, columns: Sequence[str] = ()) -> Table:
    """Return every operator and tensor of the target by fused group, those that were not compared too.

    Of tensors that only the golden has, the gaps have rows (with ``*`` for the target); what lies inside of fused
    operators stands in comparison.jsonl.
    Metrics have six decimals; ``NaN`` = not computed, ``nan`` = not a number.

    Args:
        comparison: what is reported.
        columns: `OVERFLOW`, `MODEL_FLAGS`, both or none.
    """
    operators = Operators(comparison.pairs)
    chosen = Columns.of(comparison, columns, operators)
    return Table((*chosen.header, *JUDGEMENT), chosen.numbers, _rows(comparison, chosen, operators))


def _rows(comparison: Comparison, columns: Columns, operators: Operators) -> Iterator[tuple[Color, list[Cell]]]:
    colors = {row.order: color for row, color in colored(comparison.rows)}
    outputs = ModelOutputs(comparison.pairs, operators)
    for group in offline_groups(comparison.pairs, comparison.rows, operators):
        for key, row in entries(group, operators):
            cells = _cells(group, key, row, columns, operators)
            if columns.flags:
                cells += flags(group, row, operators.op_type(key) if key else "", operators, outputs)
            yield colors[row.order] if row is not None else Color.NONE, [*cells, *_judgement(row, operators)]


def entries(group: OfflineGroup, operators: Operators) -> Iterator[tuple[NodeKey | None, Row | None]]:
    """Yield device operator and row; one without a dump has no row, a row of the golden alone no operator."""
    rows = deque(group.rows)
    for key in group.ops:
        if not operators.is_dumped(key) and key in group.chosen:
            yield key, None
        while rows and rows[0].pair.target is not None and rows[0].pair.target.node == key:
            yield key, rows.popleft()
    yield from ((None, row) for row in rows if _is_gap(row))


def _is_gap(row: Row) -> bool:
    reason = row.pair.reason
    return reason is None or reason.is_gap


def _cells(
    group: OfflineGroup, key: NodeKey | None, row: Row | None, columns: Columns, operators: Operators
) -> list[Cell]:
    pair = row.pair if row is not None else None
    target, golden = (pair.target, pair.golden) if pair is not None else (None, None)
    named = key or (pair.shown.node if pair is not None else None)
    op_type = operators.op_type(named) if named is not None else ""
    names = target_names(group, operators), golden_names(group, operators)
    if key is None and golden is not None:
        names = DEVICE_ONLY, operators.name(golden.node)
    metrics = metric_texts(row) if row is not None else dict.fromkeys(METRIC_COLUMNS, NOT_COMPUTED)
    reason = full_reason(row, operators) if row is not None else no_target_dump(key, operators) if key else ""
    return [
        group.index,
        *([number_cell(operators.op_id(key) if key else None, blank=NOT_COMPUTED)] if columns.sequence else ()),
        text_cell(op_type) or NOT_COMPUTED,
        text_cell(names[0]),
        _dtype(target),
        *([address(target)] if columns.addresses[0] else ()),
        text_cell(names[1]),
        _dtype(golden),
        *([address(golden)] if columns.addresses[1] else ()),
        text_cell(tensor_name(pair, operators)) if pair is not None else NOT_COMPUTED,
        shape_text(shape_of(pair.shown)) if pair is not None else NOT_COMPUTED,
        *([overflow(row)] if columns.overflow else ()),
        *metrics.values(),
        *(_custom(row, name) for name in columns.custom),
        text_cell(reason),
    ]


def address(tensor: TensorRef | None) -> str:
    """Return where the tensor lay in device memory, ``NaN`` when the dump does not say it."""
    known = tensor.facts.address if tensor is not None else 0
    return str(known) if known else NOT_COMPUTED


def shape_text(shape: tuple[int, ...] | None) -> str:
    """Return a shape as ``[1,3,16,16]``."""
    return NOT_COMPUTED if shape is None else f"[{','.join(map(str, shape))}]"


def _dtype(tensor: TensorRef | None) -> str:
    return text_cell(tensor.dtype) or NOT_COMPUTED if tensor is not None else NOT_COMPUTED


def _custom(row: Row | None, name: str) -> str:
    measured = row.measurement if row is not None else None
    return number_text(measured.metrics.get(name) if measured is not None else None)


def _judgement(row: Row | None, operators: Operators) -> list[str]:
    if row is None:
        return [NOT_AVAILABLE, NOT_AVAILABLE, ""]
    is_paired = row.pair.target is not None and row.pair.golden is not None
    return [
        RESULTS[row.verdict.status],
        text_cell(row.pair.rule.name) if is_paired else "unmatched",
        text_cell(remarks(row, operators)),
    ]
