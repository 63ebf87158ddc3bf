"""Figures of many rows in one table: numbers without an object each.

A value comes back as it was given: exact integers of any size, truth values, None, NaN and infinities are told apart.
A figure takes 8 bytes, as an object in a dictionary 50 (measured with 8 and with 14 figures a row). Which of a row's
values are floats, integers or None is noted once for all rows alike, and so is which are exactly 0 or 1: these take no
number.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import copysign
from operator import itemgetter
from struct import Struct as Packing
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, overload

from msgspec import Struct

Value: TypeAlias = float | int | bool | None

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = array[float]
    Integers: TypeAlias = array[int]
else:  # the class takes no arguments before Python 3.12
    Floats = Integers = array


class Numbers(Protocol):
    """Floats that are read as an array is: one of them, or some neighbours as an array of their own."""

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, place: int) -> float: ...
    @overload
    def __getitem__(self, place: slice) -> Floats: ...


_BYTES_OF_NUMBER = 8
_EXACT = 2**53
"""Integers up to this magnitude are exact as float64."""

AT_ONCE, FEW = 8192, 64
"""Rows whose figures are read or computed together, and how few of them are not worth it."""


MANY = 2**17
"""Rows from which on figures are in a file (`put_away`); reading them there takes 3 % of a run's CPU time."""


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


def let_go_of_numbers(count: int) -> None:
    """Hold no more than so many of them; those in use stay where they are."""
    global _SHARED
    with _FILLING:
        _SHARED = _SHARED[:count]


class _Exactly(Struct, frozen=True, eq=False):
    """A kind of values of which there is only one, so that no number is stored of it; told apart by identity."""

    value: Value


_Kind: TypeAlias = type | _Exactly

_ZERO, _ONE, _NO_COUNT = _Exactly(0.0), _Exactly(1.0), _Exactly(0)
"""What most figures of sides that agree are, and how many elements of most tensors are not finite."""

_NONE = type(None)
_FLOATS: Sequence[_Kind] = (float, _ZERO, _ONE)
_LETTERS: Mapping[_Kind, str] = {float: "f", int: "i", bool: "b", _NONE: "n", _ZERO: "z", _ONE: "u", _NO_COUNT: "0"}
_OTHER = "o"
"""The letter of a value that is stored as it is."""
_KINDS: Mapping[str, _Kind] = {letter: kind for kind, letter in _LETTERS.items()} | {_OTHER: object}
_OF_ONE_BYTE = 256
_MOST_PATTERNS = 1024
"""Of one table; in rows of further ones only types are told apart, of which there are few."""


class _Pattern:
    """Of which kinds the values of a row are.

    Args:
        kinds: of each column.
    """

    __slots__ = ("_cuts", "begins", "constants", "is_plain", "kinds", "others", "packing", "pick", "slots", "width")

    def __init__(self, kinds: tuple[_Kind, ...]) -> None:
        self.kinds = kinds
        stored = [place for place, kind in enumerate(kinds) if kind is not _NONE and not isinstance(kind, _Exactly)]
        self.width = len(stored)
        self.is_plain = self.width == len(kinds) and all(kind is float for kind in kinds)
        self.packing = Packing(f"{self.width}d")
        slots = dict(zip(stored, range(len(stored)), strict=True))
        self.slots = [slots.get(place, _NO_SLOT) for place in range(len(kinds))]
        """Of each column, which of the row's numbers it has."""
        self.begins = [bisect_left(stored, place) for place in range(len(kinds) + 1)]
        self.constants = [kind.value if isinstance(kind, _Exactly) else None for kind in kinds]
        self.others = [(place, cast("type", kinds[place])) for place in stored if kinds[place] is not float]
        self.pick = _picker(stored)
        self._cuts: dict[tuple[int, int], tuple[list[Any], list[int], list[tuple[int, type]]]] = {}

    def row(self, numbers: Sequence[float], begin: int, end: int) -> list[Any]:
        """Return the values of some columns, of which these are the numbers."""
        cut = self._cuts.get((begin, end))
        if cut is None:
            stored = [place - begin for place in range(begin, end) if self.slots[place] != _NO_SLOT]
            others = [(place - begin, kind) for place, kind in self.others if begin <= place < end]
            cut = self._cuts[begin, end] = self.constants[begin:end], stored, others
        constants, places, others = cut
        found = constants.copy()
        for place, number in zip(places, numbers, strict=True):
            found[place] = number
        for place, kind in others:
            found[place] = kind(found[place])
        return found


_NO_SLOT = -1


