"""The statistics of an array in memory, as the file that stands for it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.dumps.reduced.reduced_files import ReducedArray, ReducedTensor
from probe_flow.metrics.reduction import reduce_blocks

STATISTICS = ("min", "max", "mean", "l2norm")
"""What statistics of a dump are."""


def statistics_file(array: NDArray[Any], dtype: str) -> bytes:
    """Return the content of the file: minimum, maximum, mean and L2 norm, with the true dtype and the shape."""
    figures = reduce_blocks(_ArrayBlocks(array.reshape(-1)), STATISTICS).figures
    return ReducedArray(STATISTICS, ReducedTensor(figures, dtype, array.shape)).to_bytes()


class _ArrayBlocks(Struct, frozen=True):
    """An array in memory, as the kernel reads it."""

    array: NDArray[Any]

    @property
    def numel(self) -> int:
        return int(self.array.size)

    @property
    def dtype(self) -> str:
        return str(self.array.dtype)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        return self.array[start:stop]
