"""Accumulators by name: ours, and those of installed packages. Nothing is imported before a run needs it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from probe_flow.packages import PackageError, Registry

if TYPE_CHECKING:
    from probe_flow.metrics.accumulators.base import OfErrors, OfValues, SecondPass
    from probe_flow.metrics.sums.record import Accumulator


def _accept(name: str, found: object) -> type[Accumulator]:
    from probe_flow.metrics.accumulators.base import OfErrors, OfValues, SecondPass

    if not isinstance(found, type) or not issubclass(found, (OfValues, OfErrors, SecondPass)):
        raise PackageError("it is no accumulator (a subclass of `OfValues`, `OfErrors` or `SecondPass`)")
    if found.name != name:
        raise PackageError(f"its accumulator is called `{found.name}`")
    return found


ACCUMULATORS: Registry[type[Accumulator]] = Registry(
    ("accumulator", "accumulators"),
    "probe_flow.accumulators",
    {
        "masked": "probe_flow.metrics.accumulators.masked:Masked",
        "minmax": "probe_flow.metrics.accumulators.minmax:MinMax",
        "moments": "probe_flow.metrics.accumulators.moments:Moments",
        "signed": "probe_flow.metrics.accumulators.signed:Signed",
        "significant": "probe_flow.metrics.accumulators.significant:Significant",
        "softmax": "probe_flow.metrics.accumulators.softmax:Softmax",
    },
    _accept,
    unknown="PF5115",
    unusable="PF5115",
)
"""Accumulators by name, each a subclass of one of the kinds of `base`."""


class Kinds(NamedTuple):
    """The accumulators of a run by what they see of a block."""

    of_values: tuple[type[OfValues], ...]
    of_errors: tuple[type[OfErrors], ...]
    second_passes: tuple[type[SecondPass], ...]

    @property
    def of_blocks(self) -> tuple[type[OfValues | OfErrors], ...]:
        """Those of the first pass."""
        return (*self.of_values, *self.of_errors)


@cache
def kinds_of(names: tuple[str, ...]) -> Kinds:
    """Return accumulators by name, in this order within each kind.

    Raises:
        UsageError: PF5115 if there is none of a name, or it cannot be used.
    """
    from probe_flow.metrics.accumulators.base import OfErrors, OfValues, SecondPass

    found = [ACCUMULATORS.find(name) for name in names]
    return Kinds(
        tuple(each for each in found if issubclass(each, OfValues)),
        tuple(each for each in found if issubclass(each, OfErrors)),
        tuple(each for each in found if issubclass(each, SecondPass)),
    )
