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
from msgspec import Struct

from probe_flow.metrics.catalogue.formulas import l2norm_of, mean_of
from probe_flow.metrics.kernel.compare import summarise
from probe_flow.metrics.kernel.kept_blocks import Blocks
from probe_flow.metrics.sums.block_sums import Scratch, Values
from probe_flow.metrics.sums.record import BLOCK, Side

STATISTICS = ("min", "max", "mean", "l2norm", "count", "nan_count", "inf_count", "crc32")
"""What a tensor can be reduced to, by the names that reduced files use."""

EXAMINED = ("count", "nan_count", "positive_inf_count", "negative_inf_count", "finite_min", "finite_max")
"""What says whether a tensor is finite, and how large its finite elements are (NaN twice where there are none)."""

EXACT_INTEGERS = 2**53
"""Integers beyond this have no exact float64, the type of the figures."""

WINDOW_BYTES = 2**19
"""Bytes read at a time where only extremes are asked for: a core's own cache holds them (256 KiB measured slower)."""

_SUMS = frozenset({"mean", "l2norm", "nan_count", "inf_count"})
_SIGNED = {2: np.int16, 4: np.int32, 8: np.int64}
_UNSIGNED = {2: np.uint16, 4: np.uint32, 8: np.uint64}
_minimum, _maximum = np.minimum.reduce, np.maximum.reduce
_BIT_FLOATS = frozenset(np.dtype(kind) for kind in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64))


class Reduction(Struct, frozen=True):
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
    """Reduce a tensor, reading each element once; for `EXAMINED` again where one is not finite, which extremes tell.

    ``min`` and ``max`` of complex tensors are over real and imaginary parts. ``crc32`` is that of
    `probe_flow.measure.results.crc32`, bfloat16 widened to float32, since other dumps hold it so.

    Args:
        values: the tensor.
        statistics: names of `STATISTICS` or `EXAMINED`.
        scratch: buffers of the calling thread; made anew when None.
    """
    tap = _Tap(values, is_hashed="crc32" in statistics)
    sums: dict[str, float] = {}
    if needs_sums(statistics):
        sums = _sums(summarise(tap, scratch=scratch).target)
    else:
        tap.exhaust()
    low, high = tap.ends()
    if "finite_min" in statistics:
        sums |= _examined(values, low, high, scratch)
    found = {"min": float(low), "max": float(high), "count": float(tap.numel), "crc32": float(tap.crc), **sums}
    return Reduction(
        tuple(found[name] for name in statistics),
        is_rounded=isinstance(low, int) and max(-low, high) > EXACT_INTEGERS,
        has_nan=tap.numel > 0 and math.isnan(low),
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


def _examined(values: Blocks, low: float, high: float, scratch: Scratch | None) -> dict[str, float]:
    """Return the figures of `EXAMINED` but the count, from sums, which take longer, only where they are needed."""
    if math.isfinite(low) and math.isfinite(high):
        side = Side(low=low, high=high)
    else:
        side = summarise(values, scratch=scratch).target
    ends = (float(side.low), float(side.high)) if side.low <= side.high else (math.nan, math.nan)
    figures = side.nan, side.positive_inf, side.negative_inf, *ends
    return dict(zip(EXAMINED[1:], map(float, figures), strict=True))


def _number(value: float | None, default: float) -> float:
    return default if value is None else float(value)


@dataclass(slots=True)
class _Tap:
    """A tensor that keeps extremes and checksum of the blocks that pass; they must pass once and in order."""

    values: Blocks
    is_hashed: bool
    _extremes: _FloatBits | _Integers | None = None
    crc: int = 0
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

    def ends(self) -> tuple[float, float]:
        """Return the least and the largest value, exact for integers; NaN where there is none or an element is NaN."""
        return (math.nan, math.nan) if self._extremes is None else self._extremes.ends()

    def _take(self, block: Values) -> None:
        if not block.dtype.isnative:
            block = block.astype(block.dtype.newbyteorder("="))
        if self._extremes is None:
            kind = block.real.dtype
            self._extremes = _FloatBits(kind) if kind in _BIT_FLOATS else _Integers()
        self._extremes.take(np.ascontiguousarray(block).view(block.real.dtype) if block.dtype.kind == "c" else block)
        if self.is_hashed:
            if block.dtype == ml_dtypes.bfloat16:
                block = block.astype(np.float32)
            self.crc = zlib.crc32(np.ascontiguousarray(block).view(np.uint8).data, self.crc)


class _FloatBits:
    """Extremes of floats, found on their bits: processors compare integers several times faster.

    Magnitudes order like integers. The largest signed integer is the largest positive value, the largest unsigned one
    the lowest negative value; only as long as one of these signs has not occurred is a third look needed, for the value
    next to zero. NaN lies beyond the infinities on either side. Numbers are made of the bits once, at the end.
    """

    __slots__ = ("_dtype", "_largest", "_lowest", "_nearest", "_sign", "_signed", "_unsigned")

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        width = dtype.itemsize
        self._signed, self._unsigned = _SIGNED[width], _UNSIGNED[width]
        self._sign = 1 << (8 * width - 1)
        self._largest, self._lowest = -self._sign, 0
        self._nearest = 2 * self._sign

    def take(self, block: Values) -> None:
        """Look at some elements, at least one."""
        unsigned = block.view(self._unsigned)
        self._largest = max(self._largest, int(_maximum(block.view(self._signed))))
        self._lowest = max(self._lowest, int(_maximum(unsigned)))
        if self._largest < 0 or self._lowest < self._sign:
            self._nearest = min(self._nearest, int(_minimum(unsigned)))

    def ends(self) -> tuple[float, float]:
        """Return the least and the largest value; NaN twice where an element is NaN."""
        infinity = _infinity(self._dtype)
        if self._largest > infinity or self._lowest > self._sign + infinity:
            return math.nan, math.nan
        high = self._largest if self._largest >= 0 else self._nearest
        low = self._lowest if self._lowest >= self._sign else self._nearest
        found = np.array([low, high], self._unsigned).view(self._dtype)
        return float(found[0]), float(found[1])


class _Integers:
    """Extremes of integers and bools, exact."""

    __slots__ = ("_high", "_low")

    def __init__(self) -> None:
        self._low, self._high = math.inf, -math.inf

    def take(self, block: Values) -> None:
        """Look at some elements, at least one."""
        self._low = min(self._low, int(_minimum(block)))
        self._high = max(self._high, int(_maximum(block)))

    def ends(self) -> tuple[float, float]:
        """Return the least and the largest value."""
        return self._low, self._high


@cache
def _infinity(dtype: np.dtype[Any]) -> int:
    """Return the bits of infinity."""
    return int(np.array(math.inf, dtype).view(_SIGNED[dtype.itemsize])[()])
