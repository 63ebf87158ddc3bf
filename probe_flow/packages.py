"""What installed packages add to ours, by entry point: found once, and loaded when it is used.

Finding reads a file of each package and imports none.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import metadata
from importlib.metadata import EntryPoint, EntryPoints
from typing import Protocol

__all__ = ["EntryPoint", "PackageError", "entry_points", "load", "named"]


class PackageError(Exception):
    """An entry point that cannot be loaded; its text says why."""


class _Selectable(Protocol):
    """All entry points: of another type before Python 3.12."""

    def select(self, *, group: str) -> EntryPoints: ...


def entry_points(group: str) -> EntryPoints:
    """Return the entry points of a group, as of the first call with the present search path."""
    return _on(tuple(sys.path)).select(group=group)


def load(entry: EntryPoint) -> object:
    """Import what an entry point names, and return it.

    Raises:
        PackageError: whatever goes wrong in the package, an exit of the program included.
    """
    try:
        return entry.load()
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # code of others: SystemExit must not end a command as if it were done
        raise PackageError(f"{type(error).__name__}: {error}") from error


def named(entry: EntryPoint) -> str:
    """Return an entry point in words, with the package that it belongs to where that is known."""
    package = f" of the package `{entry.dist.name}`" if entry.dist is not None else ""
    return f"entry point `{entry.name} = {entry.value}`{package}"


@cache
def _on(search_path: tuple[str, ...]) -> _Selectable:  # noqa: ARG001  # what is found depends on it
    return metadata.entry_points()
