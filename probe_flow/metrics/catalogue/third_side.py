"""Metrics of a comparison with a reference: those of two sides again, and how much worse the target is."""

from __future__ import annotations

from collections.abc import Iterable

from probe_flow.metrics.catalogue.metric import Better, Metric

PREFIX = "reference."
"""Ids of metrics between target and reference begin with it."""

_SOURCE = "benchmark standard of the vendor's operator check"

THIRD_SIDE: tuple[Metric, ...] = (
    Metric(
        "excess_error",
        "√Σ(t - r)² / max(√Σ(g - r)², f·√Σr²) with r = reference; f = 2⁻¹¹ for float16, 2⁻⁸ for bfloat16, 2⁻¹⁴ for "
        "float32 targets. 0/0: 0; x/0: inf.",
        "[0, inf]",
        "1",
        _SOURCE,
    ),
    Metric(
        "excess_peak",
        "max |t - r| / max(max |g - r|, f·max |r|) with r and f as in `excess_error`.",
        "[0, inf]",
        "1",
        _SOURCE,
    ),
    Metric(
        "golden_error",
        "√Σ(g - r)² / √Σr² with r = reference: the golden's own error.",
        "[0, inf]",
        "1",
        "common definition",
        Better.NEITHER,
    ),
    Metric(
        "noise_error",
        "√Σ(x - x')² / √Σx² of a side x and a repeated run x' of it, the largest of them.",
        "[0, inf]",
        "1",
        "common definition",
        Better.NEITHER,
    ),
)
"""What takes more than two dumps."""


def of_two_sides(ids: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of metrics between two sides that these ids ask for, once each.

    >>> of_two_sides(["cosine", "reference.cosine", "reference.rmse", "excess_error"])
    ('cosine', 'rmse')
    """
    own = {metric.id for metric in THIRD_SIDE}
    return tuple(dict.fromkeys(metric_id.removeprefix(PREFIX) for metric_id in ids if metric_id not in own))
