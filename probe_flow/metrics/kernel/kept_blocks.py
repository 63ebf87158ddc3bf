"""A tensor read block by block: what the kernel asks of one, one whose blocks are kept, one's first elements alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from probe_flow.metrics.sums.block_sums import Values

KEPT_BYTES = 16 * 2**20
"""Bytes of a tensor that are kept; those of larger ones that come later are read, and converted, again."""

AT_ONCE = 2**20
"""Elements up to which a tensor is read in one go (measured: a tenth less time for a pair, as nothing is copied)."""


class Blocks(Protocol):
    """The logical elements of a tensor in C order, read piece by piece.

    ``dtype`` is a canonical name (`probe_flow.tensors.dtypes`). ``read`` returns elements ``[start, stop)`` as a 1-D
    array of any numpy or ml_dtypes dtype; it may be a view of read-only memory and is never written to.
    """

    @property
    def numel(self) -> int: ...

    @property
    def dtype(self) -> str: ...

    def read(self, start: int, stop: int) -> Values: ...


class KeptBlocks:
    """A tensor whose first blocks are read once, if they are asked for in the same pieces again.

    Nobody else may read ``values`` meanwhile: what they give is valid until they are read again.
    """

    def __init__(self, values: Blocks) -> None:
        self.values, self.numel, self.dtype = values, values.numel, values.dtype
        self._kept: dict[tuple[int, int], Values] = {}
        self._left = KEPT_BYTES

    def read(self, start: int, stop: int) -> Values:
        """Return elements ``[start, stop)``."""
        if self.numel <= AT_ONCE:
            whole = self._kept.get((0, self.numel))
            if whole is None:
                whole = self._kept[0, self.numel] = self.values.read(0, self.numel)
            return whole[start:stop]
        found = self._kept.get((start, stop))
        if found is None:
            found = self.values.read(start, stop)
            if found.nbytes <= self._left:
                self._left -= found.nbytes
                found = self._kept[start, stop] = found.copy()  # a block is valid until the next one only
        return found


def kept(values: Blocks) -> KeptBlocks:
    """Return a tensor as one whose blocks are kept; the same where they are already."""
    return values if isinstance(values, KeptBlocks) else KeptBlocks(values)


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
