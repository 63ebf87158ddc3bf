"""CSV in the layout of dump.json comparison (statistics columns of the 26.x result files), with `Role` as last column.

Column names, their order and the texts of differences follow that layout; ``Result`` is a translation of our verdict.
The difference texts are functions of the eight statistics shown beside them: ``0`` for equal texts, percent for
relative differences (``50.0%`` is a `max_diff_rel` of 0.5), words where there is no number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from probe_flow.records import ComparedPair, Comparison, NodeKey, SideSummary, Status, TensorKind, TensorRef
from probe_flow.reports.cells import number_cell, text_cell
from probe_flow.reports.row_colors import Color
from probe_flow.reports.table import Table, write_csv

_PREFIX = (
    "NPU Name",
    "Bench Name",
    "NPU Dtype",
    "Bench Dtype",
    "NPU Tensor Shape",
    "Bench Tensor Shape",
    "NPU Requires_grad",
    "Bench Requires_grad",
)
_DIFFERENCES = (
    "Max diff",
    "Min diff",
    "Mean diff",
    "L2norm diff",
    "MaxRelativeErr",
    "MinRelativeErr",
    "MeanRelativeErr",
    "NormRelativeErr",
)
_STATISTICS = (
    "NPU max",
    "NPU min",
    "NPU mean",
    "NPU l2norm",
    "Bench max",
    "Bench min",
    "Bench mean",
    "Bench l2norm",
)
_JUDGEMENT = ("Requires_grad Consistent", "Result", "Err_message")
_STACK = "NPU_Stack_Info"
_ROLE = "Role"

RESULTS: Mapping[Status, str] = {
    Status.PASS: "pass",
    Status.WARNING: "warning",
    Status.FAIL: "error",
    Status.ERROR: "error",
    Status.UNMATCHED_TARGET: "unmatched_target",
    Status.UNMATCHED_GOLDEN: "unmatched_golden",
    Status.NOT_COMPARABLE: "not_comparable",
    Status.SKIPPED: "skipped",
}
"""Our verdicts in the words of this layout. What was not judged is never called a pass."""

_COLORS: Mapping[Status, Color] = {
    Status.PASS: Color.GREEN,
    Status.WARNING: Color.YELLOW,
    Status.FAIL: Color.RED,
    Status.ERROR: Color.RED,
    Status.UNMATCHED_TARGET: Color.NONE,
    Status.UNMATCHED_GOLDEN: Color.NONE,
    Status.NOT_COMPARABLE: Color.NONE,
    Status.SKIPPED: Color.NONE,
}

_ABSENT = "N/A"
_OWN_TYPE = frozenset({"torch.Size", "slice", "ellipsis", "torch.ProcessGroup", "mindspore.ProcessGroup"})
"""Opaque types that are shown as such; the others hold text and are shown as Python's."""
_SHAPE_TEXTS = {"slice": "(3,)"}
_PERCENT_STARTS = ("%", "\uff05")
_DEVICE_WORDS = ("npu", "cpu", "cuda")

Value = object
"""A statistic as it is shown: a number, a truth value, text, or None."""


def write_dump_json_csv(comparison: Comparison, path: Path) -> None:
    """Write the rows of a comparison, in their order, as one UTF-8 file.

    NaN is written ``nan``, infinities with a leading blank as that layout does, a statistic that was not recorded
    ``None``, all cells of a missing side ``N/A``. Text that a spreadsheet would evaluate gets an apostrophe in front.

    Args:
        comparison: what to write.
        path: the file; it appears whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    write_csv(dump_json_table(comparison), path)


def dump_json_table(comparison: Comparison) -> Table:
    """Return the same as a table for other kinds of files; a row's mark follows its verdict."""
    catalog = comparison.pairs.target
    has_stacks = bool(catalog.stacks) or bool(catalog.attrs.get("has_stacks"))
    header = (*_PREFIX, *_DIFFERENCES, *_STATISTICS, *_JUDGEMENT, *((_STACK,) if has_stacks else ()), _ROLE)
    return Table(header, frozenset((*_DIFFERENCES, *_STATISTICS)), _rows(comparison, has_stacks=has_stacks))


def _rows(comparison: Comparison, *, has_stacks: bool) -> Iterator[tuple[Color, list[str]]]:
    shown: set[NodeKey] = set()
    for row in comparison.rows:
        stack = [_stack_cell(row, comparison, shown)] if has_stacks else []
        yield _COLORS[row.verdict.status], [*_cells(row), *stack, row.verdict.role.value]


