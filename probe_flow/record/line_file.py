"""A file of records, a line each: its lines in order or by place, and each as a record of a type."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from probe_flow.errors import IncompleteError
from probe_flow.files.opening import open_bytes
from probe_flow.record.types.reading import MisfitError, Reader

MAX_LINE_BYTES = 64 * 2**20
"""No record of ours comes near; a file without line ends must not fill the memory."""

T = TypeVar("T", bound=Struct)


class LineFile(Struct, frozen=True):
    """A file whose lines are records of one type.

    Args:
        path: where it lies.
        what: what a record is of, for messages.
        unreadable: makes the error that says why it cannot be read.
        upgrade: gives a record of an older version the form of today.
    """

    path: Path
    what: str
    unreadable: Callable[[Path, str], IncompleteError]
    upgrade: Callable[[Any], Any] | None = None

    def lines(self) -> Iterator[bytes]:
        """Yield the lines with their ends.

        Raises:
            IncompleteError: the file is missing, ends or goes wrong in the middle.
        """
        try:
            with open_bytes(self.path) as file:
                for number, line in enumerate(iter(partial(file.readline, MAX_LINE_BYTES), b""), start=1):
                    if not line.endswith(b"\n"):
                        is_long = len(line) == MAX_LINE_BYTES
                        too_long = f"a line is longer than {MAX_LINE_BYTES // 2**20} MiB"
                        raise self.unreadable(
                            self.path, too_long if is_long else f"it ends in the middle of line {number}"
                        )
                    yield line
        except FileNotFoundError as exc:
            raise self.unreadable(self.path, "it is missing") from exc
        except OSError as exc:
            raise self.unreadable(self.path, exc.strerror or str(exc)) from exc

    def lines_at(self, places: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        """Yield the lines at some places, each an offset and a number of bytes.

        Raises:
            IncompleteError: the file cannot be read.
        """
        try:
            with open_bytes(self.path) as file:
                for offset, size in places:
                    file.seek(offset)
                    yield file.read(size)
        except OSError as exc:
            raise self.unreadable(self.path, exc.strerror or str(exc)) from exc

    def records(self, reader: Reader[T], *, counted: int | None, check: Reader[Any] | None = None) -> Iterator[T]:
        """Yield all records.

        Args:
            reader: reads a line, as a record or as some fields of one.
            counted: how many records the run had, where it says so.
            check: reads a line first, where it may be no record and `reader` would not see it.

        Raises:
            IncompleteError: a line is no record, or there are more or fewer than the run had; and as `lines`.
        """
        read, number = self.reading(reader), 0
        checked = self.reading(check) if check is not None else None
        for number, line in enumerate(self.lines(), start=1):
            if checked is not None:
                checked(line, number)
            yield read(line, number)
        self.check_count(number, counted)

    def reading(self, reader: Reader[T]) -> Callable[[bytes, int], T]:
        """Return what reads a line, given its number from 1, as a record or as some fields of one.

        It raises the error of `unreadable` when the line is none.
        """

        def read(line: bytes, number: int) -> T:
            try:
                return reader.read(line) if self.upgrade is None else reader.convert(self.upgrade(json.loads(line)))
            except MisfitError as error:
                raise self.unreadable(self.path, f"line {number} is no record of a {self.what}: {error}") from error
            except (ValueError, RecursionError) as error:
                raise self.unreadable(self.path, f"line {number} is no record: {error}") from error

        return read

    def check_count(self, count: int, counted: int | None) -> None:
        """Raise when the file has another number of records than its run; some versions did not count all."""
        if counted is not None and count != counted:
            raise self.unreadable(self.path, f"it has {count} records, the run had {counted}")
