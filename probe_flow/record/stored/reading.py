"""Reading a comparison that a run wrote: every column is held against the declared types of its field."""

from __future__ import annotations

import enum
import json
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise
from operator import attrgetter
from pathlib import Path
from types import UnionType
from typing import IO, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from probe_flow.errors import Diagnostic, IncompleteError, UsageError
from probe_flow.files.opening import open_bytes
from probe_flow.record.stored.kinds import (
    ALONE,
    FILE,
    KINDS,
    MAX_HEADER_BYTES,
    MAX_PART_BYTES,
    PREFIX,
    STORED_TABLE,
    STRETCH,
    Plain,
    header,
    hints_of,
    names_of,
)
from probe_flow.records import Catalog, Comparison, Measurement, Pair, TensorRef, TensorTable, shared_numbers
from probe_flow.records.catalog import Ran


def read_comparison(path: Path) -> Comparison:
    """Return the comparison that a run wrote.

    Raises:
        UsageError: PF7117 when the file is missing or of other records than those of this probe_flow.
        IncompleteError: PF7116 when it is damaged.
    """
    try:
        with open_bytes(path) as file:
            _check_header(file.readline(MAX_HEADER_BYTES), path)
            return last_record(Comparison, messages_of(file, path), path)
    except FileNotFoundError as error:
        raise UsageError(not_stored(path.parent, f"it has no `{FILE}`, as runs of earlier versions")) from error
    except OSError as error:
        raise damaged_record(path, error.strerror or str(error)) from error


def _check_header(line: bytes, path: Path) -> None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise damaged_record(path, "it has no header") from error
    if not isinstance(found, dict) or not str(found.get("format", "")).startswith("probe_flow.comparison/"):
        raise damaged_record(path, "it has no header")
    if found != header():
        raise UsageError(not_stored(path, "a probe_flow with other records wrote it"))


def messages_of(file: IO[bytes], path: Path) -> Iterator[Plain]:
    """Yield the messages behind the header of a file.

    Raises:
        IncompleteError: PF7116 when it is damaged.
    """
    while True:
        prefix = file.read(PREFIX.size)
        if len(prefix) < PREFIX.size:
            raise damaged_record(path, "it ends in the middle")
        size, check = PREFIX.unpack(prefix)
        if not size and not check:
            return
        if size > MAX_PART_BYTES:
            raise damaged_record(path, f"a part of it is larger than {MAX_PART_BYTES // 2**20} MiB")
        data = file.read(size)
        if len(data) < size:
            raise damaged_record(path, "it ends in the middle")
        if zlib.crc32(data) != check:
            raise damaged_record(path, "a part of it is not as it was written")
        try:
            yield msgspec.msgpack.decode(data)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise damaged_record(path, str(error)) from error


_MISREAD = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
)
"""What comes of messages that nobody wrote."""


_Last = TypeVar("_Last", Catalog, Comparison)


def last_record(kind: type[_Last], messages: Iterable[Plain], path: Path) -> _Last:
    """Return the record that is made of all the others.

    Raises:
        IncompleteError: PF7116 when there is none.
    """
    reader = _Reader()
    try:
        for message in messages:
            reader.add(message)
    except _MISREAD as error:
        raise damaged_record(path, f"it is not understood: {error}") from error
    (*_, found) = reader.records[KINDS.index(kind)] or [None]
    reader.end()
    if not isinstance(found, kind):
        raise damaged_record(path, f"it holds no {kind.__name__.lower()}")
    return found


class _MisfitError(ValueError):
    """A message that no record can be."""


@cache
def _hints(kind: type) -> tuple[Any, ...]:
    return () if issubclass(kind, enum.Enum) else hints_of(kind)


