"""comparison.index: what each line of comparison.jsonl is about, so that a question reads only the lines that it needs.

A file is a header, which is a line of JSON (`_Header`), columns of numbers one behind another, and the CRC-32 of all
that. Of each row: bytes of its line, 64 bits of a hash of what it says, its error, and a byte for verdict, role and
sides. Of each stretch of rows that show the same call of a node: how many they are, their execution, and 64 bits of a
hash of the call. That is 21 bytes a row and 16 a stretch.

It belongs to one comparison.jsonl and one nodes.jsonl, of which the header has size and CRC-32. Who uses it reads both
to compare these: 0.05 s for the 139 MB of 100,000 rows, a tenth of what it takes to read them as records. Nothing less
sees every change: a copy has another time than the file that was written, and a file that a disk damaged, or that
somebody changed within a tick of its clock, has the same one. What does not fit is ignored.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from array import array
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate, chain, pairwise
from math import isnan
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from probe_flow.files.atomic import atomic_bytes
from probe_flow.files.opening import open_bytes, read_whole
from probe_flow.record.facts import DISTANCE
from probe_flow.record.json_values import json_text, json_value, number
from probe_flow.record.places import InExecution, Place
from probe_flow.records import Phase, Role, Row, Status

if TYPE_CHECKING:
    Integers: TypeAlias = array[int]
    Floats: TypeAlias = array[float]
else:  # the class takes no arguments before Python 3.12
    Integers = Floats = array

FILE = "comparison.index"
FORMAT = "probe_flow.index/1"

LEAST_ROWS = 1000
"""Of fewer rows there is no index: all of them are read in 8 ms, and one more file takes as long to flush to a disk."""

STATISTICS_DISTANCE = "l2norm_diff_rel"
"""The metric of statistics that stands for `DISTANCE`."""

_T = TypeVar("_T")
_PIECE_BYTES, _HASH_BYTES, _CRC_BYTES = 1 << 20, 8, 4
_STATUSES, _ROLES = tuple(Status), tuple(Role)
_STATUS_CODES: Mapping[Status, int] = {status: place for place, status in enumerate(_STATUSES)}
_ROLE_CODES: Mapping[Role, int] = {role: place << 3 for place, role in enumerate(_ROLES)}
_TARGET, _GOLDEN, _REFERENCE = 32, 64, 128


class RowState(NamedTuple):
    """What one byte says of a row: verdict, role, and which of its sides there are."""

    status: Status
    role: Role
    has_target: bool
    has_golden: bool
    has_reference: bool


STATES = tuple(
    RowState(
        _STATUSES[byte & 7], _ROLES[byte >> 3 & 3], bool(byte & _TARGET), bool(byte & _GOLDEN), bool(byte & _REFERENCE)
    )
    for byte in range(256)
)
"""What each byte says."""


def state_byte(status: Status, role: Role, target: object, golden: object, reference: object) -> int:
    """Return the byte of a row; sides that are missing are None."""
    return (
        _STATUS_CODES[status]
        | _ROLE_CODES[role]
        | (_TARGET if target is not None else 0)
        | (_GOLDEN if golden is not None else 0)
        | (_REFERENCE if reference is not None else 0)
    )


def distance_of(metrics: Mapping[str, _T]) -> _T | None:
    """Return the relative distance among metrics, of rows or columns of them: that of tensors, else of statistics."""
    return metrics.get(DISTANCE, metrics.get(STATISTICS_DISTANCE))


def error_of(distance: object) -> float:
    """Return a relative distance as a number; 0 for none, and for NaN."""
    found = distance if type(distance) is float else number(json_value(distance))
    return 0.0 if found is None or isnan(found) else found


def call_code(execution: InExecution, node: str, call: int, phase: Phase) -> int:
    """Return 64 bits of a hash of what names a call of a node.

    In UTF-16 the two halves of a character, as a name may have them, are the character that JSON makes of them.
    """
    text = f"{execution.rank} {json_text(execution.graph)} {execution.step} {call} {phase.value} {node}"
    data = text.encode("utf-16-le", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=_HASH_BYTES).digest(), "little")


_HEAD = re.compile(rb'\{"order": (?:0|[1-9][0-9]*)(?=,)')


def head_of(order: int) -> bytes:
    """Return the begin of a line, the order of the row: all that changes where a row is only moved."""
    return b'{"order": %d' % order


def split_line(line: bytes) -> tuple[bytes, bytes]:
    """Return the begin of a line and what it says; the begin is empty where the line does not begin with an order."""
    found = _HEAD.match(line)
    at = found.end() if found is not None else 0
    return line[:at], line[at:]


class Digest(Struct):
    """Size and CRC-32 of a file."""

    size: int = 0
    crc32: int = 0

    def add(self, data: bytes) -> bytes:
        """Take what comes next in the file, and return it."""
        self.size += len(data)
        self.crc32 = zlib.crc32(data, self.crc32)
        return data

    def is_of(self, path: Path) -> bool:
        """Return True if a file has this size and these bytes."""
        found = Digest()
        try:
            with open_bytes(path) as file:
                while found.size <= self.size and found.add(file.read(_PIECE_BYTES)):
                    pass
        except (OSError, ValueError):
            return False
        return found == self


class Stretch(NamedTuple):
    """Rows, one behind another, that show the same call of a node.

    Args:
        begin, end: the number of the first of them, and of the first after them.
        execution: theirs, as a place in `RowIndex.executions`.
        call: `call_code` of what they show.
    """

    begin: int
    end: int
    execution: int
    call: int


class LineIndex:
    """Where the lines of rows are, and what they say, as numbers: all that it takes to find out which lines differ."""

    def __init__(self) -> None:
        self.digest = Digest()
        self.lengths, self.crcs, self.sums = array("I"), array("I"), array("I")

    def __len__(self) -> int:
        return len(self.lengths)

    def add_lines(self, heads: Sequence[bytes], contents: Sequence[bytes]) -> bytes:
        """Add lines and return them as one: of each its begin, which is the row's order, and what it says."""
        self.lengths.extend(map(add, map(len, heads), map(len, contents)))
        self.crcs.extend(map(zlib.crc32, contents))
        self.sums.extend(map(zlib.adler32, contents))
        return self.digest.add(b"".join(chain.from_iterable(zip(heads, contents, strict=True))))

    def codes(self) -> list[int]:
        """Return a number for what each line says, which other lines with the same text have too.

        CRC-32 and Adler-32 see differences of other kinds, and both together take a third of the time of a hash of 64
        bits. Of two lines that differ they are the same once in 10^16 times.
        """
        return [crc << 32 | total for crc, total in zip(self.crcs, self.sums, strict=True)]

    def offsets(self) -> Integers:
        """Return where each line begins, and where the last one ends."""
        return array("Q", accumulate(self.lengths, initial=0))


