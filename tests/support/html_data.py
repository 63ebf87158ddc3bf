"""The HTML report and its data, whole, for tests."""

from __future__ import annotations

import json
from typing import Any

from probe_flow.record.types.run import RunRecord
from probe_flow.records import Comparison
from probe_flow.reports.html.packing import plain
from probe_flow.reports.html.page import html_pieces
from probe_flow.reports.html.payload import Payload


def page_of(comparison: Comparison, run: RunRecord) -> str:
    """The report as text."""
    return b"".join(html_pieces(comparison, run=run)).decode()


def payload(comparison: Comparison, *, run: RunRecord) -> dict[str, Any]:
    """The data of the report."""
    found: dict[str, Any] = json.loads(b"".join(plain(Payload(comparison, run=run).pieces())))
    return found
