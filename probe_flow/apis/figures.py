"""Figures of the precision standards for single APIs: how far one tested tensor is from its benchmark.

The formulas are those of msprobe 26.2.0 (pre-check of PyTorch APIs), in float64. They differ from it in what is not
finite: places where both sides hold NaN or the same infinity have no error, whatever the figure.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.side import Held
from probe_flow.apis.values import Values

Reals: TypeAlias = "NDArray[np.float64]"
Places: TypeAlias = "NDArray[np.bool_]"

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
class Errors:
    """A tested tensor and its benchmark, element by element.

    Args:
        dtype: canonical element type of the tested tensor.
        tested, benchmark: their elements, flattened, as float64.
        rounded: the benchmark in the type that holds the tested elements.
        absolute: absolute errors; 0 where the two agree on what is not finite.
        relative: the same, relative to the benchmark's size plus its spacing at 1.
        finite: where both sides are finite in the type that holds the tested elements.
        disagree: where they are not, and do not hold NaN or the same infinity on both sides.
    """

    dtype: str
    tested: Reals
    benchmark: Reals
    rounded: Reals
    absolute: Reals
    relative: Reals
    finite: Places
    disagree: Places

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.tested.size


def errors_of(tested: Held, benchmark: Held) -> Errors:
    """Return the errors of a tested tensor, of as many elements as its benchmark; complex ones are pairs."""
    one, other = _parts(tested.values), _parts(benchmark.values)
    with np.errstate(all="ignore"):
        rounded = other.astype(one.dtype).astype(np.float64)
        one_, other_ = one.astype(np.float64), other.astype(np.float64)
        finite = np.isfinite(one_) & np.isfinite(rounded)
        agree = ~finite & ((one_ == rounded) | (np.isnan(one_) & np.isnan(rounded)))
        absolute = np.where(agree, 0.0, np.abs(one_ - other_))
        relative = np.where(agree, 0.0, absolute / (np.abs(other_) + spacing(tested.dtype, other)))
    return Errors(tested.dtype, one_, other_, rounded, absolute, relative, finite, ~finite & ~agree)


def spacing(dtype: str, benchmark: Values) -> float:
    """Return what is added to the size of a benchmark before it divides: the spacing of its type at 1.

    Args:
        dtype: element type of the tested tensor; for bfloat16 it decides alone.
        benchmark: the benchmark's elements.
    """
    if dtype == "bfloat16":
        return BFLOAT16_EPS
    return float(np.finfo(benchmark.dtype).eps) if benchmark.dtype.kind == "f" else float(np.finfo(np.float64).eps)


def threshold_figures(errors: Errors, *, small: float, atol: float, rtol: float) -> StandardFigures:
    """Return the shares of elements beyond absolute thresholds.

    Args:
        errors: of the tensor.
        small: benchmarks up to this size are small values.
        atol: limit of the absolute error of small values.
        rtol: limit of the relative error of the others, and of what is not finite, cut to the type's range.
    """
    is_small = errors.finite & (np.abs(errors.benchmark) <= small)
    is_normal = errors.finite & ~is_small
    return StandardFigures(
        inf_nan_ratio=_share(_out_of_range(errors, rtol), ~errors.finite),
        rel_ratio=_share(errors.relative > rtol, is_normal),
        abs_ratio=_share(errors.absolute > atol, is_small),
    )


def benchmark_figures(errors: Errors, *, small: float, atol: float) -> StandardFigures:
    """Return the figures that two devices are compared by.

    Args:
        errors: of the tensor.
        small: benchmarks up to this size are small values.
        atol: absolute error from which on a small value is wrong.
    """
    is_small = errors.finite & (np.abs(errors.benchmark) <= small)
    is_normal = errors.finite & ~is_small
    relative = errors.relative[is_normal]
    left_out = errors.size - relative.size
    with np.errstate(over="ignore"):
        mean_square = float(np.square(np.where(is_normal, errors.absolute, 0.0)).mean())
    correction = errors.size / (errors.size - left_out + _RMSE_GUARD) + _RMSE_GUARD
    return StandardFigures(
        small_ratio=_share(errors.absolute > atol, is_small),
        max_rel=float(relative.max()) if relative.size else 0.0,
        mean_rel=float(relative.mean()) if relative.size else 0.0,
        rmse=float(np.sqrt(mean_square * correction)),
        error_balance=error_balance(errors),
    )


def error_balance(errors: Errors) -> float:
    """Return by how much more often the error has one sign than the other, as a share of all elements."""
    more, less = errors.tested > errors.rounded, errors.tested < errors.rounded
    return abs(int(np.count_nonzero(more)) - int(np.count_nonzero(less))) / errors.size


def error_rate(tested: Held, benchmark: Held) -> float:
    """Return the share of elements that are not equal; NaN equals NaN, integers are compared exactly."""
    one, other = tested.values.reshape(-1), benchmark.values.reshape(-1)
    wrong = one != other
    if one.dtype.kind in "fc" and other.dtype.kind in "fc":
        wrong &= ~(np.isnan(one) & np.isnan(other))
    return float(np.count_nonzero(wrong) / one.size)


def ulp_figures(errors: Errors, *, allowed: float) -> StandardFigures:
    """Return the error in units in the last place of the tested type, at the size of the benchmark.

    Args:
        errors: of a tensor of one of `FORMATS`, or of an eight-bit float.
        allowed: units that an element may be off by.
    """
    units = _units(errors) if errors.dtype in FORMATS else _units_of_8_bits(errors)
    units = np.where(errors.disagree & np.isfinite(units), np.nan, units)
    return StandardFigures(
        max_ulp=float(units.max()),
        mean_ulp=float(units.mean()),
        ulp_ratio=float(np.count_nonzero(~(units <= allowed)) / errors.size),
    )


def share_within(errors: Errors, limit: float) -> float:
    """Return the share of elements whose relative error is below a limit; 1 where there are none."""
    return float(np.count_nonzero(errors.relative < limit) / errors.size) if errors.size else 1.0


def _out_of_range(errors: Errors, rtol: float) -> Places:
    """Return where the sides disagree on what is finite, more than their being cut to the type's range explains."""
    largest = _LARGEST_BFLOAT16 if errors.dtype == "bfloat16" else _largest(errors.dtype)
    one, other = (np.clip(each, -largest, largest) for each in (errors.tested, errors.rounded))
    with np.errstate(all="ignore"):
        # Relative to what is left of the benchmark: of an infinite one, every error would be none.
        close = np.abs(one - other) / (np.abs(other) + np.finfo(np.float32).tiny) <= rtol
    return np.asarray(errors.disagree & ~close)