class _Reader:
    """Makes records of messages.

    Args:
        records: those that are there, by the number of their kind.
    """

    def __init__(self) -> None:
        self.records: list[Any] = [list(kind) if issubclass(kind, enum.Enum) else [] for kind in KINDS]
        self._stretches: dict[int, list[Any]] = {}
        self._count = 0
        self._ways: dict[str, Callable[..., list[Any]]] = {
            "v": _plain,
            "b": _bytes,
            "x": lambda count, values: _plain(count, list(map(_unpacked, values))),
            "=": lambda count, column: self._column(column, 1) * count,
            "u": self._repeated,
            "m": self._mixed,
            "r": self._referred,
            "o": self._made,
            "t": lambda count, *given: list(map(tuple, self._sequences(count, *given))),
            "l": self._sequences,
            "d": self._mappings,
            "a": lambda count, arrays: [self._array(*each) for each in _counted(arrays, count)],
        }

    def add(self, message: Plain) -> None:
        """Take the next message."""
        word, *given = message
        if word == "r":
            number, count, columns = given
            if KINDS[_place(number, len(KINDS))] in ALONE or issubclass(KINDS[number], enum.Enum):
                raise _MisfitError(f"`{KINDS[number].__name__}` has no numbers")
            made = self._made(_size(count), number, columns)
            if issubclass(KINDS[number], STORED_TABLE):
                made = [each.restored() for each in made]
            if KINDS[number] is Catalog:
                made = [*map(self._packed, made)]
            self.records[number].extend(made)
        elif word == "c":
            count, column = given
            self._stretches[self._count] = self._column(column, _size(count))
            self._count += 1
        else:
            raise _MisfitError(f"`{word}` is no kind of message")

    def _packed(self, catalog: Catalog) -> Catalog:
        """Return a catalog with nodes and tensors that are made when they are asked for, if so; these have numbers."""
        if not catalog.ran:
            return catalog
        from probe_flow.files.filed_numbers import NumberFile
        from probe_flow.records.tables.catalogs import Joined, packed, put_away

        put = NumberFile().put
        for ran in catalog.ran:
            put_away(ran, put)
        found, number = packed(catalog, catalog.ran), KINDS.index(TensorRef)
        self.records[number] = Joined((self.records[number], found.tensors, []))
        return found

    def end(self) -> None:
        """Drop the records: the ways lead back to this object, which would keep all of them."""
        self._ways.clear()
        self.records.clear()

    def _column(self, column: Plain, count: int | None) -> list[Any]:
        """Return the values of a column; of a column of stretches they may be any number, where none is given."""
        word, *given = column
        if word == "s":
            (numbers,) = given
            found = [*chain.from_iterable(self._stretches.pop(number) for number in numbers)]
            return found if count is None else _counted(found, count)
        if count is None:
            raise _MisfitError("a long column is not in stretches")
        return _counted(self._ways[word](count, *given), count)

    def _mixed(self, _count: int, which: bytes, columns: Sequence[Plain]) -> list[Any]:
        if which.__class__ is not bytes:
            raise _MisfitError("the columns of values are not bytes")
        parts = [iter(self._column(column, which.count(place))) for place, column in enumerate(columns)]
        return [next(parts[place]) for place in which]

    def _repeated(self, _count: int, number: int, column: Plain, places: Sequence[int]) -> list[Any]:
        return _taken(self._column(column, _size(number)), places, "a value")

    def _referred(self, _count: int, number: int, places: Sequence[int]) -> list[Any]:
        return _taken(self.records[_place(number, len(KINDS))], places, "a record")

    def _made(self, count: int, number: int, columns: Sequence[Plain]) -> list[Any]:
        kind = KINDS[_place(number, len(KINDS))]
        hints = _hints(kind)
        if issubclass(kind, enum.Enum) or len(columns) != len(hints):
            raise _MisfitError(f"`{kind.__name__}` has {len(hints)} fields, not {len(columns)}")
        found = [self._column(column, count) for column in columns]
        for name, hint, values in zip(names_of(kind), hints, found, strict=True):
            for value in _misfits(values, hint):
                raise _MisfitError(f"`{kind.__name__}.{name}` cannot be a `{type(value).__name__}`")
        made = list(map(getattr(kind, "shared", kind), *found))
        check = _CHECKS.get(kind)
        if check is not None and not all(map(check, made)):
            raise _MisfitError(f"a `{kind.__name__}` is none")
        return made

    def _sequences(self, count: int, lengths: Plain, column: Plain) -> list[Any]:
        ends, values = self._cut(count, lengths, column)
        return [values[begin:end] for begin, end in pairwise(ends)]

    def _mappings(self, count: int, lengths: Plain, keys: Plain, items: Plain) -> list[Any]:
        ends, known = self._cut(count, lengths, keys)
        found = self._column(items, len(known))
        return [dict(zip(known[begin:end], found[begin:end], strict=True)) for begin, end in pairwise(ends)]

    def _cut(self, count: int, lengths: Plain, column: Plain) -> tuple[list[int], list[Any]]:
        """Return where the parts of a column begin and end, and its values."""
        ends = [0]
        for length in self._column(lengths, count):
            ends.append(ends[-1] + _place(length, 1 << 62))
        values = self._column(column, ends[-1] if ends[-1] <= STRETCH else None)
        return ends, _counted(values, ends[-1])

    def _array(self, typecode: str, stretches: Sequence[int]) -> array[Any]:
        found = array(typecode)
        for number in stretches:
            (piece,) = self._stretches.pop(number)
            found.frombytes(piece)
        return found


