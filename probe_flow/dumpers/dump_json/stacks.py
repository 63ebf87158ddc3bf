"""Where in the source a call was made: frames as text, each line of code looked up once."""

from __future__ import annotations

import linecache
import sys
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
