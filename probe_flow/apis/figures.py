"""Figures of the precision standards for single APIs: how far one tested tensor is from its benchmark.

The formulas are those of msprobe 26.2.0 (pre-check of PyTorch APIs), in float64. They differ from it in what is not
finite: places where both sides hold NaN or the same infinity have no error, whatever the figure. Tensors are taken
in chunks, so that their size costs no memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.side import Held
from probe_flow.apis.values import Values

Reals: TypeAlias = "NDArray[np.float64]"
Places: TypeAlias = "NDArray[np.bool_]"

CHUNK = 65_536
"""Elements whose errors are held at a time, in some 5 MiB."""

THOUSANDTH = 1e-3

BFLOAT16_EPS = 2.0**-8
"""msprobe's spacing of bfloat16 at 1; that of the format is 2**-7."""

FORMATS = MappingProxyType({"float16": (-14, 10), "bfloat16": (-126, 7), "float32": (-126, 23)})
"""Smallest exponent of a normal number, and bits of the fraction, of the types whose errors are counted in units."""

_LARGEST_BFLOAT16 = 3.3895313892515355e38

_LOWEST_EXPONENT_OF_8_BITS = -22.0
_NO_ZERO = 2.0**-1000
"""Added before the logarithm is taken, so that zero has one."""

_RMSE_GUARD = 1e-4
"""What keeps msprobe's correction of the mean square defined where no element counts."""


@dataclass(frozen=True)
class StandardFigures:
    """Figures of an output; None for those that its standard does not ask for.

    Args:
        inf_nan_ratio: share of the places that are not finite on some side where the two disagree.
        rel_ratio: share of the normal values whose relative error is too large.
        abs_ratio: share of the small values whose absolute error is too large.
        small_ratio: the same, by the limit of the benchmark standard.
        max_rel, mean_rel: relative error of the normal values.
        rmse: root of the mean square error of the normal values.
        error_balance: by how much more often the error has one sign than the other, as a share of all elements.
        error_rate: share of the elements that are not equal.
        max_ulp, mean_ulp: error in units in the last place; not finite where the sides disagree on what is finite.
        ulp_ratio: share of the elements that are off by more units than is allowed.
        within_thousandth: share of the elements whose relative error is below 0.001.
    """

    inf_nan_ratio: float | None = None
    rel_ratio: float | None = None
    abs_ratio: float | None = None
    small_ratio: float | None = None
    max_rel: float | None = None
    mean_rel: float | None = None
    rmse: float | None = None
    error_balance: float | None = None
    error_rate: float | None = None
    max_ulp: float | None = None
    mean_ulp: float | None = None
    ulp_ratio: float | None = None
    within_thousandth: float | None = None


@dataclass(frozen=True)
class Chunk:
    """Errors of a stretch of elements.

    Args:
        tested, benchmark: the elements, as float64.
        rounded: the benchmark in the tested type, or in the one that holds its elements.
        absolute: absolute errors; 0 where the two agree on what is not finite.
        relative: the same, relative to the benchmark's size plus its spacing at 1.
        finite: where both sides are finite in the type that holds the tested elements.
        disagree: where they are not, and do not hold NaN or the same infinity on both sides.
    """

    tested: Reals
    benchmark: Reals
    rounded: Reals
    absolute: Reals
    relative: Reals
    finite: Places
    disagree: Places


@dataclass(frozen=True)
class Errors:
    """A tested tensor and its benchmark; iterating works out their errors, one chunk after the other.

    Args:
        dtype: canonical element type of the tested tensor.
        tested, benchmark: their elements, flattened, in the types that hold them.
        spacing: what is added to the size of a benchmark before it divides.
        rounding: brings a benchmark into the tested type, of its name, the tested and the benchmark's elements; None =
            into the one that holds the tested elements.
    """

    dtype: str
    tested: NDArray[Any]
    benchmark: NDArray[Any]
    spacing: float
    rounding: Callable[[str, Values, Values], Values] | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.tested.size

    def __iter__(self) -> Iterator[Chunk]:
        for start in range(0, self.size, CHUNK):
            yield self._chunk(slice(start, start + CHUNK))

    def _chunk(self, where: slice) -> Chunk:
        one, other = self.tested[where], self.benchmark[where]
        with np.errstate(all="ignore"):
            near = other.astype(one.dtype) if self.rounding is None else self.rounding(self.dtype, one, other)
            rounded = near.astype(np.float64)
            one_, other_ = one.astype(np.float64), other.astype(np.float64)
            finite = np.isfinite(one_) & np.isfinite(rounded)
            agree = ~finite & ((one_ == rounded) | (np.isnan(one_) & np.isnan(rounded)))
            absolute = np.where(agree, 0.0, np.abs(one_ - other_))
            relative = np.where(agree, 0.0, absolute / (np.abs(other_) + self.spacing))
        return Chunk(one_, other_, rounded, absolute, relative, finite, ~finite & ~agree)


