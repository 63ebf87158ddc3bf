"""Derive metrics and side statistics from a folded record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from probe_flow.metrics.catalogue.formulas import l2norm_of, mean_of
from probe_flow.metrics.catalogue.metric import Compute
from probe_flow.metrics.catalogue.registry import METRICS, find_metric
from probe_flow.metrics.sums.record import Record, Side, Value
from probe_flow.records import Mode, SideSummary, Statistics


def derive(
    record: Record, ids: Iterable[str], *, is_scalar: bool = False, computes: Mapping[str, Compute] | None = None
) -> dict[str, Value]:
    """Return the values of tensor metrics.

    Args:
        record: folded record of a whole pair, measured with `options_for` of these ids.
        ids: metric ids; those of other modes (statistics, checksum) are left out.
        is_scalar: whether the tensors are 0-d.
        computes: formulas that take the place of the registered ones, by id (`scope.Scope`).

    Returns:
        Id -> value in the order of ``ids``. None: not computable (no elements, no position finite on both sides, not
        given for scalars, or not measured). NaN and infinities are values.

    Raises:
        UsageError: PF5114 if an id is unknown.
    """
    instead = computes or {}
    finished: dict[str, Value] = {}
    for each in record.accumulators:
        finished |= each.finish(record)
    values: dict[str, Value] = {}
    for metric_id, formula, takes_scalars in _computed(tuple(ids), METRICS.changes):
        compute = instead.get(metric_id, formula)
        value = finished.get(metric_id) if compute is None else compute(record)
        values[metric_id] = value if takes_scalars or not is_scalar else None
    return values


@cache
def _computed(ids: tuple[str, ...], _changes: int) -> tuple[tuple[str, Compute | None, bool], ...]:
    """Return id, formula and whether it is given for scalars, of each metric that is computed from a record.

    Those without a formula are computed by an accumulator. What was found before a metric was registered is not used.
    """
    found = (find_metric(metric_id) for metric_id in ids)
    return tuple(
        (metric.id, metric.compute, metric.takes_scalars)
        for metric in found
        if metric.mode is Mode.TENSOR and (metric.compute is not None or metric.accumulator)
    )


def side_summary(side: Side, *, checksum: str | None = None) -> SideSummary:
    """Return the statistics of one side: over its finite values, NaN and infinities counted.

    Minimum and maximum are ints for integer and bools for bool tensors. A tensor without finite values has none.
    """
    has_values = side.values > 0
    return SideSummary(
        Statistics(
            min=side.low if has_values else None,
            max=side.high if has_values else None,
            mean=mean_of(side),
            l2norm=l2norm_of(side),
            nan=side.nan,
            inf=side.positive_inf + side.negative_inf,
        ),
        checksum,
    )
