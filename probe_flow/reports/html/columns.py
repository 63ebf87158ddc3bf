"""Rows as columns of JSON for the HTML report: made a stretch of rows at a time, so that no column's cells are held."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import sub
from typing import Any, TypeVar

import pydantic_core

from probe_flow.record.json_values import json_value

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
