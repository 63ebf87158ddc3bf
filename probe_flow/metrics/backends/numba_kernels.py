"""Passes over one block in 64 lanes that the compiler turns into vector instructions, written for numba to compile.

Imported only by `numba_compiler`, and only where the machine code of a pass is not kept yet. Every sum has a fixed
order (element i goes to lane i modulo 64, lanes are folded by halving) and arithmetic is strict, so results do not
depend on the processor. Written for the vectoriser: the lanes are memory of the function with the loop, choices are
conditional expressions, and 64 lanes are neither unrolled (8 are) nor spilled.

A pass is a C function: it takes pointers, allocates nothing and raises nothing, so its machine code needs nothing of
numba to run. Elements are of one of six types. Two of them stand for codes of short floats: int16 for float16, uint16
for bfloat16; integers of 16 bits never come here as such.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from probe_flow.metrics.accumulators.base import LANES, LanePass
from probe_flow.metrics.sums.block_sums import CACHE_LINE, HALF_TO_SINGLE
from probe_flow.metrics.sums.pair_errors import FIVE_THOUSANDTHS, ONE_THOUSANDTH

Pointer = Any
"""Where elements of one type begin in memory."""

Function = TypeVar("Function", bound=Callable[..., Any])

_PART = 128 * LANES
"""Elements that one lane sums up in a row before its sum joins those of other parts: keeps rounding errors small."""

OPTIONS = {"error_model": "numpy", "boundscheck": False}

# Where the 64 lanes of each figure begin: sums and counts first, then minima, then maxima. One flat array with constant
# offsets, because the compiler cannot tell the rows of a 2-D array apart.
_TARGET, _GOLDEN, _TARGET_SQUARES, _GOLDEN_SQUARES, _DOT, _GOLDEN_ABS = range(0, 6 * LANES, LANES)
_ERROR, _ERROR_SQUARES, _RELATIVE, _WITHIN_1E3, _WITHIN_5E3, _UNEQUAL, _MISSES = range(6 * LANES, 13 * LANES, LANES)
_TARGET_LOW, _GOLDEN_LOW, _TARGET_HIGH, _GOLDEN_HIGH, _MAX_ABS, _MAX_REL = range(13 * LANES, 19 * LANES, LANES)
_END = 19 * LANES


def _inner(function: Function) -> Function:
    compiled: Function = numba.njit(**OPTIONS)(function)
    return compiled


def _pasted(function: Function) -> Function:
    """Insert the function where it is called, before vectorising: a call in the loop would stop that."""
    compiled: Function = numba.njit(inline="always", **OPTIONS)(function)
    return compiled


def _reserve(typing_context: object, count: Any) -> object:  # noqa: ARG001  # asked for by numba
    """Reserve memory of the calling function for ``count`` float64, which must be a constant."""
    if not isinstance(count, types.IntegerLiteral):
        return None

    def generate(context: object, builder: Any, signature: object, arguments: object) -> Any:  # noqa: ARG001
        with builder.goto_entry_block():  # once, however often the place of the call is passed
            reserved = builder.alloca(ir.ArrayType(ir.DoubleType(), count.literal_value))
        reserved.align = CACHE_LINE
        return builder.bitcast(reserved, ir.DoubleType().as_pointer())

    return types.CPointer(types.float64)(count), generate


_memory = intrinsic(prefer_literal=True)(_reserve)


def _bits_to_single(typing_context: object, bits: object) -> object:  # noqa: ARG001  # asked for by numba
    """Reinterpret a uint32 as float32."""

    def generate(context: Any, builder: Any, _signature: object, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.float32))

    return types.float32(types.uint32), generate


_single = intrinsic(_bits_to_single)


def _widen(value: Any) -> Any:
    """Return an element as float64. In compiled code the type of the element picks one of those below."""
    return np.float64(value)


def _widen_bfloat(value: Any) -> Any:
    return np.float64(_single(np.uint32(value) << np.uint32(16)))


def _widen_half(value: Any) -> Any:
    """Move the bits of a float16 to their place in a float32 and correct the exponent: exact, subnormals too."""
    code = np.uint32(value)
    rest = _single((code & np.uint32(0x7FFF)) << np.uint32(13)) * HALF_TO_SINGLE
    special = rest >= np.float32(65536.0)  # an exponent of all ones stands for infinity and NaN
    bits = (code & np.uint32(0x7FFF)) << np.uint32(13) | np.uint32(0x7F800000)
    magnitude = _single(bits) if special else rest
    return np.float64(-magnitude if code & np.uint32(0x8000) else magnitude)


def _widen_by_type(value: Any) -> Any:
    return {types.int16: _widen_half, types.uint16: _widen_bfloat}.get(value, _widen)


overload(_widen)(_widen_by_type)


@_pasted
def _add(lanes: Pointer, lane: int, x: float, y: float) -> None:
    error = abs(x - y)
    magnitude = abs(y)
    ratio = error / magnitude
    relative = ratio if magnitude > 0.0 else 0.0
    lanes[_TARGET + lane] += x
    lanes[_GOLDEN + lane] += y
    lanes[_TARGET_SQUARES + lane] += x * x
    lanes[_GOLDEN_SQUARES + lane] += y * y
    lanes[_DOT + lane] += x * y
    lanes[_GOLDEN_ABS + lane] += magnitude
    lanes[_ERROR + lane] += error
    lanes[_ERROR_SQUARES + lane] += error * error
    lanes[_RELATIVE + lane] += relative
    lanes[_WITHIN_1E3 + lane] += 1.0 if relative < ONE_THOUSANDTH else 0.0
    lanes[_WITHIN_5E3 + lane] += 1.0 if relative < FIVE_THOUSANDTHS else 0.0
    lanes[_UNEQUAL + lane] += 1.0 if error > 0.0 else 0.0
    lanes[_MISSES + lane] += 1.0 if (magnitude == 0.0) & (error > 0.0) else 0.0
    lanes[_TARGET_LOW + lane] = x if x < lanes[_TARGET_LOW + lane] else lanes[_TARGET_LOW + lane]
    lanes[_GOLDEN_LOW + lane] = y if y < lanes[_GOLDEN_LOW + lane] else lanes[_GOLDEN_LOW + lane]
    lanes[_TARGET_HIGH + lane] = x if x > lanes[_TARGET_HIGH + lane] else lanes[_TARGET_HIGH + lane]
    lanes[_GOLDEN_HIGH + lane] = y if y > lanes[_GOLDEN_HIGH + lane] else lanes[_GOLDEN_HIGH + lane]
    lanes[_MAX_ABS + lane] = error if error > lanes[_MAX_ABS + lane] else lanes[_MAX_ABS + lane]
    lanes[_MAX_REL + lane] = relative if relative > lanes[_MAX_REL + lane] else lanes[_MAX_REL + lane]


@_inner
def _begin(lanes: Pointer) -> None:
    """Set the lanes above to what they are of no elements."""
    for place in range(_TARGET_LOW):
        lanes[place] = 0.0
    for place in range(_TARGET_LOW, _TARGET_HIGH):
        lanes[place] = np.inf
    for place in range(_TARGET_HIGH, _MAX_ABS):
        lanes[place] = -np.inf
    for place in range(_MAX_ABS, _END):
        lanes[place] = -1.0


@_inner
def _accumulate(target: Pointer, golden: Pointer, first: int, stop: int, found: Pointer) -> None:
    """Find the lanes over elements ``[first, stop)``, whole groups; the only loop over an ordinary block."""
    lanes = _memory(_END)
    _begin(lanes)
    for base in range(first, stop, LANES):
        for lane in range(LANES):
            _add(lanes, lane, _widen(target[base + lane]), _widen(golden[base + lane]))
    for place in range(_END):
        found[place] = lanes[place]


@_inner
def _accumulate_rest(target: Pointer, golden: Pointer, first: int, stop: int, lanes: Pointer) -> None:
    """Add the last elements, less than one per lane; apart, because a second loop slows the first one down."""
    for lane in range(stop - first):
        _add(lanes, lane, _widen(target[first + lane]), _widen(golden[first + lane]))


@_inner
def _join(lanes: Pointer, part: Pointer) -> None:
    for place in range(_TARGET_LOW):
        lanes[place] += part[place]
    for place in range(_TARGET_LOW, _TARGET_HIGH):
        lanes[place] = min(lanes[place], part[place])
    for place in range(_TARGET_HIGH, _END):
        lanes[place] = max(lanes[place], part[place])


@_inner
def _folded(lanes: Pointer, row: int) -> float:
    """Return the sum of the lanes that begin at ``row``, by halving; they are overwritten."""
    width = LANES // 2
    while width:
        for lane in range(row, row + width):
            lanes[lane] += lanes[lane + width]
        width //= 2
    return float(lanes[row])


@_inner
def _lowest(lanes: Pointer, row: int) -> float:
    found = lanes[row]
    for lane in range(row + 1, row + LANES):
        found = lanes[lane] if lanes[lane] < found else found
    return float(found)


@_inner
def _highest(lanes: Pointer, row: int) -> float:
    found = lanes[row]
    for lane in range(row + 1, row + LANES):
        found = lanes[lane] if lanes[lane] > found else found
    return float(found)


@_inner
def _worst_places(target: Pointer, golden: Pointer, count: int, lanes: Pointer) -> tuple[float, float]:
    """Return where the largest absolute and relative error are first, looking only into lanes that hold them."""
    max_abs, max_rel = _highest(lanes, _MAX_ABS), _highest(lanes, _MAX_REL)
    place_abs = place_rel = count
    for lane in range(LANES):
        if lanes[_MAX_ABS + lane] == max_abs:
            for place in range(lane, place_abs, LANES):
                if abs(_widen(target[place]) - _widen(golden[place])) == max_abs:
                    place_abs = place
                    break
        if lanes[_MAX_REL + lane] == max_rel:
            for place in range(lane, place_rel, LANES):
                y = _widen(golden[place])
                if (abs(_widen(target[place]) - y) / abs(y) if y != 0.0 else 0.0) == max_rel:
                    place_rel = place
                    break
    return float(place_abs), float(place_rel)


@_inner
def _zero_misses(target: Pointer, golden: Pointer, count: int, eps: float) -> tuple[float, float, float, float, float]:
    """Return the first place with a zero golden and another target, and sum, maximum and counts of |target| / eps."""
    sums = _memory(LANES)
    for lane in range(LANES):
        sums[lane] = 0.0
    first = -1.0
    largest = within_1e3 = within_5e3 = 0.0
    for place in range(count):
        x = _widen(target[place])
        if _widen(golden[place]) == 0.0 and x != 0.0:
            first = float(place) if first < 0.0 else first
            missed = abs(x) / eps
            sums[place % LANES] += missed
            largest = max(largest, missed)
            within_1e3 += 1.0 if missed < ONE_THOUSANDTH else 0.0
            within_5e3 += 1.0 if missed < FIVE_THOUSANDTHS else 0.0
    return first, _folded(sums, 0), largest, within_1e3, within_5e3


def measure(target: Pointer, golden: Pointer, count: int, eps: float, figures: Pointer) -> None:
    """Find the figures of a pair of blocks with at least one element.

    They are the fields of `figures.Figures` in order. With NaN or infinities among the values one of the first two is
    not finite and the others mean nothing.
    """
    lanes = _memory(_END)
    part = _memory(_END)
    whole = count - count % LANES
    _begin(lanes)
    for base in range(0, whole, _PART):
        _accumulate(target, golden, base, min(base + _PART, whole), part)
        _join(lanes, part)
    _accumulate_rest(target, golden, whole, count, lanes)
    for row in range(0, _TARGET_LOW, LANES):
        figures[row // LANES] = _folded(lanes, row)
    for row in range(_TARGET_LOW, _TARGET_HIGH, LANES):
        figures[row // LANES] = _lowest(lanes, row)
    for row in range(_TARGET_HIGH, _END, LANES):
        figures[row // LANES] = _highest(lanes, row)
    worst, zeros = _END // LANES, _END // LANES + 2
    for figure in range(worst, zeros + 5):
        figures[figure] = -1.0 if figure == zeros else 0.0
    if np.isfinite(figures[0]) and np.isfinite(figures[1]):
        figures[worst], figures[worst + 1] = _worst_places(target, golden, count, lanes)
    if figures[_MISSES // LANES] > 0.0:
        found = _zero_misses(target, golden, count, eps)
        for figure in range(5):
            figures[zeros + figure] = found[figure]


@_inner
def _figures_of(lanes: Pointer, sums: int, maxima: int, figures: Pointer) -> None:
    for row in range(sums):
        figures[row] = _folded(lanes, row * LANES)
    for row in range(sums, sums + maxima):
        figures[row] = _highest(lanes, row * LANES)


def pass_of(lane_pass: LanePass) -> Callable[..., None]:
    """Return the pass whose figures are the sums, then the maxima, of what one element adds to its lane."""
    make = _over_one if lane_pass.tensors == 1 else _over_two
    return make(_pasted(lane_pass.add), lane_pass.sums, lane_pass.maxima)


def _over_one(add: Callable[..., None], sums: int, maxima: int) -> Callable[..., None]:
    size = (sums + maxima) * LANES

    def over_one(values: Pointer, count: int, number: float, figures: Pointer) -> None:
        lanes = _memory(size)
        for place in range(size):
            lanes[place] = 0.0
        whole = count - count % LANES
        for base in range(0, whole, LANES):
            for lane in range(LANES):
                add(lanes, lane, _widen(values[base + lane]), number)
        for lane in range(count - whole):
            add(lanes, lane, _widen(values[whole + lane]), number)
        _figures_of(lanes, sums, maxima, figures)

    return over_one


def _over_two(add: Callable[..., None], sums: int, maxima: int) -> Callable[..., None]:
    size = (sums + maxima) * LANES

    def over_two(target: Pointer, golden: Pointer, count: int, number: float, figures: Pointer) -> None:
        lanes = _memory(size)
        for place in range(size):
            lanes[place] = 0.0
        whole = count - count % LANES
        for base in range(0, whole, LANES):
            for lane in range(LANES):
                add(lanes, lane, _widen(target[base + lane]), _widen(golden[base + lane]), number)
        for lane in range(count - whole):
            add(lanes, lane, _widen(target[whole + lane]), _widen(golden[whole + lane]), number)
        _figures_of(lanes, sums, maxima, figures)

    return over_two


def widened(values: Pointer, count: int, unused: float, figures: Pointer) -> None:  # noqa: ARG001  # like the others
    """Convert to float64 as the passes do, so that tests can look at every code."""
    for place in range(count):
        figures[place] = _widen(values[place])


PASSES: Mapping[str, Callable[..., None]] = MappingProxyType(
    {function.__name__: function for function in (measure, widened)}
)
"""What is compiled for every run, by name. A pass takes one or two tensors, the number of elements, a float64 and where
figures go."""
