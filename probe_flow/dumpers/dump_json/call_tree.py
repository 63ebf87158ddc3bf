"""Which module a call runs in, as construct.json says: modules that are open, of each thread."""

from __future__ import annotations

import threading


class CallTree:
    """The open modules of a step, and the parent of each module that ran.

    A module that begins where none is open (another thread runs the backward pass, say) belongs to the last open one
    whose path its own continues.
    """

    def __init__(self) -> None:
        self.parents: dict[str, str | None] = {}
        self._open: dict[int, list[str]] = {}
        self._all_open: dict[str, None] = {}

    def current(self) -> str | None:
        """Return the innermost open module of this thread."""
        stack = self._open.get(threading.get_ident())
        return stack[-1] if stack else None

    def begin(self, name: str) -> None:
        """Note that a module began, forward or backward."""
        stack = self._open.setdefault(threading.get_ident(), [])
        self.parents[name] = stack[-1] if stack else self._above(name)
        self._all_open[name] = None
        stack.append(name)

    def end(self, name: str) -> None:
        """Note that it ended, and with it whatever in it did not come to an end."""
        self._all_open.pop(name, None)
        stack = self._open.get(threading.get_ident(), [])
        if name in stack:
            del stack[stack.index(name) :]

    def _above(self, name: str) -> str | None:
        path = name.split(".")[:-4]
        if len(path) < 2:
            return None
        for other in reversed(self._all_open):
            parts = other.split(".")
            if len(parts) >= 5 and parts[:-3] == path:
                return other
        return None
