"""The metrics there are: ours and those of installed packages (entry point `probe_flow.metrics`).

Loading this module loads no numpy, so that workflow files can be checked against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from probe_flow.errors import Diagnostic, UsageError, did_you_mean
from probe_flow.metrics.catalogue import BUILT_IN, METRIC_SETS
from probe_flow.metrics.metric import Extra, Metric
from probe_flow.metrics.options import MeasureOptions
from probe_flow.metrics.third_side import PREFIX, THIRD_SIDE, reference_metrics
from probe_flow.packages import EntryPoint, entry_points

GROUP = "probe_flow.metrics"
"""Entry point group; each entry is a `Metric` (of tensor mode, with ``compute``), its name is free."""

_RESERVED = frozenset(metric.id for metric in THIRD_SIDE)


@cache
def metrics() -> Mapping[str, Metric]:
    """Return every metric by id. An installed package may add metrics, not replace ours.

    Raises:
        UsageError: PF5115 if an entry point is no metric or its id is taken.
    """
    return with_packages(entry_points(group=GROUP))


def with_packages(entries: Iterable[EntryPoint]) -> Mapping[str, Metric]:
    """Return our metrics together with those of the given entry points; errors as in `metrics`."""
    found = {metric.id: metric for metric in BUILT_IN}
    for entry in entries:
        metric = entry.load()
        if not isinstance(metric, Metric) or metric.compute is None:
            raise _unusable(entry, "it is no `Metric` with a `compute` function")
        if metric.id in found or metric.id in _RESERVED or metric.id.startswith(PREFIX):
            raise _unusable(entry, f"the id `{metric.id}` is taken")
        found[metric.id] = metric
    found.update((metric.id, metric) for metric in reference_metrics(tuple(found.values())))
    return MappingProxyType(found)


def find_metric(metric_id: str) -> Metric:
    """Return a metric.

    Raises:
        UsageError: PF5114 if there is none of this id.
    """
    known = metrics()
    if metric_id not in known:
        raise UsageError(
            Diagnostic(
                "PF5114",
                f"there is no metric `{metric_id}`",
                help=did_you_mean(metric_id, known) or "metrics: " + ", ".join(known),
            )
        )
    return known[metric_id]


def metric_ids(chosen: str | Iterable[str]) -> tuple[str, ...]:
    """Return the ids of a set by its name, or the given ids once each, checked.

    Raises:
        UsageError: PF5114 if a name is no set or an id no metric.
    """
    if not isinstance(chosen, str):
        return tuple(dict.fromkeys(find_metric(metric_id).id for metric_id in chosen))
    if chosen not in METRIC_SETS:
        raise UsageError(
            Diagnostic(
                "PF5114",
                f"there is no metric set `{chosen}`",
                help=did_you_mean(chosen, METRIC_SETS) or "sets: " + ", ".join(METRIC_SETS),
            )
        )
    return METRIC_SETS[chosen]


def options_for(ids: Iterable[str], *, max_elements: int = 0) -> MeasureOptions:
    """Return what must be measured so that these metrics can be derived, of the first elements only if limited.

    Raises:
        UsageError: PF5114 if an id is unknown.
    """
    extras = {find_metric(metric_id).extra for metric_id in ids}
    return MeasureOptions(
        moments=Extra.MOMENTS in extras,
        masked=Extra.MASKED in extras,
        significant=Extra.SIGNIFICANT in extras,
        softmax=Extra.SOFTMAX in extras,
        minmax=Extra.MINMAX in extras,
        max_elements=max_elements,
    )


def _unusable(entry: EntryPoint, reason: str) -> UsageError:
    return UsageError(
        Diagnostic(
            "PF5115",
            f"entry point `{entry.name}` ({entry.value}) cannot be used: {reason}",
            help="update or remove the package that provides it",
        )
    )
