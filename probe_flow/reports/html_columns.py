"""Rows as columns for the HTML report: texts stand once, numbers are short, what all rows share is written once."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

DIGITS = 6
"""Significant digits of a number in the report; the exact ones are in comparison.jsonl."""

_NEAR_ONE = 0.99
_DIGITS_FROM_ONE = 3
_MAX_DECIMALS = 15
_EXACT_INTEGER = 2**53
"""Integers beyond this are no longer exact in JavaScript."""


class Strings:
    """Texts, each once, by their place."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._places: dict[str, int] = {}

    def place(self, text: str | None) -> int | None:
        """Return the place of a text; None for no text (None or empty)."""
        if not text:
            return None
        found = self._places.get(text)
        if found is None:
            found = self._places[text] = len(self.texts)
            self.texts.append(text)
        return found


class Columns:
    """Columns that grow one cell at a time; every column must get a cell for every row."""

    def __init__(self) -> None:
        self._values: defaultdict[str, list[Any]] = defaultdict(list)
        self._places: defaultdict[str, list[int | None]] = defaultdict(list)

    def add(self, **cells: Any) -> None:
        """Append one value to each of the named columns."""
        for name, cell in cells.items():
            self._values[name].append(cell)

    def add_places(self, **cells: int | None) -> None:
        """Append one place (of a text or a node) to each of the named columns."""
        for name, cell in cells.items():
            self._places[name].append(cell)

    def packed(self) -> dict[str, Any]:
        """Return every column as `packed` or, for places, as `packed_places`; without those that have no value."""
        found = {name: packed(cells) for name, cells in self._values.items()}
        found.update({name: packed_places(cells) for name, cells in self._places.items()})
        return {name: column for name, column in found.items() if column is not None}


def packed(cells: Sequence[Any]) -> Any:
    """Return the one value that all cells have (None when there are no cells), else the cells as a list."""
    if not cells:
        return None
    first = cells[0]
    kind = type(first)  # True == 1, but they are not the same cell
    return first if all(cell == first and type(cell) is kind for cell in cells) else list(cells)


def packed_places(cells: Sequence[int | None]) -> Any:
    """Return places as `packed` or as ``{"steps": [...]}``: what to add to the place before, None where there is none.

    Rows mostly name what the rows before them named, or the next new thing: steps compress to almost nothing.
    """
    shared = packed(cells)
    if not isinstance(shared, list):
        return shared
    steps: list[int | None] = []
    before = 0
    for cell in cells:
        steps.append(None if cell is None else cell - before)
        before = before if cell is None else cell
    return {"steps": steps}


def short_number(value: float | None) -> float | str | None:
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


def _rounded(value: float) -> float:
    number = float(f"{value:.{DIGITS}g}")
    return int(number) if number.is_integer() and abs(number) <= _EXACT_INTEGER else number  # `3` is shorter than `3.0`
