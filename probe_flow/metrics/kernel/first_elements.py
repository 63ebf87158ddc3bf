"""The first elements of a tensor, as a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from probe_flow.metrics.kernel.kept_blocks import Blocks
    from probe_flow.metrics.sums.block_sums import Values


class FirstElements(Struct, frozen=True):
    """At most ``limit`` elements of a tensor in C order."""

    values: Blocks
    limit: int

    @property
    def numel(self) -> int:
        """Elements that there are to read."""
        return min(self.limit, self.values.numel)

    @property
    def dtype(self) -> str:
        """Canonical name of the dtype."""
        return self.values.dtype

    def read(self, start: int, stop: int) -> Values:
        """Return elements ``[start, stop)``."""
        return self.values.read(start, stop)


def count_of_first(numel: int, limit: int) -> int:
    """Return how many elements of ``numel`` are measured when at most ``limit`` are; 0 stands for no limit.

    >>> count_of_first(7, 5), count_of_first(7, 0), count_of_first(3, 5)
    (5, 7, 3)
    """
    return min(numel, limit) if limit else numel
