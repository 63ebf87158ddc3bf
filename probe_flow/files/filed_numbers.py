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
HELD_PAGES = 128
"""Pages of a file that are in memory (1 MiB): what was measured of a rank of ordinary size."""

AT_ONCE = 128
"""Pages that numbers which grow have in memory before they are written (1 MiB)."""

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
        begin = self._end
        self._file.write(memoryview(numbers).cast("B"), begin * _BYTES)
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

    def write(self, data: memoryview, begin: int) -> None:
        """Write bytes to a place."""
        written = 0
        while written < len(data):
            written += os.pwrite(self.descriptor, data[written:], begin + written)

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


class GrowingNumbers:
    """Numbers to which others are added behind; all but the last are in a file, as long as that can be written."""

    __slots__ = ("_file", "_filed", "_page", "_tail")

    typecode, itemsize = "d", _BYTES

    def __init__(self) -> None:
        self._tail = array("d")
        self._filed = 0  # of the numbers, full pages each
        self._file: _Nameless | None = None
        self._page: Callable[[int], Floats] = _no_page

    def __len__(self) -> int:
        return self._filed + len(self._tail)

    def frombytes(self, data: bytes, /) -> None:
        """Add numbers."""
        self._tail.frombytes(data)
        if len(self._tail) >= AT_ONCE * PAGE:
            with suppress(OSError):  # then they stay
                self._put(len(self._tail) // PAGE * PAGE)

    def _put(self, count: int) -> None:
        if self._file is None:
            self._file = _Nameless()
            self._page = lru_cache(HELD_PAGES)(self._file.page)
        self._file.write(memoryview(self._tail)[:count].cast("B"), self._filed * _BYTES)
        self._filed += count
        self._tail = self._tail[count:]

    @overload
    def __getitem__(self, place: int) -> float: ...
    @overload
    def __getitem__(self, place: slice) -> Floats: ...
    def __getitem__(self, place: int | slice) -> float | Floats:
        filed = FiledNumbers(self._page, 0, self._filed)
        if isinstance(place, slice):
            begin, end, _ = place.indices(len(self))
            if begin >= min(end, self._filed):
                return self._tail[max(0, begin - self._filed) : max(0, end - self._filed)]
            return filed[begin:end] + self._tail[: max(0, end - self._filed)]
        return filed[place] if place < self._filed else self._tail[place - self._filed]

    def __reduce__(self) -> tuple[type, tuple[str, bytes]]:
        return array, ("d", self[:].tobytes())


def _no_page(number: int) -> Floats:
    raise IndexError(number)