def _cells(row: ComparedPair) -> Iterator[str]:
    pair, measured = row.pair, row.measurement
    sides = (pair.target, pair.golden)
    yield from (_text(_item_name(tensor)) for tensor in sides)
    yield from (_text(_dtype_text(tensor)) for tensor in sides)
    yield from (_text(_shape_text(tensor)) for tensor in sides)
    grads = [_grad_text(tensor) for tensor in sides]
    yield from map(_text, grads)
    target = _statistics(pair.target, measured.target if measured else None)
    golden = _statistics(pair.golden, measured.golden if measured else None)
    texts = [[_value_cell(value) for value in values] for values in (target, golden)]
    differences = [
        ("0", "0") if text == other_text else _difference(value, other)
        for text, other_text, value, other in zip(*texts, target, golden, strict=True)
    ]
    yield from (absolute for absolute, _ in differences)
    yield from (relative for _, relative in differences)
    yield from texts[0]
    yield from texts[1]
    yield str(grads[0] == grads[1])
    yield RESULTS[row.verdict.status]
    yield _text(json.dumps(list(row.verdict.reasons), ensure_ascii=False))


@lru_cache(maxsize=1024)
def _text(text: str) -> str:
    """Neutralise text; readers of this layout also refuse a leading percent sign."""
    text = text.replace("\r", "\\r")
    return "'" + text if text.lstrip().startswith(_PERCENT_STARTS) else text_cell(text)


def _item_name(tensor: TensorRef | None) -> str:
    return _ABSENT if tensor is None else str(tensor.attrs.get("item", tensor.id))


def _dtype_text(tensor: TensorRef | None) -> str:
    if tensor is None or tensor.kind in {TensorKind.NULL, TensorKind.UNREADABLE}:
        return _ABSENT
    if tensor.kind is TensorKind.SCALAR or (tensor.kind is TensorKind.OPAQUE and tensor.stored_dtype not in _OWN_TYPE):
        return f"<class '{type(tensor.value).__name__}'>"
    return tensor.stored_dtype or tensor.dtype


def _shape_text(tensor: TensorRef | None) -> str:
    if tensor is None or tensor.kind in {TensorKind.NULL, TensorKind.UNREADABLE}:
        return _ABSENT
    if tensor.kind is TensorKind.OPAQUE:
        if tensor.stored_dtype == "torch.Size":
            return str(tensor.value)
        return _SHAPE_TEXTS.get(tensor.stored_dtype, "[]")
    shape = tensor.logical_shape if tensor.logical_shape is not None else tensor.shape
    return _ABSENT if shape is None else str(list(shape))


def _grad_text(tensor: TensorRef | None) -> str:
    grad = None if tensor is None else tensor.attrs.get("requires_grad")
    return _ABSENT if grad is None else str(grad)


def _statistics(tensor: TensorRef | None, measured: SideSummary | None) -> Sequence[Value]:
    """Return max, min, mean and L2 norm as this layout shows them."""
    if tensor is None or tensor.kind is TensorKind.UNREADABLE:
        return [_ABSENT] * 4
    if tensor.kind is TensorKind.SCALAR:
        return [tensor.value] * 4
    if tensor.kind is TensorKind.OPAQUE:
        return [None if tensor.stored_dtype in {"torch.Size", "slice"} else tensor.value] * 4
    found = tensor.recorded or (measured.statistics if measured else None)
    return [None] * 4 if found is None else [found.max, found.min, found.mean, found.l2norm]


def _value_cell(value: Value) -> str:
    if isinstance(value, (bool, int, float)):
        text = number_cell(value)
        return f" {text}" if isinstance(value, float) and math.isinf(value) else text
    return _text(str(value))


def _difference(target: Value, golden: Value) -> tuple[str, str]:
    """Return the texts of target minus golden and of that relative to golden, whose own texts differ."""
    if _ABSENT in (target, golden):
        return _ABSENT, _ABSENT
    if isinstance(target, (int, float)) and isinstance(golden, (int, float)):
        if isinstance(target, bool) or isinstance(golden, bool):
            return "Diff", "Diff"
        return _number_difference(target, golden)
    are_devices = all(any(word in str(value) for word in _DEVICE_WORDS) for value in (target, golden))
    return (_ABSENT, _ABSENT) if are_devices else ("Diff", "Diff")


def _number_difference(target: float, golden: float) -> tuple[str, str]:
    if math.isnan(target) or math.isnan(golden):
        return "Nan", "Nan"
    if math.isinf(target) or math.isinf(golden):
        word = "inf" if target == math.inf or golden == -math.inf else "-inf"
        return word, word
    difference = target - golden
    if difference == 0:  # 0.0 and -0.0, 1 and 1.0
        return "0", "0"
    if golden == 0:
        return number_cell(difference), "inf"
    try:
        percent = abs(difference / golden * 100)
    except OverflowError:
        percent = math.inf
    return number_cell(difference), f"{percent}%"


def _stack_cell(row: ComparedPair, comparison: Comparison, shown: set[NodeKey]) -> str:
    """Return the target's source frames on the first row of an entry, `N/A` on the others."""
    if row.pair.target is None or row.pair.target.node in shown:
        return _ABSENT
    shown.add(row.pair.target.node)
    catalog = comparison.pairs.target
    node = catalog.nodes.get(row.pair.target.node)
    frames = catalog.stacks.get(node.stack_id) if node is not None and node.stack_id is not None else None
    return _ABSENT if frames is None else _text(str(list(frames)))
