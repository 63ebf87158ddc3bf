"""Contents of small files, held from the reading of a dump to the measuring, so that each is opened once for both.

A content belongs to what the file system said of its file then: whatever becomes of the file, a result measured of the
content is a result of the file with that size, those times and that inode. Files that are too young for their times to
tell are not held.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

HELD_BYTES = 16 * 2**20
"""Contents that a run holds, with `ENTRY_BYTES` for each. Files that come later are opened again to be measured."""

ENTRY_BYTES = 600
"""What holding a file takes besides its content: path, times, entry."""

SETTLE_NS = 2_000_000_000
"""A file younger than this may be rewritten within the same tick of its clock: its times do not tell it from before."""


class FileState(NamedTuple):
    """What tells a file from what it was before somebody wrote it anew, and from others at its path.

    Size and modification time alone do not: `cp -p`, `rsync -t` and `tar` set that time as they like. The time of
    change is the kernel's own.
    """

    size: int
    modified_ns: int
    changed_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileState:
        """Return the state of a file of which the file system says this."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)

    @property
    def is_settled(self) -> bool:
        """Whether a file that has this state later has not been written in between."""
        return time.time_ns() - self.modified_ns >= SETTLE_NS


def state_of(path: str) -> FileState | None:
    """Return the state of a file, None when the file system says nothing of it."""
    try:
        return FileState.of(os.stat(path))  # noqa: PTH116  # a third of the time, several times a pair
    except OSError:  # who reads the file will say what is wrong with it
        return None


class SmallFiles:
    """Small files by path, each as it was when it was read.

    Args:
        limit: bytes that are held at most.
    """

    def __init__(self, limit: int = HELD_BYTES) -> None:
        self._limit = self._left = limit
        self._held: dict[str, tuple[FileState, bytes | None]] = {}

    def add(self, path: str, state: FileState, content: bytes) -> None:
        """Hold the whole content of a file, if there is room."""
        taken = len(content) + ENTRY_BYTES
        if taken <= self._left and path not in self._held and state.is_settled:
            self._left -= taken
            self._held[path] = state, content

    def state(self, path: str) -> FileState | None:
        """Return the state in which a file is held, None of one that is not."""
        found = self._held.get(path)
        return None if found is None else found[0]

    def content(self, path: str) -> bytes | None:
        """Return what a file held, None of one that is not held or was handed over."""
        found = self._held.get(path)
        return None if found is None else found[1]

    def hand_over(self) -> None:
        """Hold the states alone: the contents are held by those who measure them, each as long as it takes."""
        self._held = {path: (state, None) for path, (state, _) in self._held.items()}

    def clear(self) -> None:
        """Hold none any more."""
        self._left = self._limit
        self._held.clear()

    @contextmanager
    def filled(self) -> Iterator[None]:
        """Hold what this thread reads of small files meanwhile."""
        token = _FILLED.set(self)
        try:
            yield
        finally:
            _FILLED.reset(token)


_FILLED: ContextVar[SmallFiles | None] = ContextVar("filled", default=None)


def was_read(path: str, status: os.stat_result, content: bytes) -> None:
    """Take note of the whole content of a file that has been read."""
    files = _FILLED.get()
    if files is not None:
        files.add(path, FileState.of(status), content)
