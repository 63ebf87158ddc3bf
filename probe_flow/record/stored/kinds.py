"""comparison.msgpack: a comparison with all that reports ask for, so that they can be made later without the dumps.

The published lines say what people and programs ask for; a table also needs which line of a mapping made a pair, in
which parts its reasons came, where the bytes of a tensor lie. So this file has the records themselves, with all of
their fields: none is listed by hand, and a report of a reopened comparison is that of the run. Only a probe_flow with
the same records reads it; the published files are what others read.

A file is a header, a line of JSON with the fields of every record, and parts: size, check sum and a message of
MessagePack each, a part of size 0 at the end. A message is ``["r", kind, n, columns]``, n records of a kind, which are
numbered, or ``["c", n, column]``, a stretch of a long column; the last one is the comparison. A catalog of many ranks
is written as what their executions have in common (`Catalog.ran`); its tensors are numbered when it is complete. A
column has one field of many records, as one of

===================================  ===================================================================================
``["v", values]``                    None, truth values, numbers and texts
``["=", column]``                    one value, for all
``["u", n, column, places]``         n texts that stand several times, and of each value the place of its text
``["m", which, columns]``            values of several types, and of each in which column it is
``["r", kind, numbers]``             records that came before
``["o", kind, columns]``             records that nothing else refers to
``["t", lengths, column]``           tuples, their values in one column; ``l``: lists
``["d", lengths, keys, values]``     mappings
``["a", typecode, column]``          arrays of numbers, one behind another; their bytes in pieces
``["b", values]``                    bytes
``["s", stretches]``                 a long column, by the numbers of its stretches
``["x", values]``                    texts that are no UTF-8 as bytes, integers of more than 64 bits as ``["i", text]``,
                                     complex numbers as ``["c", real, imaginary]``
===================================  ===================================================================================
"""

from __future__ import annotations

import enum
import re
import struct
import sys
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, get_args, get_type_hints

from msgspec import Struct

from probe_flow.records import (
    Comparison,
    Coverage,
    Edge,
    Extent,
    FigureTable,
    GraphOp,
    GraphTensor,
    Group,
    Measurement,
    Node,
    Row,
    SideSummary,
    Statistics,
    TensorDetail,
    Verdict,
)

FILE = "comparison.msgpack"
FORMAT = "probe_flow.comparison/4"
CATALOG_FORMAT = "probe_flow.catalog/3"
"""Of a catalog that is kept between runs: the same parts, the last record is the catalog."""
KEPT_FORMAT = "probe_flow.kept_comparison/1"
"""Of a comparison that is kept between runs: the parts of the run that it is of."""

MAX_PART_BYTES = 256 * 2**20
MAX_HEADER_BYTES = 1 << 20
STRETCH = 4096
"""Values of a column that are written together, and records of a message."""
PREFIX = struct.Struct("<II")

Plain: TypeAlias = Any
"""What MessagePack has a type for."""

_NAME = re.compile(r"[A-Za-z_]\w*")


def _found(kind: Any, known: dict[type, None]) -> None:
    """Note the records and words that a declared type is made of."""
    for part in get_args(kind):
        _found(part, known)
    if not isinstance(kind, type) or kind in known:
        return
    if issubclass(kind, FigureTable):
        _found(stored_as(kind), known)
    elif issubclass(kind, (Struct, enum.Enum)):
        known[kind] = None
        for part in () if issubclass(kind, enum.Enum) else _named_by(kind):
            _found(part, known)


def _named_by(kind: type) -> Iterator[Any]:
    """Yield what the declared types of a record's fields name; evaluating them takes ten times as long."""
    for base in reversed(kind.__mro__):
        home = vars(sys.modules[base.__module__])
        for declared in vars(base).get("__annotations__", {}).values():
            yield from map(home.get, _NAME.findall(declared))


def stored_as(kind: type[FigureTable]) -> type:
    """Return the record that a table of figures is stored as."""
    found: type = get_type_hints(kind.stored)["return"]
    return found


def hints_of(kind: type) -> tuple[Any, ...]:
    """Return the declared types of a record's fields."""
    known = get_type_hints(kind)
    return tuple(known[name] for name in names_of(kind))


def names_of(kind: Any) -> tuple[str, ...]:
    """Return the fields of a record, or the words of an enumeration."""
    if issubclass(kind, enum.Enum):
        return tuple(str(word.value) for word in kind)
    found: tuple[str, ...] = kind.__struct_fields__
    return found


def _kinds() -> tuple[type, ...]:
    known: dict[type, None] = {}
    _found(Comparison, known)
    return tuple(known)


KINDS = _kinds()
STORED_TABLE = stored_as(FigureTable)
"""What each table of figures is stored as one of."""
ALONE = frozenset({
    Coverage, Edge, Extent, GraphOp, GraphTensor, Group, Measurement, Node, Row, SideSummary, Statistics, TensorDetail,
    Verdict,
})  # fmt: skip
"""Records that no other record shares; the others are written once, and referred to by their numbers."""


def header(form: str = FORMAT) -> Mapping[str, Any]:
    """Return what the first line of a file says."""
    records = {kind.__name__: list(names_of(kind)) for kind in KINDS}
    return {"format": form, "byteorder": sys.byteorder, "records": records}


def catalog_header(state: str) -> Mapping[str, Any]:
    """Return what the first line of a kept catalog says, made of files in a state."""
    return {**header(CATALOG_FORMAT), "state": state}


def kept_header(state: str, results: int) -> Mapping[str, Any]:
    """Return what the first line of a kept comparison says.

    Args:
        state: of all files that it was made of.
        results: how many measured results it holds.
    """
    return {**header(KEPT_FORMAT), "state": state, "results": results}
