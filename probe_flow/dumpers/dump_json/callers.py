"""Who called what: the modules that a call runs in (construct.json), and the lines of source (stack.json)."""

from __future__ import annotations

import linecache
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType

_OURS = str(Path(__file__).resolve().parent.parent) + "/"
"""Frames of the dumpers say nothing of the user's program."""


class Stacks:
    """Stacks of a dump, equal ones shared: a call in a loop has one."""

    def __init__(self) -> None:
        self._frames: dict[tuple[CodeType, int], str | None] = {}
        self._stacks: dict[tuple[tuple[CodeType, int], ...], tuple[str, ...]] = {}

    def here(self) -> tuple[str, ...]:
        """Return the frames of the caller, innermost first, without those of the dumper."""
        places = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            places.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        key = tuple(places)
        found = self._stacks.get(key)
        if found is None:
            texts = (self._text(place) for place in key)
            found = self._stacks[key] = tuple(text for text in texts if text is not None)
        return found

    def _text(self, place: tuple[CodeType, int]) -> str | None:
        if place not in self._frames:
            self._frames[place] = _frame_text(*place)
        return self._frames[place]


def _frame_text(code: CodeType, line: int) -> str | None:
    """Return a frame as stack.json has it; None for one of ours, and for code without source."""
    if code.co_filename.startswith(_OURS):
        return None
    source = linecache.getline(code.co_filename, line).strip()
    return f"File {code.co_filename}, line {line}, in {code.co_name}, \n {source}" if source else None


class CallTree:
    """The open modules of a step, and the parent of each module that ran.

    A module that begins where none is open (another thread runs the backward pass, say) belongs to the last open one
    whose path its own continues.
    """

    def __init__(self) -> None:
        self._untold: dict[str, str | None] = {}
        self._open: dict[int, list[str]] = {}
        self._all_open: dict[str, None] = {}

    def current(self) -> str | None:
        """Return the innermost open module of this thread."""
        stack = self._open.get(threading.get_ident())
        return stack[-1] if stack else None

    def begin(self, name: str) -> None:
        """Note that a module began, forward or backward."""
        stack = self._open.setdefault(threading.get_ident(), [])
        self._untold[name] = stack[-1] if stack else self._above(name)
        self._all_open[name] = None
        stack.append(name)

    def tell(self, parents: dict[str, str | None]) -> None:
        """Add the parents of the modules that began since the last time."""
        parents.update(self._untold)
        self._untold.clear()

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
