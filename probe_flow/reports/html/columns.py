"""Rows as columns of JSON for the HTML report: made a stretch of rows at a time, so that no column's cells are held.

Texts go by number, numbers are short.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from operator import sub
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pydantic_core

from probe_flow.record.json_values import json_value
from probe_flow.reports.numbering import Numbering

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from probe_flow.records.columns.figure_columns import Cells

    Floats: TypeAlias = NDArray[np.float64]

_T = TypeVar("_T")

ROWS_AT_ONCE = 8192
"""Longer stretches take more memory and are not faster."""

TEXTS_AT_ONCE = 256
"""They may have thousands of characters."""

FAST = 1
"""Level at which columns are compressed that wait for their turn."""

Pieces = Iterable[bytes]
"""JSON of one value, cut anywhere."""

Member = tuple[str, Pieces | None]
"""A name of an object with its value; None where it has none and is left out."""


def stretches(things: Sequence[_T], size: int = ROWS_AT_ONCE) -> Iterator[Sequence[_T]]:
    """Yield the things in order, `size` at a time."""
    for start in range(0, len(things), size):
        yield things[start : start + size]


def json_bytes(value: object) -> bytes:
    """Return a value as JSON in UTF-8; what JSON does not know as `json_value` has it."""
    try:
        return pydantic_core.to_json(value, fallback=json_value)
    except pydantic_core.PydanticSerializationError:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=json_value)
        # Lone surrogates (file names that are not UTF-8) have no place in UTF-8; JSON has an escape for them.
        return text.encode("utf-8", errors="backslashreplace")


def object_pieces(members: Iterable[Member]) -> Iterator[bytes]:
    """Yield an object, each member when it is its turn."""
    before = b"{"
    for name, pieces in members:
        if pieces is not None:
            yield before + json_bytes(name) + b":"
            yield from pieces
            before = b","
    yield b"}" if before == b"," else b"{}"


def object_or_nothing(members: Iterable[Member]) -> Pieces | None:
    """Return `object_pieces`, None when no member has a value."""
    found = (member for member in members if member[1] is not None)
    first = next(found, None)
    return None if first is None else object_pieces(chain((first,), found))


def list_pieces(cells: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """Yield a list, given a stretch at a time."""
    before = b"["
    for stretch in cells:
        yield before + json_bytes(stretch)[1:-1]
        before = b","
    yield b"]" if before == b"," else b"[]"


class Column:
    """A column in the making: the one value that all cells have, nothing when there is none, else a list.

    It holds JSON, since a number is 5 to 12 bytes as text and 32 as an object, and that compressed until its turn: to
    less than half, in 0.1 us a number.
    """

    _begin, _end = b"[", b"]"

    def __init__(self) -> None:
        self._first: Any = None
        self._equal = 0
        self._pieces: list[bytes] = []

    def add(self, cells: Sequence[Any]) -> None:
        """Add a stretch of cells."""
        if not cells:
            return
        if not self._pieces:
            if not self._equal:
                self._first = cells[0]
            if _all_are(cells, self._first):
                self._equal += len(cells)
                return
            for start in range(0, self._equal, ROWS_AT_ONCE):
                self._write([self._first] * min(ROWS_AT_ONCE, self._equal - start))
        self._write(cells)

    def pieces(self) -> Pieces | None:
        """Return the column's JSON, None where no cell has a value."""
        if self._pieces:
            return chain(map(zlib.decompress, self._pieces), (self._end,))
        return None if self._first is None else (json_bytes(self._first),)

    def _write(self, cells: Sequence[Any]) -> None:
        text = (b"," if self._pieces else self._begin) + json_bytes(self._written(cells))[1:-1]
        self._pieces.append(zlib.compress(text, FAST))

    def _written(self, cells: Sequence[Any]) -> Sequence[Any]:
        return cells


class PlaceColumn(Column):
    """A column of places; a list of them is ``{"steps": [...]}``: what to add to the place before, None for no place.

    Rows mostly name what the rows before them named, or the next new thing: steps compress to almost nothing.
    """

    _begin, _end = b'{"steps":[', b"]}"

    def __init__(self) -> None:
        super().__init__()
        self._before = 0

    def _written(self, cells: Sequence[int | None]) -> list[int | None]:
        if None not in cells:
            places: Any = cells
            steps: list[int | None] = list(map(sub, places, chain((self._before,), places)))
            self._before = places[-1]
            return steps
        steps, before = [], self._before
        for cell in cells:
            if cell is None:
                steps.append(None)
            else:
                steps.append(cell - before)
                before = cell
        self._before = before
        return steps


