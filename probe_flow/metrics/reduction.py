"""Reduce a tensor to a few statistics in one pass over its blocks.

The statistics are those of numpy over all elements: one NaN makes minimum, maximum, mean and norm NaN, infinities stay
infinite. That is what scripts that reduce dumps have always written, and what both sides of a comparison must share.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from probe_flow.metrics.block_sums import Scratch, Values
from probe_flow.metrics.formulas import l2norm_of, mean_of
from probe_flow.metrics.kernel import BLOCK, Blocks, summarise
from probe_flow.metrics.record import Side

STATISTICS = ("min", "max", "mean", "l2norm", "count", "nan_count", "inf_count", "crc32")
"""What a tensor can be reduced to, by the names that reduced files use."""

EXACT_INTEGERS = 2**53
"""Integers beyond this have no exact float64, the type of the figures."""

WINDOW_BYTES = 2**19
"""Bytes read at a time where only extremes are asked for: a core's own cache holds them (256 KiB measured slower)."""

_SUMS = frozenset({"mean", "l2norm", "nan_count", "inf_count"})
_SIGNED = {2: np.int16, 4: np.int32, 8: np.int64}
_UNSIGNED = {2: np.uint16, 4: np.uint32, 8: np.uint64}
_BIT_FLOATS = frozenset(np.dtype(kind) for kind in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64))


@dataclass(frozen=True, slots=True)
class Reduction:
    """The statistics of one tensor.

    Args:
        figures: one for each statistic asked for, in that order. Without elements ``min``, ``max`` and ``mean`` are
            NaN, counts, the norm and the checksum 0.
        is_rounded: an integer extreme is beyond float64's exact integers.
        has_nan: a minimum or maximum is NaN because an element is.
    """

    figures: tuple[float, ...]
    is_rounded: bool = False
    has_nan: bool = False


def needs_sums(statistics: Iterable[str]) -> bool:
    """Tell whether statistics need more than extremes and checksums; sums hold the interpreter lock."""
    return not _SUMS.isdisjoint(statistics)


def reduce_blocks(values: Blocks, statistics: Sequence[str], scratch: Scratch | None = None) -> Reduction:
    """Reduce a tensor, reading each element once.

    ``min`` and ``max`` of complex tensors are over real and imaginary parts. ``crc32`` is that of
    `probe_flow.metrics.checksum.crc32`, bfloat16 widened to float32, since other dumps hold it so.

    Args:
        values: the tensor.
        statistics: names of `STATISTICS`.
        scratch: buffers of the calling thread; made anew when None.
    """
    tap = _Tap(values, is_hashed="crc32" in statistics)
    side = Side()
    if needs_sums(statistics):
        side = summarise(tap, scratch=scratch).target
    else:
        tap.exhaust()
    found = tap.figures() | _sums(side)
    extremes = (tap.low, tap.high)
    return Reduction(
        tuple(found[name] for name in statistics),
        is_rounded=any(isinstance(value, int) and abs(value) > EXACT_INTEGERS for value in extremes),
        has_nan=tap.has_nan,
    )


def _sums(side: Side) -> dict[str, float]:
    infinite = side.positive_inf + side.negative_inf
    mean, norm = _number(mean_of(side), math.nan), _number(l2norm_of(side), 0.0)
    if side.nan:
        mean = norm = math.nan
    elif infinite:
        norm = math.inf
        mean = math.nan if side.positive_inf and side.negative_inf else math.copysign(math.inf, side.positive_inf - 0.5)
    return {"mean": mean, "l2norm": norm, "nan_count": float(side.nan), "inf_count": float(infinite)}


def _number(value: float | None, default: float) -> float:
    return default if value is None else float(value)


@dataclass(slots=True)
class _Tap:
    """A tensor that keeps extremes and checksum of the blocks that pass; they must pass once and in order."""

    values: Blocks
    is_hashed: bool
    low: float | None = None
    high: float | None = None
    has_nan: bool = False
    _crc: int = 0
    numel: int = field(init=False)
    dtype: str = field(init=False)

    def __post_init__(self) -> None:
        self.numel, self.dtype = self.values.numel, self.values.dtype

    def read(self, start: int, stop: int) -> Values:
        """Return a block, and take note of it."""
        block = self.values.read(start, stop)
        if block.size:
            self._take(block)
        return block

    def exhaust(self) -> None:
        """Read the whole tensor, in blocks that suit extremes."""
        step, start = BLOCK, 0
        while start < self.numel:
            block = self.read(start, min(self.numel, start + step))
            start += block.size
            step = max(1, WINDOW_BYTES // block.itemsize)

    def figures(self) -> dict[str, float]:
        """Return what is known without sums."""
        low, high = (math.nan if value is None or self.has_nan else float(value) for value in (self.low, self.high))
        return {"min": low, "max": high, "count": float(self.numel), "crc32": float(self._crc)}

    def _take(self, block: Values) -> None:
        if not block.dtype.isnative:
            block = block.astype(block.dtype.newbyteorder("="))
        low, high = _extremes(block)
        if low is None or high is None:
            self.has_nan = True
        else:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)
        if self.is_hashed:
            if block.dtype == ml_dtypes.bfloat16:
                block = block.astype(np.float32)
            self._crc = zlib.crc32(np.ascontiguousarray(block).view(np.uint8).data, self._crc)


def _extremes(block: Values) -> tuple[float, float] | tuple[None, None]:
    """Return the least and the largest value, exact for integers; None twice where one is NaN."""
    if block.dtype.kind == "c":
        block = np.ascontiguousarray(block).view(block.real.dtype)
    if block.dtype in _BIT_FLOATS:
        return _float_extremes(block)
    if block.dtype.kind in "biu":
        return int(block.min()), int(block.max())
    low, high = float(block.min()), float(block.max())
    return (None, None) if math.isnan(low) or math.isnan(high) else (low, high)


def _float_extremes(block: Values) -> tuple[float, float] | tuple[None, None]:
    """Find extremes on the bits: magnitudes order like integers, which processors compare several times faster.

    The largest signed integer is the largest positive value, the largest unsigned one the lowest negative value; only
    where one of these signs does not occur is a third look needed. NaN lies beyond the infinities on either side.
    """
    width = block.dtype.itemsize
    signed, unsigned = block.view(_SIGNED[width]), block.view(_UNSIGNED[width])
    positive, negative = int(signed.max()), int(unsigned.max())
    infinity, sign = _infinity(block.dtype), 1 << (8 * width - 1)
    if positive > infinity or negative > sign + infinity:
        return None, None
    high = positive if positive >= 0 else unsigned.min()
    low = negative if negative >= sign else unsigned.min()
    ends = np.array([int(low), int(high)], unsigned.dtype).view(block.dtype)
    return float(ends[0]), float(ends[1])


@cache
def _infinity(dtype: np.dtype[Any]) -> int:
    """Return the bits of infinity."""
    return int(np.array(math.inf, dtype).view(_SIGNED[dtype.itemsize])[()])
