"""Rows of a stored run as aligned text: which have the largest error, and what each says of its tensors."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from probe_flow.record.facts import role_word
from probe_flow.record.json_values import number as _number
from probe_flow.record.places import (
    entry_title,
    figure,
    in_dump,
    operator,
    printable,
    readable,
    slot,
    where,
    with_entry,
)
from probe_flow.record.row_index import distance_of
from probe_flow.record.stored_rows import StoredRows
from probe_flow.record.text_table import text_table
from probe_flow.record.types.rows import RowRecord, SideRecord

_HEADER = ("tensor is", "row rule", "error", "cosine", "max abs", "dtype", "shape", "where")
_WHERE = _HEADER.index("where")
_RIGHT = frozenset({"error", "cosine", "max abs"})
_STATISTICS_MAX = "max_diff"
_MAX_REASON = 300


def worst_rows(comparisons: Sequence[StoredRows], *, limit: int) -> list[RowRecord]:
    """Return the rows with the largest relative distance above zero, the largest first, earlier rows first."""
    found: list[tuple[float, int, int]] = []
    for place, rows in enumerate(comparisons):
        errors = rows.index.errors
        worst = heapq.nlargest(limit, zip(errors, range(0, -len(errors), -1), strict=True))
        found += [(error, -place, number) for error, number in worst if error > 0]
    return [row for _, place, number in sorted(found)[: -limit - 1 : -1] for row in comparisons[-place].rows([-number])]


def row_table(rows: Iterable[RowRecord], *, has_reasons: bool) -> list[str]:
    """Return rows as lines of aligned columns, the tensor last, so that no long name moves the others.

    A place that all rows share stands in the header.

    Args:
        rows: records of ``comparison.jsonl``.
        has_reasons: put the reason below each row.
    """
    cells: list[tuple[str, ...]] = []
    reasons = [""]
    has_entries = False
    for row in rows:
        cells.append(_cells(row))
        reasons.append(_reason(row) if has_reasons else "")
        has_entries = has_entries or bool(in_dump(row))
    if not cells:
        return []
    tensor = entry_title("tensor", has_entries=has_entries)
    places = {line[_WHERE] for line in cells}
    if len(places) == 1 and "" not in places:
        tensor = f"{tensor}, at {places.pop()}"
        cells = [(*line[:_WHERE], "", line[-1]) for line in cells]
    table = text_table((*_HEADER, tensor), cells, right=_RIGHT)
    lines = []
    for line, reason in zip(table, reasons, strict=True):
        lines.append(line)
        if reason:
            lines.append(f"      {reason}")
    return lines


def _cells(row: RowRecord) -> tuple[str, ...]:
    metrics = row.metrics
    distance = _number(distance_of(metrics))
    largest = _number(metrics.get("max_abs_err", metrics.get(_STATISTICS_MAX)))
    cosine = _number(metrics.get("cosine"))
    return (
        role_word(row.role, row.verdict),
        row.verdict.value.replace("_", " "),
        "" if distance is None else f"{distance:.3g}",
        "" if cosine is None else figure(cosine),
        "" if largest is None else f"{largest:.3g}",
        _both(row, _dtype_text),
        _both(row, _shape_text),
        where(row),
        _tensor(row),
    )


def _both(row: RowRecord, text_of: Callable[[SideRecord], str]) -> str:
    """Return what both sides say of a tensor, once where they agree."""
    texts = [text_of(side) for side in (row.target, row.golden) if side is not None]
    return "/".join(dict.fromkeys(text for text in texts if text))


def shape_text(shape: Sequence[int] | None) -> str:
    """Return a shape as ``[2,3]``, empty where it is not known."""
    return "" if shape is None else str(list(shape)).replace(" ", "")


def _shape_text(side: SideRecord) -> str:
    return shape_text(side.shape)


def _dtype_text(side: SideRecord) -> str:
    return printable(side.dtype).replace(" ", "")


def _tensor(row: RowRecord) -> str:
    partner = ""
    if row.golden is not None and row.target is not None and row.golden.name != row.target.name:
        partner = f"  <- {readable(row.golden.name)}"
    alone = "  (golden only)" if row.target is None else ""
    stage = f"{printable(row.comparison)}: " if row.comparison else ""
    return f"{stage}{with_entry(f'{operator(row)} {slot(row)}', row)}{partner}{alone}"


def _reason(row: RowRecord) -> str:
    text = printable("; ".join(reasons_of(row)))
    return text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 3] + "..."


def reasons_of(row: RowRecord) -> list[str]:
    """Return why a row is as it is, and why it does not count where it is waived or accepted."""
    excuses = (("waived", row.waived), ("accepted", row.accepted))
    texts = [f"{word}: {text}" for word, text in excuses if text]
    return [row.reason, *texts] if row.reason else texts
