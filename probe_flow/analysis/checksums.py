"""Where checksums begin to differ: rows whose node's inputs all have equal checksums."""

from __future__ import annotations

from collections.abc import Sequence

from probe_flow.analysis.measured import MeasuredPair, by_node
from probe_flow.records import Mode


def checksum_origins(rows: Sequence[MeasuredPair]) -> list[int]:
    """Return the rows, in execution order, whose checksum differs while those of their node's inputs agree."""
    origins = []
    for numbers in by_node(rows).values():
        differing = [number for number in numbers if _differs(rows[number])]
        if differing and not any(not rows[number].is_produced for number in differing):
            origins.append(differing[0])
    return sorted(origins)


def _differs(row: MeasuredPair) -> bool:
    measurement = row.measurement
    return (
        measurement is not None
        and measurement.mode is Mode.CHECKSUM
        and measurement.metrics.get("checksum_equal") is False
    )
