"""Numbers in a nameless file: a few pages of it are in memory at a time, whatever all of them take.

Figures of rows are written once and read row by row, mostly one behind another. Those of large comparisons lie here:
one page of 1,024 numbers is read in 2 us, and found again in 0.1.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import IO, TYPE_CHECKING, TypeAlias, overload

from probe_flow.files.opening import INHERITED

if TYPE_CHECKING:
    from probe_flow.records.figures import Numbers

    Floats: TypeAlias = array[float]
else:
    Floats = array

PAGE = 1024
HELD_PAGES = 512
"""Pages that are in memory (4 MiB)."""

_BYTES = 8
_FOLDER = "/var/tmp"  # noqa: S108 - of a nameless file, which nobody else can open
"""Where the file is, unless a variable says where: the usual folder for temporary files often is memory itself."""


class NumberFile:
    """A file that takes arrays of float64, and gives each back as something that is read like it.

    Nothing of it is left when the last of them is dropped, or the process ends in any way. Where it cannot be written,
    for lack of room or rights, arrays stay in memory.
    """

    def __init__(self) -> None:
        self._end = 0
        self._file: _Nameless | None = None
        self._page: Callable[[int], Floats] | None = None

    def put(self, numbers: Numbers) -> Numbers:
        """Return the numbers, in the file."""
        if not isinstance(numbers, array) or not numbers:
            return numbers
        try:
            return self._written(numbers)
        except OSError:
            return numbers

    def _written(self, numbers: Floats) -> FiledNumbers:
        if self._file is None:
            self._file = _Nameless()
            self._page = lru_cache(HELD_PAGES)(self._file.page)
        begin, data = self._end, memoryview(numbers).cast("B")
        written = 0
        while written < len(data):
            written += os.pwrite(self._file.descriptor, data[written:], begin * _BYTES + written)
        self._end += -(-len(numbers) // PAGE) * PAGE  # each begins with a page
        assert self._page is not None
        return FiledNumbers(self._page, begin // PAGE, len(numbers))


class _Nameless:
    """A new file without a name, on a disk where there is one; forks of this process go on reading it."""

    def __init__(self) -> None:
        with _temporary_file() as file:
            self.descriptor = os.dup(file.fileno())
        INHERITED.add(self.descriptor)
        weakref.finalize(self, _close, self.descriptor)

    def page(self, number: int) -> Floats:
        """Return a page of it."""
        found = array("d")
        found.frombytes(os.pread(self.descriptor, PAGE * _BYTES, number * PAGE * _BYTES))
        return found


def _temporary_file() -> IO[bytes]:
    if "TMPDIR" not in os.environ:
        with suppress(OSError):
            return tempfile.TemporaryFile(dir=_FOLDER)
    return tempfile.TemporaryFile()


def _close(descriptor: int) -> None:
    INHERITED.discard(descriptor)
    os.close(descriptor)


class FiledNumbers:
    """Numbers in a file, read as an array is: by place, or some neighbours as an array.

    Args:
        page: gives a page of the file.
        first: page with which they begin.
        count: how many there are.
    """

    __slots__ = ("_count", "_first", "_page")

    typecode, itemsize = "d", _BYTES

    def __init__(self, page: Callable[[int], Floats], first: int, count: int) -> None:
        self._page, self._first, self._count = page, first, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> float: ...
    @overload
    def __getitem__(self, place: slice) -> Floats: ...
    def __getitem__(self, place: int | slice) -> float | Floats:
        if isinstance(place, slice):
            begin, end, _ = place.indices(self._count)
            return self._part(begin, max(begin, end))
        if not 0 <= place < self._count:
            raise IndexError(place)
        return self._page(self._first + place // PAGE)[place % PAGE]

    def _part(self, begin: int, end: int) -> Floats:
        first, last = begin // PAGE, max(begin, end - 1) // PAGE
        if first == last:
            return self._page(self._first + first)[begin - first * PAGE : end - first * PAGE]
        found = self._page(self._first + first)[begin - first * PAGE :]
        for number in range(first + 1, last + 1):
            found += self._page(self._first + number)[: end - number * PAGE]
        return found

    def __reduce__(self) -> tuple[type, tuple[str, bytes]]:
        return array, ("d", self[:].tobytes())
