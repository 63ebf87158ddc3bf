"""comparison.msgpack: a comparison with all that reports ask for, so that they can be made later without the dumps.

The published lines say what people and programs ask for; a table also needs which line of a mapping made a pair, in
which parts its reasons came, where the bytes of a tensor lie. So this file has the records themselves, with all of
their fields: none is listed by hand, and a report of a reopened comparison is that of the run. Only a probe_flow with
the same records reads it; the published files are what others read. Writing it takes 80 us a row of statistics, a
fifth of what the run takes (10,000 rows of 0.95 KB each), so it is written when it is asked for (format `record`).

A file is a header, a line of JSON with the fields of every record, and parts: size, check sum and MessagePack of some
objects each, a part of size 0 at the end. An object is the number of its type and its fields; in fields ``[n]`` is an
object that came before, and a list that begins with a letter what MessagePack has no type for.
"""

from __future__ import annotations

import enum
import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from types import UnionType
from typing import IO, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from probe_flow.errors import Diagnostic, IncompleteError, UsageError
from probe_flow.files.atomic import atomic_bytes
from probe_flow.files.opening import open_bytes
from probe_flow.records import (
    Comparison,
    Coverage,
    Extent,
    Figures,
    Measurement,
    Mode,
    NodeKey,
    Row,
    SideSummary,
    Slot,
    Statistics,
    TensorDetail,
    TensorFacts,
    TensorRef,
    TensorType,
    Verdict,
)

FILE = "comparison.msgpack"
FORMAT = "probe_flow.comparison/1"

MAX_PART_BYTES = 256 * 2**20
MAX_HEADER_BYTES = 1 << 20
_OBJECTS_A_PART = 4096
_INTEGERS = range(-(2**63), 2**64)
_PREFIX = struct.Struct("<II")
_SIDE = SideSummary | None
_IN_TABLES: Mapping[type, Mapping[str, Any]] = {
    Measurement: {
        "mode": Mode, "metrics": Mapping[str, float | bool | None], "target": _SIDE, "golden": _SIDE,
        "nonfinite_mismatch": int, "worst_index": int | None, "count": int, "backend": str, "notes": tuple[str, ...],
        "reference": _SIDE,
    },
    TensorRef: {
        "node": NodeKey, "slot": Slot, "type": TensorType, "recorded": Statistics | None,
        "where": Extent | tuple[Extent, ...] | str | None, "checksum": str | None, "facts": TensorFacts,
    },
}  # fmt: skip
"""Records whose figures are rows of a table: what they are stored as."""

Plain: TypeAlias = Any
"""What MessagePack has a type for."""


def _found(kind: Any, known: dict[type, None]) -> None:
    """Note the records and words that a declared type is made of."""
    for part in get_args(kind):
        _found(part, known)
    if not isinstance(kind, type) or kind in known:
        return
    if issubclass(kind, (Struct, enum.Enum)) or is_dataclass(kind):
        known[kind] = None
        for part in () if issubclass(kind, enum.Enum) else _hints(kind).values():
            _found(part, known)


def _hints(kind: type) -> Mapping[str, Any]:
    """Return the fields of a record with their types."""
    if kind in _IN_TABLES:
        return _IN_TABLES[kind]
    known = get_type_hints(kind)
    return {name: known[name] for name in _names(kind)}


def _kinds() -> tuple[type, ...]:
    known: dict[type, None] = {}
    _found(Comparison, known)
    return tuple(known)


def _names(kind: Any) -> tuple[str, ...]:
    """Return the fields of a record, or the words of an enumeration."""
    if kind in _IN_TABLES:
        return tuple(_IN_TABLES[kind])
    if issubclass(kind, enum.Enum):
        return tuple(str(word.value) for word in kind)
    return kind.__struct_fields__ if issubclass(kind, Struct) else tuple(field.name for field in fields(kind))


def _header() -> dict[str, Any]:
    return {"format": FORMAT, "records": {kind.__name__: _names(kind) for kind in _KINDS}}


_KINDS = _kinds()


