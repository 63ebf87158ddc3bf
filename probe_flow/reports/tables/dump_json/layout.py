"""Tables in the layout of dump.json comparison (the 26.x result files), with `Role` as last column.

Column names, their order and the texts of the cells follow that layout in its three modes: tensors, statistics,
checksums. ``Result`` is a translation of our verdict, ``Err_message`` our reasons.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, cast

from probe_flow.record.json_values import number_texts
from probe_flow.records import (
    Comparison,
    Measurement,
    Mode,
    NodeKey,
    Pair,
    Row,
    SideSummary,
    Status,
    TensorKind,
    TensorRef,
)
from probe_flow.reports.dump_json_columns import (
    ABSENT,
    FILES,
    JUDGEMENT,
    NOT_A_NUMBER,
    PREFIX,
    RESULTS,
    ROLE,
    STACK,
    Layout,
)
from probe_flow.reports.row_colors import Color
from probe_flow.reports.table import Cell, RowBatches, Table
from probe_flow.reports.tables.dump_json.metrics import metric_cells, published_metric_cells
from probe_flow.reports.tables.dump_json.sides import (
    Look,
    Sides,
    Value,
    checksum_text,
    file_names,
    guarded,
    look_of,
    published_checksum,
    published_look,
    sides_of,
    value_cells,
)

_DEVICE_WORDS = ("npu", "cpu", "cuda")


def difference_columns(targets: Sequence[Sequence[Value]], goldens: Sequence[Sequence[Value]]) -> list[Sequence[Cell]]:
    """Return target minus golden for maximum, minimum, mean and L2 norm, then the same relative to golden.

    Args:
        targets: a column of values for each of the four statistics.
        goldens: the same of the other side.
    """
    return _columns(targets, goldens, _difference)


def published_difference_columns(
    targets: Sequence[Sequence[Value]], goldens: Sequence[Sequence[Value]]
) -> list[Sequence[Cell]]:
    """Return the same as msprobe has it, which compares texts first and then floats.

    Integers lose what float64 cannot hold, text that looks like a number is one, and -0.0 differs from 0.0.
    """
    return _columns(targets, goldens, _published_difference)


_Difference: TypeAlias = Callable[[Value, Value], tuple[Cell, Cell]]


def _columns(
    targets: Sequence[Sequence[Value]], goldens: Sequence[Sequence[Value]], difference: _Difference
) -> list[Sequence[Cell]]:
    columns = [_column(*both, difference) for both in zip(targets, goldens, strict=True)]
    return [*(absolute for absolute, _ in columns), *(relative for _, relative in columns)]


def _column(
    targets: Sequence[Value], goldens: Sequence[Value], difference_of: _Difference
) -> tuple[list[Cell], list[Cell]]:
    """Return the differences of one statistic, those of floats all at a time."""
    import numpy as np

    target, golden = np.array(_floats(targets)), np.array(_floats(goldens))
    with np.errstate(all="ignore"):
        difference = target - golden
        percent = np.abs(difference / golden * 100)
    absolute: list[Cell] = difference.tolist()
    relative: list[Cell] = [text + "%" for text in number_texts(percent.tolist())]
    is_equal = (target == golden) & ((target != 0) | (np.signbit(target) == np.signbit(golden)))
    for place in np.flatnonzero(is_equal).tolist():
        absolute[place] = relative[place] = 0
    for place in np.flatnonzero(~(is_equal | np.isfinite(percent) & (difference != 0))).tolist():
        absolute[place], relative[place] = difference_of(targets[place], goldens[place])
    return absolute, relative


def _floats(values: Sequence[Value]) -> Sequence[float]:
    """Return the values with NaN for all that are no floats."""
    if set(map(type, values)) == {float}:
        return cast("Sequence[float]", values)
    return [value if isinstance(value, float) else math.nan for value in values]


def _difference(target: Value, golden: Value) -> tuple[Cell, Cell]:
    if str(target) == str(golden):
        return 0, 0
    if target == ABSENT or golden == ABSENT:
        return ABSENT, ABSENT
    if isinstance(target, (int, float)) and isinstance(golden, (int, float)):
        if isinstance(target, bool) or isinstance(golden, bool):
            return "Diff", "Diff"
        return _number_difference(target, golden)
    are_devices = all(any(word in str(value) for word in _DEVICE_WORDS) for value in (target, golden))
    return (ABSENT, ABSENT) if are_devices else ("Diff", "Diff")


def _number_difference(target: float, golden: float) -> tuple[Cell, Cell]:
    if target == golden:  # 0.0 and -0.0, 1 and 1.0
        return 0, 0
    if math.isnan(target) or math.isnan(golden):
        both = math.isnan(target) and math.isnan(golden)
        return (0, 0) if both else (NOT_A_NUMBER, NOT_A_NUMBER)
    if math.isinf(target) or math.isinf(golden):
        word = "inf" if target == math.inf or golden == -math.inf else "-inf"
        return word, word
    try:
        difference = target - golden
        if golden == 0:
            return difference, "inf"
        percent = abs(difference / golden * 100)
    except OverflowError:  # integers beyond float64
        return target - golden if isinstance(target, int) and isinstance(golden, int) else "Diff", "inf%"
    if math.isinf(difference):
        return (" inf" if difference > 0 else " -inf"), f"{percent}%"
    return difference, f"{percent}%"


def _published_difference(target: Value, golden: Value) -> tuple[Cell, Cell]:
    texts = str(target), str(golden)
    if texts[0] == texts[1]:
        return 0, 0
    if ABSENT in texts:
        return ABSENT, ABSENT
    one, other = _as_number(target), _as_number(golden)
    if one is None or other is None:
        are_devices = all(any(word in text.lower() for word in _DEVICE_WORDS) for text in texts)
        return (ABSENT, ABSENT) if are_devices else ("Diff", "Diff")
    if not math.isfinite(one) or not math.isfinite(other):
        return _number_difference(one, other)
    difference = one - other
    return difference, f"{abs(difference / other * 100)}%" if other else "inf"


def _as_number(value: Value) -> float | None:
    """Return a number, or what a text says as one; None for truth values and other text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


