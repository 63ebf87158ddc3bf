"""The largest and least errors of an element-wise view, found in one pass over its elements."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from probe_flow.reports.elements.element_view import Elements, Floats

Rows = NDArray[Any]
"""Index, target, golden, absolute and relative error of some elements, one column each."""

_ROW = np.dtype(
    [("index", "i8"), ("target", "f8"), ("golden", "f8"), ("absolute", "f8"), ("relative", "f8"), ("rank", "f8")]
)


class Scan(Struct, frozen=True):
    """What a pass found.

    Args:
        absolute: rows with the largest absolute errors, the largest first; of equal ones that with the higher index.
        relative: the same by relative error. Errors that are NaN or infinite come last, as if they were 0.
        extremes: least and largest absolute, then relative error among the finite ones; NaN where there is none.
    """

    absolute: Rows
    relative: Rows
    extremes: tuple[float, float, float, float]


def scan(runs: Iterable[Elements], top: int) -> Scan:
    """Return the ``top`` largest errors of each kind, and the extremes, of elements in runs."""
    worst = {"absolute": _Worst(top), "relative": _Worst(top)}
    bounds = dict.fromkeys(worst, (math.inf, -math.inf))
    for run in runs:
        for name, kept in worst.items():
            errors: Floats = getattr(run, name)
            finite = errors[np.isfinite(errors)]
            if finite.size:
                low, high = bounds[name]
                bounds[name] = min(low, float(finite.min())), max(high, float(finite.max()))
            kept.add(run, np.where(np.isfinite(errors), errors, 0.0))
    found = [value if math.isfinite(value) else math.nan for name in worst for value in bounds[name]]
    return Scan(worst["absolute"].rows, worst["relative"].rows, (found[0], found[1], found[2], found[3]))


class _Worst(Struct):
    """The rows with the highest ranks so far, in order."""

    top: int
    rows: Rows = field(default_factory=lambda: np.empty(0, _ROW))

    def add(self, run: Elements, ranks: Floats) -> None:
        least = self.rows["rank"][-1] if self.rows.size == self.top else -math.inf
        places = np.flatnonzero(ranks >= least)
        if places.size > self.top:  # a later element goes before an earlier one of the same rank
            places = places[np.lexsort((places, ranks[places]))[-self.top :]]
        rows = np.empty(places.size, _ROW)
        rows["index"], rows["rank"] = places + run.start, ranks[places]
        for name in ("target", "golden", "absolute", "relative"):
            rows[name] = getattr(run, name)[places]
        joined = np.concatenate([self.rows, rows])
        self.rows = joined[np.lexsort((joined["index"], joined["rank"]))[::-1][: self.top]]
