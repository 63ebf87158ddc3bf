"""The records that a file may hold are those that the declared types lead to, as Python evaluates them."""

from __future__ import annotations

import enum
from typing import Any, get_args

from msgspec import Struct

from probe_flow.record.stored.kinds import KINDS, hints_of, stored_as
from probe_flow.records import Comparison, FigureTable


def declared(kind: Any, known: dict[type, None]) -> None:
    """Note the records and words that a declared type is made of, in their order."""
    for part in get_args(kind):
        declared(part, known)
    if not isinstance(kind, type) or kind in known:
        return
    if issubclass(kind, FigureTable):
        declared(stored_as(kind), known)
    elif issubclass(kind, (Struct, enum.Enum)):
        known[kind] = None
        for part in () if issubclass(kind, enum.Enum) else hints_of(kind):
            declared(part, known)


def test_the_kinds_are_all_that_a_comparison_is_made_of() -> None:
    found: dict[type, None] = {}
    declared(Comparison, found)

    assert [kind.__name__ for kind in KINDS] == [kind.__name__ for kind in found]
    assert list(found) == list(KINDS)
