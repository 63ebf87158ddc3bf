"""Numbers as the HTML report has them: short, and many at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from probe_flow.records.figure_columns import Cells

    Floats: TypeAlias = NDArray[np.float64]

DIGITS = 6
"""Significant digits of a number in the report; the exact ones are in comparison.jsonl."""

Cell = float | str | None

_NEAR_ONE = 0.99
_DIGITS_FROM_ONE = 3
_MAX_DECIMALS = 15
_EXACT_INTEGER = 2**53
"""Integers beyond this are no longer exact in JavaScript."""

_FEW = 64
"""Below this numpy does not pay."""

_LARGEST_POWER = 22
"""The largest power of ten that a float64 holds exactly."""

_TIE = 1e-3
"""What lies this close to the middle of two roundings is rounded by the slow, exact way."""


def short_number(value: float | None) -> Cell:
    """Return a number in 6 significant digits; NaN and infinities as ``"nan"``, ``"inf"``, ``"-inf"``.

    Integers up to 2**53 and truth values stay exact. A number just below 1 keeps 3 digits of its distance from 1, so
    that a cosine of 0.999999983 does not become 1.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _EXACT_INTEGER else _rounded(float(value))
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    size = abs(value)
    if _NEAR_ONE <= size < 1.0:
        decimals = math.ceil(-math.log10(1.0 - size)) - 1 + _DIGITS_FROM_ONE
        return round(value, min(max(decimals, DIGITS), _MAX_DECIMALS))
    return _rounded(value)


def short_numbers(values: Sequence[float | None]) -> list[Cell]:
    """Return `short_number` of every value."""
    kinds = set(map(type, values))
    if kinds <= {type(None), bool}:
        return list(values)
    if len(values) < _FEW or float not in kinds:
        return list(map(short_number, values))
    import numpy as np

    floats = iter(_short_floats(np.array([value for value in values if type(value) is float])))
    return [next(floats) if type(value) is float else short_number(value) for value in values]


def short_cells(cells: Cells, other: Callable[[int], float | None]) -> list[Cell]:
    """Return the same of a column; ``other`` gives the values that it does not say, by their places."""
    import numpy as np

    if cells.are_floats.all():
        return _short_floats(cells.values)
    found: list[Cell] = [None] * len(cells.values)
    are = cells.are_floats
    for place, number in zip(np.flatnonzero(are).tolist(), _short_floats(cells.values[are]), strict=True):
        found[place] = number
    for place in np.flatnonzero(cells.are_whole).tolist():
        found[place] = short_number(int(cells.values[place]))
    for place in np.flatnonzero(~cells.are_said).tolist():
        found[place] = short_number(other(place))
    return found


def _short_floats(found: Floats) -> list[Cell]:
    import numpy as np

    size = np.abs(found)
    ups, downs = _powers_of_ten()
    with np.errstate(all="ignore"):
        power = DIGITS - 1 - np.floor(np.log10(size))
        places = np.fmin(np.fmax(power, -_LARGEST_POWER), _LARGEST_POWER).astype(np.intp) + _LARGEST_POWER  # NaN too
        up, down = ups[places], downs[places]  # one of both is 1
        digits = found * up / down
        whole = np.rint(digits)
        short = whole * down / up
        is_exact = (np.abs(power) <= _LARGEST_POWER) & (np.abs(np.abs(digits - whole) - 0.5) > _TIE)
        whole = np.abs(whole)
        is_exact &= (whole >= 10 ** (DIGITS - 1)) & (whole <= 10**DIGITS)
        is_exact &= (size < _NEAR_ONE) | (size >= 1.0)
        is_zero = found == 0
    short[is_zero] = 0
    is_exact |= is_zero
    cells: list[Any] = short.tolist()
    are_whole = is_exact & (short == np.rint(short)) & (np.abs(short) <= _EXACT_INTEGER)
    integers: list[int] = short[are_whole].astype(np.int64).tolist()
    for place, integer in zip(np.flatnonzero(are_whole).tolist(), integers, strict=True):
        cells[place] = integer
    for place in np.flatnonzero(~is_exact).tolist():
        cells[place] = short_number(float(found[place]))
    return cells


@cache
def _powers_of_ten() -> tuple[Floats, Floats]:
    """Return what to multiply by and what to divide by for each power of ten, the most negative first."""
    import numpy as np

    powers = range(-_LARGEST_POWER, _LARGEST_POWER + 1)
    return np.array([float(10 ** max(power, 0)) for power in powers]), np.array(
        [float(10 ** max(-power, 0)) for power in powers]
    )


def _rounded(value: float) -> float:
    number = float(f"{value:.{DIGITS}g}")
    return int(number) if number.is_integer() and abs(number) <= _EXACT_INTEGER else number  # `3` is shorter than `3.0`
