"""Values that several records share: figures with their words for NaN and infinities, counts, ids, shapes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

Word: TypeAlias = Literal["nan", "inf", "-inf"]
"""How JSON spells the numbers that it lacks."""

Figure: TypeAlias = bool | int | float | Word | None
"""A number as it is published. `json_values.number` reads it, `json_values.json_number` makes it."""

Count: TypeAlias = Annotated[int, Meta(ge=0)]

Graph: TypeAlias = int | str | None
"""Id of a graph; None where the dump names none."""

Shape: TypeAlias = tuple[Count, ...] | None
"""Logical shape; empty for a scalar, None where it is not known."""

Anything: TypeAlias = Any
"""Any value of JSON: what a dump or a user wrote."""


class Record(Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """A stored object; fields stand in the order in which they are published.

    A field with a default is published only where it says something else.
    """
