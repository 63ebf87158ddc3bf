"""The numba backend (extra `accel`): one compiled pass over a block, about four times as fast as the numpy one.

It takes blocks of finite real numbers of ordinary size. All others (complex numbers, blocks with NaN or infinities,
integers beyond 2**53, values whose squares would leave float64) it hands to the numpy backend. Which way a block goes
depends on its values alone, so the bits of a result do not depend on how the work was split.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numba
import numpy as np

from probe_flow.metrics import numba_kernels, numpy_backend
from probe_flow.metrics.block_sums import Rules, Scratch, Values, load
from probe_flow.metrics.numba_kernels import Figures
from probe_flow.metrics.record import Errors, Masked, Record, Side, exponent_of
from probe_flow.metrics.special import EXACT_LIMIT

NAME = "numba"
VERSION = str(numba.__version__)

_COMPILED_AS: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.float16): np.dtype(np.int16),
    np.dtype(ml_dtypes.bfloat16): np.dtype(np.uint16),
    **{np.dtype(name): np.dtype(name) for name in ("float32", "float64", "int32", "int64")},
}
"""Dtypes that are converted in registers, with the type under which the compiled code knows their elements."""

_SHORT = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
_SINGLE = np.dtype(np.float32)
_MIXED = frozenset((*((short, _SINGLE) for short in _SHORT), *((_SINGLE, short) for short in _SHORT)))

Bounds = tuple[float, float]


def measure_block(target: Values, golden: Values, start: int, rules: Rules, scratch: Scratch) -> Record:
    """Return the record of one block of a pair; arguments as in `numpy_backend.measure_block`."""
    if not target.size or target.dtype.kind == "c" or golden.dtype.kind == "c":
        return numpy_backend.measure_block(target, golden, start, rules, scratch)
    x, y, bounds = _prepare(target, golden, scratch)
    figures = Figures._make(numba_kernels.measure(x, y, rules.eps))
    if not (math.isfinite(figures.target_total) and math.isfinite(figures.golden_total)):
        return numpy_backend.measure_block(target, golden, start, rules, scratch)
    target_bounds, golden_bounds = bounds or (
        _native_bounds(target, figures.target_low, figures.target_high),
        _native_bounds(golden, figures.golden_low, figures.golden_high),
    )
    if not (_is_plain(target, target_bounds) and _is_plain(golden, golden_bounds) and _can_square(figures.max_abs)):
        return numpy_backend.measure_block(target, golden, start, rules, scratch)
    found = _side(x, target_bounds, figures.target_total, figures.target_squares, rules)
    reference = _side(y, golden_bounds, figures.golden_total, figures.golden_squares, rules)
    masked = Masked(*numba_kernels.masked_errors(x, y)) if rules.masked else None
    return Record(target.size, found, reference, _errors(figures, found, reference, start, masked))


def warm_up() -> int:
    """Compile every function for every pair of dtypes, into the cache on disk, and return the number of pairs."""
    pairs = sorted({*_MIXED, *((dtype, dtype) for dtype in _COMPILED_AS)}, key=str)
    for target, golden in pairs:
        measure_block(np.ones(1, target), np.ones(1, golden), 0, Rules(1.0, moments=True, masked=True), Scratch())
    return len(pairs)


def _prepare(target: Values, golden: Values, scratch: Scratch) -> tuple[Values, Values, tuple[Bounds, Bounds] | None]:
    """Return both sides in types of compiled code, with their exact bounds if they had to be converted first."""
    types = target.dtype, golden.dtype
    if (
        (types in _MIXED or (types[0] == types[1] and types[0] in _COMPILED_AS))
        and _is_contiguous(target)
        and _is_contiguous(golden)
    ):
        return _compiled_view(target), _compiled_view(golden), None
    x, target_bounds = load(target, scratch.target, scratch)
    y, golden_bounds = load(golden, scratch.golden, scratch)
    return _compiled_view(x), _compiled_view(y), (target_bounds, golden_bounds)


def _is_contiguous(values: Values) -> bool:
    return values.flags.c_contiguous and values.flags.aligned


def _compiled_view(values: Values) -> Values:
    """Return a read-only view in the type of compiled code; writable ones would be compiled a second time."""
    view = values.view(_COMPILED_AS[values.dtype])
    view.setflags(write=False)
    return view


def _native_bounds(values: Values, low: float, high: float) -> Bounds:
    return (int(low), int(high)) if values.dtype.kind == "i" else (low, high)


def _is_plain(values: Values, bounds: Bounds) -> bool:
    """Tell whether finite values are exact in float64 and neither too large nor too small to be squared."""
    largest = max(-bounds[0], bounds[1])
    return _can_square(largest) and not (values.dtype.kind in "iu" and largest >= EXACT_LIMIT)


def _can_square(largest: float) -> bool:
    return not largest or not exponent_of(largest)


def _side(values: Values, bounds: Bounds, total: float, squares: float, rules: Rules) -> Side:
    count = values.size
    moments = None
    if rules.moments:
        mean = total / count
        moments = (mean, numba_kernels.squared_deviations(values, mean))
    return Side(count, 0, 0, 0, count, exponent_of(max(-bounds[0], bounds[1])), total, squares, *bounds, moments)


def _errors(figures: Figures, target: Side, golden: Side, start: int, masked: Masked | None) -> Errors:
    misses = int(figures.zero_misses)
    return Errors(
        target.finite,
        0,
        int(figures.unequal),
        target.exponent,
        golden.exponent,
        exponent_of(figures.max_abs),
        figures.dot,
        figures.target_squares,
        figures.golden_squares,
        figures.golden_abs,
        figures.error_abs,
        figures.error_squares,
        figures.max_abs,
        start + int(figures.max_abs_place),
        figures.rel_sum,
        figures.max_rel,
        start + int(figures.max_rel_place),
        int(figures.within_1e3) - misses,
        int(figures.within_5e3) - misses,
        misses,
        start + int(figures.zero_miss_place) if misses else -1,
        figures.zero_rel_sum,
        figures.zero_rel_max,
        int(figures.zero_within_1e3),
        int(figures.zero_within_5e3),
        masked,
    )
