"""The numba backend (extra `accel`): one compiled pass over a block, about four times as fast as the numpy one.

It takes blocks of finite real numbers of ordinary size. All others (complex numbers, blocks with NaN or infinities,
integers beyond 2**53, values whose squares would leave float64) it hands to the numpy backend. Which way a block goes
depends on its values alone, so the bits of a result do not depend on how the work was split.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from probe_flow.metrics.accumulators.base import CompiledBlock, LanePass, OfErrors, OfValues, Rules
from probe_flow.metrics.backends import compiled_code, numpy_backend
from probe_flow.metrics.sums.block_sums import Floats, Numbers, Scratch, Values, load, summed
from probe_flow.metrics.sums.figures import Bounds, Figures, can_square, exponent_within, is_ordinary, ordinary_record
from probe_flow.metrics.sums.pair_errors import PairErrors, PairValues, relative_errors
from probe_flow.metrics.sums.record import Accumulator, Record, exponent_of

NAME = "numba"
VERSION = compiled_code.VERSION

_COMPILED_AS: dict[np.dtype[Any], str] = {
    np.dtype(np.float16): "int16",
    np.dtype(ml_dtypes.bfloat16): "uint16",
    **{np.dtype(name): name for name in ("float32", "float64", "int32", "int64")},
}
"""Dtypes that are converted in registers, with the type under which the compiled code knows their elements."""

_FIGURES = len(Figures._fields)

_SHORT = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
_SINGLE = np.dtype(np.float32)
_MIXED = (*((short, _SINGLE) for short in _SHORT), *((_SINGLE, short) for short in _SHORT))
_PAIRS = frozenset((*((dtype, dtype) for dtype in _COMPILED_AS), *_MIXED))

THREADED = frozenset((target.name, golden.name) for target, golden in _PAIRS)
"""Types of target and golden whose blocks compiled code takes as they are, while other threads run."""


def passes_with(accumulators: Iterable[type[OfValues | OfErrors]]) -> Iterator[tuple[str | LanePass, tuple[str, ...]]]:
    """Yield every pass that runs with these accumulators may need, each with the types of elements that it may meet."""
    singles = [(element,) for element in _COMPILED_AS.values()]
    pairs = sorted((_COMPILED_AS[target], _COMPILED_AS[golden]) for target, golden in _PAIRS)
    yield from (("measure", pair) for pair in pairs)
    for lane_pass in dict.fromkeys(each for kind in accumulators for each in kind.passes):
        yield from ((lane_pass, elements) for elements in (singles if lane_pass.tensors == 1 else pairs))


def measure_block(target: Values, golden: Values, start: int, rules: Rules, scratch: Scratch) -> Record:
    """Return the record of one block of a pair; arguments as in `numpy_backend.measure_block`."""
    if not target.size or target.dtype.kind == "c" or golden.dtype.kind == "c":
        return numpy_backend.measure_block(target, golden, start, rules, scratch)
    x, y, bounds = _prepare(target, golden, scratch)
    measure = compiled_code.compiled_pass("measure", (_COMPILED_AS[x.dtype], _COMPILED_AS[y.dtype]))
    figures = Figures._make(measure(x, y, number=rules.eps, figures=_FIGURES))
    if not (math.isfinite(figures.target_total) and math.isfinite(figures.golden_total)):
        return numpy_backend.measure_block(target, golden, start, rules, scratch)
    bounds = bounds or (
        _native_bounds(target, figures.target_low, figures.target_high),
        _native_bounds(golden, figures.golden_low, figures.golden_high),
    )
    if not (is_ordinary(target, bounds[0]) and is_ordinary(golden, bounds[1]) and can_square(figures.max_abs)):
        return numpy_backend.measure_block(target, golden, start, rules, scratch)
    accumulators: tuple[Accumulator, ...] = ()
    if rules.of_values or rules.of_errors:
        accumulators = _accumulators(CompiledBlock(x, y, figures, _run_lanes), rules, scratch)
    return ordinary_record(figures, target.size, start, bounds, accumulators)


def measure_blocks(
    targets: Sequence[Values], goldens: Sequence[Values], rules: Rules, scratch: Scratch
) -> list[Record]:
    """Return the records of small blocks; arguments as in `numpy_backend.measure_blocks`."""
    return [measure_block(target, golden, 0, rules, scratch) for target, golden in zip(targets, goldens, strict=True)]


def _prepare(target: Values, golden: Values, scratch: Scratch) -> tuple[Values, Values, tuple[Bounds, Bounds] | None]:
    """Return both sides in types of compiled code, with their exact bounds if they had to be converted first."""
    types = target.dtype, golden.dtype
    if types in _PAIRS and _is_contiguous(target) and _is_contiguous(golden):
        return target, golden, None
    x, target_bounds = load(target, scratch.target, scratch)
    y, golden_bounds = load(golden, scratch.golden, scratch)
    return x, y, (target_bounds, golden_bounds)


def _is_contiguous(values: Values) -> bool:
    return values.flags.c_contiguous and values.flags.aligned


def _run_lanes(lane_pass: LanePass, *tensors: Values, number: float = 0.0) -> list[float]:
    """Run what an accumulator brings, and return its figures."""
    compiled = compiled_code.compiled_pass(lane_pass, tuple([_COMPILED_AS[tensor.dtype] for tensor in tensors]))
    return compiled(*tensors, number=number, figures=lane_pass.sums + lane_pass.maxima)


def _native_bounds(values: Values, low: float, high: float) -> Bounds:
    return (int(low), int(high)) if values.dtype.kind == "i" else (low, high)


def _accumulators(block: CompiledBlock, rules: Rules, scratch: Scratch) -> tuple[Accumulator, ...]:
    """Return what the accumulators find: by machine code, or on the same block by numpy where they have none."""
    found: list[Accumulator] = []
    values: PairValues | None = None
    errors: PairErrors | None = None
    for of_values in rules.of_values:
        by_values = of_values.update_compiled(block)
        if by_values is None:
            values = values or _values(block, scratch)
            by_values = of_values.update(values)
        found.append(by_values)
    for of_errors in rules.of_errors:
        by_errors = of_errors.update_compiled(block)
        if by_errors is None:
            errors = errors or _errors(values or _values(block, scratch), block.figures, rules.eps, scratch)
            by_errors = of_errors.update(errors)
        found.append(by_errors)
    return tuple(found)


def _values(block: CompiledBlock, scratch: Scratch) -> PairValues:
    figures = block.figures
    x, y = _wide(block.target, scratch.target, scratch), _wide(block.golden, scratch.golden, scratch)
    sides = (
        Numbers(x, exponent_within((figures.target_low, figures.target_high)), summed(x)),
        Numbers(y, exponent_within((figures.golden_low, figures.golden_high)), summed(y)),
    )
    return PairValues(sides, x, y, None, scratch.spare)


def _wide(values: Values, out: Floats, scratch: Scratch) -> Floats:
    """Return values as float64; those that were converted for compiled code are in ``out`` already."""
    return values if np.may_share_memory(values, out) else load(values, out, scratch)[0]


def _errors(values: PairValues, figures: Figures, eps: float, scratch: Scratch) -> PairErrors:
    x, y = values.target, values.golden
    error, magnitude = scratch.error[: x.size], scratch.work[: x.size]
    np.abs(np.subtract(x, y, out=error), out=error)
    np.abs(y, out=magnitude)
    relative = relative_errors(error, magnitude, y, eps, 0, scratch.ratio[: x.size])
    return PairErrors(error, error, exponent_of(figures.max_abs), magnitude, relative, figures.max_rel, scratch)
