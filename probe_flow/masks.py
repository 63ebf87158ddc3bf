"""Numbers that programs mask scores with: what they stand for is minus infinity, not their size.

A mask is the least number of a type (`finfo(x.dtype).min`), or one that is easy to write: a power of ten (-1e4, -1e9),
-9e15 of graph attention, or ``-2 ** 32 + 1`` of transformers and recommenders in TensorFlow. Other
sides of a comparison may have another one: a narrower type holds -3.4e38 and -1e9 as minus infinity or as its own end,
frameworks differ in what they choose. Scores that are added shift a mask by little, or not at all where it is so large
that they are rounded away.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST = 9000.0
"""Size below which numbers mask nothing, whatever score is beside them."""

SCORE = 256.0
"""Largest score that is looked for beside a limit that masks it, which is 65,504 at least."""

SHIFT = 2.0**-10
"""The same beside a number that was written, relative to it: 10 beside -1e4."""

LIMITS = 65504.0, (2.0 - 2.0**-7) * 2.0**127, (2.0 - 2.0**-23) * 2.0**127, (2.0 - 2.0**-52) * 2.0**1023
"""Largest finite numbers of float16, bfloat16, float32 and float64 (IEEE 754; bfloat16 has 7 bits behind the point)."""

_WRITTEN = np.sort(np.array([10.0**power for power in range(4, 308)] + [2.0**31, 2.0**32, 9e15]))
"""Powers of ten from the one that BERT masks with, and others that programs are known for."""


def masks_in(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each number the mask that it is, scores beside it left out, NaN where it is none; shape ``(n,)``.

    Limits and infinities are masks with either sign, numbers that were written with a minus.
    """
    sizes = np.abs(numbers)
    found = np.where(np.isinf(numbers), numbers, np.nan)
    for ends, reach, may_be in ((_WRITTEN, SHIFT * _WRITTEN, numbers < 0.0), (np.array(LIMITS), SCORE, True)):
        nearest = np.clip(np.searchsorted(ends, sizes), 1, ends.size - 1)
        nearest -= ends[nearest] - sizes > sizes - ends[nearest - 1]
        is_near = np.abs(sizes - ends[nearest]) <= (reach[nearest] if isinstance(reach, np.ndarray) else reach)
        found = np.where(is_near & may_be, np.copysign(ends[nearest], numbers), found)
    return found


def mask_of(number: float) -> float | None:
    """Return the mask that a number is, as `masks_in` does; None where it is none, as no whole number is."""
    if not isinstance(number, float) or abs(number) < LEAST:
        return None
    found = float(masks_in(np.array([number]))[0])
    return None if math.isnan(found) else found


def hold_alike(target: NDArray[Any], golden: NDArray[Any]) -> NDArray[np.bool_]:
    """Say at which places, of which one side or both are not finite, both sides mean the same; shape ``(n,)``.

    Equal values do, NaN and NaN, and infinity and a number of its sign that masks; of complex values equal ones alone.
    """
    alike = are_equal(target, golden)
    if target.dtype.kind == "c":
        return alike
    is_infinite = np.isinf(target)
    places = np.flatnonzero((is_infinite != np.isinf(golden)) & (np.signbit(target) == np.signbit(golden)))
    alike[places] = np.isfinite(masks_in(np.where(is_infinite, golden, target)[places]))
    return alike


def are_equal(target: NDArray[Any], golden: NDArray[Any]) -> NDArray[np.bool_]:
    """Say at which places both sides hold the same value, NaN as well; shape ``(n,)``."""
    equal: NDArray[np.bool_] = (np.isnan(target) & np.isnan(golden)) | (target == golden)
    return equal
