"""The measurement of one pair, independent of any threshold."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from probe_flow.records.quick import quick
from probe_flow.records.tensor import Statistics


class Mode(enum.Enum):
    """What was compared: elements, recorded statistics, checksums, or plain values."""

    TENSOR = "tensor"
    STATISTICS = "statistics"
    CHECKSUM = "checksum"
    VALUE = "value"

    __hash__ = object.__hash__  # Enum's own is a call of Python, made for every look-up of a node or slot


@quick
@dataclass(frozen=True, slots=True)
class SideSummary:
    """Statistics of one side of a pair, over its finite elements, with the non-finite ones counted."""

    statistics: Statistics
    checksum: str | None = None


@quick
@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured of one pair.

    Args:
        mode: what was compared.
        metrics: metric id -> value; None = not computable, NaN and infinities are values.
        target, golden: per-side statistics (None when that side could not be read).
        nonfinite_mismatch: positions where NaN or infinities disagree between the sides (kind and sign);
            for statistics 1 when the recorded extremes show that some do.
        worst_index: flat logical index of the largest absolute error, None when there is none.
        count: elements compared.
        backend: kernel that measured, e.g. ``numpy``; empty outside tensor mode.
        notes: what is worth saying about the measurement (``shape differs``, ``broadcast``).
        reference: statistics of the third side, where there is one that was measured.
    """

    mode: Mode
    metrics: Mapping[str, float | int | bool | None] = field(hash=False)
    target: SideSummary | None = None
    golden: SideSummary | None = None
    nonfinite_mismatch: int = 0
    worst_index: int | None = None
    count: int = 0
    backend: str = ""
    notes: tuple[str, ...] = ()
    reference: SideSummary | None = None
