"""What to measure beyond the figures that every comparison needs, and with which backend."""

from __future__ import annotations

from msgspec import Struct

from probe_flow.metrics.accumulators.registry import ACCUMULATORS, kinds_of


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