def _picker(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return what takes the values at some places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: [values[place] for place in places]


def _kinds_of(values: Sequence[Value]) -> tuple[_Kind, ...]:
    """Return the kind of each value; of values that are not 0 or 1, as most rows have them, that is its type."""
    return tuple(map(_kind_of, values)) if 0 in values or 1 in values else tuple(map(type, values))


def _kind_of(value: Value) -> _Kind:
    kind = value.__class__
    if kind is float:
        if value == 1.0:
            return _ONE
        return _ZERO if value == 0.0 and copysign(1.0, value) > 0.0 else float
    return _NO_COUNT if kind is int and value == 0 else kind


class StoredTable(Struct, frozen=True, gc=False, eq=False):
    """A table as a file has it.

    Args:
        names: of the columns.
        patterns: kinds of a row's values, a letter a column: ``f`` float, ``i`` integer, ``b`` truth value, ``o``
            another one; ``n`` None, ``z`` 0.0, ``u`` 1.0, ``0`` the integer 0, of which no number is stored.
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
        if self.numbers.typecode + self.kinds.typecode not in ("dB", "dI"):
            raise ValueError("a table of figures has numbers of another type")
        if any(len(each) != width or not {*each} <= _KINDS.keys() for each in self.patterns):
            raise ValueError("a table of figures has other types than columns")
        if count and max(self.kinds) >= len(self.patterns):
            raise ValueError("a row of figures has types that its table does not name")
        if any(not 0 <= number < count or len(row) != width for number, row in self.aside.items()):
            raise ValueError("a row of figures is not one of its table")
        patterns = [_Pattern(tuple(map(_KINDS.__getitem__, each))) for each in self.patterns]
        if len(self.numbers) != sum(patterns[kind].width * rows for kind, rows in Counter(self.kinds).items()):
            raise ValueError("a table of figures has not as many numbers as its rows")
        table.take_over(self.numbers, self.kinds, patterns, self.aside)
        if any(pattern.others for pattern in patterns) and not all(map(table.is_sound, range(count))):
            raise ValueError("an integer in a table of figures is none")


class FigureTable:
    """Rows of figures under the same names. A row is added once and never changes.

    Args:
        names: of the columns.
        numbers: holds the numbers; others may be added to it (``frombytes``).
    """

    __slots__ = ("_aside", "_begins", "_kinds", "_known", "_numbers", "_patterns", "names", "places", "width")

    def __init__(self, names: tuple[str, ...], numbers: Numbers | None = None) -> None:
        self.names = names
        self.places: Mapping[str, int] = {name: place for place, name in enumerate(names)}
        self.width = len(names)
        self._numbers: Numbers = array("d") if numbers is None else numbers
        self._kinds: Integers = array("B")  # of each row: the number of its pattern
        self._begins: Integers | None = None  # of each row: its first number; None while all rows have one pattern
        self._patterns: list[_Pattern] = []
        self._known: dict[tuple[_Kind, ...], int] = {}
        self._aside: dict[int, tuple[Value, ...]] = {}

    def __len__(self) -> int:
        return len(self._kinds)

    def add(self, values: Sequence[Value]) -> int:
        """Add a row, one value a column, and return its number.

        What is no number, or an integer that float64 cannot hold, is stored as it is.

        Raises:
            ValueError: another number of values than of columns.
        """
        kinds = _kinds_of(values)
        number, known = len(self._kinds), self._known.get(kinds)
        if known is None:
            if len(kinds) != self.width:
                raise ValueError(f"{len(kinds)} values for {self.width} columns")
            known = self._add_pattern(kinds)
        pattern = self._patterns[known]
        stored: Sequence[Any] = values if pattern.is_plain else pattern.pick(values)
        if pattern.others:
            stored = list(map(_number, stored))
            if None in stored:
                self._aside[number], stored = tuple(values), [0.0] * pattern.width
        if self._begins is None and known:
            self._begins = _places([self._patterns[0].width * before for before in range(number)])
        if self._begins is not None:
            try:
                self._begins.append(len(self._numbers))
            except OverflowError:  # 32 GiB of numbers
                self._begins = array("Q", [*self._begins, len(self._numbers)])
        self._growing().frombytes(pattern.packing.pack(*stored))
        self._kinds.append(known)
        return shared_numbers(number + 1)[number]

    def extend(self, values: NDArray[np.float64]) -> int:
        """Add rows of floats, one value a column, and return the number of the first; as `add` for each, but faster."""
        import numpy as np

        first = len(self._kinds)
        codes = np.where(values == 1.0, 2, (values == 0.0) & ~np.signbit(values)).astype(np.int64)
        keys = [bytes(row) for row in codes.astype(np.uint8)]
        numbers = {key: self._number_of(tuple(map(_FLOATS.__getitem__, key))) for key in dict.fromkeys(keys)}
        kinds = np.array([numbers[key] for key in keys], dtype=np.intc)
        is_stored = np.array([[slot != _NO_SLOT for slot in pattern.slots] for pattern in self._patterns])
        widths = np.array([pattern.width for pattern in self._patterns], dtype=np.int64)[kinds]
        if self._begins is None and kinds.any():
            self._begins = _places([self._patterns[0].width * before for before in range(first)])
        if self._begins is not None:
            begins = (len(self._numbers) + np.cumsum(widths) - widths).tolist()
            try:
                self._begins.extend(begins)
            except OverflowError:
                self._begins = array("Q", [*self._begins[:first], *begins])
        self._growing().frombytes(values[is_stored[kinds]].tobytes())
        self._kinds.frombytes(kinds.astype(self._kinds.typecode).tobytes())
        return first

    def put_away(self, put: Callable[[Numbers], Numbers]) -> None:
        """Have the numbers elsewhere, where what ``put`` returns reads them; best once all rows are in."""
        self._numbers = put(self._numbers)

    def _growing(self) -> Any:
        if not hasattr(self._numbers, "frombytes"):
            self._numbers = self._numbers[:]
        return self._numbers

    def _number_of(self, kinds: tuple[_Kind, ...]) -> int:
        known = self._known.get(kinds)
        return self._add_pattern(kinds) if known is None else known

    def _add_pattern(self, kinds: tuple[_Kind, ...]) -> int:
        if len(self._patterns) >= _MOST_PATTERNS:
            kinds = tuple(type(kind.value) if isinstance(kind, _Exactly) else kind for kind in kinds)
            if kinds in self._known:
                return self._known[kinds]
        pattern = self._known[kinds] = len(self._patterns)
        self._patterns.append(_Pattern(kinds))
        if pattern == _OF_ONE_BYTE:
            self._kinds = array("I", self._kinds)
        return pattern

    def stored(self) -> StoredTable:
        """Return the table as a file has it; the numbers are its own."""
        patterns = tuple("".join(_LETTERS.get(kind, _OTHER) for kind in each.kinds) for each in self._patterns)
        return StoredTable(self.names, patterns, cast("Floats", self._numbers), self._kinds, self._aside)

    def take_over(
        self,
        numbers: Floats,
        kinds: Integers,
        patterns: Sequence[_Pattern],
        aside: Mapping[int, tuple[Any, ...]],
    ) -> None:
        """Take over rows that a file had; the table must be a new one."""
        self._numbers, self._aside = numbers, dict(aside)
        self._kinds = array("B", kinds) if len(patterns) <= _OF_ONE_BYTE else kinds
        self._patterns = [*patterns]
        self._known = {each.kinds: number for number, each in enumerate(patterns)}
        if any(kinds):
            self._begins = _places([0, *accumulate(patterns[kind].width for kind in kinds)][:-1])

    @property
    def firsts(self) -> Integers | None:
        """Where in the numbers those of each row begin; None where all rows have as many."""
        return self._begins

    def is_sound(self, number: int) -> bool:
        """Whether what a row has as integers and truth values are such."""
        pattern, first = self._patterns[self._kinds[number]], self._first(number)
        stored = (self._numbers[first + pattern.slots[place]] for place, _ in pattern.others)
        return number in self._aside or all(map(float.is_integer, stored))

    def _first(self, number: int) -> int:
        """Return where the numbers of a row begin."""
        begins = self._begins
        return self._patterns[self._kinds[number]].width * number if begins is None else begins[number]

    def part(self, number: int, begin: int, end: int) -> Sequence[Value]:
        """Return the values of a row in some columns, by their places."""
        pattern, first = self._patterns[self._kinds[number]], self._first(number)
        if self._aside and number in self._aside:
            return self._aside[number][begin:end]
        numbers = self._numbers[first + pattern.begins[begin] : first + pattern.begins[end]]
        return numbers if pattern.is_plain else pattern.row(numbers, begin, end)

    def row(self, number: int) -> Sequence[Value]:
        """Return all values of a row."""
        begins = self._begins
        pattern = self._patterns[0 if begins is None else self._kinds[number]]
        if not pattern.is_plain or self._aside:
            return self.part(number, 0, self.width)
        first = pattern.width * number if begins is None else begins[number]
        numbers = self._numbers
        if isinstance(numbers, array):
            return pattern.packing.unpack_from(numbers, _BYTES_OF_NUMBER * first)
        return numbers[first : first + pattern.width]

    def value(self, number: int, place: int) -> Value:
        """Return the value of a row in one column, by its place."""
        pattern = self._patterns[self._kinds[number]]
        slot = pattern.slots[place]
        if slot == _NO_SLOT:
            return pattern.constants[place]
        if self._aside and number in self._aside:
            return self._aside[number][place]
        found, kind = self._numbers[self._first(number) + slot], pattern.kinds[place]
        return found if kind is float else cast("Value", cast("type", kind)(found))


def _places(begins: Sequence[int]) -> Integers:
    """Return first places in numbers, in 4 bytes each where that is enough."""
    try:
        return array("I", begins)
    except OverflowError:
        return array("Q", begins)


def _number(value: Value) -> float | None:
    """Return what a value is stored as; None where no number holds it exactly."""
    if value is None:
        return 0.0
    if value.__class__ is float or value.__class__ is bool:
        return value
    return value if value.__class__ is int and -_EXACT <= value <= _EXACT else None
