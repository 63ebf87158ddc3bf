"""Which metrics a workflow asks for, of how much of each pair, and their values from a folded record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from msgspec import Struct, field

from probe_flow.errors import Diagnostic, UsageError
from probe_flow.metrics.catalogue.formulas import l2norm_of, mean_of
from probe_flow.metrics.catalogue.metric import Arguments, Compute
from probe_flow.metrics.catalogue.registry import METRICS, find_metric
from probe_flow.metrics.sums.record import Record, Side, Value
from probe_flow.packages import raised
from probe_flow.records import Mode, SideSummary, Statistics


class MetricError(Exception):
    """A metric cannot be computed from a record; the text says why."""


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
        MetricError: a formula raised, or gave something else than a number or None.
    """
    instead = computes or {}
    finished: dict[str, Value] = {}
    for each in record.accumulators:
        finished |= each.finish(record)
    values: dict[str, Value] = {}
    for metric_id, formula, takes_scalars in _computed(tuple(ids), METRICS.changes):
        compute = instead.get(metric_id, formula)
        try:
            value = finished.get(metric_id) if compute is None else compute(record)
        except Exception as error:
            raise MetricError(f"the metric `{metric_id}` raised {raised(error)}") from error
        if type(value) not in _PLAIN:
            value = _plain(metric_id, value)
        values[metric_id] = value if takes_scalars or not is_scalar else None
    return values


_PLAIN = frozenset((type(None), bool, int, float))


def _plain(metric_id: str, value: object) -> Value:
    """Return a number of numpy as one of Python; what is none would make the record of the run unreadable."""
    item = getattr(value, "item", None)
    found = item() if callable(item) and getattr(value, "size", 0) == 1 else value
    if not isinstance(found, (bool, int, float)):
        raise MetricError(f"the metric `{metric_id}` gave {value!r}, which is no number")
    return found


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


def side_summary(side: Side) -> SideSummary:
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
        )
    )


class Scope(Struct, frozen=True):
    """How a comparison measures.

    Args:
        max_elements: only this many elements of each pair, from the first on; 0 = all.
        computes: metric id -> its formula, for metrics that were given arguments.
    """

    max_elements: int = 0
    computes: Mapping[str, Compute] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def asked(cls, max_elements: int, metric_args: Mapping[str, Arguments]) -> Scope:
        """Return the scope that a workflow asks for, its metrics' arguments by metric id.

        Raises:
            UsageError: PF5114 if there is no such metric, PF6401 if it takes no arguments or not these.
        """
        return cls(max_elements, {metric: _with_arguments(metric, given) for metric, given in metric_args.items()})


WHOLE = Scope()
"""Every element, no arguments."""


def _with_arguments(metric_id: str, arguments: Arguments) -> Compute:
    metric = find_metric(metric_id)
    if metric.with_arguments is None:
        raise UsageError(
            Diagnostic("PF6401", f"the metric `{metric_id}` takes no arguments", help="remove them from `metric_args`")
        )
    try:
        return metric.with_arguments(arguments)
    except Exception as error:  # of a package: whatever it raises is told as what it says
        shown = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise UsageError(
            Diagnostic(
                "PF6401",
                f"the metric `{metric_id}` does not take these arguments: {shown}",
                help="see the documentation of the package that provides it",
            )
        ) from error
