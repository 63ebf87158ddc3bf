"""Rows as columns for the HTML report: texts stand once, what all rows share is written once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


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

    def places(self, texts: Sequence[str | None]) -> list[int | None]:
        """Return the places of many texts."""
        return mapped(texts, self.place)

    def lists(self, lists: Sequence[tuple[str, ...]]) -> list[int | None]:
        """Return the places of lists of texts, each list as one text of lines."""
        return mapped(lists, lambda texts: self.place("\n".join(texts)))


def mapped(cells: Iterable[_T], function: Callable[[_T], _R]) -> list[_R]:
    """Return ``function`` of every cell, called once for cells that are equal, in order of appearance."""
    known = list(cells)
    made = {cell: function(cell) for cell in dict.fromkeys(known)}
    return [made[cell] for cell in known]


def packed_columns(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns without those that have no value."""
    return {name: column for name, column in columns.items() if column is not None}


def packed(cells: Sequence[Any]) -> Any:
    """Return the one value that all cells have (None when there are no cells), else the cells as a list."""
    if not cells:
        return None
    first = cells[0]
    if cells.count(first) < len(cells):
        return list(cells)
    is_one_type = len(set(map(type, cells))) == 1  # True == 1, but they are not the same cell
    return first if is_one_type else list(cells)


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