class RowIndex(LineIndex):
    """What the rows of one comparison are about; they are numbered from 0 and added in their order.

    `digest` is that of their file, `orders` what they say their numbers are.
    """

    def __init__(self) -> None:
        super().__init__()
        self.orders: range | list[int] = range(0)
        self.executions: list[Place] = []
        self.errors, self.states = array("d"), array("B")
        self.counts, self.places, self.calls = array("I"), array("I"), array("Q")
        self._numbers: dict[tuple[object, ...], int] = {}

    @property
    def columns(self) -> tuple[Integers | Floats, ...]:
        """The columns as a file has them: those of rows, then those of stretches."""
        of_rows = self.lengths, self.crcs, self.sums, self.errors, self.states
        return *of_rows, self.counts, self.places, self.calls

    def add_facts(self, orders: list[int], errors: Sequence[float], states: Sequence[int]) -> None:
        """Say what so many more rows are."""
        before = len(self.states)
        if isinstance(self.orders, list):
            self.orders += orders
        elif orders == [*range(before, before + len(orders))]:
            self.orders = range(before + len(orders))
        else:
            self.orders = [*self.orders, *orders]
        self.errors.extend(errors)
        self.states.extend(states)

    def add_calls(self, execution: InExecution, code: int, count: int) -> None:
        """Say of which call of a node so many more rows are."""
        if self.calls and self.calls[-1] == code:
            self.counts[-1] += count
            return
        place = execution.rank, execution.graph, execution.step
        number = self._numbers.setdefault(place, len(self.executions))
        if number == len(self.executions):
            self.executions.append(Place(*place))
        self.counts.append(count)
        self.places.append(number)
        self.calls.append(code)

    def stretches(self) -> Iterator[Stretch]:
        """Yield the stretches in their order."""
        bounds = pairwise(accumulate(self.counts, initial=0))
        for (begin, end), place, call in zip(bounds, self.places, self.calls, strict=True):
            yield Stretch(begin, end, place, call)

    def by_state(self, value_of: Callable[[RowState], int]) -> bytes:
        """Return a byte for each row, by its state."""
        return self.states.tobytes().translate(bytes(map(value_of, STATES)))

    def spans(self, keeps: Callable[[Place], bool]) -> Iterator[tuple[int, int]]:
        """Yield where rows of wanted executions begin and end."""
        kept = [*map(keeps, self.executions)]
        if all(kept):
            yield 0, len(self)
            return
        for begin, end, execution, _ in self.stretches():
            if kept[execution]:
                yield begin, end

    def numbers(self, wanted: Callable[[RowState], bool], keeps: Callable[[Place], bool]) -> Iterator[int]:
        """Yield the numbers of rows with a wanted state in wanted executions."""
        flags = self.by_state(wanted)
        for begin, end in self.spans(keeps):
            at = flags.find(1, begin, end)
            while at >= 0:
                yield at
                at = flags.find(1, at + 1, end)

    def numbers_of_calls(self, codes: Container[int]) -> Iterator[int]:
        """Yield the numbers of the rows of some calls, by their codes."""
        for begin, end, _, call in self.stretches():
            if call in codes:
                yield from range(begin, end)

    def numbers_of_order(self, order: int) -> Sequence[int]:
        """Return the numbers of the rows that say that they are the one of a number: that one, in a file of ours."""
        if isinstance(self.orders, range):
            return (order,) if order in self.orders else ()
        return [number for number, each in enumerate(self.orders) if each == order]


