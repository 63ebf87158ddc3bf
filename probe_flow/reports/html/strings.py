"""Texts of the HTML report by number."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from probe_flow.reports.numbering import Numbering

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
