"""What tests ask of run.json as it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def first_divergence(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the finding of run.json where the target first goes wrong."""
    position = record["first_divergence"]
    return None if position is None else record["findings"][position]
