"""The reference page of all metrics, written from the registry."""

from __future__ import annotations

from collections.abc import Iterable

from probe_flow.metrics.catalogue.metric import Metric
from probe_flow.metrics.catalogue.metrics import BUILT_IN, METRIC_SETS
from probe_flow.metrics.catalogue.registry import THIRD_SIDE
from probe_flow.records import Mode

_INTRODUCTION = """\
# Metrics

<!-- Written from the metric registry (`metrics.catalogue.reference`). A test holds it equal; do not edit by hand. -->

One id stands for one formula, in workflow files, results and code. *t* is the target, *g* the golden tensor, *n* the
number of positions where both are finite.

- Sums are float64 over fixed blocks in a fixed order: the same inputs give the same bits on any number of workers.
  Integers beyond 2⁵³ are subtracted exactly.
- NaN and infinities are counted on each side, and positions where they disagree in kind or sign are counted too;
  infinity agrees with a number that masks scores (the least of a float type, -1e4, -1e9), though it is unequal. All
  metrics are computed over the positions where both sides are finite.
- `null` means that a metric cannot be computed (no elements, nothing finite on both sides, or not given for such a
  tensor). NaN and infinities are results.
- bool counts as 0 and 1. For complex tensors errors are moduli; products, means and norms run over real and imaginary
  parts alike.
"""

_TITLES = {
    Mode.TENSOR: "Tensor metrics",
    Mode.STATISTICS: "Statistics metrics",
    Mode.CHECKSUM: "Checksum metrics",
}

_WITH_REFERENCE = """\
Where a match stage names a `reference`, every metric is also measured between target and reference, as
`reference.<id>`: *g* then stands for the reference. These take more than two dumps, the last one a stage that ran a
model several times (`repeat`):

"""


def reference_page() -> str:
    """Return docs/reference/metrics.md."""
    parts = [_INTRODUCTION]
    for mode, title in _TITLES.items():
        parts.append(f"## {title}\n\n" + _table([metric for metric in BUILT_IN if metric.mode is mode]))
    parts.append("## With more than two dumps\n\n" + _WITH_REFERENCE + _table(THIRD_SIDE))
    sets = "\n".join(f"| `{name}` | {' '.join(f'`{item}`' for item in ids)} |" for name, ids in METRIC_SETS.items())
    parts.append(f"## Sets\n\n| set | metrics |\n|---|---|\n{sets}\n")
    return "\n".join(parts)


def _table(metrics: Iterable[Metric]) -> str:
    lines = ["| id | definition | range | unit | better | source |", "|---|---|---|---|---|---|"]
    for metric in metrics:
        definition = metric.definition.replace("|", "\\|")
        cells = (f"`{metric.id}`", definition, metric.range, metric.unit, metric.better.value, metric.source)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
