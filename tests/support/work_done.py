"""How much work code does, counted and not timed: the same on every machine, under any load."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(work: Callable[[], object], *, within: str = "probe_flow") -> int:
    """Call ``work`` and return how many lines of the package ``within`` ran, each turn of a loop by itself.

    Loops inside functions written in C are not seen; neither is what other threads do.
    """
    ran = 0

    def in_frame(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal ran
        ran += event == "line"
        return in_frame

    def on_call(frame: FrameType, _event: str, _argument: Any) -> Any:
        name = frame.f_globals.get("__name__", "")
        return in_frame if name.partition(".")[0] == within else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        work()
    finally:
        sys.settrace(before)
    return ran


def growth(work: Callable[[int], Callable[[], object]], size: int) -> float:
    """Return how many times the lines are that run at twice ``size``: 2 if the work is linear, 4 if quadratic.

    ``work(size)`` prepares the work, which is not counted, and returns what is to be called.
    """
    return lines_run(work(2 * size)) / lines_run(work(size))