class _Header(Struct, frozen=True):
    """What the first line of a file says.

    Args:
        format, byteorder: how it is to be read.
        rows, nodes: the files that it belongs to.
        count, stretches: how many there are of rows and of stretches.
        executions: rank, graph and step of each.
        statuses, roles: words by the numbers that states have for them.
    """

    format: str
    byteorder: str
    rows: Digest
    nodes: Digest
    count: int
    stretches: int
    executions: tuple[tuple[int | None, int | str | None, int | None], ...]
    statuses: tuple[str, ...]
    roles: tuple[str, ...]

    @classmethod
    def of(cls, index: RowIndex, nodes: Digest) -> _Header:
        executions = tuple((each.rank, each.graph, each.step) for each in index.executions)
        words = tuple(each.value for each in _STATUSES), tuple(each.value for each in _ROLES)
        return cls(FORMAT, sys.byteorder, index.digest, nodes, len(index), len(index.counts), executions, *words)


class StoredIndex(NamedTuple):
    """What a file holds: an index, and the digest of the nodes. Neither is held against the files yet."""

    rows: RowIndex
    nodes: Digest


def is_indexed(rows: Sequence[Row]) -> bool:
    """Whether there are enough rows; and their numbers are those of their lines, of which there is no column."""
    return len(rows) >= LEAST_ROWS and all(row.order == line for line, row in enumerate(rows))


def write_index(index: RowIndex, nodes: Digest, path: Path) -> None:
    """Write an index next to what it belongs to.

    Args:
        index: of comparison.jsonl, whose orders are its numbers.
        nodes: digest of nodes.jsonl.
        path: where the file shall be.

    Raises:
        IncompleteError: PF7001 when it cannot be written.
    """
    header = json.dumps(msgspec.to_builtins(_Header.of(index, nodes))) + "\n"
    written = Digest()
    with atomic_bytes(path) as file:
        for part in (header.encode("ascii"), *(column.tobytes() for column in index.columns)):
            file.write(written.add(part))
        file.write(written.crc32.to_bytes(_CRC_BYTES, sys.byteorder))


def read_index(path: Path, *, limit: int) -> StoredIndex | None:
    """Return what a file holds; None where there is none that this version wrote whole.

    Args:
        path: the file.
        limit: bytes that it may have: an index is smaller than what it belongs to.
    """
    try:
        return _unpacked(read_whole(path, limit))
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError):  # also what is no JSON, and JSON of other types
        return None


def _unpacked(data: bytes) -> StoredIndex | None:
    end = len(data) - _CRC_BYTES
    begin = data.find(b"\n") + 1
    if not 0 < begin <= end or zlib.crc32(data[:end]) != int.from_bytes(data[end:], sys.byteorder):
        return None
    header = msgspec.convert(json.loads(data[:begin]), _Header)
    index = RowIndex()
    index.digest, index.orders = header.rows, range(header.count)
    index.executions = [Place(*each) for each in header.executions]
    for column, count in zip(index.columns, (header.count,) * 5 + (header.stretches,) * 3, strict=True):
        size = count * column.itemsize
        column.frombytes(data[begin : min(begin + size, end)])
        begin += size
    is_whole = begin == end and header == _Header.of(index, header.nodes)
    are_known = max(index.places, default=-1) < len(index.executions)
    fits = sum(index.lengths) == header.rows.size and sum(index.counts) == header.count
    return StoredIndex(index, header.nodes) if is_whole and are_known and fits else None
