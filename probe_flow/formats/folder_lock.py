"""One writer per folder: a lock file with process and host, held as long as the process lives.

On one machine the operating system's own file lock decides, which ends with its process, however that ends. Of another
machine only the file's time tells: whoever holds it touches it, and one that was not touched for long is taken over.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
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

    Args:
        folder: the folder; those above it must not be locked by another process either.

    Raises:
        UsageError: PF6301 when another process holds it, PF6302 when the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_NAME
        for above in folder.resolve().parents:
            _check_above(above / LOCK_NAME, folder)
        self._descriptor = _acquire(self._path)
        self._touched = time.monotonic()

    def keep(self) -> None:
        """Show other machines that the holder lives; cheap enough to call all the time."""
        now = time.monotonic()
        if now - self._touched >= TOUCH_S:
            self._touched = now
            with suppress(OSError):
                os.utime(self._descriptor)

    def release(self) -> None:
        """Give the folder back."""
        if self._descriptor >= 0:
            with suppress(OSError):
                self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = -1

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


def _check_above(path: Path, folder: Path) -> None:
    """Refuse a folder inside one that another process works on."""
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
        if is_held and holder.pid != os.getpid():
            raise _held(path, holder, folder)
    finally:
        os.close(descriptor)


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
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


def _write(descriptor: int) -> None:
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname()})
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)
    os.utime(descriptor)


def _held(path: Path, holder: Holder, folder: Path | None = None) -> UsageError:
    who = f"process {holder.pid} on `{holder.host}`" if holder.pid else "another process"
    where = f"`{path.parent}`, above `{folder}`," if folder else f"`{path.parent}`"
    return UsageError(
        Diagnostic(
            "PF6301",
            f"{where} is being reduced by {who}",
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
            help="give yourself the right to write there, or name another folder with `output`",
        )
    )
