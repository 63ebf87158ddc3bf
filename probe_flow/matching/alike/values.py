"""How alike two tensors are by what a dump recorded of them: checksums and statistics.

Values are evidence, never a condition: behind a fault they differ, and then structure and order must do. A tensor whose
elements are all equal (a fresh `gamma`) tells nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from probe_flow.records import Statistics, TensorRef

EQUAL, CLOSE = 0.95, 0.6
"""Likeness from which values count as equal, and as equal up to 16-bit rounding."""

_STEPS = ((1e-5, 1.0), (1e-3, 0.9), (1.5e-2, 0.7), (5e-2, 0.3))
"""Difference relative to the largest element -> likeness; 1.5e-2 is what rounding to bfloat16 does."""


def likeness(one: TensorRef, other: TensorRef) -> float | None:
    """Return how alike two tensors are, in [0, 1]; None when nothing recorded can tell."""
    first, second = one.recorded, other.recorded
    tells = first is not None and second is not None and _tells(first) and _tells(second)
    if one.checksum is not None and other.checksum is not None:
        if one.checksum == other.checksum:
            return 1.0 if tells or first is None else None
        if not tells and (first is None or second is None):
            return 0.0
    if first is None or second is None:
        return None
    scales = [_scale(first), _scale(second)]
    if None in scales:
        return None
    if not tells and _is_constant(first) and _is_constant(second):
        return None if first.max == second.max else 0.0
    scale = max(value for value in scales if value is not None)
    difference = _difference(first, second, scale)
    return next((score for bound, score in _STEPS if difference <= bound), 0.0)


def fingerprint(tensors: Sequence[TensorRef]) -> tuple[object, ...]:
    """Return a hashable extract of what was recorded, coarse enough to survive differences in the last digits."""
    return tuple(_rounded(ref.recorded) for ref in tensors if ref.recorded)


def _tells(statistics: Statistics) -> bool:
    return statistics.max is not None and not _is_constant(statistics)


def _is_constant(statistics: Statistics) -> bool:
    return statistics.max == statistics.min


def _scale(statistics: Statistics) -> float | None:
    """Return the largest absolute element; None when it was not recorded or is not finite."""
    if statistics.max is None or statistics.min is None:
        return None
    value = max(abs(float(statistics.max)), abs(float(statistics.min)))
    return value if math.isfinite(value) else None


def _difference(first: Statistics, second: Statistics, scale: float) -> float:
    worst = 0.0
    for a, b in ((first.max, second.max), (first.min, second.min)):
        if a is not None and b is not None:
            worst = max(worst, abs(float(a) - float(b)) / scale if scale else 0.0)
    norms = first.l2norm, second.l2norm
    if norms[0] is not None and norms[1] is not None and math.isfinite(norms[0]) and math.isfinite(norms[1]):
        larger = max(abs(norms[0]), abs(norms[1]))
        worst = max(worst, abs(norms[0] - norms[1]) / larger if larger else 0.0)
    return worst


def _rounded(statistics: Statistics) -> tuple[float | None, ...]:
    found = (None if value is None else float(value) for value in (statistics.max, statistics.min))
    return tuple(None if value is None or not math.isfinite(value) else float(f"{value:.2e}") for value in found)
