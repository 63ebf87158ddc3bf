"""A file of any size that is there whole or not at all: written piece by piece under a temporary name.

A file that is in the way is never replaced unless that is asked for; one with the same bytes is as good as written.
"""

from __future__ import annotations

import itertools
import os
import time
from contextlib import suppress
from pathlib import Path

from probe_flow.files.opening import open_bytes
from probe_flow.files.whole_files import leftover_of, temporary_name

_COMPARED_BYTES = 4 * 2**20
_NUMBERS_PER_PROCESS = 1000
_STALE_S = 600.0
_numbers = itertools.count()


class StreamedFile:
    """A file in the making.

    Args:
        path: where it shall be.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        number = os.getpid() * _NUMBERS_PER_PROCESS + next(_numbers) % _NUMBERS_PER_PROCESS
        self._temporary = path.with_name(temporary_name(path.name, number))
        # A leftover of a process with the same number may be in the way.
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._temporary, flags, 0o644)

    def write(self, content: bytes | memoryview) -> None:
        """Add bytes at the end."""
        view = memoryview(content).cast("B")
        self.size += len(view)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def patch(self, offset: int, content: bytes) -> None:
        """Write bytes over earlier ones."""
        os.pwrite(self._descriptor, content, offset)

    def flush(self) -> None:
        """Wait until the file is on the disk."""
        os.fsync(self._descriptor)

    def commit(self, *, replaces: bool = False) -> bool:
        """Put the file, which is flushed, into its place.

        Args:
            replaces: whether another file of that name may go.

        Returns:
            False when the same bytes were there already.

        Raises:
            FileExistsError: other bytes are there and may not go.
            OSError: it cannot be put there.
        """
        try:
            if self._is_there():
                return False
            if replaces:
                self._temporary.replace(self.path)
            else:
                self._place()
        finally:
            self.discard()
        return True

    def discard(self) -> None:
        """Remove it; one that is in its place stays."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        with suppress(OSError):
            self._temporary.unlink(missing_ok=True)

    def _place(self) -> None:
        """Give it its name unless that is taken, even in the same moment."""
        try:
            os.link(self._temporary, self.path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            if self.path.exists():
                raise FileExistsError(f"`{self.path.name}` exists") from None
            self._temporary.replace(self.path)

    def _is_there(self) -> bool:
        """Tell whether a regular file of that name holds the same bytes."""
        if not self.path.is_file() or self.path.is_symlink() or self.path.stat().st_size != self.size:
            return False
        with open_bytes(self.path) as other:
            for start in range(0, self.size, _COMPARED_BYTES):
                mine = os.pread(self._descriptor, _COMPARED_BYTES, start)
                if other.read(len(mine)) != mine:
                    return False
        return True


def clear_stale(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder: those of no process, and not just written."""
    oldest = time.time() - _STALE_S
    stale: list[Path] = []
    with suppress(OSError), os.scandir(folder) as entries:
        stale = [Path(entry.path) for entry in entries if leftover_of(entry.name) is not None]
    for path in stale:
        with suppress(OSError):
            process = int(path.name.rpartition("-")[2]) // _NUMBERS_PER_PROCESS
            if path.lstat().st_mtime < oldest and not Path(f"/proc/{process}").exists():
                path.unlink()
