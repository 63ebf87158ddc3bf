"""A lock file with process and host, held as long as the process lives.

On one machine the operating system's own file lock decides, which ends with its process, however that ends. Of another
machine only the file's time tells: whoever holds it touches it, and one that was not touched for long is taken over.
The package filelock takes as long (0.25 ms for 0.31 ms) and says neither who holds a lock nor whether it was
left behind.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from probe_flow.files.opening import open_descriptor

RUN_LOCK = ".probe_flow_run.lock"
"""Held by whoever writes into the folder of a run."""

TOUCH_S = 20.0
"""How often a holder shows that it lives."""

STALE_S = 120.0
"""Age from which the lock of another machine counts as left behind."""

SAY_S = 0.5
"""Seconds that a process which has just taken a lock gets to write its name into the file."""

LOOK_S = 0.01
"""Seconds between two looks at that file."""

_MAX_BYTES = 4096
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
"""What file systems say that have no file locks; the file alone decides there."""


class Holder(Struct, frozen=True):
    """Who holds, or held, a lock; 0 and empty where the file does not say."""

    pid: int = 0
    host: str = ""

    def __str__(self) -> str:
        return f"process {self.pid} on `{self.host}`" if self.pid else "another process"


class HeldError(Exception):
    """Another process holds the lock.

    Args:
        path: the lock file.
        holder: who holds it.
    """

    def __init__(self, path: Path, holder: Holder) -> None:
        super().__init__(f"`{path}` is held by {holder}")
        self.path = path
        self.holder = holder


class LockFile:
    """A lock that this process holds from now on.

    Args:
        path: of the lock file, which is made; its folder exists.

    Raises:
        HeldError: another process holds it.
        OSError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor, self.was_left = _acquired(path)
        """`was_left`: whether the last holder was killed while it held the lock."""
        self._touched = time.monotonic()

    @property
    def is_in_place(self) -> bool:
        """Whether the file that is held is still the one at its path."""
        return _is_same_file(self._descriptor, self.path)

    def touch(self) -> None:
        """Show other machines that the holder lives; cheap enough to call all the time."""
        now = time.monotonic()
        if now - self._touched >= TOUCH_S:
            self._touched = now
            with suppress(OSError):
                os.utime(self._descriptor)

    def take_anew(self) -> None:
        """Hold the file that is at the path now; raise as the constructor does, and hold the old one then."""
        descriptor, self.was_left = _acquired(self.path)
        os.close(self._descriptor)
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back and remove its file."""
        if self._descriptor >= 0 and self.is_in_place:
            with suppress(OSError):
                self.path.unlink()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def check_free(path: Path) -> None:
    """Raise `HeldError` when another process holds this lock file, if there is one."""
    try:
        descriptor = open_descriptor(path, follow=False)
    except OSError:
        return
    try:
        holder, age_s = _read(descriptor)
        is_elsewhere = holder.host not in ("", os.uname().nodename) and age_s < STALE_S
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            is_held = is_elsewhere
        except OSError:
            is_held = True
        if is_held and holder != _me():
            raise HeldError(path, holder)
    finally:
        os.close(descriptor)


def _acquired(path: Path) -> tuple[int, bool]:
    """Return the descriptor of the file, locked, and whether its last holder was killed."""
    while True:
        descriptor = os.open(path, _FLAGS, 0o644)
        try:
            if not _is_free(descriptor):
                raise HeldError(path, _named(descriptor))
            if not _is_same_file(descriptor, path):  # its holder removed it between the two calls
                os.close(descriptor)
                continue
            holder, age_s = _read(descriptor)
            if holder.host not in ("", os.uname().nodename) and age_s < STALE_S:
                raise HeldError(path, holder)
            was_left = os.fstat(descriptor).st_size > 0
            _write(descriptor)
        except (OSError, HeldError):
            os.close(descriptor)
            raise
        return descriptor, was_left


def _is_free(descriptor: int) -> bool:
    """Lock the file for this process; return whether that was possible."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as exc:
        if exc.errno not in _NO_LOCKS:
            raise
        return not _lives(_read(descriptor)[0])
    return True


def _lives(holder: Holder) -> bool:
    """Tell whether another process of this machine that wrote its name is still there."""
    if holder.host != os.uname().nodename or holder.pid in (0, os.getpid()):
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def _named(descriptor: int) -> Holder:
    """Return who holds the lock; whoever has just taken it gets a moment to say."""
    holder, _ = _read(descriptor)
    for _ in range(int(SAY_S / LOOK_S)):
        if holder.pid:
            break
        time.sleep(LOOK_S)
        holder, _ = _read(descriptor)
    return holder


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat()
    except OSError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)


def _read(descriptor: int) -> tuple[Holder, float]:
    """Return who wrote the lock file, and seconds since it was touched."""
    age_s = time.time() - os.fstat(descriptor).st_mtime
    try:
        found = json.loads(os.pread(descriptor, _MAX_BYTES, 0))
        return Holder(int(found["pid"]), str(found["host"])), age_s
    except (ValueError, TypeError, KeyError, OSError):
        return Holder(), age_s


def _me() -> Holder:
    return Holder(os.getpid(), os.uname().nodename)


def _write(descriptor: int) -> None:
    """Say who holds the lock; on a full disk it stays unsaid, since the lock does not hang on it."""
    me = _me()
    os.ftruncate(descriptor, 0)
    try:
        os.pwrite(descriptor, json.dumps({"pid": me.pid, "host": me.host}).encode(), 0)
    except OSError as exc:
        if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
    os.utime(descriptor)