def write_comparison(comparison: Comparison, path: Path) -> None:
    """Write a comparison so that `read_comparison` returns it.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    with atomic_bytes(path) as file:
        file.write(json.dumps(_header()).encode() + b"\n")
        writer = _Writer(file)
        writer.value(comparison)
        writer.flush()
        file.write(_PREFIX.pack(0, 0))


class _Writer:
    """Writes objects in the order in which they are complete: what one is made of comes before it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._objects: list[Plain] = []
        self._count = 0
        # By id, since hashing a record takes longer than writing it; the comparison keeps all of them alive.
        self._known: dict[int, list[int]] = {}
        self._ways = {kind: (number, _fields_of(kind), kind in _ALONE) for number, kind in enumerate(_KINDS)}

    def value(self, value: object) -> Plain:
        """Return a value as a field has it."""
        kind = value.__class__
        way = self._ways.get(kind)
        if way is not None:
            number, get, is_alone = way
            if is_alone:
                return ["o", number, *[each if each.__class__ in _PLAIN else self.value(each) for each in get(value)]]
            found = self._known.get(id(value))
            return found if found is not None else self._object(value, number, get(value))
        if kind in _PLAIN:
            return value
        if isinstance(value, tuple):
            return ["t", *[each if each.__class__ in _PLAIN else self.value(each) for each in value]]
        if isinstance(value, Mapping):
            return ["d", *(self.value(each) for item in value.items() for each in item)]
        if isinstance(value, (list, set, frozenset)):
            return ["l", *map(self.value, value if isinstance(value, list) else sorted(value, key=repr))]
        if isinstance(value, complex):
            return ["c", value.real, value.imag]
        item = getattr(value, "item", None)  # numpy scalars, without importing numpy
        return self.value(item()) if callable(item) and getattr(value, "shape", None) == () else str(value)

    def _object(self, value: object, number: int, given: tuple[object, ...]) -> list[int]:
        made = [number, *[each if each.__class__ in _PLAIN else self.value(each) for each in given]]
        place = self._known[id(value)] = [self._count]
        self._count += 1
        self._objects.append(made)
        if len(self._objects) == _OBJECTS_A_PART:
            self.flush()
        return place

    def flush(self) -> None:
        """Write the objects that are not written yet."""
        if not self._objects:
            return
        try:
            data = msgspec.msgpack.encode(self._objects)
        except (UnicodeEncodeError, OverflowError):
            data = msgspec.msgpack.encode(_as_packed(self._objects))
        self._file.write(_PREFIX.pack(len(data), zlib.crc32(data)) + data)
        self._objects = []


_PLAIN = frozenset({type(None), str, float, bool, int})
_ALONE = frozenset({Coverage, Extent, Measurement, Row, SideSummary, Statistics, TensorDetail, Verdict})
"""Records that no other record shares; some are made only when they are asked for."""


def _fields_of(kind: type) -> Callable[[Any], tuple[object, ...]]:
    if kind in _IN_TABLES:
        return attrgetter(*_IN_TABLES[kind])
    if issubclass(kind, enum.Enum):
        return lambda word: (word.value,)
    if issubclass(kind, Struct):
        return msgspec.structs.astuple
    names = _names(kind)
    return lambda value: tuple([getattr(value, name) for name in names])


def _as_packed(value: Plain) -> Plain:
    """Return a value without what MessagePack has not: lone surrogates, integers of more than 64 bits."""
    if isinstance(value, list):
        return [_as_packed(each) for each in value]
    if value.__class__ is int and value not in _INTEGERS:
        return ["i", str(value)]
    if isinstance(value, str) and not value.isascii():
        return ["u", value.encode("utf-8", "surrogatepass")]
    return value


def read_comparison(path: Path) -> Comparison:
    """Return the comparison that a run wrote.

    Raises:
        UsageError: PF7117 when the file is missing or of other records than those of this probe_flow.
        IncompleteError: PF7116 when it is damaged.
    """
    try:
        with open_bytes(path) as file:
            _check_header(file.readline(MAX_HEADER_BYTES), path)
            objects = _Reader(path)
            for part in _parts(file, path):
                for each in part:
                    objects.add(each)
    except FileNotFoundError as error:
        raise UsageError(_other_records(path, "the run left none: it is of an earlier probe_flow")) from error
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from error
    return objects.comparison()


def _check_header(line: bytes, path: Path) -> None:
    try:
        header = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "it has no header") from error
    if not isinstance(header, dict) or not str(header.get("format", "")).startswith("probe_flow.comparison/"):
        raise _damaged(path, "it has no header")
    if header != json.loads(json.dumps(_header())):
        raise UsageError(_other_records(path, "a probe_flow with other records wrote it"))