_GRADS = slice(6, 8)
_BATCH = 1024

_COLORS: Mapping[Status, Color] = MappingProxyType(
    {
        Status.PASS: Color.GREEN,
        Status.WARNING: Color.YELLOW,
        Status.FAIL: Color.RED,
        Status.ERROR: Color.RED,
        Status.UNMATCHED_TARGET: Color.NONE,
        Status.UNMATCHED_GOLDEN: Color.NONE,
        Status.NOT_COMPARABLE: Color.NONE,
        Status.SKIPPED: Color.NONE,
    }
)


def layout_of(comparison: Comparison) -> Layout:
    """Return the layout of what both sides hold; statistics where they hold different things."""
    tasks = {comparison.pairs.target.task, comparison.pairs.golden.task}
    for layout in (Layout.TENSOR, Layout.CHECKSUM, Layout.STRUCTURE):
        if tasks == {layout.value}:
            return layout
    return Layout.STATISTICS


def dump_json_table(comparison: Comparison) -> Table:
    """Return the rows of a comparison, in their order; a row's mark follows its verdict.

    NaN is written ``Nan``, infinities with a leading blank as that layout does, a statistic that was not recorded
    ``None``, all cells of a missing side ``N/A``. Text that a spreadsheet would evaluate gets an apostrophe in front.
    """
    layout = layout_of(comparison)
    stacks = StackColumn.of(comparison)
    rows = RowBatches(_batches(comparison, layout, stacks))
    return Table((*header_of(layout, stacks), ROLE), numbers_of(layout), rows)


def header_of(layout: Layout, stacks: StackColumn | None) -> tuple[str, ...]:
    """Return the columns of a layout as the published tables have them."""
    return (
        *PREFIX,
        *layout.columns,
        *JUDGEMENT,
        *((STACK,) if stacks else ()),
        *((FILES,) if layout is Layout.TENSOR else ()),
    )


def numbers_of(layout: Layout) -> frozenset[str]:
    """Return the columns that hold numbers."""
    return frozenset() if layout is Layout.CHECKSUM else frozenset(layout.columns)


def _batches(
    comparison: Comparison, layout: Layout, stacks: StackColumn | None
) -> Iterator[tuple[Sequence[Color], Sequence[Sequence[Cell]]]]:
    for rows in batches(comparison.rows):
        columns = facts(rows, layout, OURS)
        verdicts = [row.verdict for row in rows]
        columns += (
            ["True" if target == golden else "False" for target, golden in zip(*columns[_GRADS], strict=True)],
            [RESULTS[verdict.status] for verdict in verdicts],
            [_messages(reasons) if (reasons := row.reasons) else "[]" for row in rows],
        )
        if stacks is not None:
            columns.append(list(map(stacks.cell, rows)))
        if layout is Layout.TENSOR:
            columns.append([file_names(row.pair.target, row.pair.golden) for row in rows])
        columns.append([verdict.role._value_ for verdict in verdicts])
        yield [_COLORS[verdict.status] for verdict in verdicts], columns


