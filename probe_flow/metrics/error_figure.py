"""The one figure by which a row is called better or worse than in another run, whatever metrics were measured."""

from __future__ import annotations

import math
from collections.abc import Mapping

FIGURES = (
    "relative_euclidean_distance",
    "l2norm_diff_rel",
    "cosine",
    "mean_rel_err",
    "max_rel_err",
    "rmse",
    "mean_abs_err",
    "max_abs_err",
    "max_diff",
)
"""Metrics that tell how far two tensors are apart; the first that a row has is its figure."""

_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def error_figure(metrics: Mapping[str, object]) -> tuple[str, float] | None:
    """Return metric and size of the error of one row: at least 0, larger is worse; None where nothing tells.

    The size is the absolute value of the metric; that of the cosine is what it lacks to 1.

    Args:
        metrics: by id; values are numbers, or the words that result files have for NaN and infinities.

    >>> error_figure({"max_abs_err": 2.0, "cosine": 0.75})
    ('cosine', 0.25)
    """
    for name in FIGURES:
        value = number(metrics.get(name))
        if value is not None:
            return name, max(0.0, 1.0 - value) if name == "cosine" else abs(value)
    return None


def number(value: object) -> float | None:
    """Return a number of a result file, whose NaN and infinities are words; None for anything else."""
    if isinstance(value, (bool, int, float)):
        try:
            return float(value)
        except OverflowError:  # integers have no bounds in JSON
            return math.inf if value > 0 else -math.inf
    return _WORDS.get(value) if isinstance(value, str) else None
