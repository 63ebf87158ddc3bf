"""Rows of a stored run by number: an index says what they are about, and only those that are asked for are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby, islice, tee
from operator import attrgetter
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.record.line_file import LineFile
from probe_flow.record.row_index import (
    LineIndex,
    RowIndex,
    call_code,
    distance_of,
    error_of,
    split_line,
    state_byte,
)
from probe_flow.record.types.reading import Reader
from probe_flow.record.types.rows import RowRecord

T = TypeVar("T", bound=Struct)

ROW = Reader(RowRecord)

_BATCH = 200
"""Rows that are taken together: enough to share a step, few enough to stay in the processor's cache."""
_call_of = attrgetter("rank", "graph", "step", "node", "call", "phase")


class StoredRows:
    """The rows of one comparison, which are numbered from 0.

    Whatever reads them raises an IncompleteError, PF7113, when their file is missing, ends or goes wrong in the middle,
    or has not as many records as the run counted.

    Args:
        comparison: its stage, where those of several are told apart.
        file: the rows.
        written: the index that the run left, if the file is as it was then.
        counted: how many rows the run had, where it says so.
    """

    def __init__(self, comparison: str | None, file: LineFile, written: RowIndex | None, counted: int | None) -> None:
        self.comparison = comparison
        self._file = file
        self._written = written
        self._counted = counted

    @property
    def is_as_written(self) -> bool:
        """Whether the run left an index and the file is as it was then, so that each line is a record."""
        return self._written is not None

    @cached_property
    def index(self) -> RowIndex:
        """What the rows are about: as the run left it, else found by reading all of them, without what lines say."""
        found = self._written if self._written is not None else self._indexed()
        self._file.check_count(len(found), self._counted)
        return found

    @cached_property
    def lines(self) -> LineIndex:
        """What the lines say as numbers; none is read as a record."""
        found: LineIndex | None = self._written
        if found is None:
            found = LineIndex()
            for lines in _batches(self._file.lines()):
                found.add_lines(*zip(*map(split_line, lines), strict=True))
        self._file.check_count(len(found), self._counted)
        return found

    def rows(self, numbers: Iterable[int]) -> Iterator[RowRecord]:
        """Yield some rows."""
        for row in self.parts(numbers, ROW):
            yield row if self.comparison is None else replace(row, comparison=self.comparison)

    def parts(self, numbers: Iterable[int], reader: Reader[T]) -> Iterator[T]:
        """Yield some fields of some rows."""
        lines = self.__dict__.get("index") or self.lines
        offsets, read = lines.offsets(), self._file.reading(reader)
        numbers, again = tee(numbers)
        found = self._file.lines_at((offsets[number], lines.lengths[number]) for number in again)
        return (read(line, number + 1) for number, line in zip(numbers, found, strict=True))

    def all_parts(self, reader: Reader[T]) -> Iterator[T]:
        """Yield some fields of all rows; lines that may be none are read as records first."""
        return self._file.records(reader, counted=self._counted, check=None if self.is_as_written else ROW)

    def check(self, numbers: Iterable[int]) -> None:
        """Read some rows, so that what is wrong in them is not passed over."""
        for _ in self.parts(numbers, ROW):
            pass

    def _indexed(self) -> RowIndex:
        index, read = RowIndex(), self._file.reading(ROW)
        for lines in _batches(self._file.lines()):
            add_records(index, [read(line, number) for number, line in enumerate(lines, start=len(index) + 1)])
            index.lengths.extend(map(len, lines))
        return index


def add_records(index: RowIndex, rows: Sequence[RowRecord]) -> None:
    """Add what further rows are to an index, but for their lines."""
    for _, run in groupby(rows, key=_call_of):
        first, *others = run
        index.add_calls(first, call_code(first, first.node, first.call, first.phase), 1 + len(others))
    errors = [error_of(distance_of(row.metrics)) for row in rows]
    states = [state_byte(row.verdict, row.role, row.target, row.golden, row.reference) for row in rows]
    index.add_facts([row.order for row in rows], errors, states)


def _batches(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    while batch := list(islice(lines, _BATCH)):
        yield batch
