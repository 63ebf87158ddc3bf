"""Compiled passes over one block, in 64 lanes that the compiler turns into vector instructions.

Imported only by `probe_flow.metrics.numba_backend`: importing numba takes 0.2 s. Every sum has a fixed order (element i
goes to lane i modulo 64, lanes are folded by halving) and arithmetic is strict, so results do not depend on the
processor. Written for the vectoriser: the lanes are an array of their own in the function with the loop, choices are
conditional expressions, and 64 lanes are neither unrolled (8 are) nor spilled.

Arrays are read-only, contiguous and of one of six types. Two of them stand for codes of short floats: int16 for
float16, uint16 for bfloat16; integers of 16 bits never come here as such.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from probe_flow.metrics.block_sums import FIVE_THOUSANDTHS, HALF_TO_SINGLE, ONE_THOUSANDTH

Values = NDArray[Any]
Lanes = NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])

LANES = 64

_PART = 128 * LANES
"""Elements that one lane sums up in a row before its sum joins those of other parts: keeps rounding errors small."""

_OPTIONS = {"nogil": True, "error_model": "numpy", "boundscheck": False}

# Where the 64 lanes of each figure begin: sums and counts first, then minima, then maxima. One flat array with constant
# offsets, because the compiler cannot tell the rows of a 2-D array apart.
_TARGET, _GOLDEN, _TARGET_SQUARES, _GOLDEN_SQUARES, _DOT, _GOLDEN_ABS = range(0, 6 * LANES, LANES)
_ERROR, _ERROR_SQUARES, _RELATIVE, _WITHIN_1E3, _WITHIN_5E3, _UNEQUAL, _MISSES = range(6 * LANES, 13 * LANES, LANES)
_TARGET_LOW, _GOLDEN_LOW, _TARGET_HIGH, _GOLDEN_HIGH, _MAX_ABS, _MAX_REL = range(13 * LANES, 19 * LANES, LANES)
_END = 19 * LANES


def _inner(function: Function) -> Function:
    compiled: Function = numba.njit(**_OPTIONS)(function)
    return compiled


def _pasted(function: Function) -> Function:
    """Insert the function where it is called, before vectorising: a call in the loop would stop that."""
    compiled: Function = numba.njit(inline="always", **_OPTIONS)(function)
    return compiled


def _entry(function: Function) -> Function:
    """Compile when first called, and keep the code on disk where a folder for it can be written."""
    try:
        compiled: Function = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # numba finds no such folder: each process compiles for itself
        return _inner(function)
    return compiled


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
def _add(lanes: Lanes, lane: int, x: float, y: float) -> None:
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
def _accumulate(target: Values, golden: Values) -> Lanes:
    """Return the lanes above over all but the last, incomplete group; the only loop over an ordinary block."""
    lanes = np.zeros(_END)
    lanes[_TARGET_LOW:_TARGET_HIGH] = np.inf
    lanes[_TARGET_HIGH:_MAX_ABS] = -np.inf
    lanes[_MAX_ABS:] = -1.0
    for base in range(0, target.size - target.size % LANES, LANES):
        for lane in range(LANES):
            _add(lanes, lane, _widen(target[base + lane]), _widen(golden[base + lane]))
    return lanes


@_inner
def _accumulate_rest(target: Values, golden: Values, lanes: Lanes) -> None:
    """Add the last elements, less than one per lane; apart, because a second loop slows the first one down."""
    whole = target.size - target.size % LANES
    for lane in range(target.size - whole):
        _add(lanes, lane, _widen(target[whole + lane]), _widen(golden[whole + lane]))


@_inner
def _join(lanes: Lanes, part: Lanes) -> None:
    for place in range(_TARGET_LOW):
        lanes[place] += part[place]
    for place in range(_TARGET_LOW, _TARGET_HIGH):
        lanes[place] = min(lanes[place], part[place])
    for place in range(_TARGET_HIGH, _END):
        lanes[place] = max(lanes[place], part[place])


@_inner
def _folded(lanes: Lanes, row: int) -> float:
    """Return the sum of the lanes that begin at ``row``, by halving; they are overwritten."""
    width = LANES // 2
    while width:
        for lane in range(row, row + width):
            lanes[lane] += lanes[lane + width]
        width //= 2
    return float(lanes[row])


@_inner
def _worst_places(target: Values, golden: Values, lanes: Lanes) -> tuple[float, float]:
    """Return where the largest absolute and relative error are first, looking only into lanes that hold them."""
    max_abs, max_rel = lanes[_MAX_ABS : _MAX_ABS + LANES].max(), lanes[_MAX_REL : _MAX_REL + LANES].max()
    place_abs = place_rel = target.size
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
def _zero_misses(target: Values, golden: Values, eps: float) -> tuple[float, float, float, float, float]:
    """Return the first place with a zero golden and another target, and sum, maximum and counts of |target| / eps."""
    sums = np.zeros(LANES)
    first = -1.0
    largest = within_1e3 = within_5e3 = 0.0
    for place in range(target.size):
        x = _widen(target[place])
        if _widen(golden[place]) == 0.0 and x != 0.0:
            first = float(place) if first < 0.0 else first
            missed = abs(x) / eps
            sums[place % LANES] += missed
            largest = max(largest, missed)
            within_1e3 += 1.0 if missed < ONE_THOUSANDTH else 0.0
            within_5e3 += 1.0 if missed < FIVE_THOUSANDTHS else 0.0
    return first, _folded(sums, 0), largest, within_1e3, within_5e3


@_entry
def measure(target: Values, golden: Values, eps: float) -> tuple[float, ...]:
    """Return the figures of a pair of blocks with at least one element.

    Returns:
        The fields of `figures.Figures` in order. With NaN or infinities among the values one of the first two is not
        finite and the others mean nothing.
    """
    lanes = _accumulate(target[:_PART], golden[:_PART])
    for base in range(_PART, target.size, _PART):
        _join(lanes, _accumulate(target[base : base + _PART], golden[base : base + _PART]))
    _accumulate_rest(target, golden, lanes)
    places = (0.0, 0.0)
    total_target, total_golden = _folded(lanes, _TARGET), _folded(lanes, _GOLDEN)
    if np.isfinite(total_target) and np.isfinite(total_golden):
        places = _worst_places(target, golden, lanes)
    misses = _folded(lanes, _MISSES)
    zeros = (-1.0, 0.0, 0.0, 0.0, 0.0)
    if misses > 0.0:
        zeros = _zero_misses(target, golden, eps)
    return (
        total_target,
        total_golden,
        _folded(lanes, _TARGET_SQUARES),
        _folded(lanes, _GOLDEN_SQUARES),
        _folded(lanes, _DOT),
        _folded(lanes, _GOLDEN_ABS),
        _folded(lanes, _ERROR),
        _folded(lanes, _ERROR_SQUARES),
        _folded(lanes, _RELATIVE),
        _folded(lanes, _WITHIN_1E3),
        _folded(lanes, _WITHIN_5E3),
        _folded(lanes, _UNEQUAL),
        misses,
        lanes[_TARGET_LOW : _TARGET_LOW + LANES].min(),
        lanes[_GOLDEN_LOW : _GOLDEN_LOW + LANES].min(),
        lanes[_TARGET_HIGH : _TARGET_HIGH + LANES].max(),
        lanes[_GOLDEN_HIGH : _GOLDEN_HIGH + LANES].max(),
        lanes[_MAX_ABS : _MAX_ABS + LANES].max(),
        lanes[_MAX_REL : _MAX_REL + LANES].max(),
        *places,
        *zeros,
    )


@_entry
def squared_deviations(values: Values, mean: float) -> float:
    """Return the sum of squared differences from ``mean``."""
    lanes = np.zeros(LANES)
    whole = values.size - values.size % LANES
    for base in range(0, whole, LANES):
        for lane in range(LANES):
            lanes[lane] += (_widen(values[base + lane]) - mean) ** 2
    for lane in range(values.size - whole):
        lanes[lane] += (_widen(values[whole + lane]) - mean) ** 2
    return _folded(lanes, 0)


@_pasted
def _add_masked(lanes: Lanes, lane: int, x: float, y: float, eps: float) -> None:
    error = abs(x - y)
    magnitude = abs(y)
    ratio = error / magnitude
    relative = ratio if magnitude > eps else 0.0
    kept = error if magnitude > eps else 0.0
    lanes[lane] += relative
    lanes[LANES + lane] += kept
    lanes[2 * LANES + lane] = relative if relative > lanes[2 * LANES + lane] else lanes[2 * LANES + lane]
    lanes[3 * LANES + lane] = kept if kept > lanes[3 * LANES + lane] else lanes[3 * LANES + lane]


@_entry
def masked_errors(target: Values, golden: Values, eps: float) -> tuple[float, float, float, float]:
    """Return sum and maximum of the relative, then of the absolute errors where the golden value is beyond ``eps``."""
    lanes = np.zeros(4 * LANES)
    whole = target.size - target.size % LANES
    for base in range(0, whole, LANES):
        for lane in range(LANES):
            _add_masked(lanes, lane, _widen(target[base + lane]), _widen(golden[base + lane]), eps)
    for lane in range(target.size - whole):
        _add_masked(lanes, lane, _widen(target[whole + lane]), _widen(golden[whole + lane]), eps)
    return (
        _folded(lanes, 0),
        lanes[2 * LANES : 3 * LANES].max(),
        _folded(lanes, LANES),
        lanes[3 * LANES :].max(),
    )


@_pasted
def _add_tiny(lanes: Lanes, lane: int, y: float, eps: float) -> None:
    magnitude = abs(y)
    lanes[lane] += 1.0 if magnitude <= eps else 0.0
    lanes[LANES + lane] += 1.0 if magnitude == 0.0 else 0.0


@_entry
def tiny_values(values: Values, eps: float) -> tuple[float, float]:
    """Return how many values are not beyond ``eps``, and how many of them are zero."""
    lanes = np.zeros(2 * LANES)
    whole = values.size - values.size % LANES
    for base in range(0, whole, LANES):
        for lane in range(LANES):
            _add_tiny(lanes, lane, _widen(values[base + lane]), eps)
    for lane in range(values.size - whole):
        _add_tiny(lanes, lane, _widen(values[whole + lane]), eps)
    return _folded(lanes, 0), _folded(lanes, LANES)


@_entry
def widened(values: Values, out: Lanes) -> None:
    """Convert to float64 as the passes do, so that tests can look at every code."""
    for place in range(values.size):
        out[place] = _widen(values[place])