def _parts(file: IO[bytes], path: Path) -> Iterator[list[Plain]]:
    while True:
        prefix = file.read(_PREFIX.size)
        if len(prefix) < _PREFIX.size:
            raise _damaged(path, "it ends in the middle")
        size, check = _PREFIX.unpack(prefix)
        if not size:
            return
        if size > MAX_PART_BYTES:
            raise _damaged(path, f"a part of it is larger than {MAX_PART_BYTES // 2**20} MiB")
        data = file.read(size)
        if len(data) < size:
            raise _damaged(path, "it ends in the middle")
        if zlib.crc32(data) != check:
            raise _damaged(path, "a part of it is not as it was written")
        try:
            yield msgspec.msgpack.decode(data, type=list[list[Any]])
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise _damaged(path, str(error)) from error


class _MisfitError(ValueError):
    """An object that no record can be."""


class _Reader:
    """Makes records of objects; each is checked against the declared types of its fields.

    Args:
        path: the file, for messages.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._objects: list[Any] = []
        self._figures = Figures()
        self._hints = {kind: tuple(_hints(kind).values()) for kind in _KINDS if not issubclass(kind, enum.Enum)}

    def add(self, made: Plain) -> None:
        """Add the next object."""
        try:
            number, *given = made
            self._objects.append(self._record(_KINDS[number], [self._value(each) for each in given]))
        except (_MisfitError, ValueError, TypeError, IndexError, KeyError, AttributeError, RecursionError) as error:
            raise _damaged(self._path, f"object {len(self._objects)} is no record: {error}") from error

    def comparison(self) -> Comparison:
        """Return the last object."""
        found = self._objects[-1] if self._objects else None
        if not isinstance(found, Comparison):
            raise _damaged(self._path, "it holds no comparison")
        return found

    def _record(self, kind: type, given: list[Any]) -> object:
        if issubclass(kind, enum.Enum):
            return kind(*given)
        hints = self._hints[kind]
        if len(given) != len(hints):
            raise _MisfitError(f"`{kind.__name__}` has {len(hints)} fields, not {len(given)}")
        for name, hint, value in zip(_names(kind), hints, given, strict=True):
            if not _fits(value, hint):
                raise _MisfitError(f"`{kind.__name__}.{name}` cannot be a `{type(value).__name__}`")
        return self._measurement(*given) if kind is Measurement else kind(*given)

    def _measurement(self, *given: Any) -> Measurement:
        mode, metrics, target, golden, mismatch, worst, count, backend, notes, reference = given
        return Measurement.of(
            mode,
            metrics,
            target,
            golden,
            nonfinite_mismatch=mismatch,
            worst_index=worst,
            count=count,
            backend=backend,
            notes=notes,
            reference=reference,
            figures=self._figures,
        )

    def _value(self, value: Plain) -> Any:
        if not isinstance(value, list):
            return value
        head, *rest = value
        if head.__class__ is int:
            if head < 0:
                raise _MisfitError("a number of an object is negative")
            return self._objects[head]
        if head == "o":
            number, *given = rest
            return self._record(_KINDS[number], [self._value(each) for each in given])
        if head == "i":
            return int(rest[0])
        if head == "u":
            return rest[0].decode("utf-8", "surrogatepass")
        if head == "c":
            return complex(*rest)
        found = [self._value(each) for each in rest]
        if head == "d":
            return dict(zip(found[::2], found[1::2], strict=True))
        if head not in ("t", "l"):
            raise _MisfitError(f"`{head}` is no kind of value")
        return tuple(found) if head == "t" else found


def _fits(value: object, kind: Any) -> bool:
    """Return True if a value is of a declared type."""
    origin = get_origin(kind)
    if origin is None:
        if kind is Any or kind is object:
            return True
        if kind is float:
            return isinstance(value, (float, int))
        if kind is int:
            return value.__class__ is int or value.__class__ is bool
        return value is None if kind is None else isinstance(value, kind)
    parts = get_args(kind)
    if origin is Union or origin is UnionType:
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if parts[-1] is Ellipsis:
            return all(_fits(each, parts[0]) for each in value)
        return len(value) == len(parts) and all(map(_fits, value, parts))
    if isinstance(value, Mapping) and issubclass(origin, Mapping):
        return all(_fits(key, parts[0]) and _fits(each, parts[1]) for key, each in value.items())
    return isinstance(value, origin)


def _damaged(path: Path, why: str) -> IncompleteError:
    return IncompleteError(
        Diagnostic(
            "PF7116",
            f"`{path.name}` cannot be read: {why}",
            path=str(path),
            help="copy the folder again, or repeat the run; `show` and `diff` answer without this file",
        )
    )


def _other_records(path: Path, why: str) -> Diagnostic:
    return Diagnostic(
        "PF7117",
        f"no report can be made of `{path.name}`: {why}",
        path=str(path),
        help="repeat the run with this probe_flow, or make the report with the one that wrote it",
    )