def _largest(dtype: str) -> float:
    return float(np.finfo(dtype if dtype in ("float16", "float64") else "float32").max)


def _units(errors: Errors) -> Reals:
    lowest, bits = FORMATS[errors.dtype]
    # The exponent of zero is 0 in the standard, so that an error at zero counts in units at 1.
    _, exponent = np.frexp(errors.benchmark)
    exponent = np.where(errors.benchmark == 0, 0, exponent - 1)
    with np.errstate(all="ignore"):
        units: Reals = np.ldexp(errors.absolute, bits - np.maximum(exponent, lowest))
    return units


def _units_of_8_bits(errors: Errors) -> Reals:
    """Return errors in units of a format whose fraction narrows with the exponent: 3, 2, 1 bits, then none.

    Without a fraction the unit is a doubling, and errors are differences of logarithms that bear the sign of the
    values. msprobe counts no error below the benchmark, and lets the logarithm of a tested zero fall to -1000.
    """
    with np.errstate(all="ignore"):
        logarithms = [
            np.maximum(np.log2(np.abs(each) + _NO_ZERO), _LOWEST_EXPONENT_OF_8_BITS)
            for each in (errors.tested, errors.benchmark)
        ]
        exponent = np.floor(logarithms[1])
        width = np.select([np.abs(exponent) <= 3, np.abs(exponent) <= 7, np.abs(exponent) <= 15], [3, 2, 1], 0)
        in_fraction = errors.absolute * np.exp2(width - exponent)
        one, other = (
            np.where(each >= 0, 1.0, -1.0) * logarithm
            for each, logarithm in zip((errors.tested, errors.benchmark), logarithms, strict=True)
        )
        units = np.where(width > 0, in_fraction, np.abs(one - other))
    return np.where(errors.absolute == 0, 0.0, units)


def _share(wrong: Places, among: Places) -> float:
    count = int(np.count_nonzero(among))
    return int(np.count_nonzero(wrong & among)) / count if count else 0.0


def _parts(values: Values) -> NDArray[Any]:
    if values.dtype.kind == "c":
        values = np.stack([values.real, values.imag], axis=-1)
    return values.reshape(-1)