def batches(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield the rows, as many at a time as cells are made of at once."""
    return (rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH))


class CellTexts(NamedTuple):
    """How the cells of a table are made: what is shown of a side, its checksum, the metrics of a row, differences."""

    look: Callable[[TensorRef | None], Look]
    checksum: Callable[[TensorRef | None], str]
    metrics: Callable[[Row, Value, Value], Sequence[Cell]]
    differences: Callable[[Sequence[Sequence[Value]], Sequence[Sequence[Value]]], list[Sequence[Cell]]]


OURS = CellTexts(look_of, checksum_text, lambda row, _target, _golden: metric_cells(row), difference_columns)
PUBLISHED = CellTexts(published_look, published_checksum, published_metric_cells, published_difference_columns)
"""As msprobe has them, where that says less than we know."""


def _beyond_dumps(row: Row) -> Measurement | None:
    """Return what was measured of a row; None where the tensors themselves say all of it."""
    measured = row.measurement
    is_told = measured is not None and measured.mode is Mode.STATISTICS and _are_recorded(row.pair, measured)
    return None if is_told else measured


def _are_recorded(pair: Pair, measured: Measurement) -> bool:
    """Whether what is known of both sides is what their dumps recorded."""
    target, golden = pair.target, pair.golden
    is_own = measured.given.target is target and measured.given.golden is golden
    return is_own and target is not None and golden is not None and target.kind is golden.kind is TensorKind.STATISTICS


def both_sides(rows: Sequence[Row], texts: CellTexts) -> tuple[Sides, Sides]:
    """Return what is shown of the target's side of each row, and of the golden's."""

    def measured(side: str, place: int) -> SideSummary | None:
        found: SideSummary | None = getattr(_beyond_dumps(rows[place]), side, None)
        return found

    return (
        sides_of([row.pair.target for row in rows], partial(measured, "target"), texts.look),
        sides_of([row.pair.golden for row in rows], partial(measured, "golden"), texts.look),
    )


def facts(rows: Sequence[Row], layout: Layout, texts: CellTexts) -> list[Sequence[Cell]]:
    """Return the columns before the judgement: names, types, differences or metrics, statistics or checksums."""
    (*target_texts, targets), (*golden_texts, goldens) = both_sides(rows, texts)
    columns: list[Sequence[Cell]] = [column for both in zip(target_texts, golden_texts, strict=True) for column in both]
    if layout is Layout.STRUCTURE:
        return columns
    if layout is Layout.CHECKSUM:
        tensors = [row.pair.target for row in rows], [row.pair.golden for row in rows]
        return [*columns, *(list(map(texts.checksum, side)) for side in tensors)]
    if layout is Layout.TENSOR:
        columns += zip(*map(texts.metrics, rows, targets[0], goldens[0]), strict=True)
    else:
        columns += texts.differences(targets, goldens)
    return [*columns, *map(value_cells, targets), *map(value_cells, goldens)]


@lru_cache(maxsize=1024)
def _messages(reasons: tuple[str, ...]) -> str:
    return guarded(json.dumps(list(reasons), ensure_ascii=False))


class StackColumn:
    """The target's source frames on the first row of an entry, ``N/A`` on the others."""

    def __init__(self, comparison: Comparison) -> None:
        catalog = comparison.pairs.target
        self._nodes = catalog.nodes
        self._stacks = catalog.stacks
        self._shown: NodeKey | None = None
        self._texts: dict[str, str] = {}

    @classmethod
    def of(cls, comparison: Comparison) -> StackColumn | None:
        """Return the column, or None where the target has no source frames."""
        catalog = comparison.pairs.target
        return cls(comparison) if catalog.stacks or catalog.attrs.get("has_stacks") else None

    def cell(self, row: Row) -> str:
        """Return the cell of a row; rows come in their order, those of an entry one after the other."""
        tensor = row.pair.target
        if tensor is None or tensor.node is self._shown:
            return ABSENT
        if tensor.node == self._shown:
            return ABSENT
        self._shown = tensor.node
        node = self._nodes.get(tensor.node)
        if node is None or node.stack_id is None:
            return ABSENT
        text = self._texts.get(node.stack_id)
        if text is None:
            frames = self._stacks.get(node.stack_id)
            text = ABSENT if frames is None else guarded(str(list(frames)))
            self._texts[node.stack_id] = text
        return text
