"""Records that are made when they are asked for, a block of neighbours at a time; pairs among them."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast, overload

from msgspec.structs import astuple

from probe_flow.records.pairs import Many, Pair
from probe_flow.records.tensor import ManyTensors, TensorRef

if TYPE_CHECKING:
    from probe_flow.records.figures import Integers

_T = TypeVar("_T")

_BITS = 11
_WITHIN = (1 << _BITS) - 1
BLOCK = 1 << _BITS
HELD = 10
"""Blocks whose records are held: those of a rank of ordinary size, which refer to each other."""


class Blocks(Many[_T]):
    """A sequence whose records are made in blocks; those of the last few blocks are there.

    One that was let go is made anew: nothing may tell records apart by identity, but those of one slice.

    Args:
        count: number of all records.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._blocks: list[Sequence[_T] | None] = [None] * -(-count // BLOCK)
        self._held: deque[int] = deque()

    @abstractmethod
    def _made(self, begin: int, end: int) -> Sequence[_T]:
        """Return new records, those of one block."""

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> _T: ...
    @overload
    def __getitem__(self, place: slice) -> list[_T]: ...
    def __getitem__(self, place: int | slice) -> _T | list[_T]:
        if place.__class__ is int and place >= 0:  # as nearly always: asked for fifty times a row
            held = self._blocks[place >> _BITS]
            if held is not None:
                return held[place & _WITHIN]
        if isinstance(place, slice):
            return self._part(place)
        if place < 0:
            place += self._count
        if not 0 <= place < self._count:
            raise IndexError(place)
        return self._block(place >> _BITS)[place & _WITHIN]

    def __iter__(self) -> Iterator[_T]:
        for number in range(len(self._blocks)):
            yield from self._block(number)

    def some(self, numbers: Iterable[int]) -> Sequence[_T]:
        """Return some of them, in this order."""
        found = Some(self, numbers)
        return self if found.numbers == array("I", range(self._count)) else found

    def _part(self, places: slice) -> list[_T]:
        begin, end, step = places.indices(self._count)
        if step != 1:
            return [self[place] for place in range(begin, end, step)]
        found: list[_T] = []
        while begin < end:
            number = begin >> _BITS
            first = number << _BITS
            found += self._block(number)[begin - first : end - first]
            begin = first + BLOCK
        return found

    def _block(self, number: int) -> Sequence[_T]:
        found = self._blocks[number]
        if found is None:
            begin = number << _BITS
            found = self._blocks[number] = self._made(begin, min(begin + BLOCK, self._count))
            self._held.append(number)
            if len(self._held) > HELD:
                self._blocks[self._held.popleft()] = None
        return found

    def _let_go(self) -> None:
        """Let go of all records."""
        self._blocks = [None] * len(self._blocks)
        self._held.clear()


class Some(Many[_T]):
    """Some records of a sequence; it holds none of them.

    Args:
        things: all of them.
        numbers: which of them are there, in order.
    """

    def __init__(self, things: Sequence[_T], numbers: Iterable[int]) -> None:
        self._things, self.numbers = things, array("I", numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, place: int) -> _T: ...
    @overload
    def __getitem__(self, place: slice) -> list[_T]: ...
    def __getitem__(self, place: int | slice) -> _T | list[_T]:
        if not isinstance(place, slice):
            return self._things[self.numbers[place]]
        numbers = self.numbers[place]
        first = numbers[0] if numbers else 0
        if numbers == array("I", range(first, first + len(numbers))):  # as most are
            return [*self._things[first : first + len(numbers)]]
        return [*map(self._things.__getitem__, numbers)]

    def __iter__(self) -> Iterator[_T]:
        for begin in range(0, len(self), BLOCK):
            yield from self[begin : begin + BLOCK]

    def some(self, numbers: Iterable[int]) -> Sequence[_T]:
        """Return some of them, in this order."""
        return Some(self._things, map(self.numbers.__getitem__, numbers))


Column: TypeAlias = "tuple[Any, ...] | Stretch | Picked"
"""A field of the pairs of a block; one thing where all have the same."""


class PairTable(Blocks[Pair]):
    """Pairs in the order in which they were made: 0 to 16 bytes each in place of 72, tensors and terms not counted.

    Args:
        blocks: the columns of each block.
        count: number of all pairs.
    """

    def __init__(self, blocks: Sequence[Sequence[Column]], count: int) -> None:
        super().__init__(count)
        self._columns = blocks

    def _made(self, begin: int, end: int) -> list[Pair]:
        columns, count = self._columns[begin // BLOCK], end - begin
        return list(map(Pair, *(_values(column, count) for column in columns)))


class Packing:
    """Makes columns of pairs.

    Args:
        target, golden: the tensors of both sides, which most neighbours have one after the other.
    """

    def __init__(self, target: Sequence[TensorRef], golden: Sequence[TensorRef]) -> None:
        self._sides = _Following(target), _Following(golden)

    def packed(self, pairs: Iterable[Pair]) -> Iterator[Sequence[Column]]:
        """Yield the columns of pairs, a block at a time."""
        rest = iter(pairs)
        while some := [*islice(rest, BLOCK)]:
            target, golden, *others = zip(*map(astuple, some), strict=True)
            sides = (side.column(values) for side, values in zip(self._sides, (target, golden), strict=True))
            yield [*sides, *map(_column, others)]


class _Following:
    """Columns of tensors of one side; of those that follow each other in their dump it is enough where they begin."""

    def __init__(self, tensors: Sequence[TensorRef]) -> None:
        self._tensors, self._next = tensors, 0

    def column(self, values: tuple[TensorRef | None, ...]) -> Column:
        """Return a column."""
        if isinstance(self._tensors, ManyTensors):
            return _of_places(self._tensors, values)
        begin, end = self._next, self._next + len(values)
        if end <= len(self._tensors) and all(map(is_, values, islice(self._tensors, begin, end))):
            self._next = end
            return Stretch(self._tensors, begin)
        first = next((value for value in reversed(values) if value is not None), None)
        places = range(begin, min(end + BLOCK, len(self._tensors)))
        self._next = next((place + 1 for place in places if self._tensors[place] is first), begin)
        return _column(values)


class Stretch(NamedTuple):
    """Things that follow each other in a sequence."""

    things: Sequence[Any]
    begin: int


class Picked(NamedTuple):
    """Things of a sequence by their places, None where there is none."""

    things: Sequence[Any]
    places: Integers


_NONE = 2**32 - 1


def _of_places(tensors: ManyTensors, values: tuple[TensorRef | None, ...]) -> Column:
    """Return a column of tensors that are made when they are asked for: where they stand."""
    known = tensors.places([value for value in values if value is not None])
    places = [_NONE if value is None else next(known) for value in values]
    if None in places:
        return _column(values)
    found = array("I", cast("list[int]", places))
    is_stretch = found[0] != _NONE and found == array("I", range(found[0], found[0] + len(found)))
    return Stretch(tensors, found[0]) if is_stretch else Picked(tensors, found)


def _column(values: tuple[Any, ...]) -> Column:
    return values[:1] if all(map(is_, values, repeat(values[0]))) else values


def _values(column: Column, count: int) -> Iterable[Any]:
    if isinstance(column, Stretch):
        return column.things[column.begin : column.begin + count]
    if isinstance(column, Picked):
        return [None if place == _NONE else column.things[place] for place in column.places]
    return column if len(column) > 1 else repeat(column[0], count)
