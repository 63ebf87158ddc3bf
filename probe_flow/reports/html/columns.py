"""Rows as columns of JSON for the HTML report: made a stretch of rows at a time, so that no column's cells are held.

Texts go by number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

import pydantic_core

from probe_flow.record.json_values import json_value
from probe_flow.reports.html.packing import Piece, compressed
from probe_flow.reports.numbering import Numbering

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Places: TypeAlias = NDArray[np.intp]

_T = TypeVar("_T")
_R = TypeVar("_R")

ROWS_AT_ONCE = 8192
"""Longer stretches take more memory and are not faster."""

TEXTS_AT_ONCE = 256
"""They may have thousands of characters."""

Pieces = Iterable[Piece]
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


def object_pieces(members: Iterable[Member]) -> Iterator[Piece]:
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


def list_pieces(cells: Iterable[Sequence[Any]]) -> Iterator[Piece]:
    """Yield a list, given a stretch at a time."""
    before = b"["
    for stretch in cells:
        yield before + json_bytes(stretch)[1:-1]
        before = b","
    yield b"]" if before == b"," else b"[]"


class Column:
    """A column in the making: the one value that all cells have, nothing when there is none, else a list.

    It holds JSON, since a number is 5 to 12 bytes as text and 32 as an object, and that compressed, as it goes into the
    file.
    """

    _begin, _end = b"[", b"]"

    def __init__(self) -> None:
        self._first: Any = None
        self._equal = 0
        self._pieces: list[Piece] = []

    def add(self, cells: Sequence[Any]) -> None:
        """Add a stretch of cells."""
        if not len(cells):
            return
        if not self._pieces:
            if not self._equal:
                self._first = cells[0]
            if self._all_are(cells, self._first):
                self._equal += len(cells)
                return
            for start in range(0, self._equal, ROWS_AT_ONCE):
                self._write(self._repeated(min(ROWS_AT_ONCE, self._equal - start)))
        self._write(cells)

    def pieces(self) -> Pieces | None:
        """Return the column's JSON, None where no cell has a value."""
        if self._pieces:
            return chain(self._pieces, (self._end,))
        value = self._shown(self._first)
        return None if value is None else (json_bytes(value),)

    def _write(self, cells: Sequence[Any]) -> None:
        text = (b"," if self._pieces else self._begin) + json_bytes(self._written(cells))[1:-1]
        self._pieces.append(compressed(text))

    def _repeated(self, count: int) -> Sequence[Any]:
        return [self._first] * count

    @staticmethod
    def _all_are(cells: Sequence[Any], value: object) -> bool:
        """Return True if all cells are this value; True and 1 are equal, but not the same cell."""
        return (
            cells[-1] == value  # mostly not, and then there is no need to count
            and cells.count(value) == len(cells)
            and set(map(type, cells)) == {type(value)}
        )

    @staticmethod
    def _shown(value: Any) -> Any:
        return value

    def _written(self, cells: Sequence[Any]) -> Sequence[Any]:
        return cells


NO_PLACE = -(2**63)
"""The place of nothing: the number of an order of execution may be below 0."""


class PlaceColumn(Column):
    """A column of places; a list of them is ``{"steps": [...]}``: what to add to the place before, None for no place.

    Rows mostly name what the rows before them named, or the next new thing: steps compress to almost nothing.
    """

    _begin, _end = b'{"steps":[', b"]}"

    def __init__(self) -> None:
        super().__init__()
        self._before = 0

    def _repeated(self, count: int) -> Sequence[Any]:
        import numpy as np

        return cast("Sequence[Any]", np.full(count, self._first))

    @staticmethod
    def _all_are(cells: Any, value: object) -> bool:
        return bool((cells == value).all())

    @staticmethod
    def _shown(value: Any) -> Any:
        return None if value is None or value == NO_PLACE else int(value)

    def _written(self, cells: Any) -> list[int | None]:
        import numpy as np

        are_places = cells != NO_PLACE
        places = cells[are_places]
        steps: list[int] = np.diff(places, prepend=self._before).tolist()
        if steps:
            self._before = int(places[-1])
        if len(steps) == len(cells):
            return list(steps)
        found = iter(steps)
        return [next(found) if is_place else None for is_place in are_places.tolist()]


def packed(cells: Iterable[Sequence[Any]]) -> Pieces | None:
    """Return a column of these cells, given a stretch at a time."""
    column = Column()
    for stretch in cells:
        column.add(stretch)
    return column.pieces()


class Columns:
    """Columns that are made together: of each stretch of rows the cells of every column."""

    def __init__(self) -> None:
        self._columns: dict[str, Column] = {}

    def add(self, **cells: Sequence[Any]) -> None:
        """Add a stretch to columns, by name."""
        self._add(Column, cells)

    def add_places(self, **places: Places) -> None:
        """Add a stretch to columns of places."""
        self._add(PlaceColumn, places)

    def _add(self, kind: type[Column], cells: Mapping[str, Any]) -> None:
        for name, some in cells.items():
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = kind()
            column.add(some)

    def members(self) -> Iterator[Member]:
        """Yield the columns, in the order in which they were begun."""
        return ((name, column.pieces()) for name, column in self._columns.items())


class Strings:
    """Texts, each once, by their place."""

    def __init__(self) -> None:
        self._known = Numbering[str]()

    @property
    def texts(self) -> Sequence[str]:
        """The texts in order of their places."""
        return self._known.things

    def place(self, text: str | None) -> int:
        """Return the place of a text; `NO_PLACE` for no text (None or empty)."""
        return self._known.number(text) if text else NO_PLACE

    def places(self, texts: Sequence[str | None]) -> Places:
        """Return the places of many texts."""
        return Alike(texts, texts).places(self.place)

    def lists(self, lists: Sequence[tuple[str, ...]]) -> Places:
        """Return the places of lists of texts, each list as one text of lines."""
        return Alike(lists, lists).places(lambda texts: self.place("\n".join(texts)))


class Alike(Generic[_T]):
    """Things of which many are alike: what is asked of all is asked of one of each kind, in order of appearance.

    Args:
        keys: equal for things that are alike.
        things: as many.
    """

    def __init__(self, keys: Sequence[Hashable], things: Sequence[_T]) -> None:
        self._keys = keys
        self._kinds = dict(zip(keys, things, strict=True))

    @cached_property
    def _numbers(self) -> Places:
        """The number of the kind of each thing."""
        import numpy as np

        if len(self._kinds) == 1:
            return np.zeros(len(self._keys), dtype=np.intp)
        number = dict(zip(self._kinds, range(len(self._kinds)), strict=True))
        return np.fromiter(map(number.__getitem__, self._keys), np.intp, len(self._keys))

    def places(self, of: Callable[[_T], int]) -> Places:
        """Return the place that each thing has."""
        import numpy as np

        return np.fromiter(map(of, self._kinds.values()), np.intp, len(self._kinds))[self._numbers]

    def cells(self, of: Callable[[_T], _R]) -> list[_R]:
        """Return what is asked of each thing."""
        found = list(map(of, self._kinds.values()))
        if len(found) == 1:
            return found * len(self._keys)
        return list(map(found.__getitem__, self._numbers.tolist()))
