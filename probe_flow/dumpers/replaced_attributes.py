"""Attributes of a framework that something stands in for while a dump is made, and are put back as they were."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

_ABSENT = object()


class _Before(Struct, frozen=True):
    """An attribute that was replaced, and what its owner itself had there."""

    owner: Any
    name: str
    value: Any


class ReplacedAttributes:
    """What was replaced so far; `restore` puts it back, the last one first."""

    def __init__(self) -> None:
        self._before: list[_Before] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Give an attribute another value. One that its owner only inherits is taken off again by `restore`."""
        self._before.append(_Before(owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def restore(self) -> None:
        """Put everything back."""
        while self._before:
            each = self._before.pop()
            if each.value is _ABSENT:
                delattr(each.owner, each.name)
            else:
                setattr(each.owner, each.name, each.value)