def packed(cells: Iterable[Sequence[Any]], kind: type[Column] = Column) -> Pieces | None:
    """Return a column of these cells, given a stretch at a time."""
    column = kind()
    for stretch in cells:
        column.add(stretch)
    return column.pieces()


def packed_places(cells: Iterable[Sequence[int | None]]) -> Pieces | None:
    """Return a `PlaceColumn` of these places, given a stretch at a time."""
    return packed(cells, PlaceColumn)


def several(
    names: Sequence[str], cells: Iterable[Iterable[Sequence[Any]]], kind: type[Column] = Column
) -> Iterator[Member]:
    """Yield columns that are made together: of each stretch the cells of every column, in the order of the names."""
    columns = [kind() for _ in names]
    for stretch in cells:
        for column, some in zip(columns, stretch, strict=True):
            column.add(some)
    for name, column in zip(names, columns, strict=True):
        yield name, column.pieces()


def _all_are(cells: Sequence[Any], value: object) -> bool:
    """Return True if all cells are this value; True and 1 are equal, but not the same cell."""
    return cells.count(value) == len(cells) and set(map(type, cells)) == {type(value)}


_C = TypeVar("_C", bound=Hashable)
_R = TypeVar("_R")


class Strings:
    """Texts, each once, by their place."""

    def __init__(self) -> None:
        self._known = Numbering[str]()

    @property
    def texts(self) -> Sequence[str]:
        """The texts in order of their places."""
        return self._known.things

    def place(self, text: str | None) -> int | None:
        """Return the place of a text; None for no text (None or empty)."""
        return self._known.number(text) if text else None

    def places(self, texts: Iterable[str | None]) -> list[int | None]:
        """Return the places of many texts."""
        return mapped(texts, self.place)

    def lists(self, lists: Iterable[tuple[str, ...]]) -> list[int | None]:
        """Return the places of lists of texts, each list as one text of lines."""
        return mapped(lists, lambda texts: self.place("\n".join(texts)))


def mapped(cells: Iterable[_C], function: Callable[[_C], _R]) -> list[_R]:
    """Return ``function`` of every cell, called once for cells that are equal, in order of appearance."""
    known = list(cells)
    made = {cell: function(cell) for cell in dict.fromkeys(known)}
    return list(map(made.__getitem__, known))


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

    with np.errstate(all="ignore"):
        power = DIGITS - 1 - np.floor(np.log10(np.abs(found)))
        digits = np.where(power > 0, found * _powers(power), found / _powers(-power))
        whole = np.rint(digits)
        short = np.where(power > 0, whole / _powers(power), whole * _powers(-power))
        is_exact = (np.abs(power) <= _LARGEST_POWER) & (np.abs(np.abs(digits - whole) - 0.5) > _TIE)
        is_exact &= (np.abs(whole) >= 10 ** (DIGITS - 1)) & (np.abs(whole) <= 10**DIGITS)
        is_exact &= (np.abs(found) < _NEAR_ONE) | (np.abs(found) >= 1.0)
        is_zero = found == 0
    short[is_zero] = 0
    is_exact |= is_zero
    cells: list[Any] = short.tolist()
    for place in np.flatnonzero(is_exact & (short == np.rint(short)) & (np.abs(short) <= _EXACT_INTEGER)).tolist():
        cells[place] = int(cells[place])
    for place in np.flatnonzero(~is_exact).tolist():
        cells[place] = short_number(float(found[place]))
    return cells


@cache
def _powers_of_ten() -> Floats:
    import numpy as np

    return np.array([float(10**exponent) for exponent in range(_LARGEST_POWER + 1)])


def _powers(exponents: Floats) -> Floats:
    import numpy as np

    return np.asarray(_powers_of_ten()[np.fmin(np.fmax(exponents, 0), _LARGEST_POWER).astype(np.intp)])  # NaN: 0


def _rounded(value: float) -> float:
    number = float(f"{value:.{DIGITS}g}")
    return int(number) if number.is_integer() and abs(number) <= _EXACT_INTEGER else number  # `3` is shorter than `3.0`
