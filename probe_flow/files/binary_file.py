"""Bounded reads from one untrusted file: the size is known before a byte is read, every failure names the file.

The beginning of a file stays in memory from the first read on, so that a small one is read once for all its parts.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from probe_flow.errors import Diagnostic, FormatError
from probe_flow.files.opening import SpecialFileError, open_regular
from probe_flow.files.small_files import was_read

if TYPE_CHECKING:
    from typing_extensions import Self

AHEAD_BYTES = 16 * 1024
"""Kept of the beginning of a file: small files as a whole, and the headers of most others."""


def malformed(code: str, path: Path | str, message: str, *, help_text: str, offset: int | None = None) -> FormatError:
    """Return the error of one bad file; ``offset`` is the byte where the trouble was found."""
    return FormatError(diagnose(code, path, message, help_text=help_text, offset=offset))


def diagnose(code: str, path: Path | str, message: str, *, help_text: str, offset: int | None = None) -> Diagnostic:
    """Return the diagnostic of one bad file or of one tensor in it."""
    notes = () if offset is None else (f"found at byte {offset}",)
    fields = {} if offset is None else {"offset": offset}
    return Diagnostic(code, message, path=str(path), help=help_text, notes=notes, fields=fields)


class BinaryFile:
    """A regular file, opened once for positioned reads.

    Args:
        path: the file. Pipes, devices and folders are refused: reading them could block.

    Raises:
        FormatError: PF3001 when it cannot be opened, PF3002 when it is no regular file.
    """

    __slots__ = ("_descriptor", "_head", "path", "size", "status")

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        try:
            self._descriptor, self.status = open_regular(self.path)
        except (SpecialFileError, IsADirectoryError) as exc:
            raise malformed(
                "PF3002",
                self.path,
                f"`{self.name}` is not a regular file",
                help_text="remove it from the dump folder, or select other nodes",
            ) from exc
        except (OSError, ValueError) as exc:
            raise self._unreadable(exc) from exc
        self.size = self.status.st_size
        self._head: bytes | None = None

    @property
    def name(self) -> str:
        """Name of the file without its folder."""
        return self.path.rpartition("/")[2]

    def read_at(self, offset: int, count: int) -> bytes:
        """Return ``count`` bytes from ``offset``, fewer at the end of the file.

        Raises:
            FormatError: PF3001 when the operating system cannot read them.
        """
        if offset >= self.size:  # a place that a damaged header names may be beyond any that systems know
            return b""
        try:
            if offset + count > AHEAD_BYTES:
                return os.pread(self._descriptor, count, offset)
            if self._head is None:
                self._head = os.pread(self._descriptor, min(self.size, AHEAD_BYTES), 0)
        except OSError as exc:
            raise self._unreadable(exc) from exc
        return self._head[offset : offset + count]

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``offset`` and return the number of bytes read; less than asked at the end only.

        Raises:
            FormatError: PF3001 when the operating system cannot read them.
        """
        done = 0
        while done < len(buffer):
            try:
                count = os.preadv(self._descriptor, [buffer[done:]], offset + done)
            except OSError as exc:
                raise self._unreadable(exc) from exc
            if not count:
                break
            done += count
        return done

    def map(self) -> mmap.mmap:
        """Return the file mapped read-only, announced as read from front to back. It must not be empty."""
        try:
            mapped = mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as exc:
            raise self._unreadable(exc) from exc
        mapped.madvise(mmap.MADV_SEQUENTIAL)
        return mapped

    def close(self) -> None:
        """Close the file; a map made of it stays valid."""
        os.close(self._descriptor)
        if self._head is not None and len(self._head) == self.size:
            was_read(self.path, self.status, self._head)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _unreadable(self, exc: Exception) -> FormatError:
        cause = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        return malformed(
            "PF3001",
            self.path,
            f"`{self.name}` cannot be read: {cause}",
            help_text="check that the file still exists and that you may read it",
        )
