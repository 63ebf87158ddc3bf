"""What a metric is: a row of the registry."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping

from msgspec import Struct

from probe_flow.metrics.sums.record import Record, Value
from probe_flow.records import Mode


class Better(enum.Enum):
    """Which direction means closer agreement."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "-"


Compute = Callable[[Record], Value]
"""From the folded record of a pair to a value; None where there is none."""

Arguments = Mapping[str, str | int | float | bool]
"""What a workflow gives a metric under `metric_args`."""


class Metric(Struct, frozen=True):
    """One metric.

    Args:
        id: used in workflow files, results and code; one id, one formula.
        definition: the formula and its special cases, t for target, g for golden.
        range: set of values.
        unit: ``1`` for dimensionless, ``value`` for the unit of the tensor's values, ``elements``.
        source: where the formula comes from.
        better: direction of agreement.
        mode: what it is computed from.
        compute: from the folded record; None where ``accumulator`` computes it, and for modes other than tensor, which
            have functions of their own.
        accumulator: name of the one that must be measured for it (`accumulators.registry`); empty for none. It computes
            the metric unless there is ``compute``.
        takes_scalars: whether it is given for 0-d tensors.
        with_arguments: makes ``compute`` from the arguments of a workflow, and raises ValueError, in words for its
            author, for those that it does not take; None for a metric without arguments.
    """

    id: str
    definition: str
    range: str
    unit: str
    source: str
    better: Better = Better.LOWER
    mode: Mode = Mode.TENSOR
    compute: Compute | None = None
    accumulator: str = ""
    takes_scalars: bool = True
    with_arguments: Callable[[Arguments], Compute] | None = None
