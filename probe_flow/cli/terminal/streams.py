"""Standard streams that take every text, also of a process that was started without some of them (`>&-`)."""

from __future__ import annotations

import io
import os
import sys

_STREAMS = (("stdin", "r", 0), ("stdout", "w", 1), ("stderr", "w", 2))


def prepare_streams() -> None:
    r"""Open the streams that are missing, and let the others take every character.

    Names of files need not be text, and a terminal need not know ours: what cannot be written becomes ``\udcNN``, which
    is also how JSON spells it.
    """
    _open_missing()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _open_missing() -> None:
    """Open the null device for each standard stream that is closed: nothing is read from it, and what is said is lost.

    It takes the place of the descriptor too, so that no other file of the process, or of a child, ends up there.
    """
    for name, mode, descriptor in _STREAMS:
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123 - open until the process ends
            if stream.fileno() == descriptor:
                os.set_inheritable(descriptor, True)  # noqa: FBT003 - takes no name
            setattr(sys, name, stream)
