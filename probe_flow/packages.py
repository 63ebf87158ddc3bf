"""What installed packages add to ours, by entry point. A look reads a file of each of them, so there is only one."""

from __future__ import annotations

import sys
from functools import cache
from importlib import metadata
from importlib.metadata import EntryPoint, EntryPoints
from typing import Protocol

__all__ = ["EntryPoint", "entry_points"]


class _Selectable(Protocol):
    """All entry points: of another type before Python 3.12."""

    def select(self, *, group: str) -> EntryPoints: ...


def entry_points(group: str) -> EntryPoints:
    """Return the entry points of a group, as of the first call with the present search path."""
    return _on(tuple(sys.path)).select(group=group)


@cache
def _on(search_path: tuple[str, ...]) -> _Selectable:  # noqa: ARG001  # what is found depends on it
    return metadata.entry_points()
