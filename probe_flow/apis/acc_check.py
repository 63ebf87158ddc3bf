"""How a result is judged: by cosine and largest absolute error, as the documentation of `acc_check` has it.

What is not a number decides by itself: where both sides hold NaN or the same infinity, the place is left out of the
figures; where only one does, the result fails and says how many.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import FLOATS, Path, UnusableError, canonical_dtype
from probe_flow.apis.side import Held, Result
from probe_flow.apis.values import Values

COSINE_LIMIT = 0.99
MAX_ABS_LIMIT = 1e-4
"""Limit of the largest absolute error in the documentation; msprobe's code has 1e-3."""

_TINY = 1e-8
"""What keeps msprobe's divisions defined: in its cosine, and for a benchmark of zero in its relative error."""

_EXACT_BITS = 53

_BITS = MappingProxyType({"float16": (10, -14), "bfloat16": (7, -126), "float32": (23, -126), "float64": (52, -1022)})
"""Bits of the fraction, and smallest exponent of a normal number."""


@dataclass(frozen=True)
class Figures:
    """How far a result is off.

    Args:
        cosine: of the two, flattened; as msprobe has it, so that two zero tensors have 1; None where there is none.
        max_abs, max_rel: largest absolute error, and largest error relative to the benchmark; None where there is none.
        unequal_nonfinite: places where just one side is not finite, or the two are not finite in different ways.
        units: largest error in units in the last place of the tested type; None where it has none.
    """

    cosine: float | None = None
    max_abs: float | None = None
    max_rel: float | None = None
    unequal_nonfinite: int = 0
    units: float | None = None


@dataclass(frozen=True)
class Judgement:
    """What became of a result.

    Args:
        is_right: whether it passes.
        figures: how far it is off.
        message: why it does not pass, or what is to be known of its error.
        is_doubtful: whether it neither passes nor fails.
        named: further figures, by their names.
        is_empty: whether there was nothing to judge; it is right then.
    """

    is_right: bool
    figures: Figures
    message: str = ""
    is_doubtful: bool = False
    named: Mapping[str, float] = field(default_factory=dict)
    is_empty: bool = False


class ByRounding(Protocol):
    """Tells results that are off by no more than the last digits of their inputs make (`apis.rounding`)."""

    def moved(self, tensors: Sequence[Held | None], wrong: Sequence[Result]) -> list[Held | None]:
        """Return the tensors of a call, its floats each off by a rounding; some of its results are wrong."""

    def judged(
        self, judgement: Judgement, tested: Result, benchmark: Result, moved: Mapping[Path, Result]
    ) -> Judgement:
        """Return the judgement of a result by what the benchmark makes of moved inputs, by place."""


def judge(tested: Result, benchmark: Result, max_abs_limit: float = MAX_ABS_LIMIT) -> Judgement:
    """Judge one result by its benchmark.

    Args:
        tested, benchmark: the results of both sides.
        max_abs_limit: the largest absolute error must be below it.
    """
    one, other = tested.value, benchmark.value
    if isinstance(one, Held) and isinstance(other, Held):
        if one.values.shape != other.values.shape:
            shapes = f"{one.values.shape}, the benchmark's {other.values.shape}"
            return Judgement(is_right=False, figures=Figures(), message=f"its shape is {shapes}")
        return _judge_figures(figures(one, other), one.dtype, max_abs_limit)
    if isinstance(one, Held) or isinstance(other, Held):
        return Judgement(
            is_right=False, figures=Figures(), message=f"it is a `{tested.dtype}`, the benchmark a `{benchmark.dtype}`"
        )
    return _judge_plain(one, other, max_abs_limit)


def _judge_figures(found: Figures, dtype: str, limit: float) -> Judgement:
    words = []
    if found.unequal_nonfinite:
        words.append(f"{found.unequal_nonfinite} elements are NaN or infinite on one side only")
    if found.cosine is not None and not found.cosine > COSINE_LIMIT:
        words.append(f"the cosine {found.cosine:.6g} is not above {COSINE_LIMIT}")
    if found.max_abs is not None and not found.max_abs < limit:
        words.append(f"the largest absolute error {found.max_abs:.6g} is not below {limit:g}")
    if words and found.units is not None and found.units <= 1 and not found.unequal_nonfinite:
        words.append(f"within 1 ulp of {dtype}")
    return Judgement(not words, found, "; ".join(words))


def _judge_plain(one: object, other: object, limit: float) -> Judgement:
    if type(one) is type(other) is float:
        assert isinstance(one, float)
        assert isinstance(other, float)
        return _judge_figures(_figures_of(np.array([one]), np.array([other])), "float64", limit)
    is_equal = type(one) is type(other) and (one == other or is_one_type(one, other))
    return Judgement(is_equal, Figures(), "" if is_equal else f"it is {one!r}, the benchmark's is {other!r}")


