"""The metrics there are: ours and those of installed packages (entry point `probe_flow.metrics`).

Loading this module loads no numpy, so that workflow files can be checked against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from probe_flow.errors import Diagnostic, UsageError, did_you_mean
from probe_flow.metrics.catalogue.metric import Extra, Metric
from probe_flow.metrics.catalogue.metrics import BUILT_IN, METRIC_SETS
from probe_flow.metrics.catalogue.third_side import PREFIX, THIRD_SIDE, reference_metrics
from probe_flow.metrics.sums.options import MeasureOptions
from probe_flow.packages import EntryPoint, PackageError, entry_points, load, named

GROUP = "probe_flow.metrics"
"""Entry point group; each entry is a `Metric` (of tensor mode, with ``compute``).

One that has the id of its metric as its name is imported only where that metric is used.
"""

_RESERVED = frozenset(metric.id for metric in THIRD_SIDE)
_OURS = frozenset(metric.id for metric in BUILT_IN) | _RESERVED


class Metrics(Mapping[str, Metric]):
    """Every metric by id: ours, and those of packages, which are imported when one is asked for that is not ours.

    Args:
        entries: entry points of packages. They may add metrics, not replace ours.
    """

    def __init__(self, entries: Iterable[EntryPoint] = ()) -> None:
        self.broken: dict[str, Diagnostic] = {}
        """PF5115 of each entry point that was loaded and is no metric, or whose id is taken, by its name."""
        self._found = {metric.id: metric for metric in (*BUILT_IN, *reference_metrics(BUILT_IN))}
        self._not_loaded = list(entries)

    def __getitem__(self, metric_id: str) -> Metric:
        if metric_id not in self._found:
            name = metric_id.removeprefix(PREFIX)
            self._not_loaded.sort(key=lambda entry: entry.name != name)
        while metric_id not in self._found and self._not_loaded:
            self._load(self._not_loaded.pop(0))
        return self._found[metric_id]

    def __iter__(self) -> Iterator[str]:
        while self._not_loaded:
            self._load(self._not_loaded.pop(0))
        return iter(self._found)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _load(self, entry: EntryPoint) -> None:
        try:
            metric = load(entry)
        except PackageError as error:
            why = str(error)
        else:
            if not isinstance(metric, Metric) or not callable(metric.compute):
                why = "it is no `Metric` with a `compute` function"
            elif metric.id in self._found or metric.id in _RESERVED or metric.id.startswith(PREFIX):
                why = f"the id `{metric.id}` is taken"
            else:
                self._found[metric.id] = metric
                self._found |= {each.id: each for each in reference_metrics((metric,))}
                return
        self.broken[entry.name] = Diagnostic(
            "PF5115",
            f"{named(entry)} cannot be used: {why}",
            help="update or remove the package that provides it",
        )


@cache
def metrics() -> Metrics:
    """Return every metric by id."""
    return Metrics(entry_points(group=GROUP))


def is_of_package(metric_id: str) -> bool:
    """Say whether a metric of two sides comes from an installed package."""
    return metric_id not in _OURS and not metric_id.startswith(PREFIX)


def find_metric(metric_id: str) -> Metric:
    """Return a metric.

    Raises:
        UsageError: PF5115 if an entry point of this name gives none, PF5114 if there is none of this id.
    """
    known = metrics()
    if metric_id in known:
        return known[metric_id]
    broken = known.broken.get(metric_id.removeprefix(PREFIX))
    raise UsageError(
        broken
        or Diagnostic(
            "PF5114",
            f"there is no metric `{metric_id}`",
            help=did_you_mean(metric_id, known) or "metrics: " + ", ".join(known),
            notes=tuple(each.message for each in known.broken.values()),
        )
    )


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