def _size(count: object) -> int:
    return _place(count, STRETCH + 1)


def _place(number: object, end: int) -> int:
    if not isinstance(number, int) or not 0 <= number < end:
        raise _MisfitError(f"`{number!r}` is no number below {end}")
    return number


def _counted(values: list[Any], count: int) -> list[Any]:
    if len(values) != count:
        raise _MisfitError(f"a column has {len(values)} values, not {count}")
    return values


def _taken(values: Sequence[Any], places: Sequence[int], what: str) -> list[Any]:
    if places and not 0 <= min(places) <= max(places) < len(values):
        raise _MisfitError(f"{what} is referred to that is not there")
    return [values[place] for place in places]


def _plain(_count: int, values: Sequence[Any]) -> list[Any]:
    kinds = {*map(type, values)}
    if not kinds <= _PLAIN:
        raise _MisfitError("a plain value is none")
    numbers = shared_numbers(0)  # as far as there are some already
    if kinds == {int} and 0 <= min(values) <= max(values) < len(numbers):
        return [*map(numbers.__getitem__, values)]
    return [*values]


_PLAIN = {type(None), bool, int, float, str, complex}


def _bytes(_count: int, values: Sequence[Any]) -> list[Any]:
    if not {*map(type, values)} <= {bytes}:
        raise _MisfitError("bytes are none")
    return [*values]


def _unpacked(value: Plain) -> object:
    if value.__class__ is bytes:
        return value.decode("utf-8", "surrogatepass")
    if not isinstance(value, list):
        return value
    word, *given = value
    if word == "i":
        (text,) = given
        return int(text, 16)
    if word == "c":
        return complex(*given)
    raise _MisfitError(f"`{word}` is no kind of value")


def _has_side(pair: Pair) -> bool:
    return pair.target is not None or pair.golden is not None


def _has_measured(measurement: Measurement) -> bool:
    return 0 <= measurement.number < len(measurement.table)


def _has_data(tensor: TensorRef) -> bool:
    return not isinstance(tensor.data, TensorTable) or 0 <= tensor.number < len(tensor.data)


_CHECKS: Mapping[type, Callable[[Any], bool]] = {
    Pair: _has_side,
    Measurement: _has_measured,
    TensorRef: _has_data,
    TensorTable: attrgetter("is_sound"),
    Ran: attrgetter("is_sound"),
}
"""What the types of fields do not say."""


def _misfits(values: Sequence[Any], hint: Any) -> list[Any]:
    """Return the values that are not of a declared type."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any or hint is object or not values:
        return []
    if origin is Union or origin is UnionType:
        rest = values
        for part in parts:
            rest = _misfits(rest, part)
        return [*rest]
    if origin is Literal:
        return [value for value in values if value not in parts]
    kind = type(None) if hint is None else _WIDER.get(hint, hint) if origin is None else origin
    wrong = tuple(each for each in {*map(type, values)} if not issubclass(each, kind))
    if wrong:
        return [value for value in values if isinstance(value, wrong)]
    if origin is tuple and parts[-1] is not Ellipsis:
        misfits = [value for value in values if len(value) != len(parts)]
        return misfits or [
            value
            for part, column in zip(parts, zip(*values, strict=True), strict=True)
            for value in _misfits(column, part)
        ]
    if origin is not None and issubclass(origin, Mapping):
        keys = _misfits([*chain.from_iterable(values)], parts[0])
        return keys or _misfits([*chain.from_iterable(each.values() for each in values)], parts[1])
    if origin is not None and parts and origin is not array:
        return _misfits([*chain.from_iterable(values)], parts[0])
    return []


_WIDER: Mapping[Any, Any] = {float: (float, int)}


def damaged_record(path: Path, why: str) -> IncompleteError:
    """Return the error of a file that cannot be read."""
    return IncompleteError(
        Diagnostic(
            "PF7116",
            f"`{path.name}` cannot be read: {why}",
            path=str(path),
            help="copy the folder again, or repeat the run; `show` and `diff` answer without this file",
        )
    )


def not_stored(path: Path, why: str) -> Diagnostic:
    """Return the diagnostic of a run whose comparison is not there for this probe_flow."""
    return Diagnostic(
        "PF7117",
        f"no report can be made of `{path}`: {why}",
        path=str(path),
        help="repeat the run with this probe_flow: with its cache nothing is measured again; or make the report with "
        "the probe_flow that wrote the run",
    )