Spacing: TypeAlias = "Callable[[str, NDArray[Any]], float]"
"""Returns what is added to the size of a benchmark: of the tested element type, and the benchmark's elements."""


def spacing(dtype: str, benchmark: Values) -> float:
    """Return the spacing of a benchmark's type at 1; for bfloat16 the tested type decides alone."""
    if dtype == "bfloat16":
        return BFLOAT16_EPS
    return float(np.finfo(benchmark.dtype).eps) if benchmark.dtype.kind == "f" else float(np.finfo(np.float64).eps)


def errors_of(
    tested: Held,
    benchmark: Held,
    spacing: Spacing = spacing,
    rounding: Callable[[str, Values, Values], Values] | None = None,
) -> Errors:
    """Return the errors of a tested tensor, which has as many elements as its benchmark; complex ones are pairs."""
    one, other = _parts(tested.values), _parts(benchmark.values)
    return Errors(tested.dtype, one, other, spacing(tested.dtype, other), rounding)


def threshold_figures(errors: Errors, *, small: float, atol: float, rtol: float) -> StandardFigures:
    """Return the shares of elements beyond absolute thresholds.

    Args:
        errors: of the tensor.
        small: benchmarks up to this size are small values.
        atol: limit of the absolute error of small values.
        rtol: limit of the relative error of the others, and of what is not finite, cut to the type's range.
    """
    outside, normal, tiny = _Share(), _Share(), _Share()
    largest = _LARGEST_BFLOAT16 if errors.dtype == "bfloat16" else _largest(errors.dtype)
    for chunk in errors:
        is_small = chunk.finite & (np.abs(chunk.benchmark) <= small)
        outside.add(_out_of_range(chunk, largest, rtol), ~chunk.finite)
        normal.add(chunk.relative > rtol, chunk.finite & ~is_small)
        tiny.add(chunk.absolute > atol, is_small)
    return StandardFigures(inf_nan_ratio=outside.value, rel_ratio=normal.value, abs_ratio=tiny.value)


Rmse: TypeAlias = "Callable[[float, int, int], float]"
"""Returns a root mean square: of the sum of squares, the number of normal values, and that of all elements."""


def corrected_rmse(squares: float, count: int, size: int) -> float:
    """Return the root mean square that msprobe's pre-check has: over all elements, then scaled to the normal ones."""
    return math.sqrt(squares / size * (size / (count + _RMSE_GUARD) + _RMSE_GUARD))


def benchmark_figures(errors: Errors, *, small: float, atol: float, rmse: Rmse = corrected_rmse) -> StandardFigures:
    """Return the figures that two devices are compared by.

    Args:
        errors: of the tensor.
        small: benchmarks up to this size are small values.
        atol: absolute error from which on a small value is wrong.
        rmse: how the root mean square error comes from a sum of squares.
    """
    tiny, balance = _Share(), _Balance()
    count, largest, total, squares = 0, 0.0, 0.0, 0.0
    for chunk in errors:
        is_small = chunk.finite & (np.abs(chunk.benchmark) <= small)
        is_normal = chunk.finite & ~is_small
        relative, absolute = chunk.relative[is_normal], chunk.absolute[is_normal]
        tiny.add(chunk.absolute > atol, is_small)
        balance.add(chunk)
        count += relative.size
        largest = max(largest, float(relative.max(initial=0.0)))
        with np.errstate(over="ignore"):
            total += float(relative.sum())
            squares += float(np.square(absolute).sum())
    return StandardFigures(
        small_ratio=tiny.value,
        max_rel=largest,
        mean_rel=total / count if count else 0.0,
        rmse=rmse(squares, count, errors.size),
        error_balance=balance.value(errors.size),
    )


def error_balance(errors: Errors) -> float:
    """Return by how much more often the error has one sign than the other, as a share of all elements."""
    balance = _Balance()
    for chunk in errors:
        balance.add(chunk)
    return balance.value(errors.size)


def error_rate(tested: Held, benchmark: Held) -> float:
    """Return the share of elements that are not equal; NaN equals NaN, integers are compared exactly."""
    one, other = tested.values.reshape(-1), benchmark.values.reshape(-1)
    count = 0
    for start in range(0, one.size, CHUNK):
        here, there = one[start : start + CHUNK], other[start : start + CHUNK]
        wrong = here != there
        if one.dtype.kind in "fc" and other.dtype.kind in "fc":
            wrong &= ~(np.isnan(here) & np.isnan(there))
        count += int(np.count_nonzero(wrong))
    return count / one.size


