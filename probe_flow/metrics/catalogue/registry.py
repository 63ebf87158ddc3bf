"""The metrics there are, of two sides and of three: ours and those of packages (entry point `probe_flow.metrics`).

Loading this module loads no numpy, so that workflow files can be checked against it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from probe_flow.errors import Diagnostic, UsageError, did_you_mean
from probe_flow.metrics.accumulators.registry import ACCUMULATORS, MeasureOptions
from probe_flow.metrics.catalogue.metric import Better, Metric
from probe_flow.metrics.catalogue.metrics import BUILT_IN, METRIC_SETS
from probe_flow.packages import PackageError, Registry

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
"""What takes more than two dumps. With a reference, metrics of two sides are there again (`PREFIX`)."""


def of_two_sides(ids: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of metrics between two sides that these ids ask for, once each.

    >>> of_two_sides(["cosine", "reference.cosine", "reference.rmse", "excess_error"])
    ('cosine', 'rmse')
    """
    own = {metric.id for metric in THIRD_SIDE}
    return tuple(dict.fromkeys(metric_id.removeprefix(PREFIX) for metric_id in ids if metric_id not in own))


_OF_THREE = frozenset(metric.id for metric in THIRD_SIDE)


def _accept(metric_id: str, found: object) -> Metric:
    if not isinstance(found, Metric) or not (callable(found.compute) or found.accumulator):
        raise PackageError("it is no `Metric` with a `compute` function or an accumulator")
    if found.id != metric_id:
        raise PackageError(f"its metric is called `{found.id}`")
    if metric_id.startswith(PREFIX):
        raise PackageError(f"ids that begin with `{PREFIX}` are those of a comparison with a reference")
    if found.accumulator and found.accumulator not in ACCUMULATORS:
        raise PackageError(ACCUMULATORS.no_such(found.accumulator).message)
    return found


METRICS: Registry[Metric] = Registry(
    ("metric", "metrics"),
    "probe_flow.metrics",
    {metric.id: metric for metric in (*BUILT_IN, *THIRD_SIDE)},
    _accept,
    unknown="PF5114",
    unusable="PF5115",
)
"""Every metric by its id, without the second ones of a comparison with a reference (`find_metric`)."""


def find_metric(metric_id: str) -> Metric:
    """Return a metric: of two sides, of three, or one of two sides between target and reference (``reference.ID``).

    Raises:
        UsageError: PF5114 if there is none of this id, PF5115 if it is of a package and cannot be used.
    """
    of_two = _of_two(metric_id)
    if of_two is not None:
        return replace(METRICS[of_two], id=metric_id, compute=None, accumulator="", with_arguments=None)
    if metric_id not in METRICS:
        raise UsageError(METRICS.no_such(metric_id, also=(PREFIX + name for name in METRICS if name not in _OF_THREE)))
    return METRICS[metric_id]


def _of_two(metric_id: str) -> str | None:
    """Return the metric of two sides that is meant by ``reference.ID``, None for everything else."""
    name = metric_id.removeprefix(PREFIX)
    return name if name != metric_id and name in METRICS and name not in _OF_THREE else None


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
    found = [find_metric(metric_id) for metric_id in ids]
    of_two_sides = (find_metric(metric.id.removeprefix(PREFIX)) for metric in found)
    return MeasureOptions(tuple(sorted({metric.accumulator for metric in of_two_sides} - {""})), max_elements)
