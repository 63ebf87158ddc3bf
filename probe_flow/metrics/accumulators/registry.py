"""Accumulators by name, ours and those of installed packages; and the options of measuring, which name some.

Nothing is imported before a run needs it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

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


class MeasureOptions(Struct, frozen=True):
    """Accumulators, each of which costs time, and the backend.

    Args:
        accumulators: their names, in alphabetical order.
        max_elements: only this many elements of a pair, from the first on; 0 = all.
        backend: ``numpy`` or ``numba``: the name of the one that `backends.backend_named` chose for the whole run.
    """

    accumulators: tuple[str, ...] = ()
    max_elements: int = 0
    backend: str = "numpy"

    @property
    def key_text(self) -> str:
        """What results of other runs are kept under: fixed words, whatever the class and its fields are called.

        Raises:
            UsageError: PF5115 if an accumulator cannot be used.
        """
        versions = ", ".join(f"{name}={ACCUMULATORS.find(name).version}" for name in self.accumulators)
        return f"MeasureOptions(accumulators=({versions}), max_elements={self.max_elements})"

    @property
    def needs_whole_pair(self) -> bool:
        """Whether something is known only when the whole pair was read, so that one worker takes it all."""
        return bool(kinds_of(self.accumulators).second_passes)
