"""The one way to open a file for reading: what could hold the reader for ever is refused, not waited for.

A pipe that nobody writes to, a terminal or a device in the place of a file gives no bytes and no end. Every module
reads through here; `tests/repo/test_opening.py` looks for others.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO, TextIO

Place = str | os.PathLike[str]

MAX_LINE_BYTES = 1 << 20
"""Longest line of a table or a text that is read line by line, in characters."""

INHERITED: set[int] = set()
"""Descriptors of files that a fork of this process goes on reading; it closes all others."""

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

_KINDS: Mapping[str, Callable[[int], bool]] = {
    "a pipe": stat.S_ISFIFO,
    "a socket": stat.S_ISSOCK,
    "a device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
}


class SpecialFileError(OSError):
    """A pipe, a socket or a device stands where a file should."""


def open_descriptor(path: Place, *, follow: bool = True) -> int:
    """Return the descriptor of a regular file; arguments and errors as `open_regular`."""
    return open_regular(path, follow=follow)[0]


def open_regular(path: Place, *, follow: bool = True) -> tuple[int, os.stat_result]:
    """Return the descriptor of a regular file, and what the file system says of it.

    Args:
        path: where it lies.
        follow: whether it may be a link to one.

    Raises:
        SpecialFileError: it is a pipe, a socket or a device.
        OSError: it cannot be opened, or is a folder.
        ValueError: no file can have such a name.
    """
    try:
        descriptor = os.open(path, _FLAGS if follow else _FLAGS | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device without a driver
            raise _special(path, os.stat(path).st_mode) from error  # noqa: PTH116
        raise
    status = os.fstat(descriptor)
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return descriptor, status
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise _special(path, mode)


def open_bytes(path: Place) -> BinaryIO:
    """Open a regular file for reading bytes.

    Raises:
        OSError, ValueError: as `open_regular`.
    """
    return os.fdopen(open_descriptor(path), "rb")


def open_text(path: Place, *, encoding: str = "utf-8", errors: str = "strict", newline: str | None = None) -> TextIO:
    """Open a regular file for reading text; arguments as those of `open`.

    Raises:
        OSError, ValueError: as `open_regular`.
    """
    return os.fdopen(open_descriptor(path), "r", encoding=encoding, errors=errors, newline=newline)


def read_text(path: Place, *, encoding: str = "utf-8", errors: str = "strict") -> str:
    """Return the text of a small regular file: one of probe_flow itself, or of a size that was looked at.

    Raises:
        OSError, ValueError: as `open_regular`; UnicodeDecodeError where the bytes are something else.
    """
    with open_text(path, encoding=encoding, errors=errors) as file:
        return file.read()


def read_whole(path: Place, limit: int) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        OSError, ValueError: as `open_regular`; OSError also where it has more than ``limit`` bytes.
    """
    with open_bytes(path) as file:
        # Asked for so many bytes, Python takes memory for all of them, however short the file is.
        size = os.fstat(file.fileno()).st_size
        data = file.read(size + 1) if size <= limit else b""
    if max(size, len(data)) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit >> 20} MiB", os.fspath(path))
    return data


def regular(path: Place) -> Place:
    """Return the path, which leads to a regular file, for libraries that open files themselves.

    Raises:
        OSError, ValueError: as `open_regular`.
    """
    os.close(open_descriptor(path))
    return path


def lines_of(text: TextIO, longest: int = MAX_LINE_BYTES) -> Iterator[str]:
    """Yield the lines of a text with their ends.

    Raises:
        OSError: one has more than ``longest`` characters.
    """
    while line := text.readline(longest + 1):
        if len(line) > longest:
            raise OSError(errno.EFBIG, f"a line is longer than {longest >> 20} MiB")
        yield line


def _special(path: Place, mode: int) -> SpecialFileError:
    kind = next((kind for kind, is_kind in _KINDS.items() if is_kind(mode)), "something else")
    return SpecialFileError(errno.EINVAL, f"it is {kind}, not a regular file", os.fspath(path))
