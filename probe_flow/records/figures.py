"""Figures of many rows in one table: numbers without an object each, and a view where code reads one row.

A value comes back as it was given: exact integers of any size, truth values, None, NaN and infinities are told apart.
A figure takes 8 bytes, and which of a row's values are floats, integers or None is noted once for all rows alike; as
objects in a dictionary it takes 50 (measured with 8 and with 14 figures a row).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from msgspec import Struct

Value: TypeAlias = float | int | bool | None

if TYPE_CHECKING:
    Floats: TypeAlias = array[float]
    Integers: TypeAlias = array[int]
else:  # the class takes no arguments before Python 3.12
    Floats = Integers = array

_EXACT = 2**53
"""Integers up to this magnitude are exact as float64."""


_SHARED: list[int] = []
_FILLING = Lock()


def shared_numbers(count: int) -> Sequence[int]:
    """Return the numbers from 0 to at least ``count`` - 1, the same objects for all who number rows.

    A row is numbered by its tables, its comparison and the search: an object each time would take 112 bytes a row.
    """
    if len(_SHARED) < count:
        with _FILLING:
            _SHARED.extend(range(len(_SHARED), count + 1024))
    return _SHARED


_LETTERS: Mapping[type, str] = {float: "f", int: "i", bool: "b", type(None): "n"}
_OTHER = "o"
"""The letter of a value that is stored as it is."""
_TYPES = {letter: kind for kind, letter in _LETTERS.items()} | {_OTHER: object}


class StoredTable(Struct, frozen=True, gc=False, eq=False):
    """A table as a file has it.

    Args:
        names: of the columns.
        patterns: types of a row's values, a letter a column: ``f`` float, ``i`` integer, ``b`` truth value, ``n`` None,
            ``o`` another one.
        numbers: float64, row by row.
        kinds: of each row, which pattern it has.
        aside: rows that float64 cannot hold, by their numbers.
    """

    names: tuple[str, ...]
    patterns: tuple[str, ...]
    numbers: Floats
    kinds: Integers
    aside: Mapping[int, tuple[object, ...]]

    def restored(self) -> FigureTable:
        """Return the table.

        Raises:
            ValueError: the parts are not those of one table.
        """
        table = FigureTable(self.names)
        self.fill(table)
        return table

    def fill(self, table: FigureTable) -> None:
        """Put the rows into a new table of these columns."""
        width, count = len(self.names), len(self.kinds)
        if len(self.numbers) != width * count or self.numbers.typecode + self.kinds.typecode != "dI":
            raise ValueError("a table of figures has not as many numbers as rows")
        if not self.patterns or any(len(each) != width for each in self.patterns) or self.patterns[0] != "f" * width:
            raise ValueError("a table of figures has other types than columns")
        if count and max(self.kinds) >= len(self.patterns):
            raise ValueError("a row of figures has types that its table does not name")
        if any(not 0 <= number < count or len(row) != width for number, row in self.aside.items()):
            raise ValueError("a row of figures is not one of its table")
        whole = [tuple(place for place, letter in enumerate(each) if letter in "ib") for each in self.patterns]
        for number, kind in enumerate(self.kinds) if any(whole) else ():
            if number not in self.aside and not all(
                self.numbers[number * width + at].is_integer() for at in whole[kind]
            ):
                raise ValueError("an integer in a table of figures is none")
        patterns = [tuple(_TYPES[each] for each in row) for row in self.patterns]
        table.take_over(self.numbers, self.kinds, patterns, self.aside)


_NONE = type(None)


class FigureTable:
    """Rows of figures under the same names. A row is added once and never changes.

    Args:
        names: of the columns.
    """

    __slots__ = ("_aside", "_cuts", "_kinds", "_known", "_numbers", "_others", "_patterns", "names", "places", "width")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.places: Mapping[str, int] = {name: place for place, name in enumerate(names)}
        self.width = len(names)
        self._numbers = array("d")
        self._kinds = array("I")  # of each row: the number of its pattern of types; 0 = floats only
        floats: tuple[type, ...] = (float,) * self.width
        self._patterns = [floats]
        self._others: list[tuple[tuple[int, type], ...]] = [()]  # of each pattern: places of what is no float
        self._known = {floats: 0}
        self._cuts: dict[tuple[int, int, int], tuple[tuple[int, type], ...]] = {}
        self._aside: dict[int, tuple[Value, ...]] = {}

    def __len__(self) -> int:
        return len(self._kinds)

    def add(self, values: Sequence[Value]) -> int:
        """Add a row, one value a column, and return its number.

        What is no number, or an integer that float64 cannot hold, is stored as it is.

        Raises:
            ValueError: another number of values than of columns.
        """
        kinds = tuple(map(type, values))
        if len(kinds) != self.width:
            raise ValueError(f"{len(kinds)} values for {self.width} columns")
        number, pattern = len(self._kinds), self._known.get(kinds)
        if pattern is None:
            pattern = self._add_pattern(kinds)
        if pattern:
            numbers = list(map(_number, values))
            if None in numbers:
                self._aside[number], numbers = tuple(values), [0.0] * self.width
            values = numbers
        self._numbers.extend(cast("Sequence[float]", values))
        self._kinds.append(pattern)
        return shared_numbers(number + 1)[number]

    def _add_pattern(self, kinds: tuple[type, ...]) -> int:
        pattern = self._known[kinds] = len(self._patterns)
        self._patterns.append(kinds)
        self._others.append(tuple((place, kind) for place, kind in enumerate(kinds) if kind is not float))
        return pattern

    def stored(self) -> StoredTable:
        """Return the table as a file has it; the numbers are its own."""
        patterns = tuple("".join(_LETTERS.get(kind, _OTHER) for kind in row) for row in self._patterns)
        return StoredTable(self.names, patterns, self._numbers, self._kinds, self._aside)

    def take_over(
        self,
        numbers: Floats,
        kinds: Integers,
        patterns: Sequence[tuple[type, ...]],
        aside: Mapping[int, tuple[Any, ...]],
    ) -> None:
        """Take over rows that a file had; the table must be a new one."""
        self._numbers, self._kinds, self._aside = numbers, kinds, dict(aside)
        for kind in patterns[1:]:
            self._add_pattern(kind)

    def part(self, number: int, begin: int, end: int) -> Sequence[Value]:
        """Return the values of a row in some columns, by their places."""
        first, pattern = number * self.width, self._kinds[number]
        numbers = self._numbers[first + begin : first + end]
        if not pattern:
            return numbers
        if self._aside and number in self._aside:
            return self._aside[number][begin:end]
        found: list[Value] = [*numbers]
        for place, kind in self._others_within(pattern, begin, end):
            found[place] = None if kind is _NONE else cast("Value", kind(found[place]))
        return found

    def _others_within(self, pattern: int, begin: int, end: int) -> tuple[tuple[int, type], ...]:
        """Return the places, from ``begin`` on, and types of what is no float in some columns of rows of a pattern."""
        known = self._cuts.get((pattern, begin, end))
        if known is None:
            others = self._others[pattern]
            known = tuple((place - begin, kind) for place, kind in others if begin <= place < end)
            self._cuts[pattern, begin, end] = known
        return known

    def value(self, number: int, place: int) -> Value:
        """Return the value of a row in one column, by its place."""
        found, pattern = self._numbers[number * self.width + place], self._kinds[number]
        if not pattern:
            return found
        if self._aside and number in self._aside:
            return self._aside[number][place]
        kind = self._patterns[pattern][place]
        if kind is float:
            return found
        return None if kind is _NONE else cast("Value", kind(found))


def _number(value: Value) -> float | None:
    """Return what a value is stored as; None where no number holds it exactly."""
    if value is None:
        return 0.0
    if value.__class__ is float or value.__class__ is bool:
        return value
    return value if value.__class__ is int and -_EXACT <= value <= _EXACT else None


_Default = TypeVar("_Default")


class FigureColumn(Mapping[int, float]):
    """One number of some rows, by the number of the row: 9 bytes a row, in place of 90 in a dictionary.

    Args:
        count: number of all rows.
    """

    __slots__ = ("_is_known", "_values")

    def __init__(self, count: int) -> None:
        self._values = array("d", bytes(8 * count))
        self._is_known = bytearray(count)

    def __setitem__(self, number: int, value: float) -> None:
        self._values[number] = value
        self._is_known[number] = True

    def __getitem__(self, number: int) -> float:
        if not self._is_known[number]:
            raise KeyError(number)
        return self._values[number]

    def get(self, number: int, default: _Default = None) -> float | _Default:  # type: ignore[assignment]
        """Return the number of a row, or the default where it has none."""
        return self._values[number] if self._is_known[number] else default

    def __iter__(self) -> Iterator[int]:
        return (number for number, is_known in enumerate(self._is_known) if is_known)

    def __len__(self) -> int:
        return self._is_known.count(True)


class FigureRow(Mapping[str, Value]):
    """One row of a table as a mapping of some of its columns, the first ones: a view, made when it is asked for."""

    __slots__ = ("_count", "_number", "_table")

    def __init__(self, table: FigureTable, number: int, count: int) -> None:
        self._table, self._number, self._count = table, number, count

    def __getitem__(self, name: str) -> Value:
        place = self._table.places[name]
        if place >= self._count:
            raise KeyError(name)
        return self._table.value(self._number, place)

    def get(self, name: str, default: Value = None) -> Value:  # type: ignore[override]  # asked for ten times a row
        """Return a figure, or the default where the row has none of that name."""
        place = self._table.places.get(name, self._count)
        return self._table.value(self._number, place) if place < self._count else default

    def values(self) -> Sequence[Value]:  # type: ignore[override]  # in one call: result files have all of all rows
        """Return the figures in the order of their names."""
        return self._table.part(self._number, 0, self._count)

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.names[: self._count])

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return repr(dict(self))
