"""The answer to a question with a name or a part of one: what it means first in full, the others by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct, field

from probe_flow.record.places import printable

MAX_OTHERS = 20
"""Names listed of what is not shown."""


class _Shown(Protocol):
    def data(self) -> dict[str, Any]:
        """Return the view as JSON."""


View = TypeVar("View", bound=_Shown)


class NamedAnswer(Struct, Generic[View]):
    """What a run knows of what a name means.

    Args:
        wanted: what was asked.
        how: how the names were found, see `NamesFound`.
        views: the first ones, in full.
        others: names of the others, each once.
        matching: how many the name means.
    """

    wanted: str
    how: str
    views: list[View] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    matching: int = 0

    def data(self, *, shown: str, counted: str) -> dict[str, Any]:
        """Return the answer as JSON.

        Args:
            shown: what the views are, ``nodes`` or ``tensors``.
            counted: what `matching` counts, ``nodes`` or ``rows``.
        """
        return {
            "wanted": self.wanted,
            "found_by": self.how,
            shown: [view.data() for view in self.views],
            "others": self.others,
            f"matching_{counted}": self.matching,
        }

    def lines(self, view_lines: Callable[[View], Iterator[str]], *, counted: str, where: str) -> Iterator[str]:
        """Yield the answer for a person.

        Args:
            view_lines: the lines of a view.
            counted: what `matching` counts.
            where: which names hold a part that was asked.
        """
        if self.how == "part":
            yield f"{self.matching} {counted} have `{printable(self.wanted)}` in {where}"
            yield ""
        for place, view in enumerate(self.views):
            if place:
                yield ""
            yield from view_lines(view)
        rest = self.matching - len(self.views)
        if rest > 0:
            yield ""
            shown = ", ".join(printable(name) for name in self.others[:MAX_OTHERS])
            more = " ..." if len(self.others) > MAX_OTHERS else ""
            yield f"{rest} more {counted}" + (f": {shown}{more}" if shown else " of these names, in other executions")
            yield "  name one in full, or narrow by `--call`, `--rank`, `--step` and `--graph`"
