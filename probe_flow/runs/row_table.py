"""Rows of a stored run as aligned text: which have the largest error, and what each says of its tensors."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from typing import Any

from probe_flow.record.facts import DISTANCE, figure, operator, printable, slot, where
from probe_flow.record.json_values import number as _number
from probe_flow.record.text_table import text_table

_HEADER = ("verdict", "role", "error", "cosine", "max abs", "dtype", "shape", "where", "tensor")
_WHERE = _HEADER.index("where")
_RIGHT = frozenset({"error", "cosine", "max abs"})
_STATISTICS_HEADER = {"error": "l2norm_diff_rel", "max abs": "max_diff"}
_MAX_REASON = 300


def worst_rows(rows: Iterable[Mapping[str, Any]], *, limit: int) -> list[Mapping[str, Any]]:
    """Return the rows with the largest relative distance above zero, the largest first, earlier rows first."""
    ranked = ((_distance(row), -number, row) for number, row in enumerate(rows))
    found = heapq.nlargest(limit, (item for item in ranked if item[0] > 0), key=lambda item: item[:2])
    return [row for _, _, row in found]


def _distance(row: Mapping[str, Any]) -> float:
    metrics = row.get("metrics") or {}
    value = _number(metrics.get(DISTANCE, metrics.get(_STATISTICS_HEADER["error"])))
    return 0.0 if value is None or math.isnan(value) else value


def row_table(rows: Iterable[Mapping[str, Any]], *, has_reasons: bool) -> list[str]:
    """Return rows as lines of aligned columns, the tensor last, so that no long name moves the others.

    A place that all rows share stands in the header.

    Args:
        rows: records of ``comparison.jsonl``.
        has_reasons: put the reason below each row.
    """
    cells: list[tuple[str, ...]] = [_HEADER]
    reasons = [""]
    for row in rows:
        cells.append(_cells(row))
        reasons.append(_reason(row) if has_reasons else "")
    if len(cells) == 1:
        return []
    places = {line[_WHERE] for line in cells[1:]}
    if len(places) == 1 and "" not in places:
        cells[0] = (*_HEADER[:-1], f"{_HEADER[-1]}, at {places.pop()}")
        cells[1:] = [(*line[:_WHERE], "", line[-1]) for line in cells[1:]]
    table = text_table(cells[0], cells[1:], right=_RIGHT)
    lines = []
    for line, reason in zip(table, reasons, strict=True):
        lines.append(line)
        if reason:
            lines.append(f"      {reason}")
    return lines


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    metrics = row.get("metrics") or {}
    role = row.get("role")
    distance = _number(metrics.get(DISTANCE, metrics.get(_STATISTICS_HEADER["error"])))
    largest = _number(metrics.get("max_abs_err", metrics.get(_STATISTICS_HEADER["max abs"])))
    cosine = _number(metrics.get("cosine"))
    return (
        printable(row["verdict"]).replace("_", " "),
        "" if role in (None, "unknown") else printable(role),
        "" if distance is None else f"{distance:.3g}",
        "" if cosine is None else figure(cosine),
        "" if largest is None else f"{largest:.3g}",
        _both(row, "dtype"),
        _both(row, "shape"),
        where(row),
        _tensor(row),
    )


def _both(row: Mapping[str, Any], key: str) -> str:
    """Return what both sides say of a tensor, once where they agree."""
    texts = [
        printable(side[key]).replace(" ", "")
        for side in (row.get("target"), row.get("golden"))
        if isinstance(side, Mapping) and side.get(key) not in (None, "")
    ]
    return "/".join(dict.fromkeys(texts))


def _tensor(row: Mapping[str, Any]) -> str:
    golden = row.get("golden")
    partner = ""
    if isinstance(golden, Mapping) and row.get("target") is not None:
        partner = f"  <- {printable(golden.get('name') or '')}"
    alone = "  (golden only)" if row.get("target") is None else ""
    stage = f"{printable(row['comparison'])}: " if row.get("comparison") else ""
    return f"{stage}{operator(row)} {slot(row)}{partner}{alone}"


def _reason(row: Mapping[str, Any]) -> str:
    text = printable("; ".join(reasons_of(row)))
    return text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 3] + "..."


def reasons_of(row: Mapping[str, Any]) -> list[str]:
    """Return why a row is as it is, and why it does not count where it is waived or accepted."""
    excuses = (f"{word}: {row[word]}" for word in ("waived", "accepted") if row.get(word))
    return [str(row["reason"]), *excuses] if row.get("reason") else list(excuses)
