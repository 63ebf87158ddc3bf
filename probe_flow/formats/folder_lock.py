"""One writer per folder: a lock file with process and host, held as long as the process lives.

On one machine the operating system's own file lock decides, which ends with its process, however that ends. Of another
machine only the file's time tells: whoever holds it touches it, and one that was not touched for long is taken over.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from probe_flow.errors import Diagnostic, UsageError

if TYPE_CHECKING:
    from typing_extensions import Self

LOCK_NAME = ".probe_flow_reduce.lock"
TOUCH_S = 20.0
"""How often a holder shows that it lives."""

STALE_S = 120.0
"""Age from which the lock of another machine counts as left behind."""

_MAX_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds, or held, a lock; 0 and empty where the file does not say."""

    pid: int = 0
    host: str = ""


class FolderLock:
    """The right to write below a folder. Use it in ``with``.

    Whoever works on all that is below asks `check_inside` too, for others that were there first.

    Args:
        folder: the folder; those above it must not be locked by another process either.

    Raises:
        UsageError: PF6301 when another process holds it, PF6302 when the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_NAME
        self._descriptor = _acquire(self._path)
        self._touched = time.monotonic()
        try:  # with the own lock in place: of two that begin at once, at least one sees the other
            for above in folder.resolve().parents:
                _check(above / LOCK_NAME, lambda holder, path: _held(path, holder, f", above `{folder}`,"))
        except UsageError:
            self.release()
            raise

    def keep(self) -> None:
        """Show other machines that the holder lives; cheap enough to call all the time.

        A folder that was removed and made anew is locked anew.

        Raises:
            UsageError: PF6301 when another process was faster there.
        """
        if not _is_same_file(self._descriptor, self._path):
            self._regain()
        now = time.monotonic()
        if now - self._touched >= TOUCH_S:
            self._touched = now
            with suppress(OSError):
                os.utime(self._descriptor)

    def release(self) -> None:
        """Give the folder back."""
        if self._descriptor >= 0:
            if _is_same_file(self._descriptor, self._path):
                with suppress(OSError):
                    self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = -1

    def _regain(self) -> None:
        try:
            descriptor = _acquire(self._path)
        except UsageError as exc:
            if exc.diagnostic.code == "PF6301":
                raise
            return  # the folder is not there, or cannot be written yet
        os.close(self._descriptor)
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.release()


def _acquire(path: Path) -> int:
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except OSError as exc:
            raise _unwritable(path, exc) from exc
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_same_file(descriptor, path):  # its holder removed it between the two calls
                os.close(descriptor)
                continue
            holder, age_s = _read(descriptor)
            if holder.host not in ("", socket.gethostname()) and age_s < STALE_S:
                raise _held(path, holder)
            _write(descriptor)
        except BlockingIOError as exc:
            holder, _ = _read(descriptor)
            os.close(descriptor)
            raise _held(path, holder) from exc
        except OSError as exc:
            os.close(descriptor)
            raise _unwritable(path, exc) from exc
        except UsageError:
            os.close(descriptor)
            raise
        return descriptor


def check_inside(path: Path, folder: Path) -> None:
    """Refuse a folder that has a lock file inside which another process holds.

    Raises:
        UsageError: PF6301 in that case.
    """
    _check(path, lambda holder, held: _held(held, holder, f", inside `{folder}`,"))


def _check(path: Path, refusal: Callable[[Holder, Path], UsageError]) -> None:
    """Refuse to work where another process holds this lock file, if there is one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        holder, age_s = _read(descriptor)
        is_elsewhere = holder.host not in ("", socket.gethostname()) and age_s < STALE_S
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            is_held = is_elsewhere
        except OSError:
            is_held = True
        if is_held and holder != _me():
            raise refusal(holder, path)
    finally:
        os.close(descriptor)


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
    return Holder(os.getpid(), socket.gethostname())


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


def _held(path: Path, holder: Holder, where: str = "") -> UsageError:
    who = f"process {holder.pid} on `{holder.host}`" if holder.pid else "another process"
    return UsageError(
        Diagnostic(
            "PF6301",
            f"`{path.parent}`{where} is being reduced by {who}",
            path=str(path),
            help="let that one finish or end it; a lock that was left behind is taken over by itself",
        )
    )


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        Diagnostic(
            "PF6302",
            f"`{path.parent}` cannot be written: {error.strerror or error}",
            path=str(path.parent),
            help="give yourself the right to write there, free some disk, or name another folder with `output`",
        )
    )
