"""The numba backend (extra `accel`): one compiled pass over a block, about four times as fast as the numpy one.

It takes blocks of finite real numbers of ordinary size. All others (complex numbers, blocks with NaN or infinities,
integers beyond 2**53, values whose squares would leave float64) it hands to the numpy backend. Which way a block goes
depends on its values alone, so the bits of a result do not depend on how the work was split.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from probe_flow.metrics.backends import compiled_code, numpy_backend
from probe_flow.metrics.sums.block_sums import Rules, Scratch, Values, load
from probe_flow.metrics.sums.figures import Bounds, Figures, can_square, is_ordinary, ordinary_record
from probe_flow.metrics.sums.record import EPS32, EPS64, Masked, Record, Significant

NAME = "numba"
VERSION = compiled_code.VERSION

_COMPILED_AS: dict[np.dtype[Any], str] = {
    np.dtype(np.float16): "int16",
    np.dtype(ml_dtypes.bfloat16): "uint16",
    **{np.dtype(name): name for name in ("float32", "float64", "int32", "int64")},
}
"""Dtypes that are converted in registers, with the type under which the compiled code knows their elements."""

_FIGURES = {"measure": len(Figures._fields), "squared_deviations": 1, "masked_errors": 4, "tiny_values": 2}
"""How many figures each pass finds."""

_SHORT = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
_SINGLE = np.dtype(np.float32)
_MIXED = frozenset((*((short, _SINGLE) for short in _SHORT), *((_SINGLE, short) for short in _SHORT)))


def measure_block(target: Values, golden: Values, start: int, rules: Rules, scratch: Scratch) -> Record:
    """Return the record of one block of a pair; arguments as in `numpy_backend.measure_block`."""
    if not target.size or target.dtype.kind == "c" or golden.dtype.kind == "c":
        return numpy_backend.measure_block(target, golden, start, rules, scratch)
    x, y, bounds = _prepare(target, golden, scratch)
    figures = Figures._make(_run("measure", x, y, number=rules.eps))
    if not (math.isfinite(figures.target_total) and math.isfinite(figures.golden_total)):
        return numpy_backend.measure_block(target, golden, start, rules, scratch)
    bounds = bounds or (
        _native_bounds(target, figures.target_low, figures.target_high),
        _native_bounds(golden, figures.golden_low, figures.golden_high),
    )
    if not (is_ordinary(target, bounds[0]) and is_ordinary(golden, bounds[1]) and can_square(figures.max_abs)):
        return numpy_backend.measure_block(target, golden, start, rules, scratch)
    moments = (
        _moments(x, figures.target_total) if rules.moments else None,
        _moments(y, figures.golden_total) if rules.moments else None,
    )
    masked = Masked(*_run("masked_errors", x, y, number=EPS32)) if rules.masked else None
    significant = _significant(x, y, figures) if rules.significant else None
    return ordinary_record(figures, target.size, start, bounds, moments, masked, significant)


def warm_up() -> int:
    """Compile every pass for every pair of dtypes, to be kept, and return the number of pairs."""
    everything = Rules(1.0, moments=True, masked=True, significant=True)
    pairs = sorted({*_MIXED, *((dtype, dtype) for dtype in _COMPILED_AS)}, key=str)
    for target, golden in pairs:
        measure_block(np.ones(1, target), np.ones(1, golden), 0, everything, Scratch())
    return len(pairs)


def _prepare(target: Values, golden: Values, scratch: Scratch) -> tuple[Values, Values, tuple[Bounds, Bounds] | None]:
    """Return both sides in types of compiled code, with their exact bounds if they had to be converted first."""
    types = target.dtype, golden.dtype
    if (
        (types in _MIXED or (types[0] == types[1] and types[0] in _COMPILED_AS))
        and _is_contiguous(target)
        and _is_contiguous(golden)
    ):
        return target, golden, None
    x, target_bounds = load(target, scratch.target, scratch)
    y, golden_bounds = load(golden, scratch.golden, scratch)
    return x, y, (target_bounds, golden_bounds)


def _is_contiguous(values: Values) -> bool:
    return values.flags.c_contiguous and values.flags.aligned


def _run(name: str, *tensors: Values, number: float) -> list[float]:
    """Run a pass of `numba_kernels` and return its figures."""
    compiled = compiled_code.compiled_pass(name, tuple(_COMPILED_AS[tensor.dtype] for tensor in tensors))
    return compiled(*tensors, number=number, figures=_FIGURES[name])


def _native_bounds(values: Values, low: float, high: float) -> Bounds:
    return (int(low), int(high)) if values.dtype.kind == "i" else (low, high)


def _moments(values: Values, total: float) -> tuple[float, float]:
    mean = total / values.size
    return mean, _run("squared_deviations", values, number=mean)[0]


def _significant(target: Values, golden: Values, figures: Figures) -> Significant:
    """Return what the figures say of golden values beyond `EPS64`; zeros count nothing there as it is."""
    left_out, zeros = _run("tiny_values", golden, number=EPS64)
    count = target.size - int(left_out)
    if left_out == zeros:
        return Significant(count, figures.rel_sum, figures.max_rel)
    return Significant(count, *_run("masked_errors", target, golden, number=EPS64)[:2])
