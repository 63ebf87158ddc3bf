"""Figures of tensors without a partner: how many elements are NaN or infinite, and how large the others are."""

from __future__ import annotations

import math

from probe_flow.errors import Diagnostic
from probe_flow.measure.sides import Reduced
from probe_flow.records import Figures, Measurement, Mode, SideSummary, Statistics, TensorKind, TensorRef

LARGEST = "max_abs"
"""Metric of an examined tensor: the largest size of its elements; NaN where one is, None where there is none."""

COUNTS = ("nan_count", "positive_inf_count", "negative_inf_count")
"""Metrics of an examined tensor of which the elements are known."""


def unexaminable(tensor: TensorRef) -> Diagnostic | None:
    """Return why nothing can be said of the values of a tensor, or None."""
    if tensor.kind is TensorKind.UNREADABLE:
        return Diagnostic("PF3191", f"the target is unreadable: {tensor.reason}", path=tensor.source)
    if tensor.kind is TensorKind.STATISTICS and tensor.numel != 0 and tensor.recorded in (None, Statistics()):
        held = "a checksum" if tensor.checksum else "nothing"
        return Diagnostic("PF5105", f"the dump recorded {held} of `{tensor.id}`, no figure", tensor=tensor.id)
    return None


def measurement_of_recorded(tensor: TensorRef, figures: Figures | None = None) -> Measurement:
    """Return what a dump recorded of a tensor, or the value of a scalar, as a measurement."""
    if tensor.kind is TensorKind.STATISTICS:
        count = tensor.numel if tensor.numel is not None else tensor.facts.count or 1
        metrics = _largest(tensor.recorded or Statistics())
        return Measurement.of(Mode.STATISTICS, metrics, tensor, count=count, figures=figures)
    found = _as_statistics(tensor.value)
    return Measurement.of(Mode.VALUE, _largest(found), SideSummary(found), count=1, figures=figures)


def measurement_of_elements(found: Reduced, *, backend: str, figures: Figures | None = None) -> Measurement:
    """Return the measurement of a tensor from its `reduction.EXAMINED`."""
    known = dict(zip(found.names, found.figures, strict=True))
    nan, positive, negative = (int(known[name]) for name in COUNTS)
    count = int(known["count"])
    finite = count - nan - positive - negative
    statistics = Statistics(
        min=known["finite_min"] if finite else None,
        max=known["finite_max"] if finite else None,
        nan=nan,
        inf=positive + negative,
    )
    largest = {LARGEST: math.nan} if nan else {LARGEST: math.inf} if positive + negative else _largest(statistics)
    metrics = {**largest, **dict(zip(COUNTS, (nan, positive, negative), strict=True))}
    summary = SideSummary(statistics)
    return Measurement.of(Mode.TENSOR, metrics, summary, count=count, backend=backend, figures=figures)


def _largest(known: Statistics) -> dict[str, float | int | None]:
    ends = [abs(each) for each in (known.min, known.max) if each is not None]
    is_nan = any(each != each for each in ends)
    return {LARGEST: math.nan if is_nan else max(ends, default=None)}


def _as_statistics(value: object) -> Statistics:
    return Statistics(min=value, max=value) if isinstance(value, (int, float)) else Statistics()
