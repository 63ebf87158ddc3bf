"""Where each value of a YAML file was written: a tree of places parallel to the tree of values."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec import Struct, field

from probe_flow.errors import Span

Loc: TypeAlias = tuple[str | int, ...]
"""Keys and list indices from the root of a file to a value."""


class Hole:
    """A value that could not be found out and was reported; what depends on it is not reported again."""

    def __repr__(self) -> str:
        return "unknown"


HOLE: Final = Hole()


class Place(Struct, frozen=True):
    """Place of one value.

    Args:
        span: of the value; of the alias where one is used.
        key: of its key in the mapping around it; None in a list and at the root.
        children: places of the values inside, by key or index.
        definition: of the anchored value, where the value is an alias.
        folder: absolute folder that a relative path in this value starts from, where it is not its file's own.
    """

    span: Span
    key: Span | None = None
    children: Mapping[str | int, Place] = field(default_factory=lambda: MappingProxyType({}))
    definition: Span | None = None
    folder: str | None = None

    @property
    def name_span(self) -> Span:
        """The key where there is one, else the value."""
        return self.key or self.span


def nearest(place: Place, loc: Loc) -> Place:
    """Return the place of a location, or of its deepest ancestor that was written."""
    for step in loc:
        child = place.children.get(step)
        if child is None:
            break
        place = child
    return place
