"""Write long result files beside the run: a forked child makes each of them while the run goes on.

The child sees what the run has, so nothing is copied or pickled. It writes the file in a folder of its own; the run
puts it in its place. The bytes are those that the run would write: whatever goes wrong with a child costs only time,
for the file is then written here, and what is wrong with the file itself shows then.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from probe_flow.files.atomic import put_in_place
from probe_flow.files.leftovers import temporary_path
from probe_flow.files.machine import KILL_S, free_memory, own_memory, usable_cpus

MIN_ROWS: Final = 10_000
"""Rows below which a child hardly pays: it copies whatever memory both touch, some hundredths of a second."""

WRITE_S: Final = 600.0
"""Seconds that a child gets for its file from when the run waits for it; the run writes the file itself then."""

LOOK_S: Final = 0.005
"""Seconds between two looks at a child that the run waits for."""

MAX_SHARE: Final = 0.25
"""Most of the memory that is left that the children may fill: each may copy what the run has."""


def _nothing() -> None:
    """Do nothing: there is nothing to let go of, or to wait for."""


def _nothing_of(path: Path) -> None:
    """Do nothing."""


@dataclass(slots=True)
class _Child:
    """One child, the folder in which it writes, and how it ended (`os.waitpid`); None while it runs."""

    folder: Path
    number: int | None = None
    status: int | None = None


class Beside:
    """The children of one run.

    Args:
        in_child: what each child does first: it lets go of what its parent alone may hold.
        announce: hears of every file before it is begun.

    There are never more of them than CPUs, and none on a single CPU, in a process with other threads, or where memory
    is short: files are written at once then.
    """

    def __init__(self, in_child: Callable[[], None] = _nothing, announce: Callable[[Path], None] = _nothing_of) -> None:
        self._in_child = in_child
        self._announce = announce
        self._children: list[_Child] = []

    def close(self) -> None:
        """End the children that nobody waited for."""
        for child in self._children[:]:
            self._forget(child)

    def begin(self, write: Callable[[Path], None], path: Path, *, rows: int) -> Callable[[], None]:
        """Begin to write a file; return what waits until it is there. See `probe_flow.work.Files`."""
        self._announce(path)
        child = self._begun(write, path) if rows >= MIN_ROWS and self._may_fork() else None
        if child is None:
            write(path)
            return _nothing
        return lambda: self._end(child, write, path)

    def _begun(self, write: Callable[[Path], None], path: Path) -> _Child | None:
        """Fork a child that writes the file; None where that is refused."""
        child = _Child(temporary_path(path))
        self._children.append(child)  # before there is anything of it: a signal may end this anywhere
        parent = os.getpid()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            child.folder.mkdir(mode=0o700)
            child.number = _fork()
        except OSError:
            child.number = None
        if child.number == 0:
            _write_and_leave(write, child.folder / path.name, parent=parent, first=self._in_child)
        if child.number is None:
            self._forget(child)
            return None
        return child

    def _end(self, child: _Child, write: Callable[[Path], None], path: Path) -> None:
        """Wait for a child and put its file in place; write the file here if there is none."""
        is_there = self._await(child, WRITE_S) and child.status == 0
        if is_there:
            try:
                put_in_place(child.folder / path.name, path)
            except OSError:
                is_there = False
        self._forget(child)
        if not is_there:
            write(path)

    def _may_fork(self) -> bool:
        """Whether another child is safe, has a processor, and memory enough."""
        if not sys.platform.startswith("linux") or threading.active_count() > 1:
            return False
        cpus = usable_cpus()
        running = sum(not self._has_ended(child) for child in self._children)
        return cpus > 1 and running < cpus and (running + 1) * own_memory() < MAX_SHARE * free_memory()

    def _await(self, child: _Child, timeout_s: float) -> bool:
        """Wait for the end of a child; return whether it ended in time."""
        end_s = time.monotonic() + timeout_s
        while not self._has_ended(child):
            if time.monotonic() >= end_s:
                return False
            time.sleep(LOOK_S)
        return True

    def _has_ended(self, child: _Child) -> bool:
        """Return whether a child ended."""
        if child.number is None:
            return True
        if child.status is None:
            try:
                number, status = os.waitpid(child.number, os.WNOHANG)
            except ChildProcessError:  # somebody else waited for it
                number, status = child.number, -1
            child.status = status if number else None
        return child.status is not None

    def _forget(self, child: _Child) -> None:
        """End a child, if it has not ended, and remove what it leaves."""
        if child.number is not None and not self._has_ended(child):
            with suppress(ProcessLookupError):
                os.kill(child.number, signal.SIGKILL)
            self._await(child, KILL_S)
        _remove(child.folder)
        self._children.remove(child)  # last: where a signal ends this, `close` does it again


def _fork() -> int | None:
    """Return the child's number in the parent, 0 in the child, None where there is no child."""
    with warnings.catch_warnings():
        # Python warns of any thread of a library. The child calls none of those: it makes text and ends.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return os.fork()
        except OSError:
            return None


def _write_and_leave(
    write: Callable[[Path], None], path: Path, *, parent: int, first: Callable[[], None] = _nothing
) -> None:
    """Write a file in the child, then end it without any of the parent's clean-up: files and locks are not its own."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the run still wants this file
        first()
        gc.disable()  # a collection would touch, and so copy, all that the parent has
        write(path)
        code = 0
        if os.getppid() != parent:  # the run was killed, and another may use its folder already
            _remove(path.parent)
    finally:  # whatever goes wrong here is found again by the parent
        os._exit(code)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