def ulp_figures(errors: Errors, *, allowed: float) -> StandardFigures:
    """Return the error in units in the last place of the tested type, at the size of the benchmark.

    Args:
        errors: of a tensor of one of `FORMATS`, or of an eight-bit float.
        allowed: units that an element may be off by.
    """
    largest, total, beyond = 0.0, 0.0, 0
    for chunk in errors:
        units = _units(chunk, *FORMATS[errors.dtype]) if errors.dtype in FORMATS else _units_of_8_bits(chunk)
        units = np.where(chunk.disagree & np.isfinite(units), np.nan, units)
        largest = float(np.maximum(largest, units.max()))  # NaN stays
        with np.errstate(over="ignore"):
            total += float(units.sum())
        beyond += int(np.count_nonzero(~(units <= allowed)))
    return StandardFigures(max_ulp=largest, mean_ulp=total / errors.size, ulp_ratio=beyond / errors.size)


def shares_within(errors: Errors, *limits: float) -> list[float]:
    """Return for each limit the share of elements whose relative error is below it; 1 where there are none."""
    counts = [0] * len(limits)
    for chunk in errors:
        counts = [
            count + int(np.count_nonzero(chunk.relative < limit)) for count, limit in zip(counts, limits, strict=True)
        ]
    return [count / errors.size if errors.size else 1.0 for count in counts]


class _Share:
    """How many of some elements are wrong, chunk by chunk."""

    def __init__(self) -> None:
        self._wrong, self._all = 0, 0

    def add(self, wrong: Places, among: Places) -> None:
        self._wrong += int(np.count_nonzero(wrong & among))
        self._all += int(np.count_nonzero(among))

    @property
    def value(self) -> float:
        return self._wrong / self._all if self._all else 0.0


class _Balance:
    """How many elements are above their benchmark, less those below it."""

    def __init__(self) -> None:
        self._above = 0

    def add(self, chunk: Chunk) -> None:
        more, less = chunk.tested > chunk.rounded, chunk.tested < chunk.rounded
        self._above += int(np.count_nonzero(more)) - int(np.count_nonzero(less))

    def value(self, size: int) -> float:
        return abs(self._above) / size


def _out_of_range(chunk: Chunk, largest: float, rtol: float) -> Places:
    """Return where the sides disagree on what is finite, more than their being cut to the type's range explains."""
    one, other = (np.clip(each, -largest, largest) for each in (chunk.tested, chunk.rounded))
    with np.errstate(all="ignore"):
        # Relative to what is left of the benchmark: of an infinite one, every error would be none.
        close = np.abs(one - other) / (np.abs(other) + np.finfo(np.float32).tiny) <= rtol
    return np.asarray(chunk.disagree & ~close)


def _largest(dtype: str) -> float:
    return float(np.finfo(dtype if dtype in ("float16", "float64") else "float32").max)


def _units(chunk: Chunk, lowest: int, bits: int) -> Reals:
    # The exponent of zero is 0 in the standard, so that an error at zero counts in units at 1.
    _, exponent = np.frexp(chunk.benchmark)
    exponent = np.where(chunk.benchmark == 0, 0, exponent - 1)
    with np.errstate(all="ignore"):
        units: Reals = np.ldexp(chunk.absolute, bits - np.maximum(exponent, lowest))
    return units


def _units_of_8_bits(chunk: Chunk) -> Reals:
    """Return errors in units of a format whose fraction narrows with the exponent: 3, 2, 1 bits, then none.

    Without a fraction the unit is a doubling, and errors are differences of logarithms that bear the sign of the
    values. msprobe counts no error below the benchmark, and lets the logarithm of a tested zero fall to -1000.
    """
    with np.errstate(all="ignore"):
        logarithms = [
            np.maximum(np.log2(np.abs(each) + _NO_ZERO), _LOWEST_EXPONENT_OF_8_BITS)
            for each in (chunk.tested, chunk.benchmark)
        ]
        exponent = np.floor(logarithms[1])
        width = np.select([np.abs(exponent) <= 3, np.abs(exponent) <= 7, np.abs(exponent) <= 15], [3, 2, 1], 0)
        in_fraction = chunk.absolute * np.exp2(width - exponent)
        one, other = (
            np.where(each >= 0, 1.0, -1.0) * logarithm
            for each, logarithm in zip((chunk.tested, chunk.benchmark), logarithms, strict=True)
        )
        units = np.where(width > 0, in_fraction, np.abs(one - other))
    return np.where(chunk.absolute == 0, 0.0, units)


def _parts(values: Values) -> NDArray[Any]:
    if values.dtype.kind == "c":
        values = np.ascontiguousarray(values).reshape(-1).view(values.real.dtype)
    return values.reshape(-1)
