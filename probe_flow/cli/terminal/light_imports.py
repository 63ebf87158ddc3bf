"""Import structlog without what it offers to programs that log to a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType


def import_structlog() -> None:
    """Import structlog, and neither rich nor asyncio, which take most of the time of its import.

    It looks for rich to draw tracebacks, and uses asyncio in coroutines of its own; here it writes JSON lines. Only for
    a process that is ours: in one that belongs to somebody else, structlog is what they expect.
    """
    with _without("rich"), _put_off("asyncio"):
        import structlog  # noqa: F401


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Let an optional package be missing, unless it is loaded already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # its import raises, as Python documents
    try:
        yield
    finally:
        del sys.modules[name]


@contextmanager
def _put_off(name: str) -> Iterator[None]:
    """Give whoever imports a package now one that imports it once it is used; later imports get the package itself."""
    if name in sys.modules:
        yield
        return
    stand_in = ModuleType(name)
    stand_in.__getattr__ = lambda attribute: getattr(import_module(name), attribute)  # type: ignore[method-assign]
    sys.modules[name] = stand_in
    try:
        yield
    finally:
        del sys.modules[name]
