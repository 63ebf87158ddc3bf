"""A layout of tables: node, verdict and cosine."""

from __future__ import annotations

import math
from collections.abc import Iterator

from probe_flow.records import Comparison
from probe_flow.reports.layout import Layout
from probe_flow.reports.row_colors import Color
from probe_flow.reports.table import Rows, Table

_NO_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def _text(name: str) -> str:
    return f"'{name}" if name.startswith(_NO_FORMULA) else name


def _rows(comparison: Comparison) -> Iterator[tuple[Color, list[str | float]]]:
    for row in comparison.rows:
        cosine = row.measurement.metrics.get("cosine") if row.measurement is not None else None
        is_number = isinstance(cosine, (int, float)) and math.isfinite(cosine)
        name = _text(row.pair.shown.node.name)
        yield Color.NONE, [name, row.verdict.status.value, float(cosine) if is_number and cosine else "none"]


def table(comparison: Comparison) -> Table:
    """Return the table of a comparison."""
    rows: Rows = _rows(comparison)
    return Table(("Node", "Verdict", "Cosine"), frozenset({"Cosine"}), rows)


LAYOUT = Layout("acme_short", table)