def is_one_type(one: object, other: object) -> bool:
    """Return True for two names of one element type, each in the words of its framework."""
    try:
        return canonical_dtype(str(one)) == canonical_dtype(str(other))
    except UnusableError:
        return False


def figures(tested: Held, benchmark: Held) -> Figures:
    """Return how far one tensor is off, in float64; of an empty one nothing is known.

    The elements of both must be as many. Complex numbers are compared as pairs of reals. Integers beyond 2^53 are
    compared exactly, so that the largest absolute error of equal ones is 0 and never that of others.
    """
    one, other = tested.values, benchmark.values
    if one.size == 0:
        return Figures()
    tested_reals, benchmark_reals = _real(one), _real(other)
    found = _figures_of(tested_reals, benchmark_reals)
    if _is_exact(one) and _is_exact(other) and found.max_abs == 0.0 and not np.array_equal(one, other):
        wrong = one != other
        gap = max(abs(int(a) - int(b)) for a, b in zip(one[wrong], other[wrong], strict=True))
        return Figures(found.cosine, float(gap), found.max_rel)
    if tested.dtype in _BITS and found.max_abs is not None:
        units = _largest_units(tested_reals, benchmark_reals, tested.dtype)
        return Figures(found.cosine, found.max_abs, found.max_rel, found.unequal_nonfinite, units)
    return found


def _is_exact(values: Values) -> bool:
    """Return True for integers that float64 does not hold."""
    return values.dtype.kind in "iu" and values.dtype.itemsize * 8 > _EXACT_BITS


def _real(values: Values) -> NDArray[np.float64]:
    if values.dtype.kind == "c":
        values = np.stack([values.real, values.imag], axis=-1)
    with np.errstate(all="ignore"):
        return values.reshape(-1).astype(np.float64)


def _figures_of(one: NDArray[np.float64], other: NDArray[np.float64]) -> Figures:
    finite = np.isfinite(one) & np.isfinite(other)
    unequal = 0
    if not finite.all():
        alike = (one == other) | (np.isnan(one) & np.isnan(other))
        unequal = int(np.count_nonzero(~finite & ~alike))
        one, other = one[finite], other[finite]
        if one.size == 0:
            return Figures(unequal_nonfinite=unequal)
    with np.errstate(all="ignore"):
        error = np.abs(other - one)
        relative = error / np.where(other == 0, _TINY, np.abs(other))
        return Figures(_cosine(one, other), float(error.max()), float(relative.max()), unequal)


def _cosine(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    norms = float(np.linalg.norm(other)) * float(np.linalg.norm(one))
    if not math.isfinite(norms):  # the squares are beyond float64, and what is added to them is nothing
        one, other = (each / (np.abs(each).max() or 1.0) for each in (one, other))
        norms = float(np.linalg.norm(other)) * float(np.linalg.norm(one))
        return float(np.dot(other, one)) / norms if norms else 1.0
    return (_TINY + float(np.dot(other, one))) / (_TINY + norms)


def _largest_units(one: NDArray[np.float64], other: NDArray[np.float64], dtype: str) -> float:
    """Return the largest error in units in the last place of a type, at the size of the benchmark."""
    bits, lowest = _BITS[dtype]
    finite = np.isfinite(one) & np.isfinite(other)
    one, other = one[finite], other[finite]
    if one.size == 0:
        return 0.0
    _, exponent = np.frexp(other)
    exponent = np.where(other == 0, lowest, exponent - 1)
    unit = np.ldexp(1.0, np.maximum(exponent, lowest) - bits)
    with np.errstate(all="ignore"):
        return float((np.abs(one - other) / unit).max())


def rounded(held: Held, dtype: str) -> Held:
    """Return elements rounded to another float type, to nearest; those beyond its range become infinite."""
    if dtype == held.dtype or dtype not in FLOATS or held.dtype not in FLOATS:
        return held
    kind: Any = dtype
    values = held.values
    if dtype == "bfloat16" or dtype.startswith("float8"):
        import ml_dtypes

        kind = getattr(ml_dtypes, dtype)
        # ml_dtypes goes by float32, and what that rounds to the middle of two numbers would be rounded once more.
        values = _to_odd(values) if values.dtype == np.float64 else values
    with np.errstate(all="ignore"):
        return Held(values.astype(kind).astype(held.values.dtype), held.dtype)


def _to_odd(values: Values) -> Values:
    """Return float64 as float32 whose last bit is set where it is not exact, so that it is in no middle of others."""
    with np.errstate(all="ignore"):
        near = values.astype(np.float32)
        cut = np.where(np.abs(near) > np.abs(values), np.nextafter(near, np.float32(0)), near)
    is_exact = (near == values) | np.isnan(values)
    bits: Values = np.where(is_exact, near.view(np.int32), cut.view(np.int32) | 1).astype(np.int32)
    return bits.view(np.float32)
