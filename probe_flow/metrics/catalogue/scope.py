"""What a workflow says about measuring beyond which metrics: how much of each pair, and arguments of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field

from probe_flow.errors import Diagnostic, UsageError
from probe_flow.metrics.catalogue.metric import Arguments, Compute
from probe_flow.metrics.catalogue.registry import find_metric


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
