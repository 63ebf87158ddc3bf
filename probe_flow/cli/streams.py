"""Standard streams of a process that was started without some of them, as by `>&-` or by a service manager."""

from __future__ import annotations

import os
import sys

_STREAMS = (("stdin", "r", 0), ("stdout", "w", 1), ("stderr", "w", 2))


def open_missing_streams() -> None:
    """Open the null device for each standard stream that is closed: nothing is read from it, and what is said is lost.

    It takes the place of the descriptor too, so that no other file of the process, or of a child, ends up there.
    """
    for name, mode, descriptor in _STREAMS:
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123 - open until the process ends
            if stream.fileno() == descriptor:
                os.set_inheritable(descriptor, True)  # noqa: FBT003 - takes no name
            setattr(sys, name, stream)
